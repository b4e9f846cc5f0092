/* penstock plan */
#include "cli.h"
#include <string.h>

typedef struct {
    pst_plan_run_options run;
    pst_plan_graph_options graph;
    double time_limit;
    int json, straight;
} options;

static int plan_graph(options *o) {
    o->graph.cluster = o->run.cluster;
    o->graph.json = o->json;
    o->graph.straight = o->straight;
    o->graph.time_limit = o->time_limit > 0 ? o->time_limit : 60;
    return pst_cli_end(pst_plan_graph(&o->graph, stdout));
}

static int plan_run(options *o, const pst_cli_call *call, size_t n) {
    pst_config *config = NULL;
    o->run.json = o->json;
    o->run.time_limit = o->time_limit;
    pst_status status =
        pst_config_load(call->argv[1], (const char *const *)call->argv + 2, n - 1, &config);
    if (status == PST_OK) status = pst_plan_run(config, &o->run, stdout);
    int done = pst_cli_end(status);
    pst_config_close(config);
    return done;
}

int pst_cli_plan(const pst_cli_call *call) {
    options o = {.run.size = sizeof o.run, .graph.size = sizeof o.graph};
    const pst_option rows[] = {
        {0, "cluster", "FILE|SHORT", PST_OPTION_STRING, 0, 0,
         "The devices: a file, or such as '16x8 h100 nvlink:900GB/s ib:400Gb/s'. By default "
         "parallel.cluster, or "
         "processors of this machine. With --graph instead of devices and memory; its times are "
         "those of the first "
         "device.",
         &o.run.cluster},
        {'n', "ranks", "RANKS", PST_OPTION_INT, 1, PST_RANKS_MAX,
         "Use so many devices, the first ones; all by default, of processors pipeline x data x "
         "tensor where pipeline "
         "is given.",
         &o.run.ranks},
        {0, "profile", "FILE", PST_OPTION_STRING, 0, 0,
         "Durations that penstock profile has measured; parallel.profile by default.",
         &o.run.profile},
        {0, "force", NULL, PST_OPTION_FLAG, 0, 0,
         "The profile may be of another model, machine or precision: what it lacks is modelled.",
         &o.run.force},
        {'o', "output", "PLAN.yaml", PST_OPTION_STRING, 0, 0,
         "Write the best layout to this file, which a run takes as parallel.plan.", &o.run.plan},
        {0, "report", "FILE", PST_OPTION_STRING, 0, 0,
         "Write a page about the best layout, and why not others: HTML.", &o.run.report},
        {0, "top", "N", PST_OPTION_INT, 1, 100000,
         "Show so many rows of the comparison; 12 by default.", &o.run.top},
        {0, "time-limit", "S", PST_OPTION_FLOAT, 0.001, 1e6,
         "Then the best so far, and how far it is from a bound; none by default, with --graph 60.",
         &o.time_limit},
        {0, "json", NULL, PST_OPTION_FLAG, 0, 0, "Print JSON.", &o.json},
        {0, "graph", "FILE", PST_OPTION_STRING, 0, 0,
         "Instead of a run: another planner's workload, the JSON of dnn-partitioning or Piper or "
         "graph.txt of "
         "PipeDream, "
         "which one is found out, into contiguous parts so that the largest load is smallest. With "
         "it go:",
         &o.graph.graph},
        {0, "devices", "K", PST_OPTION_INT, 1, 4096,
         "Accelerators; as many as the file says by default.", &o.graph.devices},
        {0, "memory", "BYTES", PST_OPTION_BYTES, 1, 1e18,
         "Of each, such as 8GiB; as the file says by default.", &o.graph.memory},
        {0, "bandwidth", "BYTES/S", PST_OPTION_RATE, 1, 1e18,
         "PipeDream, Piper: of a device, such as 25GB/s.", &o.graph.bandwidth},
        {0, "machines", "N", PST_OPTION_INT, 1, 4096, "PipeDream: so many with --devices each.",
         &o.graph.machines},
        {0, "between", "BYTES/S", PST_OPTION_RATE, 1, 1e18, "PipeDream: bandwidth of a machine.",
         &o.graph.between},
        {0, "straight", NULL, PST_OPTION_FLAG, 0, 0, "PipeDream: no replicas.", &o.straight},
        {0, "compression", "R", PST_OPTION_FLOAT, 1e-6, 1e6,
         "PipeDream: activations travel, R times smaller; in no time by default.",
         &o.graph.compression},
        {0, "cost-model", "max-load|pipedream|piper", PST_OPTION_STRING, 0, 0,
         "What is minimized; the format's own by default, and no other.", &o.graph.cost_model},
        {0, "evaluate", "PLAN.json", PST_OPTION_STRING, 0, 0,
         "Finds no plan, but says what this one costs: as --json prints it, or devices of "
         "dnn-partitioning with their "
         "nodes.",
         &o.graph.evaluate},
    };
    const pst_command command = {
        "penstock plan", "RUN.yaml [key=value ...] | --graph FILE",
        "Finds the layout with the shortest predicted step for a run on a cluster: degrees, "
        "micro-batch, schedule and chunks, cut, recomputation, zero, sequence, order of "
        "devices. What the run file gives is fixed, everything else searched. "
        "Prints what it is, what it will "
        "cost, how much shorter a step could be at most, and why other layouts lose.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    int of_run =
        o.run.ranks || o.run.profile || o.run.force || o.run.plan || o.run.report || o.run.top;
    int of_graph = o.graph.devices || o.graph.machines || o.graph.memory > 0 ||
                   o.graph.bandwidth > 0 || o.graph.between > 0 || o.graph.compression > 0 ||
                   o.straight || o.graph.cost_model || o.graph.evaluate;
    if (o.graph.graph && (n || of_run))
        return pst_cli_wrong("--graph is instead of a run file, -n, --profile, --force, -o, "
                             "--report and --top: leave those out");
    if (o.graph.graph) return plan_graph(&o);
    if (of_graph)
        return pst_cli_wrong(
            "--devices, --machines, --memory, --bandwidth, --between, --straight, --compression, "
            "--cost-model and --evaluate go with --graph");
    if (!n)
        return pst_cli_wrong("nothing to plan for; usage: %s %s", command.command,
                             command.operands);
    return plan_run(&o, call, n);
}

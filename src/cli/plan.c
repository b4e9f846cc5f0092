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

/* 0, or the exit status: options of a run and of a graph exclude each other. */
static int check_use(const options *o, size_t n_operand) {
    int of_run = o->run.ranks || o->run.profile || o->run.force || o->run.plan || o->run.report ||
                 o->run.top || o->run.margin || o->run.export_ || o->run.tokens ||
                 o->run.days > 0 || o->run.gpus || o->run.price || o->run.mtbf > 0 ||
                 o->run.storage > 0 || o->run.program || o->run.calibrate || o->run.import_;
    int of_graph = o->graph.devices || o->graph.machines || o->graph.memory > 0 ||
                   o->graph.bandwidth > 0 || o->graph.between > 0 || o->graph.compression > 0 ||
                   o->straight || o->graph.cost_model || o->graph.evaluate;
    if (o->graph.graph && (n_operand || of_run))
        return pst_cli_wrong(
            "--graph replaces the run file and excludes -n, --profile, --force, "
            "--program, --calibrate, -o, --report, --top, --margin, --export, --import, "
            "--tokens and its options: leave those "
            "options out");
    if (of_graph && !o->graph.graph)
        return pst_cli_wrong("--devices, --machines, --memory, --bandwidth, --between, --straight, "
                             "--compression, --cost-model and --evaluate need --graph");
    return 0;
}

int pst_cli_plan(const pst_cli_call *call) {
    options o = {.run.size = sizeof o.run, .graph.size = sizeof o.graph};
    const pst_option rows[] = {
        {0, "cluster", "FILE|SHORT", PST_OPTION_STRING, 0, 0,
         "The devices: a cluster file, or a line such as '16x8 h100 nvlink:900GB/s ib:400Gb/s'. "
         "Default: parallel.cluster, else the processors of this machine. With --graph, the "
         "cluster replaces --devices and --memory; the times in the graph file then apply to the "
         "first device of the cluster.",
         &o.run.cluster},
        {'n', "ranks", "RANKS", PST_OPTION_INT, 1, PST_PLANNED_RANKS_MAX,
         "Use only the first RANKS devices of the cluster; all by default. Without a cluster: use "
         "RANKS processors of this machine; by default pipeline x data x tensor if the run file "
         "sets pipeline, else all.",
         &o.run.ranks},
        {0, "profile", "FILE", PST_OPTION_STRING, 0, 0,
         "Use this profile, written by penstock profile, for predictions; parallel.profile by "
         "default.",
         &o.run.profile},
        {0, "force", NULL, PST_OPTION_FLAG, 0, 0,
         "Use the profile even if it was measured with another model, machine or precision; "
         "missing durations are estimated.",
         &o.run.force},
        {0, "program", "NAME", PST_OPTION_STRING, 0, 0,
         "Predict the steps of this program: penstock (default), megatron-2021, megatron-core, "
         "fsdp or llm.c; changed values of its profile may follow, such as 'fsdp "
         "attention=flash2'. Keys of the run file that contradict it are overridden and listed. "
         "Memory is that of penstock.",
         &o.run.program},
        {0, "calibrate", "RUN", PST_OPTION_STRING, 0, 0,
         "Folder of a run on such a device, such as runs/NAME: multiply durations of computation "
         "by its measured step divided by the step that is predicted for it.",
         &o.run.calibrate},
        {'o', "output", "PLAN.yaml", PST_OPTION_STRING, 0, 0,
         "Write the best layout to this file; a run uses it with parallel.plan.", &o.run.plan},
        {0, "report", "FILE", PST_OPTION_STRING, 0, 0,
         "Write an HTML page that shows the best layout, and why other layouts are slower or "
         "infeasible.",
         &o.run.report},
        {0, "top", "N", PST_OPTION_INT, 1, 100000,
         "Number of rows in the comparison; 12 by default.", &o.run.top},
        {0, "margin", "SHARE", PST_OPTION_STRING, 0, 0,
         "Share of each device's memory that is kept free, besides what driver, context, libraries "
         "and NCCL take, such as 5% or 0.05. Default: 5% on GPUs; 0 on CPUs, and of memory that "
         "the cluster gives.",
         &o.run.margin},
        {0, "export", "megatron|torchtitan|deepspeed", PST_OPTION_STRING, 0, 0,
         "Print the best layout as flags of Megatron-LM or torchtitan, or as a configuration file "
         "of DeepSpeed, instead of the answer. What has no counterpart there is listed on standard "
         "error.",
         &o.run.export_},
        {0, "import", "FILE", PST_OPTION_STRING, 0, 0,
         "Predict the layout of this file: flags of Megatron-LM or torchtitan, TOML of torchtitan, "
         "or JSON of DeepSpeed. It replaces keys of the run file; these, and what has no "
         "counterpart, are listed. Without --program, the profile that fits is used.",
         &o.run.import_},
        {0, "tokens", "N", PST_OPTION_STRING, 0, 0,
         "Also print what a training of N tokens (300B, 1.5T, 2e9) takes: days, device hours, "
         "cost, energy, memory that is left, checkpoints, failures and effective time. The options "
         "from --days to --storage need it.",
         &o.run.tokens},
        {0, "days", "N", PST_OPTION_FLOAT, 1e-3, 1e6,
         "Latest end: choose the smallest number of devices that trains within N days, among those "
         "of --gpus, else 1, 2, 3, 4, 6, 8, 12, ... nodes like those of the cluster.",
         &o.run.days},
        {0, "gpus", "N,N,...", PST_OPTION_STRING, 0, 0,
         "Compare these numbers of devices: the first ones of the cluster, or more nodes like its "
         "own. The layout of the choice is printed in full; without --days that is the fastest.",
         &o.run.gpus},
        {0, "price", "KIND=PRICE,...", PST_OPTION_STRING, 0, 0,
         "Price of an hour of one device of each kind, such as h100=2.5, in any currency.",
         &o.run.price},
        {0, "mtbf", "HOURS", PST_OPTION_FLOAT, 1e-3, 1e9,
         "Mean time between failures of one device that stop the training. Default: 50676, as in "
         "the training of Llama 3 (419 in 54 days of 16,384 GPUs).",
         &o.run.mtbf},
        {0, "storage", "BYTES/S", PST_OPTION_RATE, 1, 1e18,
         "Rate at which each node writes checkpoints, such as 2GB/s; 1GB/s by default.",
         &o.run.storage},
        {0, "time-limit", "S", PST_OPTION_FLOAT, 0.001, 1e6,
         "Stop the search after S seconds with the best layout so far and its gap to the lower "
         "bound; no limit by default, 60 with --graph, 0.6 for each number of devices with --gpus "
         "or --days.",
         &o.time_limit},
        {0, "json", NULL, PST_OPTION_FLAG, 0, 0, "Print JSON.", &o.json},
        {0, "graph", "FILE", PST_OPTION_STRING, 0, 0,
         "Instead of a run, partition another planner's graph: JSON of dnn-partitioning or Piper, "
         "or graph.txt of PipeDream (the format is detected). Finds contiguous parts that minimize "
         "the largest load. The options below need --graph.",
         &o.graph.graph},
        {0, "devices", "K", PST_OPTION_INT, 1, 4096,
         "Number of accelerators (default: from the graph file).", &o.graph.devices},
        {0, "memory", "BYTES", PST_OPTION_BYTES, 1, 1e18,
         "Memory of each device, such as 8GiB (default: from the graph file).", &o.graph.memory},
        {0, "bandwidth", "BYTES/S", PST_OPTION_RATE, 1, 1e18,
         "PipeDream, Piper: bandwidth of each device, such as 25GB/s.", &o.graph.bandwidth},
        {0, "machines", "N", PST_OPTION_INT, 1, 4096,
         "PipeDream: number of machines, with --devices each.", &o.graph.machines},
        {0, "between", "BYTES/S", PST_OPTION_RATE, 1, 1e18,
         "PipeDream: bandwidth of each machine to the others.", &o.graph.between},
        {0, "straight", NULL, PST_OPTION_FLAG, 0, 0, "PipeDream: plan without replicas.",
         &o.straight},
        {0, "compression", "R", PST_OPTION_FLOAT, 1e-6, 1e6,
         "PipeDream: include the transfer of activations, compressed by the factor R; by default "
         "transfers take no time.",
         &o.graph.compression},
        {0, "cost-model", "max-load|pipedream|piper", PST_OPTION_STRING, 0, 0,
         "The objective. Each graph format has exactly one, and no other value is accepted.",
         &o.graph.cost_model},
        {0, "evaluate", "PLAN.json", PST_OPTION_STRING, 0, 0,
         "Do not search, but evaluate this plan: stages as printed by --json, or the lists of "
         "devices and nodes of dnn-partitioning.",
         &o.graph.evaluate},
    };
    const pst_command command = {
        "penstock plan", "RUN.yaml [key=value ...] | --graph FILE",
        "Finds the layout with the shortest predicted step for a run on a cluster. It searches "
        "over parallel degrees, micro-batch size, schedule, chunks, cut, recomputation, ZeRO "
        "stage, sequence parallelism and the order of devices; what the run file sets stays fixed. "
        "Prints the best layout, its predicted cost, the gap to a lower bound over all layouts, "
        "and why other layouts are slower or infeasible.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    const int wrong = check_use(&o, n);
    if (wrong) return wrong;
    if (o.graph.graph) return plan_graph(&o);
    if (!n) return pst_cli_wrong("no run file; usage: %s %s", command.command, command.operands);
    return plan_run(&o, call, n);
}

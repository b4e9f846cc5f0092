/* penstock plan */
#include "cli.h"

int pst_cli_plan(const pst_cli_call *call) {
    pst_plan_graph_options o = {.size = sizeof o, .time_limit = 60};
    int straight = 0;
    const pst_option rows[] = {
        {0, "graph", "FILE", PST_OPTION_STRING, 0, 0,
         "JSON of dnn-partitioning or Piper, graph.txt of PipeDream; which one is found out.", &o.graph},
        {0, "devices", "K", PST_OPTION_INT, 1, 4096, "Accelerators; as many as the file says by default.", &o.devices},
        {0, "cluster", "FILE", PST_OPTION_STRING, 0, 0,
         "Instead of devices and memory: a cluster file or its short form, such as '8x8 h100 + 8x8 a100-80'; the graph's "
         "times are those of its first device.",
         &o.cluster},
        {0, "memory", "BYTES", PST_OPTION_FLOAT, 1, 1e18, "Of each; as the file says by default.", &o.memory},
        {0, "bandwidth", "BYTES/S", PST_OPTION_FLOAT, 1, 1e18, "PipeDream, Piper: of a device.", &o.bandwidth},
        {0, "machines", "N", PST_OPTION_INT, 1, 4096, "PipeDream: so many with --devices each.", &o.machines},
        {0, "between", "BYTES/S", PST_OPTION_FLOAT, 1, 1e18, "PipeDream: bandwidth of a machine.", &o.between},
        {0, "straight", NULL, PST_OPTION_FLAG, 0, 0, "PipeDream: no replicas.", &straight},
        {0, "compression", "R", PST_OPTION_FLOAT, 1e-6, 1e6,
         "PipeDream: activations travel, R times smaller; in no time by default.", &o.compression},
        {0, "cost-model", "max-load|pipedream|piper", PST_OPTION_STRING, 0, 0,
         "What is minimized; the format's own by default, and no other.", &o.cost_model},
        {0, "evaluate", "PLAN.json", PST_OPTION_STRING, 0, 0,
         "Finds no plan, but says what this one costs: as --json prints it, or devices of dnn-partitioning with their "
         "nodes.",
         &o.evaluate},
        {0, "time-limit", "S", PST_OPTION_FLOAT, 0.001, 1e6, "Then the best so far, and how far it is from a bound.",
         &o.time_limit},
        {0, "json", NULL, PST_OPTION_FLAG, 0, 0, "Print JSON.", &o.json},
    };
    const pst_command command = {
        "penstock plan", "--graph FILE",
        "Splits another planner's workload over devices, so that the largest load is smallest: into contiguous parts, "
        "each after those that it needs something of. Proves that none is better, or prints a lower bound and the gap.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 0, 0)) return pst_status_exit(PST_EINPUT);
    if (!o.graph) return pst_cli_wrong("nothing to plan for; usage: %s %s", command.command, command.operands);
    o.straight = straight;
    return pst_cli_end(pst_plan_graph(&o, stdout));
}

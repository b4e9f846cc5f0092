/* penstock inspect */
#include "cli.h"

int pst_cli_inspect(const pst_cli_call *call) {
    pst_inspect_options o = {.size = sizeof o, .what = ""};
    const pst_option rows[] = {
        {'s', "show", "graph|tape|plan|schedule|instructions|memory", PST_OPTION_STRING, 0, 0,
         "Of a run file: which of these; the plan by default. Of a graph: graph or tape.", &o.what},
        {'n', "ranks", "RANKS", PST_OPTION_INT, 1, PST_RANKS_MAX,
         "Of a run file: as if started on this many ranks.", &o.ranks},
    };
    const pst_command command = {"penstock inspect", "PATH",
                                 "Shows a checkpoint folder (and checks every tensor in it), a "
                                 "safetensors file, a Hugging Face "
                                 "folder, a plan.yaml, "
                                 "a graph as --show graph writes it (and what its operators cost), "
                                 "or what a run file becomes: "
                                 "its graph, plan, schedule, instructions and memory map.",
                                 rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 1, 1)) return pst_status_exit(PST_EINPUT);
    o.path = call->argv[1];
    return pst_cli_end(pst_inspect(&o, stdout));
}

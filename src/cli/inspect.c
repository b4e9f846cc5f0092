/* penstock inspect */
#include "cli.h"

int pst_cli_inspect(const pst_cli_call *call) {
    pst_inspect_options o = {.size = sizeof o, .what = ""};
    const pst_option rows[] = {
        {'s', "show", "graph|tape|plan|schedule|instructions|memory", PST_OPTION_STRING, 0, 0,
         "What to show of a run file, the plan by default; of a graph file: graph or tape (the "
         "graph with its backward pass).",
         &o.what},
        {'n', "ranks", "RANKS", PST_OPTION_INT, 1, PST_RANKS_MAX,
         "Show the run file as if it were started on this many ranks.", &o.ranks},
    };
    const pst_command command = {
        "penstock inspect", "PATH",
        "Shows a file or folder: a checkpoint (every tensor's hash is checked), a safetensors "
        "file, a Hugging Face folder, a checkpoint of llm.c (.bin), a plan.yaml, a graph that "
        "--show graph has written (with the "
        "cost of its operators), or a run file (the graph, plan, schedule, instruction lists or "
        "memory map that result from it).",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 1, 1)) return pst_status_exit(PST_EINPUT);
    o.path = call->argv[1];
    return pst_cli_end(pst_inspect(&o, stdout));
}

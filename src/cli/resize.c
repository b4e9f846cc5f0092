/* penstock resize, penstock drain */
#include "cli.h"

int pst_cli_resize(const pst_cli_call *call) {
    pst_resize_options o = {.size = sizeof o};
    const pst_option rows[] = {
        {'n', "ranks", "RANKS", PST_OPTION_INT, 1, PST_RANKS_MAX,
         "The number of ranks that the run is to have.", &o.ranks},
    };
    const pst_command command = {
        "penstock resize", "RUN_FOLDER -n RANKS",
        "Gives an elastic run (penstock train --elastic) on this host another number of ranks at "
        "the end of its present step, and waits until it goes on. The ranks read the state from "
        "memory; weights do not depend on the number of stages, the only degree that changes.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 1, 1)) return pst_status_exit(PST_EINPUT);
    if (!o.ranks) return pst_cli_wrong("resize: -n is missing: the number of ranks");
    o.run = call->argv[1];
    return pst_cli_end(pst_resize(&o, stdout));
}

int pst_cli_drain(const pst_cli_call *call) {
    pst_resize_options o = {.size = sizeof o};
    const pst_command command = {
        "penstock drain", "RUN_FOLDER RANK",
        "Lets a rank of an elastic run (penstock train --elastic) on this host leave at the end of "
        "the present step, and waits until the others go on. A spare process (elastic.spare) takes "
        "its place, else the run has fewer ranks; no step is repeated.",
        NULL, 0};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 2, 2)) return pst_status_exit(PST_EINPUT);
    o.run = call->argv[1];
    o.drain = call->argv[2];
    return pst_cli_end(pst_resize(&o, stdout));
}

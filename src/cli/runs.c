/* penstock runs, penstock compare */
#include "cli.h"

int pst_cli_runs(const pst_cli_call *call) {
    const pst_command command = {
        "penstock runs", "[FOLDER]",
        "Prints a table of the runs in a folder, runs by default: state, progress, last training "
        "loss, lowest validation loss, speed, remaining time and health. Reads the runs' files "
        "only, also while they train.",
        NULL, 0};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 0, 1)) return pst_status_exit(PST_EINPUT);
    return pst_cli_end(pst_runs_print(n ? call->argv[1] : "", stdout));
}

int pst_cli_compare(const pst_cli_call *call) {
    const pst_command command = {
        "penstock compare", "RUN_FOLDER RUN_FOLDER",
        "Compares two runs on one page: the first step at which losses or gradient norms differ, "
        "settings, layouts, machines and versions that differ, and results beside each other. "
        "Reads the runs' files only.",
        NULL, 0};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 2, 2)) return pst_status_exit(PST_EINPUT);
    return pst_cli_end(pst_runs_compare(call->argv[1], call->argv[2], stdout));
}

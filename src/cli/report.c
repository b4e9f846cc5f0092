/* penstock report */
#include "cli.h"

int pst_cli_report(const pst_cli_call *call) {
    const char *file = "";
    const pst_option rows[] = {
        {'o', "output", "FILE", PST_OPTION_STRING, 0, 0,
         "File to write; RUN_FOLDER/report.html by default.", &file},
    };
    const pst_command command = {
        "penstock report", "RUN_FOLDER",
        "Writes the report of a run as one HTML file: loss and rate, predictions compared with "
        "measurements, timeline, memory. A run writes it when it ends; use this command for runs "
        "that are still running or were killed.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 1, 1)) return pst_status_exit(PST_EINPUT);
    pst_status status = pst_report_write(call->argv[1], file);
    if (status == PST_OK)
        printf("report      %s%s\n", *file ? file : call->argv[1], *file ? "" : "/report.html");
    return pst_cli_end(status);
}

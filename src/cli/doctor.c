/* penstock doctor */
#include "cli.h"

int pst_cli_doctor(const pst_cli_call *call) {
    int json = 0;
    const pst_option rows[] = {{0, "json", NULL, PST_OPTION_FLAG, 0, 0, "Print JSON.", &json}};
    const pst_command command = {
        "penstock doctor", "",
        "Shows processor, instruction sets, NUMA nodes, caches, memory, library versions, worlds, "
        "transports and devices with the reason where one is passed over, and what is missing for what.",
        rows, 1};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 0, 0)) return pst_status_exit(PST_EINPUT);
    return pst_cli_end(pst_doctor(json, stdout));
}

/* penstock doctor */
#include "cli.h"
#include <string.h>

int pst_cli_doctor(const pst_cli_call *call) {
    int json = 0;
    const char *cluster = NULL;
    const pst_option rows[] = {{0, "json", NULL, PST_OPTION_FLAG, 0, 0, "Print JSON.", &json},
                               {0, "cluster-out", "FILE", PST_OPTION_STRING, 0, 0,
                                "Only write a cluster file of this machine, with one device per "
                                "core; -: to standard output.",
                                &cluster}};
    const pst_command command = {
        "penstock doctor", "",
        "Shows what this machine has (processor, instruction sets, NUMA nodes, caches, memory, "
        "library versions), which launchers, transports and devices can be used or why not, and "
        "what is missing.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 0, 0)) return pst_status_exit(PST_EINPUT);
    if (cluster)
        return pst_cli_end(strcmp(cluster, "-") ? pst_doctor_cluster_write(cluster)
                                                : pst_doctor_cluster(stdout));
    return pst_cli_end(pst_doctor(json, stdout));
}

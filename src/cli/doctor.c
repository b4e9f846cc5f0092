/* penstock doctor */
#include "cli.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int write_cluster(const char *path) {
    if (!strcmp(path, "-")) return pst_cli_end(pst_doctor_cluster(stdout));
    FILE *f = fopen(path, "w");
    if (!f) return pst_cli_wrong("--cluster-out '%s': %s", path, strerror(errno));
    pst_status status = pst_doctor_cluster(f);
    if (fclose(f) && status == PST_OK) return pst_cli_wrong("--cluster-out '%s': %s", path, strerror(errno));
    return pst_cli_end(status);
}

int pst_cli_doctor(const pst_cli_call *call) {
    int json = 0;
    const char *cluster = NULL;
    const pst_option rows[] = {{0, "json", NULL, PST_OPTION_FLAG, 0, 0, "Print JSON.", &json},
                               {0, "cluster-out", "FILE", PST_OPTION_STRING, 0, 0,
                                "Only write this machine as a cluster file, a device for each core; -: print it.", &cluster}};
    const pst_command command = {
        "penstock doctor", "",
        "Shows processor, instruction sets, NUMA nodes, caches, memory, library versions, worlds, "
        "transports and devices with the reason where one is passed over, and what is missing for what.",
        rows, sizeof rows / sizeof *rows};
    size_t n = 0;
    int done;
    if (pst_cli_parse(&command, call, &n, &done)) return done;
    if (pst_cli_operands(&command, n, 0, 0)) return pst_status_exit(PST_EINPUT);
    if (cluster) return write_cluster(cluster);
    return pst_cli_end(pst_doctor(json, stdout));
}

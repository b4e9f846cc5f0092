/* The launcher of one host among several: pst_launch_hosts starts it over ssh, and it starts the
 * ranks of its host in world `tcp`. Its standard input brings the secret, then the address of rank
 * 0, then signals. */
#include "comm/launch/launch_parts.h"
#include "comm/world/elastic_hosts.h"
#include "comm/world/tcp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char variable[] = "PENSTOCK_HOST_JOB";

int pst_launch_is_host(void) { return getenv(variable) != NULL; }

static pst_status read_job(pst_launch_host_job *job, uint32_t *n) {
    const char *text = getenv(variable);
    *job = (pst_launch_host_job){.listener = -1, .control = STDIN_FILENO};
    if (!text ||
        sscanf(text, "%u %u %u %255s %63s", &job->first, n, &job->size, job->name, job->address) !=
            5 ||
        !*n || job->size > 65535 || job->first > job->size || *n > job->size - job->first)
        return pst_fail(PST_EINPUT, "%s is for internal use by --hostfile; unset it", variable);
    return PST_OK;
}

/* Exchanges addresses with the starting launcher. The host that runs rank 0 (`first` 0) listens. */
static pst_status meet(pst_launch_host_job *job) {
    char line[PST_LAUNCH_LINE];
    if (pst_launch_host_wait(job, line) != PST_OK)
        return pst_fail(PST_EINPUT, "%s is for internal use by --hostfile; unset it", variable);
    if (sscanf(line, "secret %63s", job->secret) != 1)
        return pst_fail(PST_EINTERNAL, "host %s: the starting launcher has sent no secret",
                        job->name);
    char memory_port[8] = "0";
    const int elastic = strstr(line, " elastic ") != NULL;
    snprintf(job->port, sizeof job->port, "0");
    pst_status status =
        job->first && !elastic ? PST_OK : pst_tcp_listen(job->address, job->port, &job->listener);
    if (status == PST_OK && elastic)
        status = pst_launch_elastic_host_open(job, strstr(line, " elastic "), memory_port);
    if (status != PST_OK) return pst_fail_in(status, "host %s", job->name);
    pst_launch_host_report("ready %s %s", job->port, memory_port);
    PST_TRY(pst_launch_host_wait(job, line));
    while (elastic && !strncmp(line, "host ", 5)) {
        PST_TRY(pst_launch_elastic_host_add(job, line));
        PST_TRY(pst_launch_host_wait(job, line));
    }
    if (sscanf(line, "go %63s %7s", job->address, job->port) != 2)
        return pst_fail(
            PST_EINTERNAL,
            "host %s: expected 'go ADDRESS PORT' from the starting launcher, found '%.40s'",
            job->name, line);
    return job->n_host ? pst_elastic_ping(job->page) : PST_OK;
}

/* Reports what the exit status does not tell; ssh reports no status when a signal ends this
 * process. */
static void report_end(const pst_launch_end *end) {
    if (end->stopped) pst_launch_host_report("stopped %d", end->stopped);
    else if (end->exit_status > 128) pst_launch_host_report("cut %d", end->exit_status - 128);
}

pst_status pst_launch_host(char *const argv[], uint32_t grace_ms, pst_launch_end *end) {
    pst_launch_host_job job;
    uint32_t n;
    PST_TRY(read_job(&job, &n));
    pst_status status = meet(&job);
    if (status == PST_OK) status = pst_launch_ranks(n, &job, argv, grace_ms, end);
    if (status == PST_OK) report_end(end);
    if (job.listener >= 0) close(job.listener);
    return status;
}

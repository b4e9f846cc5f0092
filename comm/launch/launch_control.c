/* Lines on the standard input of the launcher of one host, from the launcher that started it. */
#include "base/clock.h"
#include "comm/launch/launch_parts.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Moves a complete line that has arrived to `line`; 0: there is none. */
static int take_line(pst_launch_host_job *job, char line[PST_LAUNCH_LINE]) {
    char *end = memchr(job->received, '\n', job->n_received);
    if (!end) return 0;
    size_t bytes = (size_t)(end - job->received);
    memcpy(line, job->received, bytes);
    line[bytes] = 0;
    job->n_received -= (uint32_t)bytes + 1;
    memmove(job->received, end + 1, job->n_received);
    return 1;
}

/* 0: end of input. */
static int hear(pst_launch_host_job *job) {
    ssize_t n;
    if (job->n_received == sizeof job->received) return 0; /* no valid line is this long */
    do
        n = read(job->control, job->received + job->n_received,
                 sizeof job->received - job->n_received);
    while (n < 0 && errno == EINTR);
    if (n > 0) job->n_received += (uint32_t)n;
    return n > 0;
}

pst_status pst_launch_host_wait(pst_launch_host_job *job, char line[PST_LAUNCH_LINE]) {
    while (!take_line(job, line))
        if (!hear(job)) {
            pst_error_clear();
            return PST_EPEER;
        }
    return PST_OK;
}

static void obey(launcher *l, const char *line) {
    int signal = 0;
    if (l->elastic && pst_launch_elastic_host_obey(l, line)) return;
    if (sscanf(line, "signal %d", &signal) != 1) return;
    if (signal == SIGTSTP || signal == SIGCONT) pst_launch_suspend(l, signal == SIGTSTP);
    else pst_launch_interrupt(l, signal);
}

void pst_launch_host_cut(launcher *l) {
    l->control_ended = 1;
    if (!l->blame) {
        l->blame = CULPRIT;
        l->exit_status = pst_status_exit(PST_EPEER);
    }
    pst_launch_kill_ranks(l, pst_monotonic_ns());
}

void pst_launch_host_read(launcher *l) {
    char line[PST_LAUNCH_LINE];
    if (!hear(l->hosts)) {
        pst_launch_host_cut(l);
        return;
    }
    l->hosts->heard_ns = pst_monotonic_ns();
    while (take_line(l->hosts, line)) obey(l, line);
}

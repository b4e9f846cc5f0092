/* What the launcher of one host hears from the one that started it, in lines of its standard
 * input. */
#include "base/clock.h"
#include "comm/launch/launch_parts.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A whole line that has come already, into line; 0: there is none. */
static int take_line(pst_launch_host_job *job, char line[PST_LAUNCH_SAID]) {
    char *end = memchr(job->said, '\n', job->n_said);
    if (!end) return 0;
    size_t bytes = (size_t)(end - job->said);
    memcpy(line, job->said, bytes);
    line[bytes] = 0;
    job->n_said -= (uint32_t)bytes + 1;
    memmove(job->said, end + 1, job->n_said);
    return 1;
}

/* 0: nothing more will come. */
static int hear(pst_launch_host_job *job) {
    ssize_t n;
    if (job->n_said == sizeof job->said) return 0; /* no such long lines are sent */
    do n = read(job->control, job->said + job->n_said, sizeof job->said - job->n_said);
    while (n < 0 && errno == EINTR);
    if (n > 0) job->n_said += (uint32_t)n;
    return n > 0;
}

pst_status pst_launch_host_wait(pst_launch_host_job *job, char line[PST_LAUNCH_SAID]) {
    while (!take_line(job, line))
        if (!hear(job)) {
            pst_error_clear();
            return PST_EPEER;
        }
    return PST_OK;
}

static void obey(launcher *l, const char *line) {
    int signal = 0;
    if (sscanf(line, "signal %d", &signal) != 1) return;
    if (signal == SIGTSTP || signal == SIGCONT) pst_launch_suspend(l, signal == SIGTSTP);
    else pst_launch_interrupt(l, signal);
}

void pst_launch_host_read(launcher *l) {
    char line[PST_LAUNCH_SAID];
    if (!hear(l->hosts)) {
        l->control_ended = 1;
        if (!l->blame) {
            l->blame = CULPRIT;
            l->exit_status = pst_status_exit(PST_EPEER);
        }
        pst_launch_kill_ranks(l, pst_monotonic_ns());
        return;
    }
    while (take_line(l->hosts, line)) obey(l, line);
}

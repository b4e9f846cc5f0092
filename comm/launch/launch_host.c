/* The launcher of one host among several: started by pst_launch_hosts over ssh, it starts the ranks
 * of its host in world `tcp` and hears what to do on its standard input: the secret, then where
 * rank 0 listens, then signals. */
#include "base/clock.h"
#include "comm/launch/launch_parts.h"
#include "comm/world/tcp.h"
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char variable[] = "PENSTOCK_HOST_JOB";

int pst_launch_is_host(void) { return getenv(variable) != NULL; }

void pst_launch_host_tell(const char *format, ...) {
    char line[PAGE_VERDICT + 256] = PST_LAUNCH_MARK;
    const size_t mark = sizeof PST_LAUNCH_MARK - 1;
    va_list args;
    va_start(args, format);
    vsnprintf(line + mark, sizeof line - mark - 1, format, args);
    va_end(args);
    for (char *at = line; *at; at++)
        if (*at == '\n') *at = ' ';
    strcat(line, "\n");
    ssize_t written = write(STDERR_FILENO, line, strlen(line));
    (void)written;
}

/* --- what the starting launcher says ---------------------------------------------------------- */

/* A whole line that has come already, into line; 0: there is none. */
static int take_line(pst_launch_host_job *job, char line[sizeof job->said]) {
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

/* EPEER without a message: whoever has started this host is gone, or gives up for another one, and
 * says so itself. */
static pst_status wait_line(pst_launch_host_job *job, char line[sizeof job->said]) {
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
    char line[sizeof l->hosts->said];
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

/* --- the whole -------------------------------------------------------------------------------- */

static pst_status read_job(pst_launch_host_job *job, uint32_t *n) {
    const char *text = getenv(variable);
    *job = (pst_launch_host_job){.listener = -1, .control = STDIN_FILENO};
    if (!text ||
        sscanf(text, "%u %u %u %255s %63s", &job->first, n, &job->size, job->name, job->address) !=
            5 ||
        !*n || job->size > 65535 || job->first > job->size || *n > job->size - job->first)
        return pst_fail(PST_EINPUT, "%s is set by --hostfile only; unset it", variable);
    return PST_OK;
}

/* first: where rank 0 runs. */
static pst_status meet(pst_launch_host_job *job) {
    char line[sizeof job->said];
    if (wait_line(job, line) != PST_OK)
        return pst_fail(PST_EINPUT, "%s is set by --hostfile only; unset it", variable);
    if (sscanf(line, "secret %63s", job->secret) != 1)
        return pst_fail(PST_EINTERNAL, "host %s: no secret", job->name);
    snprintf(job->port, sizeof job->port, "0");
    pst_status status =
        job->first ? PST_OK : pst_tcp_listen(job->address, job->port, &job->listener);
    if (status != PST_OK) return pst_fail_in(status, "host %s", job->name);
    pst_launch_host_tell("ready %s", job->port);
    PST_TRY(wait_line(job, line));
    if (sscanf(line, "go %63s %7s", job->address, job->port) != 2)
        return pst_fail(PST_EINTERNAL, "host %s: '%.40s' is no beginning", job->name, line);
    return PST_OK;
}

/* What an exit status alone does not tell, and ssh not at all when this process is ended by a
 * signal. */
static void tell_end(const pst_launch_end *end) {
    if (end->stopped) pst_launch_host_tell("stopped %d", end->stopped);
    else if (end->exit_status > 128) pst_launch_host_tell("cut %d", end->exit_status - 128);
}

pst_status pst_launch_host(char *const argv[], uint32_t grace_ms, pst_launch_end *end) {
    pst_launch_host_job job;
    uint32_t n;
    PST_TRY(read_job(&job, &n));
    pst_status status = meet(&job);
    if (status == PST_OK) status = pst_launch_ranks(n, &job, argv, grace_ms, end);
    if (status == PST_OK) tell_end(end);
    if (job.listener >= 0) close(job.listener);
    return status;
}

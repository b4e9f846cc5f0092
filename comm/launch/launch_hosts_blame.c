/* Lines to the launchers of hosts, the end of a job on several hosts, and how a host was lost
 * (launch_hosts_parts.h). */
#include "base/clock.h"
#include "comm/launch/launch_hosts_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

void pst_launch_hosts_send(host_process *h, const char *text) {
    if (h->in < 0) return;
    /* a closed connection is noticed elsewhere */
    (void)!send(h->in, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void pst_launch_hosts_end(hosts_job *j, uint64_t grace_ns) {
    uint64_t at = pst_monotonic_ns() + grace_ns;
    if (at < j->close_ns) j->close_ns = at;
}

void pst_launch_hosts_blame(hosts_job *j, host_end how, uint32_t host) {
    pst_launch_hosts_end(j, PST_LAUNCH_CLOSE_NS);
    if (j->end >= how) return;
    j->end = how;
    j->culprit = host;
}

const char *pst_launch_hosts_how(const hosts_job *j, const host_process *h,
                                 char how[PST_LAUNCH_HOW]) {
    const int is_here = h->host->is_here && !getenv("PENSTOCK_SSH");
    if (h->pid || (WIFSIGNALED(h->wait_status) && j->kill_ns != PST_NEVER))
        snprintf(how, PST_LAUNCH_HOW, "there was no answer within %u s", j->wait_s);
    else if (WIFSIGNALED(h->wait_status))
        snprintf(how, PST_LAUNCH_HOW, "the ssh process was killed by signal %d",
                 WTERMSIG(h->wait_status));
    else
        snprintf(how, PST_LAUNCH_HOW, "%s ended with status %d", is_here ? "it" : "the connection",
                 WEXITSTATUS(h->wait_status));
    return how;
}

const char *pst_launch_hosts_lost(const hosts_job *j, const host_process *h, const char *how,
                                  char out[PST_LAUNCH_LOST]) {
    snprintf(out, PST_LAUNCH_LOST, "%.500s:%u: host %s (%s) with ranks %u to %u %s: %s",
             j->file->path, h->host->line, h->host->name, h->host->address, h->first,
             h->first + h->n - 1, h->ready ? "is lost" : "could not be reached or started", how);
    return out;
}

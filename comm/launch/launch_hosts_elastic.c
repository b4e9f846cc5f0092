/* Elastic jobs on several hosts, in the starting launcher (launch_hosts_parts.h): which processes
 * and hosts are lost, and the announcement of epochs to the hosts' launchers. A host is lost when
 * its connection ends or is silent; then its launcher, if it lives, ends its ranks. */
#include "base/clock.h"
#include "base/plural.h"
#include "comm/launch/launch_hosts_parts.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pst_status pst_hosts_elastic_check(const hosts_job *j) {
    if (!j->elastic || (j->n <= PST_ELASTIC_HOSTS && j->size <= PST_ELASTIC_RANKS)) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "--elastic: %u ranks on %u hosts; an elastic run has at most %d ranks on %d "
                    "hosts",
                    j->size, j->n, PST_ELASTIC_RANKS, PST_ELASTIC_HOSTS);
}

void pst_hosts_elastic_secret(const hosts_job *j, uint32_t host, char *text, size_t bytes) {
    size_t used = (size_t)snprintf(text, bytes, "secret %s", j->secret);
    if (j->elastic)
        used += (size_t)snprintf(text + used, bytes - used, " elastic %u %u %u %u ", host, j->n,
                                 j->elastic->copies.data, j->elastic->copies.tensor);
    for (uint32_t i = 0; j->elastic && i <= j->size && used + 8 < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%u", i ? "," : "",
                                 j->elastic->ranks_of[i]);
    snprintf(text + used, bytes - used, "\n");
}

void pst_hosts_elastic_tell(hosts_job *j) {
    char text[PST_LAUNCH_LINE];
    if (!j->elastic) return;
    memset(j->elastic->alive, 1, j->size);
    for (uint32_t i = 0; i < j->n; i++) {
        const host_process *h = &j->host[i];
        snprintf(text, sizeof text, "host %u %u %u %s %s %s %.63s\n", i, h->first, h->n,
                 h->host->address, h->port, h->memory_port, h->host->name);
        for (uint32_t k = 0; k < j->n; k++) pst_launch_hosts_send(&j->host[k], text);
        j->host[i].heard_ns = pst_monotonic_ns();
    }
}

static uint32_t living(const hosts_job *j) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->size; i++) n += j->elastic->alive[i] != 0;
    return n;
}

static int has_ranks(const hosts_job *j, uint32_t host) {
    int any = 0;
    for (uint32_t i = 0; i < j->host[host].n; i++)
        any |= j->elastic->alive[j->host[host].first + i];
    return any;
}

/* Too few processes are left, and one of them is to save the state. */
static int can_save(const hosts_job *j, uint32_t left) {
    return left && j->running && !j->last_signal && !j->end && !j->elastic->saves;
}

/* Notes the loss; 0: too few processes are left, so the job ends because of this host. */
static int note_loss(hosts_job *j, uint32_t host, uint64_t lost_ns) {
    hosts_elastic *e = j->elastic;
    const uint32_t n = living(j);
    if (!e->lost_ns || lost_ns < e->lost_ns) e->lost_ns = lost_ns;
    if (e->done || e->saves || e->ranks_of[n] || can_save(j, n)) return 1;
    snprintf(j->host[host].followed, sizeof j->host[host].followed,
             "only %u process%s left, with which the run cannot go on", n,
             n == 1 ? " is" : "es are");
    j->close_ns = pst_monotonic_ns();
    pst_launch_hosts_blame(j, FOLLOWED, host);
    return 0;
}

/* Host `host` does not reach host `first`, that of rank 0. */
static void note_apart(hosts_job *j, uint32_t host, uint32_t first) {
    hosts_elastic *e = j->elastic;
    if (e->is_lost[host] || e->is_lost[first]) return;
    if (first != e->apart_from) memset(e->apart, 0, sizeof e->apart);
    if (first != e->apart_from || !e->first_apart_ns) e->first_apart_ns = pst_monotonic_ns();
    e->apart_from = first;
    e->apart[host] = 1;
}

/* Host h was told to leave. All hosts may be, at the same time: those without which the others
 * cannot go on stop the run, which then saves. */
static void drain(hosts_job *j, host_process *h) {
    char text[32];
    uint32_t n = 0;
    h->drains = 1;
    for (uint32_t i = 0; i < j->n; i++)
        for (uint32_t k = 0; !j->host[i].drains && k < j->host[i].n; k++)
            n += j->elastic->alive[j->host[i].first + k] != 0;
    h->drains = j->elastic->ranks_of[n] != 0;
    snprintf(text, sizeof text, "signal %d\n", SIGTERM);
    pst_launch_hosts_send(h, h->drains ? "drain\n" : text);
}

int pst_hosts_elastic_obey(hosts_job *j, host_process *h, const char *text) {
    uint32_t process;
    uint64_t age;
    if (!j->elastic) return 0;
    h->heard_ns = pst_monotonic_ns();
    if (!strcmp(text, "beat")) return 1;
    if (!strcmp(text, "drains")) {
        drain(j, h);
        return 1;
    }
    if (sscanf(text, "has %u", &h->has_epoch) == 1) return 1;
    if (sscanf(text, "apart %u", &process) == 1 && process < j->n) {
        note_apart(j, (uint32_t)(h - j->host), process);
        return 1;
    }
    if (sscanf(text, "lost %u %" SCNu64, &process, &age) != 2 || process - h->first >= h->n)
        return 0;
    j->elastic->alive[process] = 0;
    note_loss(j, (uint32_t)(h - j->host), pst_monotonic_ns() - age);
    return 1;
}

/* Whether the job can go on without the processes of a host. */
static int can_lose(const hosts_job *j, uint32_t host) {
    const hosts_elastic *e = j->elastic;
    uint32_t n = living(j);
    if (!e || !j->running || j->last_signal || j->end) return 0;
    for (uint32_t i = 0; i < j->host[host].n; i++) n -= e->alive[j->host[host].first + i] != 0;
    return e->done || e->ranks_of[n] || can_save(j, n);
}

int pst_hosts_elastic_lose(hosts_job *j, uint32_t host, const char *how, uint64_t lost_ns) {
    char text[PST_LAUNCH_LOST];
    host_process *h = &j->host[host];
    hosts_elastic *e = j->elastic;
    if (e && e->is_lost[host]) return 1;
    if (!e || !can_lose(j, host)) return 0;
    snprintf(text, sizeof text, "%.500s:%u: host %s (%s) is lost: %s", j->file->path, h->host->line,
             h->host->name, h->host->address, how);
    memset(e->alive + h->first, 0, h->n);
    e->is_lost[host] = 1;
    pst_launch_print("%s; %s", text,
                     e->done || e->ranks_of[living(j)]
                         ? "the other ranks go on"
                         : "too few are left, so the last step is saved if all of it is there");
    return note_loss(j, host, lost_ns);
}

/* Once the ranks of one host have finished, those of all have; launchers without ranks wait for
 * this. */
void pst_hosts_elastic_ended(hosts_job *j, uint32_t host) {
    hosts_elastic *e = j->elastic;
    if (!e || e->done || !j->running || !has_ranks(j, host)) return;
    e->done = 1;
    for (uint32_t i = 0; i < j->n; i++) pst_launch_hosts_send(&j->host[i], "done\n");
}

/* "epoch EPOCH AGE ALIVE HOSTS", or "save EPOCH SAVER ALIVE HOSTS" (launch_elastic_host.c). */
static void announce(hosts_job *j, uint64_t now) {
    hosts_elastic *e = j->elastic;
    char text[PST_LAUNCH_LINE];
    if (!e->lost_ns || j->end || e->done || e->saves) return;
    const uint64_t age = now > e->lost_ns ? now - e->lost_ns : 0;
    e->saves = !e->ranks_of[living(j)];
    uint32_t saver = 0;
    while (e->saves && !e->alive[saver]) saver++;
    size_t used =
        e->saves ? (size_t)snprintf(text, sizeof text, "save %u %u ", ++e->epoch, saver)
                 : (size_t)snprintf(text, sizeof text, "epoch %u %" PRIu64 " ", ++e->epoch, age);
    for (uint32_t i = 0; i < j->size; i++) text[used++] = e->alive[i] ? '1' : '0';
    text[used++] = ' ';
    for (uint32_t i = 0; i < j->n; i++) text[used++] = e->is_lost[i] ? '1' : '0';
    text[used++] = '\n';
    text[used] = 0;
    e->lost_ns = 0;
    for (uint32_t i = 0; i < j->n; i++) pst_launch_hosts_send(&j->host[i], text);
}

/* The end of its input ends the host's launcher. */
static void drop(hosts_job *j, uint32_t host, const char *how, uint64_t lost_ns) {
    host_process *h = &j->host[host];
    if (!pst_hosts_elastic_lose(j, host, how, lost_ns)) return;
    if (h->in >= 0) close(h->in);
    h->in = -1;
}

/* If all other hosts, at least two, do not reach the host of rank 0, this one is lost, else those
 * that do not reach it. */
static void lose_apart(hosts_job *j, uint64_t now) {
    hosts_elastic *e = j->elastic;
    uint32_t others = 0, apart = 0;
    char how[512];
    if (!e->first_apart_ns || now < e->first_apart_ns + PST_LAUNCH_BEAT_NS) return;
    for (uint32_t i = 0; i < j->n; i++) {
        if (i == e->apart_from || e->is_lost[i] || j->host[i].in < 0) continue;
        others++;
        apart += e->apart[i];
    }
    const uint64_t since = e->first_apart_ns - PST_LAUNCH_SILENT_NS;
    snprintf(how, sizeof how, "no connection to host %s for %.1f s",
             j->host[e->apart_from].host->name, (double)(now - since) * 1e-9);
    e->first_apart_ns = 0;
    if (apart == others && others > 1)
        drop(j, e->apart_from, "the other hosts do not reach it", since);
    for (uint32_t i = 0; i < j->n && (apart < others || others == 1); i++)
        if (e->apart[i]) drop(j, i, how, since);
    memset(e->apart, 0, sizeof e->apart);
}

/* A host whose connection is silent: the process that stands for it here is ended. */
static void lose_silent(hosts_job *j, uint32_t host, uint64_t now) {
    char how[128];
    host_process *h = &j->host[host];
    if (!h->pid || h->in < 0 || j->elastic->is_lost[host]) return;
    if (now < h->heard_ns + PST_LAUNCH_SILENT_NS) return;
    snprintf(how, sizeof how, "its launcher was silent for %.1f s",
             (double)(now - h->heard_ns) * 1e-9);
    drop(j, host, how, h->heard_ns);
    if (j->elastic->is_lost[host]) kill(-h->pid, SIGKILL);
}

/* A host that was told to leave, and whose state the ranks of the present epoch have read, is not
 * needed any more. */
static void release(hosts_job *j, uint32_t host) {
    hosts_elastic *e = j->elastic;
    host_process *h = &j->host[host];
    if (!h->drains || e->is_lost[host] || e->lost_ns || has_ranks(j, host)) return;
    for (uint32_t i = 0; i < j->n; i++)
        if (has_ranks(j, i) && j->host[i].has_epoch != e->epoch) return;
    e->is_lost[host] = 1;
    pst_launch_print("host %s (%s) has left; the job does not need it any more", h->host->name,
                     h->host->address);
    pst_launch_hosts_send(h, "done\n");
}

void pst_hosts_elastic_watch(hosts_job *j) {
    hosts_elastic *e = j->elastic;
    const uint64_t now = pst_monotonic_ns();
    if (!e || !j->running) return;
    if (now > e->beat_ns + 2 * PST_LAUNCH_BEAT_NS) /* this launcher itself did not run */
        for (uint32_t i = 0; e->beat_ns && i < j->n; i++) j->host[i].heard_ns = now;
    for (uint32_t i = 0; now >= e->beat_ns + PST_LAUNCH_BEAT_NS && i < j->n; i++)
        pst_launch_hosts_send(&j->host[i], "beat\n");
    if (now >= e->beat_ns + PST_LAUNCH_BEAT_NS) e->beat_ns = now;
    for (uint32_t i = 0; i < j->n; i++) lose_silent(j, i, now);
    for (uint32_t i = 0; i < j->n; i++) release(j, i);
    lose_apart(j, now);
    announce(j, now);
}

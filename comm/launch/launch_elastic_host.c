/* The launcher of one host among several of an elastic job (launch_parts.h). The starting launcher
 * decides about epochs: this one reports which processes are lost, and announces what it is told.
 */
#include "base/clock.h"
#include "comm/launch/launch_parts.h"
#include "comm/world/elastic_hosts.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "0,1,2" to [n + 1] numbers; 0: the text is not of this form. */
static int read_ranks(const char *text, uint32_t n, uint32_t *ranks_of) {
    for (uint32_t i = 0; i <= n; i++) {
        char *end;
        ranks_of[i] = (uint32_t)strtoul(text, &end, 10);
        if (end == text || *end != (i < n ? ',' : 0)) return 0;
        text = end + 1;
    }
    return 1;
}

pst_status pst_launch_elastic_host_open(pst_launch_host_job *job, const char *line,
                                        char memory_port[8]) {
    uint32_t own, n;
    pst_elastic_copies copies;
    int used = 0;
    if (sscanf(line, " elastic %u %u %u %u %n", &own, &n, &copies.data, &copies.tensor, &used) !=
            4 ||
        own >= n || n > PST_ELASTIC_HOSTS || job->size > PST_ELASTIC_RANKS ||
        !read_ranks(line + used, job->size, job->ranks_of))
        return pst_fail(PST_EINTERNAL, "the starting launcher sent '%.40s'", line);
    const pst_elastic_start start = {job->size, job->size, job->size, job->ranks_of};
    PST_TRY(pst_elastic_open(&start, &job->page_fd, &job->page));
    pst_elastic_hosts *h = &job->page->hosts;
    h->own = own;
    h->copies = copies;
    h->listener = job->listener;
    memcpy(h->secret, job->secret, sizeof h->secret);
    PST_TRY(pst_elastic_memory_serve(job->page, job->page_fd, job->address, memory_port));
    job->n_host = h->n = n;
    job->heard_ns = pst_monotonic_ns();
    return PST_OK;
}

pst_status pst_launch_elastic_host_add(pst_launch_host_job *job, const char *line) {
    uint32_t i, first, n;
    pst_elastic_host h = {0};
    if (sscanf(line, "host %u %u %u %63s %7s %7s %63s", &i, &first, &n, h.address, h.port,
               h.memory_port, h.name) != 7 ||
        i >= job->n_host)
        return pst_fail(PST_EINTERNAL, "the starting launcher sent '%.40s'", line);
    h.first = first;
    h.n = n;
    job->page->hosts.host[i] = h;
    uint8_t alive[PST_ELASTIC_RANKS];
    memset(alive, 1, sizeof alive);
    if (i + 1 == job->n_host) pst_elastic_spread(job->page, alive, &job->page->member[0]);
    return PST_OK;
}

int pst_launch_elastic_host_is_wanted(const launcher *l) {
    return l->elastic && l->hosts && !l->ending && !l->control_ended && l->elastic->page &&
           atomic_load(&l->elastic->page->end) == PST_ELASTIC_RUNS;
}

/* hosts: a digit per host, 1: it is lost; processes: a digit per process, 1: it lives. */
static void note_lost(launcher *l, uint32_t epoch, const char *processes, const char *hosts) {
    const launch_elastic *e = l->elastic;
    for (uint32_t i = 0; i < l->hosts->n_host; i++) {
        pst_elastic_host *h = &e->page->hosts.host[i];
        if (hosts[i] == '1' && !atomic_load(&h->lost_in)) atomic_store(&h->lost_in, epoch);
    }
    for (uint32_t i = 0; i < l->n; i++)
        if (i < l->own_from || i >= l->own_to) l->elastic->alive[i] = processes[i] == '1';
}

/* "save EPOCH SAVER ALIVE HOSTS": as below; process SAVER saves the state. */
static void save(launcher *l, const char *line) {
    const launch_elastic *e = l->elastic;
    char processes[PST_ELASTIC_RANKS + 1], hosts[PST_ELASTIC_HOSTS + 1];
    uint32_t epoch, saver, living = 0;
    if (sscanf(line, "save %u %u %64s %64s", &epoch, &saver, processes, hosts) != 4 ||
        epoch != atomic_load(&e->page->epoch) + 1 || strlen(processes) != l->n ||
        strlen(hosts) != l->hosts->n_host || saver >= l->n)
        return;
    note_lost(l, epoch, processes, hosts);
    for (uint32_t i = 0; i < l->n; i++) living += processes[i] == '1';
    pst_launch_elastic_save(l, saver, living);
}

/* "epoch EPOCH AGE ALIVE HOSTS": AGE: nanoseconds since the loss; ALIVE: a digit per process, 1: it
 * lives; HOSTS: a digit per host, 1: it is lost. */
static void announce(launcher *l, const char *line) {
    const launch_elastic *e = l->elastic;
    char processes[PST_ELASTIC_RANKS + 1], hosts[PST_ELASTIC_HOSTS + 1];
    uint8_t alive[PST_ELASTIC_RANKS] = {0};
    uint32_t epoch;
    uint64_t age;
    if (sscanf(line, "epoch %u %" SCNu64 " %64s %64s", &epoch, &age, processes, hosts) != 4 ||
        epoch != atomic_load(&e->page->epoch) + 1 || strlen(processes) != l->n ||
        strlen(hosts) != l->hosts->n_host)
        return;
    note_lost(l, epoch, processes, hosts);
    for (uint32_t i = 0; i < l->n; i++) alive[i] = processes[i] == '1';
    pst_launch_elastic_announce(l, alive, pst_monotonic_ns() - age);
}

/* All ranks of the job have finished. */
static void end_of_job(launcher *l) {
    uint32_t runs = PST_ELASTIC_RUNS;
    atomic_compare_exchange_strong(&l->elastic->page->end, &runs, PST_ELASTIC_DONE);
}

/* The ranks of this host leave at the end of their step. */
static void drain(launcher *l) {
    pst_launch_print("host %s was told to leave (SIGTERM): its ranks do so at the end of the step",
                     l->host);
    for (uint32_t i = l->own_from; i < l->own_to; i++)
        if (l->rank[i].pid) kill(-l->rank[i].pid, SIGTERM);
}

int pst_launch_elastic_host_obey(launcher *l, const char *line) {
    if (!strcmp(line, "beat")) return 1;
    if (!strcmp(line, "drain")) drain(l);
    else if (!strcmp(line, "done")) end_of_job(l);
    else if (!strncmp(line, "epoch ", 6)) announce(l, line);
    else if (!strncmp(line, "save ", 5)) save(l, line);
    else return 0;
    return 1;
}

int pst_launch_elastic_host_drain(launcher *l) {
    const launch_elastic *e = l->elastic;
    uint32_t others = 0;
    if (!e || !l->hosts || l->ending || l->last_signal || l->hosts->drains) return 0;
    for (uint32_t i = 0; i < l->n; i++)
        others += e->alive[i] && (i < l->own_from || i >= l->own_to);
    if (!pst_elastic_ranks(e->page, others)) return 0;
    l->hosts->drains = 1;
    pst_launch_host_report("drains");
    return 1;
}

/* Reports that the ranks of this host have completed a state in the present epoch: then they read
 * no earlier one. */
static void watch_states(launcher *l) {
    pst_elastic_page *page = l->elastic->page;
    const uint32_t epoch = atomic_load(&page->epoch);
    const pst_elastic_members *m = &page->member[epoch];
    if (epoch == l->hosts->has_epoch) return;
    for (uint32_t r = 0; r < m->n_rank; r++) {
        pst_elastic_state *s = page->state[m->process[r]];
        int has = m->process[r] < l->own_from || m->process[r] >= l->own_to;
        for (uint32_t k = 0; k < PST_ELASTIC_FILES; k++)
            has |= s[k].epoch == epoch && atomic_load(&s[k].number) > m->source;
        if (!has) return;
    }
    l->hosts->has_epoch = epoch;
    pst_launch_host_report("has %u", epoch);
}

/* The starting launcher decides which of the two hosts is lost. */
static void watch_link(launcher *l, uint64_t now) {
    pst_launch_host_job *h = l->hosts;
    uint32_t host;
    const uint64_t silence = pst_elastic_silence(l->elastic->page, &host);
    if (silence < PST_LAUNCH_SILENT_NS || now < h->apart_ns + PST_LAUNCH_BEAT_NS) return;
    h->apart_ns = now;
    pst_launch_host_report("apart %u %" PRIu64, host, silence);
}

int pst_launch_elastic_host_watch(launcher *l) {
    pst_launch_host_job *h = l->hosts;
    if (!h || !l->elastic) return 0;
    const uint64_t now = pst_monotonic_ns();
    if (now >= h->beat_ns + PST_LAUNCH_BEAT_NS) {
        pst_launch_host_report("beat");
        h->beat_ns = now;
    }
    watch_link(l, now);
    watch_states(l);
    if (l->suspended) h->heard_ns = now;
    return !l->control_ended && now >= h->heard_ns + PST_LAUNCH_CUT_NS;
}

/* Elastic jobs (launch.h): which processes are lost, and the announcement of the next epoch to the
 * others. */
#include "base/clock.h"
#include "comm/launch/launch_parts.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How long a rank may be behind the others before it trains, when nothing else can tell that it
 * hangs. */
#define JOIN_NS UINT64_C(30000000000)

/* A page for each epoch: ranks of the last one may still write their lines. */
pst_status pst_launch_elastic_open(launcher *l, const uint32_t *ranks_of) {
    launch_elastic *e = l->elastic;
    pst_status status = PST_OK;
    if (l->hosts) {
        e->page = l->hosts->page;
        e->fd = l->hosts->page_fd;
    } else {
        status = pst_elastic_open(l->n, ranks_of, &e->fd, &e->page);
    }
    for (uint32_t k = 0; status == PST_OK && k <= l->n; k++)
        status = pst_heartbeat_page_open(l->n, &e->page->heartbeat_fd[k], &e->heartbeat[k]);
    memset(e->alive, 1, l->n);
    l->page = e->heartbeat[0];
    return status;
}

void pst_launch_elastic_close(launcher *l) {
    launch_elastic *e = l->elastic;
    for (uint32_t k = 0; e->page && k <= l->n; k++) {
        pst_heartbeat_page_close(e->heartbeat[k]);
        if (e->page->heartbeat_fd[k] >= 0) close(e->page->heartbeat_fd[k]);
    }
    /* threads may still give memory out, until this process ends */
    if (!l->hosts) pst_elastic_close(e->page, e->fd);
}

int pst_launch_elastic_done(const launcher *l) {
    return l->elastic && atomic_load(&l->elastic->page->end) == PST_ELASTIC_DONE;
}

/* Whether the others can go on without one more process. After a signal to stop only without one
 * that has left by itself before: the others save then. */
static int can_lose(const launcher *l, uint32_t rank, int left) {
    const launch_elastic *e = l->elastic;
    uint32_t living = 0;
    if (!e || l->ending || (l->last_signal && !left) || l->interrupts > 1) return 0;
    for (uint32_t i = 0; i < l->n; i++) living += i != rank && e->alive[i];
    return e->page->ranks_of[living] != 0;
}

/* Ranks that wait for this one see the fault of the page. Processes without a rank are not missed.
 */
int pst_launch_elastic_lose(launcher *l, uint32_t rank, int left, const char *what) {
    if (!can_lose(l, rank, left)) return 0;
    launch_elastic *e = l->elastic;
    const uint32_t epoch = atomic_load(&e->page->epoch),
                   number = pst_elastic_rank(e->page, epoch, rank);
    char where[64];
    e->alive[rank] = 0;
    if (number == UINT32_MAX) {
        pst_launch_print("a process on %s without a rank %s", l->host, what);
        return 1;
    }
    e->lost[rank] = 1;
    if (!e->lost_ns) e->lost_ns = pst_monotonic_ns();
    if (!l->rank[rank].lost)
        pst_launch_print("rank %u on %s %s during %s; the other ranks go on", number, l->host, what,
                         pst_heartbeat_page_where(l->page, rank, where, sizeof where));
    pst_heartbeat_page_mark_dead(l->page, rank);
    return 1;
}

int pst_launch_elastic_kill(launcher *l, uint32_t rank, const char *what) {
    rank_process *r = &l->rank[rank];
    char where[64];
    if (!l->elastic || !r->pid) return 0;
    if (r->lost) return 1;
    if (!can_lose(l, rank, 0)) return 0;
    const uint32_t number =
        pst_elastic_rank(l->elastic->page, atomic_load(&l->elastic->page->epoch), rank);
    pst_launch_print("rank %u on %s %s during %s; the other ranks go on", number, l->host, what,
                     pst_heartbeat_page_where(l->page, rank, where, sizeof where));
    r->lost = 1;
    if (!l->elastic->lost_ns)
        l->elastic->lost_ns = r->stopped_ns ? r->stopped_ns : pst_monotonic_ns();
    kill(-r->pid, SIGKILL);
    return 1;
}

/* A rank without heartbeat is killed, so that it is lost for certain. */
static void kill_silent(launcher *l) {
    uint32_t rank;
    if (pst_heartbeat_page_silent(l->page, &rank))
        pst_launch_elastic_kill(l, rank, "stopped responding, so it was killed,");
}

/* In an epoch after a loss, a rank that hangs before it trains has no heartbeat yet, and others
 * wait for it in a fence. The first epoch may read data for long. */
static void kill_late(launcher *l) {
    launch_elastic *e = l->elastic;
    const uint32_t epoch = atomic_load(&e->page->epoch);
    pst_elastic_members *m = &e->page->member[epoch];
    uint64_t least = UINT64_MAX, most = 0;
    uint32_t last = 0;
    for (uint32_t r = 0; r < m->n_rank; r++) {
        const uint64_t reached = atomic_load(&m->fence[r]);
        if (reached < least) last = r;
        if (reached < least) least = reached;
        if (reached > most) most = reached;
    }
    const uint64_t now = pst_monotonic_ns();
    if (epoch != e->late_epoch || least != e->late_fence || least == most) e->late_ns = now;
    e->late_epoch = epoch;
    e->late_fence = least;
    if (!epoch || now < e->late_ns + JOIN_NS) return;
    if (pst_heartbeat_page_absent(l->page, m->process[last]))
        pst_launch_elastic_kill(l, m->process[last], "did not join the others, so it was killed,");
}

int pst_launch_elastic_has_rank(const launcher *l, uint32_t process) {
    const pst_elastic_page *page = l->elastic ? l->elastic->page : NULL;
    return !page || pst_elastic_rank(page, atomic_load(&page->epoch), process) != UINT32_MAX;
}

int pst_launch_elastic_accuse(launcher *l, uint32_t rank, const char *verdict) {
    if (!l->elastic) return 0;
    if (l->rank[rank].lost || !l->elastic->alive[rank]) return 1;
    if (can_lose(l, rank, 0)) pst_launch_print("%s", verdict);
    return pst_launch_elastic_kill(l, rank, "was killed");
}

/* 1: no rank that was killed is still to be reaped: a process that is not gone may write into the
 * memory of others. */
static int all_are_gone(const launcher *l) {
    for (uint32_t i = 0; i < l->n; i++)
        if (l->rank[i].lost && l->rank[i].pid) return 0;
    return 1;
}

int pst_launch_elastic_announce(launcher *l, const uint8_t *alive, uint64_t lost_ns) {
    launch_elastic *e = l->elastic;
    if (!pst_elastic_announce(e->page, alive, lost_ns)) return 0;
    l->page = e->heartbeat[atomic_load(&e->page->epoch)];
    return 1;
}

/* To the starting launcher, which announces epochs on all hosts. */
static void report(const launcher *l) {
    const launch_elastic *e = l->elastic;
    for (uint32_t i = l->own_from; i < l->own_to; i++)
        if (e->lost[i])
            pst_launch_host_report("lost %u %" PRIu64, i, pst_monotonic_ns() - e->lost_ns);
}

void pst_launch_elastic_watch(launcher *l) {
    launch_elastic *e = l->elastic;
    if (!e) return;
    if (l->ending) {
        uint32_t runs = PST_ELASTIC_RUNS;
        atomic_compare_exchange_strong(&e->page->end, &runs, PST_ELASTIC_ENDING);
        return;
    }
    kill_silent(l);
    kill_late(l);
    uint32_t any = 0;
    for (uint32_t i = 0; i < l->n; i++) any += e->lost[i];
    if (!any || !all_are_gone(l)) return;
    if (l->hosts) report(l);
    else if (!pst_launch_elastic_announce(l, e->alive, e->lost_ns)) return;
    memset(e->lost, 0, sizeof e->lost);
    e->lost_ns = 0;
}

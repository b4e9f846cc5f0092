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
enum { SAVE_TRIES = 3 }; /* a process that is to save may be killed as well */

/* Each epoch has a page of its own: ranks of the last one may still write their lines. */
pst_status pst_launch_elastic_open(launcher *l) {
    launch_elastic *e = l->elastic;
    if (l->hosts) {
        e->page = l->hosts->page;
        e->fd = l->hosts->page_fd;
    } else {
        const pst_elastic_start start = {.slots = l->n,
                                         .processes = e->job->ranks + e->job->spares,
                                         .ranks = e->job->ranks,
                                         .ranks_of = e->job->ranks_of};
        PST_TRY(pst_elastic_open(&start, &e->fd, &e->page));
    }
    memset(e->alive, 1, e->job->ranks + e->job->spares);
    return pst_heartbeat_page_add(e->page->heartbeat_fd, l->n, 0, &l->page);
}

void pst_launch_elastic_close(launcher *l) {
    pst_heartbeat_page_close(l->page);
    /* threads may still give memory out, until this process ends */
    if (!l->hosts) pst_elastic_close(l->elastic->page, l->elastic->fd);
}

pst_status pst_launch_elastic_start(launcher *l, uint32_t slot) {
    launch_elastic *e = l->elastic;
    e->page->first[slot] = atomic_load(&e->page->epoch) + 1;
    atomic_store(&e->page->waits[slot], 0);
    atomic_store(&e->page->leaves[slot], 0);
    memset(&l->rank[slot], 0, sizeof l->rank[slot]);
    PST_TRY(pst_launch_start(l, slot));
    e->alive[slot] = 1;
    return PST_OK;
}

int pst_launch_elastic_done(const launcher *l) {
    return l->elastic && atomic_load(&l->elastic->page->end) == PST_ELASTIC_DONE;
}

static uint32_t living_without(const launcher *l, uint32_t rank) {
    uint32_t living = 0;
    for (uint32_t i = 0; i < l->n; i++) living += i != rank && l->elastic->alive[i];
    return living;
}

/* Whether a state of the run exists that can be saved when too few processes are left. With
 * several hosts one of these saves, once, if it finds all parts of the state. */
static int can_save(const launcher *l, uint32_t left) {
    uint32_t epoch;
    uint64_t number;
    const launch_elastic *e = l->elastic;
    if (!atomic_load(&e->page->has_folder) ||
        atomic_load(&e->page->epoch) + 1 >= PST_ELASTIC_EPOCHS)
        return 0;
    if (l->hosts) return left && !e->save_tries;
    return e->save_tries < SAVE_TRIES && pst_elastic_newest(e->page, &epoch, &number);
}

/* Whether the others can go on without one more process, or can save the state (*saves). After a
 * signal to stop only without one that has left by itself before: the others save then. */
static int can_lose(const launcher *l, uint32_t rank, int left, int *saves) {
    const launch_elastic *e = l->elastic;
    *saves = 0;
    if (!e || l->ending || (l->last_signal && !left) || l->interrupts > 1) return 0;
    if (!e->saves && pst_elastic_ranks(e->page, living_without(l, rank))) return 1;
    *saves = can_save(l, living_without(l, rank));
    return *saves;
}

static const char *what_follows(int saves) {
    return saves ? "too few are left, so the last step is saved" : "the other ranks go on";
}

/* The process that saves: the lowest one that lives and is not to leave; l->n: there is none. */
static uint32_t saver_of(const launcher *l) {
    const launch_elastic *e = l->elastic;
    uint32_t i = 0;
    while (i < l->n && (!e->alive[i] || atomic_load(&e->page->leaves[i]))) i++;
    return i;
}

/* Without a process that lives, another one is started. */
static void want_save(launcher *l) {
    launch_elastic *e = l->elastic;
    uint32_t slot = 0;
    e->saves = SAVE_WANTED;
    if (saver_of(l) < l->n) return;
    while (slot < l->n && l->rank[slot].pid) slot++;
    if (slot == l->n || pst_launch_elastic_start(l, slot) == PST_OK) return;
    pst_launch_print("%s", pst_error());
    pst_error_clear();
}

/* Ranks that wait for this one see the fault of the page. Processes without a rank are not missed.
 */
int pst_launch_elastic_lose(launcher *l, uint32_t rank, int left, const char *what) {
    int saves;
    if (!can_lose(l, rank, left, &saves)) return 0;
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
        pst_launch_print("rank %u on %s %s during %s; %s", number, l->host, what,
                         pst_heartbeat_page_where(l->page, rank, where, sizeof where),
                         what_follows(saves));
    if (saves && !l->hosts) want_save(l);
    pst_heartbeat_page_mark_dead(l->page, rank);
    return 1;
}

/* The last sign of life of a rank that does not end by itself: when it was stopped, or began its
 * last instruction; for one that has not joined the others, when they began to wait. */
static uint64_t last_sign_ns(const launcher *l, uint32_t rank) {
    const uint64_t since = PST_POSITION_GET(pst_page_position(l->page, rank), since_ns);
    const uint64_t now = pst_monotonic_ns(), late = l->elastic->late_ns;
    if (l->rank[rank].stopped_ns) return l->rank[rank].stopped_ns;
    if (since) return since < now ? since : now;
    return pst_heartbeat_page_absent(l->page, rank) && late ? late : now;
}

int pst_launch_elastic_kill(launcher *l, uint32_t rank, const char *what) {
    rank_process *r = &l->rank[rank];
    char where[64];
    int saves;
    if (!l->elastic || !r->pid) return 0;
    if (r->lost) return 1;
    if (!can_lose(l, rank, 0, &saves)) return 0;
    const uint32_t number =
        pst_elastic_rank(l->elastic->page, atomic_load(&l->elastic->page->epoch), rank);
    pst_launch_print("rank %u on %s %s during %s; %s", number, l->host, what,
                     pst_heartbeat_page_where(l->page, rank, where, sizeof where),
                     what_follows(saves));
    r->lost = 1;
    if (!l->elastic->lost_ns) l->elastic->lost_ns = last_sign_ns(l, rank);
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
    int saves;
    if (!l->elastic) return 0;
    if (l->rank[rank].lost || !l->elastic->alive[rank]) return 1;
    if (can_lose(l, rank, 0, &saves)) pst_launch_print("%s", verdict);
    return pst_launch_elastic_kill(l, rank, "was killed");
}

int pst_launch_elastic_left(launcher *l, uint32_t process) {
    launch_elastic *e = l->elastic;
    if (!e || pst_launch_elastic_has_rank(l, process)) return 0;
    if (atomic_load(&e->page->waits[process]) && !atomic_load(&e->page->leaves[process])) return 0;
    e->alive[process] = 0;
    return 1;
}

/* 1: no rank that was killed is still to be reaped: a process that is not gone may write into the
 * memory of others. */
static int all_are_gone(const launcher *l) {
    for (uint32_t i = 0; i < l->n; i++)
        if (l->rank[i].lost && l->rank[i].pid) return 0;
    return 1;
}

/* stays: NULL: announces an epoch after a loss. */
static int announce(launcher *l, const uint8_t *alive, const uint8_t *stays, uint64_t lost_ns) {
    launch_elastic *e = l->elastic;
    const uint32_t next = atomic_load(&e->page->epoch) + 1;
    pst_heartbeat_page *page;
    if (next >= PST_ELASTIC_EPOCHS) return 0;
    if (pst_heartbeat_page_add(e->page->heartbeat_fd, l->n, next, &page) != PST_OK) return 0;
    const int done =
        stays ? pst_elastic_change(e->page, stays) : pst_elastic_announce(e->page, alive, lost_ns);
    pst_heartbeat_page_close(done ? l->page : page);
    if (!done) return 0;
    l->page = page;
    e->freed = 0;
    return 1;
}

int pst_launch_elastic_change(launcher *l, const uint8_t *stays) {
    return announce(l, NULL, stays, 0);
}

int pst_launch_elastic_announce(launcher *l, const uint8_t *alive, uint64_t lost_ns) {
    return announce(l, alive, NULL, lost_ns);
}

/* To the starting launcher, which announces epochs on all hosts. */
static void report(const launcher *l) {
    const launch_elastic *e = l->elastic;
    for (uint32_t i = l->own_from; i < l->own_to; i++)
        if (e->lost[i])
            pst_launch_host_report("lost %u %" PRIu64, i, pst_monotonic_ns() - e->lost_ns);
}

void pst_launch_elastic_save(launcher *l, uint32_t saver, uint32_t alive) {
    launch_elastic *e = l->elastic;
    pst_heartbeat_page *page;
    const uint32_t next = atomic_load(&e->page->epoch) + 1;
    if (pst_heartbeat_page_add(e->page->heartbeat_fd, l->n, next, &page) != PST_OK) return;
    pst_elastic_save(e->page, saver, alive);
    pst_heartbeat_page_close(l->page);
    l->page = page;
    e->saves = SAVE_BEGUN;
    e->save_tries++;
    for (uint32_t i = 0; i < l->n; i++)
        if (e->alive[i] && i != saver) atomic_store(&e->page->leaves[i], 1);
}

/* The lowest living process saves; the others leave. */
static void begin_save(launcher *l) {
    const uint32_t saver = saver_of(l);
    if (saver == l->n) return;
    const int fresh = l->elastic->page->first[saver] == atomic_load(&l->elastic->page->epoch) + 1;
    pst_launch_elastic_save(l, saver, fresh ? 0 : living_without(l, UINT32_MAX));
}

static void announce_loss(launcher *l) {
    launch_elastic *e = l->elastic;
    uint32_t any = 0;
    for (uint32_t i = 0; i < l->n; i++) any += e->lost[i];
    if (!any || !all_are_gone(l)) return;
    if (l->hosts) report(l);
    else if (e->saves) begin_save(l);
    else if (!pst_launch_elastic_announce(l, e->alive, e->lost_ns)) return;
    memset(e->lost, 0, sizeof e->lost);
    e->lost_ns = 0;
}

/* The memory of processes that have ended is kept until the others have read it; with several
 * hosts, until the job ends. */
static void free_slots(launcher *l) {
    launch_elastic *e = l->elastic;
    if (e->freed || l->hosts || e->saves || !pst_elastic_has_state(e->page)) return;
    for (uint32_t i = 0; i < l->n; i++)
        if (!l->rank[i].pid) pst_elastic_free_slot(e->page, i);
    e->freed = 1;
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
    announce_loss(l);
    free_slots(l);
}

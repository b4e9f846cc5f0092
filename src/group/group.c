/* See group.h. */
#define PST_GROUP_C /* calls within this file keep the source line of the outer call */
#include "group/group.h"
#include "rank/exchange_device.h"
#include "base/clock.h"
#include "comm/world/world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* LINGER: how long a failed rank keeps its memory mapped for its peers and waits for another rank's
 * report. BLAME: how long a rank waits, after it has lost a link, for the launcher to name the rank
 * that failed. */
enum { LINGER_NS = 100000000, BLAME_NS = 200000000 };

/* The status of one rank, with its message. */
struct pst_group_verdict {
    uint32_t status;
    char message[1020];
};
typedef struct pst_group_verdict verdict;

static pst_status connect_processes(pst_group *g, const char *transport) {
    const pst_transport_ops *ops;
    PST_TRY(pst_registry_transport(transport, g->world, &ops));
    PST_TRY(pst_heartbeat_open(g->world, &g->heartbeat));
    PST_TRY(ops->open(g->world, NULL, &g->transport));
    return pst_world_hosts(g->world, g->host);
}

pst_status pst_group_open(pst_world *world, const char *transport, uint32_t n_rank,
                          pst_group **group) {
    pst_group *g = calloc(1, sizeof *g);
    if (!g) return pst_fail(PST_ENOMEM, "no memory for a group of ranks");
    int alone = world->size == 1;
    g->world = world;
    g->n_rank = n_rank;
    g->n_local = alone ? n_rank : 1;
    g->leader = world->rank == 0;
    g->local = calloc(g->n_local, sizeof *g->local);
    g->executor = calloc(g->n_local, sizeof *g->executor);
    g->verdict = calloc(n_rank, sizeof *g->verdict);
    g->number = calloc(n_rank, sizeof *g->number);
    g->position = calloc(n_rank, sizeof *g->position);
    g->host = calloc(n_rank > world->size ? n_rank : world->size, sizeof *g->host);
    pst_status status = g->local && g->executor && g->verdict && g->number && g->position && g->host
                            ? PST_OK
                            : pst_fail(PST_ENOMEM, "no memory for %u ranks", n_rank);
    if (status == PST_OK)
        status = alone ? pst_self_hub_open(n_rank, NULL, &g->hub) : connect_processes(g, transport);
    if (status != PST_OK) {
        g->world = NULL; /* not owned by the group */
        pst_group_close(g, status);
        return status;
    }
    *group = g;
    return PST_OK;
}

/* Sets up PENSTOCK_FAULT. If our launcher started the ranks, all have the same value, so only one
 * prints an error in it. Lack of memory concerns this rank only. */
static pst_status inject(pst_group *g, uint32_t rank, pst_transport **t) {
    pst_inject *fault;
    pst_status status = pst_inject_open(rank, g->n_rank, &fault);
    if (status == PST_EINPUT && g->world->launched_by_us)
        return pst_group_agree_world(g->world, status);
    if (status != PST_OK) return status;
    if (!fault) return PST_OK;
    g->inject = fault;
    *t = pst_inject_wrap(fault, *t);
    if (!g->hub) g->transport = *t;
    return PST_OK;
}

pst_status pst_group_watch_self(pst_group *g, const pst_prepared *p) {
    pst_world *w = g->world;
    if (g->hub) return PST_OK;
    return pst_group_agree(
        g, pst_self_watch_open(p, g->heartbeat, w->rank, w->host, !w->launched_by_us, &g->self));
}

/* Notifies the others that this rank has failed: through the world if it has `check`; our own
 * launcher notices by itself; any other launcher is asked to end the job, because some launchers
 * would let the remaining ranks wait for ever. That may end this process at once, so the reason is
 * printed first. */
static void give_up(pst_group *g, pst_status status) {
    if (g->heartbeat) pst_heartbeat_fail(g->heartbeat);
    if (g->transport) g->transport->ops->abort(g->transport);
    if (!g->world || !g->transport) return;
    if (g->world->ops->check) g->world->ops->abort(g->world, pst_status_exit(status), pst_error());
    int others_say = g->heartbeat && pst_heartbeat_accused(g->heartbeat);
    if (others_say) pst_error_clear();
    if (g->world->launched_by_us || others_say) {
        /* peers may be reading this rank's memory */
        nanosleep(&(struct timespec){.tv_nsec = LINGER_NS}, NULL);
    } else if (!pst_group_error_is_common() && pst_error()[0]) {
        fprintf(stderr, "penstock: rank %u: %s\n", g->world->rank, pst_error());
        g->world->ops->abort(g->world, pst_status_exit(status), pst_error());
        pst_error_clear();
    }
}

void pst_group_close(pst_group *g, pst_status status) {
    if (!g) return;
    if (status != PST_OK) give_up(g, status);
    for (uint32_t i = 0; g->local && i < g->n_local; i++) pst_rank_close(g->local[i]);
    pst_self_watch_close(g->self);
    pst_hang_close(g->hang);
    if (g->transport) g->transport->ops->close(g->transport);
    pst_inject_close(g->inject);
    if (g->hub) pst_self_hub_close(g->hub);
    if (g->heartbeat) pst_heartbeat_close(g->heartbeat);
    if (g->world) g->world->ops->close(g->world);
    free(g->local);
    free(g->executor);
    free(g->verdict);
    free(g->number);
    free(g->host);
    free(g->position);
    free(g);
}

/* Also reports where a dead rank was. */
static pst_status check_heartbeat(pst_group *g) {
    uint32_t dead;
    if (g->hang && pst_heartbeat_dead(g->heartbeat, &dead))
        pst_hang_died(g->hang, dead, g->executor[0]);
    return pst_heartbeat_check(g->heartbeat);
}

static pst_status check_peers(void *arg) {
    pst_group *g = arg;
    uint32_t silent;
    if (!g->heartbeat) return PST_OK;
    pst_status status = check_heartbeat(g);
    if (status == PST_OK && g->world->ops->check) PST_TRY(g->world->ops->check(g->world));
    if (status == PST_OK) return pst_hang_check(g->hang, g->executor[0]);
    return pst_heartbeat_silent(g->heartbeat, &silent)
               ? pst_hang_silent(g->hang, silent, g->executor[0])
               : status;
}

/* A message of the wrong size is an internal error, not an error in the user's input. */
static pst_status blame_size(pst_group *g, pst_status status) {
    for (uint32_t i = 0; status == PST_EINPUT && g->hang && i < g->n_local; i++) {
        uint32_t instr = pst_executor_mismatch(g->executor[i]);
        const pst_rank *r = g->local[i];
        uint64_t message = pst_coll_mismatch(r->coll);
        if (!message && r->exchanger) message = pst_exchange_mismatch(r->exchanger);
        if (instr == PST_NONE && !message) continue;
        return pst_hang_mismatch(g->hang, g->local[i]->rank, message ? PST_NONE : instr, message);
    }
    return status;
}

/* 1 when another rank is known to have failed; this thread's message names it. */
static int others_failed(pst_group *g) {
    if (check_heartbeat(g) == PST_EPEER) return 1;
    return g->world->ops->check && g->world->ops->check(g->world) == PST_EPEER;
}

/* Finds the culprit of a failure. When a peer dies, the transport may report an error first or
 * nothing at all; heartbeat and world know which rank died. */
static pst_status blame(pst_group *g, pst_status status) {
    status = blame_size(g, status);
    if (status == PST_OK || status == PST_EINPUT || !g->heartbeat) return status;
    char message[1024];
    snprintf(message, sizeof message, "%s", pst_error());
    uint64_t until = pst_monotonic_ns() + (status == PST_EPEER ? BLAME_NS : 0);
    while (!others_failed(g)) {
        if (pst_monotonic_ns() >= until) return pst_fail(status, "%s", message);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return PST_EPEER;
}

/* After a failure no collective may start or continue. */
static pst_status break_collectives(pst_group *g, pst_status status) {
    for (uint32_t i = 0; status != PST_OK && i < g->n_local; i++) {
        pst_coll_break(g->local[i]->coll, PST_EPEER);
        if (g->local[i]->exchanger) pst_exchange_break(g->local[i]->exchanger, PST_EPEER);
        if (g->local[i]->device_exchanger)
            pst_device_exchange_break(g->local[i]->device_exchanger, PST_EPEER);
    }
    return status;
}

pst_group *pst_group_at(pst_group *g, const char *file, const char *function, uint32_t line) {
    g->file = file;
    g->function = function;
    g->line = line;
    return g;
}

void pst_group_learn(pst_group *g, const pst_report *report) {
    pst_hang_learn(g->hang, report);
    if (g->self) pst_self_watch_learn(g->self, report + g->world->rank);
}

pst_status pst_group_drive(pst_group *g) {
    pst_status status = pst_executor_drive(g->executor, g->n_local, NULL, check_peers, g);
    if (g->hub && status == PST_EINTERNAL && !strncmp(pst_error(), "deadlock", 8))
        status = pst_hang_explain(g->hang, g->executor);
    return blame(g, break_collectives(g, status));
}

pst_status pst_group_use(pst_group *g, const pst_prepared *p) {
    for (uint32_t i = 0; i < g->n_local; i++) PST_TRY(pst_rank_use(g->local[i], p));
    pst_hang_use(g->hang, p);
    if (g->self) pst_self_watch_use(g->self, p);
    return PST_OK;
}

/* --- collectives ------------------------------------------------------------------------------ */

static pst_status drive_collective(pst_group *g) {
    for (;;) {
        uint32_t busy = 0;
        for (uint32_t i = 0; i < g->n_local; i++) {
            pst_status status = pst_coll_test(g->local[i]->coll);
            if (status == PST_BUSY) busy++;
            else if (status != PST_OK) return status;
        }
        if (!busy) return PST_OK;
        PST_TRY(check_peers(g));
        if (g->transport) pst_transport_wait(g->transport, 20);
    }
}

pst_status pst_group_collective(pst_group *g, pst_coll_kind kind, void *const *mem, uint64_t bytes,
                                pst_dtype dtype, uint32_t root) {
    if (!g->hub && pst_inject_skips(g->inject)) return PST_OK;
    for (uint32_t i = 0; i < g->n_local; i++) {
        pst_coll_place(g->local[i]->coll, g->file, g->function, g->line);
        PST_TRY(pst_coll_start(g->local[i]->coll, kind, mem ? mem[i] : NULL, bytes, dtype, root));
    }
    return blame(g, break_collectives(g, drive_collective(g)));
}

pst_status pst_group_finish(pst_group *g, uint64_t request) {
    for (;;) {
        uint64_t end_ns;
        pst_status status = g->transport->ops->test(g->transport, request, &end_ns);
        if (status == PST_BUSY) status = check_peers(g);
        else return blame(g, status);
        if (status != PST_OK) return blame(g, status);
        pst_transport_wait(g->transport, 20);
    }
}

static pst_status drive_exchange(pst_group *g) {
    for (;;) {
        uint32_t busy = 0;
        for (uint32_t i = 0; i < g->n_local; i++) {
            pst_status status =
                g->local[i]->exchanger ? pst_exchange_test(g->local[i]->exchanger) : PST_OK;
            if (status == PST_BUSY) busy++;
            else if (status != PST_OK) return status;
        }
        if (!busy) return PST_OK;
        PST_TRY(check_peers(g));
        if (g->transport) pst_transport_wait(g->transport, 20);
    }
}

/* Shared memory of tensor groups; also within one process, so that sums are added in the same order
 * there. */
static pst_status share_memory(pst_group *g) {
    for (uint32_t i = 0; i < g->n_local; i++)
        if (g->local[i]->exchanger) PST_TRY(pst_exchange_share(g->local[i]->exchanger, g->host));
    return blame(g, break_collectives(g, drive_exchange(g)));
}

/* Connects devices that have a transport of their own. */
static pst_status connect_devices(pst_group *g) {
    for (uint32_t i = 0; i < g->n_local;) {
        pst_status status = pst_rank_connect(g->local[i]);
        if (status == PST_OK) i++;
        else if (status != PST_BUSY) return status;
        PST_TRY(check_peers(g));
    }
    return PST_OK;
}

pst_status pst_group_open_ranks(pst_group *g, const pst_prepared *p, int canary) {
    for (uint32_t i = 0; i < g->n_local; i++) {
        uint32_t rank = g->hub ? i : g->world->rank;
        pst_transport *t = g->hub ? pst_self_hub_endpoint(g->hub, i) : g->transport;
        pst_rank_watch watch = {.position = g->position + rank};
        if (g->heartbeat) {
            watch.last_instr = pst_heartbeat_instr(g->heartbeat);
            watch.position = pst_heartbeat_position(g->heartbeat, rank);
        }
        PST_TRY(inject(g, rank, &t));
        PST_TRY(pst_rank_open(p, rank, t, canary, &watch, &g->local[i]));
        PST_TRY(pst_coll_hosts(g->local[i]->coll, g->host));
        g->executor[i] = g->local[i]->executor;
    }
    pst_position *own = g->heartbeat ? NULL : g->position;
    PST_TRY(pst_hang_open(p, g->heartbeat, own, g->world->rank, g->world->host, &g->hang));
    PST_TRY(share_memory(g));
    return blame(g, connect_devices(g));
}

pst_status pst_group_broadcast(pst_group *g, void *mem, uint64_t bytes, uint32_t root) {
    if (g->hub) return PST_OK; /* all ranks are in this process and share the buffer */
    return pst_group_collective(g, PST_COLL_BROADCAST, &mem, bytes, PST_F32, root);
}

pst_status pst_group_all_gather(pst_group *g, const void *mine, uint64_t bytes, void *all) {
    if (g->hub) {
        memcpy(all, mine, g->n_local * bytes);
        return PST_OK;
    }
    memcpy((uint8_t *)all + g->world->rank * bytes, mine, bytes);
    return pst_group_collective(g, PST_COLL_ALL_GATHER, &all, bytes, PST_F32, 0);
}

pst_status pst_group_numbers(pst_group *g, uint64_t mine, const uint64_t **all) {
    for (uint32_t r = 0; g->hub && r < g->n_rank; r++) g->number[r] = mine;
    if (!g->hub) PST_TRY(pst_group_all_gather(g, &mine, sizeof mine, g->number));
    *all = g->number;
    return PST_OK;
}

static _Thread_local char agreed[sizeof((verdict *)0)->message];

static verdict verdict_of(pst_status status) {
    verdict v = {.status = status};
    agreed[0] = 0;
    if (status != PST_OK) snprintf(v.message, sizeof v.message, "%s", pst_error());
    return v;
}

static pst_status adopt(const verdict *v) {
    snprintf(agreed, sizeof agreed, "%s", v->message);
    return pst_fail((pst_status)v->status, "%s", v->message);
}

int pst_group_error_is_common(void) { return agreed[0] && !strcmp(agreed, pst_error()); }

pst_status pst_group_agree(pst_group *g, pst_status mine) {
    if (g->hub) return mine;
    verdict own = verdict_of(mine);
    PST_TRY(pst_group_all_gather(g, &own, sizeof own, g->verdict));
    for (uint32_t r = 0; r < g->n_rank; r++)
        if (g->verdict[r].status != PST_OK) return adopt(&g->verdict[r]);
    return PST_OK;
}

pst_status pst_group_agree_world(pst_world *w, pst_status mine) {
    char key[40];
    if (w->size == 1) return mine;
    /* a different key for each call, because values stay stored under their key */
    snprintf(key, sizeof key, "penstock.verdict.%u", w->verdicts++);
    verdict own = verdict_of(mine);
    pst_status status = w->ops->put(w, key, &own, sizeof own);
    if (status == PST_OK) status = w->ops->fence(w);
    for (uint32_t r = 0; status == PST_OK && r < w->size; r++) {
        verdict *theirs = NULL;
        size_t bytes = 0;
        status = w->ops->get(w, r, key, (void **)&theirs, &bytes);
        if (status == PST_OK && bytes == sizeof *theirs && theirs->status != PST_OK)
            status = adopt(theirs);
        free(theirs);
    }
    return status;
}

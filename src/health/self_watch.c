/* See self_watch.h. */
#include "health/self_watch.h"
#include "base/clock.h"
#include "comm/collective/collective.h"
#include "health/process_state.h"
#include "pipeline/execute/suspect.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As in hang.c: the most that one tick adds to the running time; how long a rank must sleep where
 * it should compute; factor on modelled durations until a step was measured. */
#define AWAKE_NS UINT64_C(100000000)
#define QUIET_NS UINT64_C(300000000)
enum { UNMEASURED = 10, PLACE = 256, LINE = 1000 };

struct pst_self_watch {
    const pst_prepared *p;
    pst_heartbeat *heartbeat;
    pst_position *own;
    const char *host;
    uint32_t rank;
    int leaves, accused;
    uint64_t slack_ns;
    _Atomic uint64_t mean_ns[PST_OP_COUNT]; /* mean durations of measured steps; 0: none yet */
    _Atomic(const pst_prepared *) current;  /* whose lists run */
    /* Used by the heartbeat thread only: */
    pst_suspect_scene scene; /* with this rank only */
    uint64_t moves, polls, last_ns, suspect_ns, quiet_ns;
    int has_state;
    pst_process_state first, last;
};

void pst_self_watch_use(pst_self_watch *w, const pst_prepared *p) {
    atomic_store_explicit(&w->current, p, memory_order_relaxed);
}

void pst_self_watch_learn(pst_self_watch *w, const pst_report *report) {
    for (int op = 0; w && op < PST_OP_COUNT; op++) {
        uint64_t mean = atomic_load_explicit(&w->mean_ns[op], memory_order_relaxed),
                 now = report->op_ns[op];
        atomic_store_explicit(&w->mean_ns[op], now > mean ? now : mean - (mean - now) / 8,
                              memory_order_relaxed);
    }
}

static uint64_t expected_ns(const pst_self_watch *w, const pst_position_view *at) {
    const pst_job *job = w->scene.job[at->train != 0];
    if (at->activity != PST_AT_COMPUTE || !job || at->instr >= job->list[w->rank].n_instr) return 0;
    const pst_instr *in = job->list[w->rank].instr + at->instr;
    uint64_t mean = atomic_load_explicit(&w->mean_ns[in->opcode], memory_order_relaxed);
    return mean ? mean : in->ns * UNMEASURED;
}

static const char *coll_name(uint32_t kind) { return pst_coll_name((pst_coll_kind)kind); }

static void accuse(pst_self_watch *w, int asleep, uint64_t limit_ns) {
    char place[PLACE], line[LINE];
    pst_suspect_where(&w->scene, w->rank, coll_name, place, sizeof place);
    snprintf(line, sizeof line, "rank %u on %s hangs (%s) during %s for %.2f s (limit %.2f s)",
             w->rank, w->host, asleep ? "asleep" : "computing", place, (double)w->suspect_ns * 1e-9,
             (double)limit_ns * 1e-9);
    w->accused = 1;
    pst_heartbeat_accuse(w->heartbeat, w->rank, 1, line);
    if (!w->leaves) return;
    fprintf(stderr, "penstock: %s\n", line);
    _exit(pst_status_exit(PST_EPEER)); /* its connections close, and the other ranks notice */
}

/* Time counts only while this thread ran, and a rank that could run if it had a processor is not
 * accused. */
static void check_limits(pst_self_watch *w, const pst_position_view *at, uint64_t passed_ns) {
    pst_process_state state;
    uint64_t limit =
        (uint64_t)((double)expected_ns(w, at) * w->p->config->train.hang_factor) + w->slack_ns;
    if (!pst_process_state_read(w->own, &state)) return;
    if (!w->has_state) {
        w->has_state = 1;
        w->quiet_ns = 0;
        w->first = w->last = state;
    } else if (state.can_run || state.ns != w->last.ns) {
        w->quiet_ns = 0;
        w->last = state;
    } else {
        w->quiet_ns += passed_ns;
    }
    if (w->suspect_ns < limit) return;
    int asleep = w->quiet_ns >= QUIET_NS, threads = (int)w->p->options.threads;
    if (asleep || state.main_ns - w->first.main_ns >= limit ||
        state.ns - w->first.ns >= limit * (uint64_t)threads)
        accuse(w, asleep, limit);
}

static void tick(void *arg) {
    pst_self_watch *w = arg;
    pst_suspect_rank *me = &w->scene.rank[w->rank];
    uint64_t now = pst_monotonic_ns(), passed = now - w->last_ns;
    w->last_ns = now;
    if (passed > AWAKE_NS) passed = AWAKE_NS;
    if (w->accused || !pst_position_read(w->own, &me->at)) return;
    const pst_prepared *p = atomic_load_explicit(&w->current, memory_order_relaxed);
    w->scene.job[1] = p->job;
    w->scene.cut[1] = p->cut;
    me->known = 1;
    int waits = me->at.activity != PST_AT_COMPUTE;
    if (me->at.moves != w->moves || me->at.activity == PST_AT_HOST ||
        (waits && me->at.polls != w->polls)) {
        w->moves = me->at.moves;
        w->polls = me->at.polls;
        w->suspect_ns = 0;
        w->has_state = 0;
        return;
    }
    w->suspect_ns += passed;
    if (w->suspect_ns >= w->slack_ns / 2) check_limits(w, &me->at, passed);
}

pst_status pst_self_watch_open(const pst_prepared *p, pst_heartbeat *heartbeat, uint32_t rank,
                               const char *host, int leaves, pst_self_watch **watch) {
    *watch = NULL;
    if (!heartbeat || pst_heartbeat_ranks(heartbeat) >= p->options.n_rank ||
        p->config->train.hang_slack <= 0)
        return PST_OK;
    pst_self_watch *w = calloc(1, sizeof *w);
    pst_suspect_rank *ranks = calloc(p->options.n_rank, sizeof *ranks);
    if (!w || !ranks) {
        free(w);
        free(ranks);
        return pst_fail(PST_ENOMEM, "no memory to watch rank %u", rank);
    }
    w->p = p;
    pst_self_watch_use(w, p);
    w->heartbeat = heartbeat;
    w->rank = rank;
    w->host = host;
    w->leaves = leaves;
    w->own = pst_heartbeat_position(heartbeat, rank);
    w->slack_ns = (uint64_t)(p->config->train.hang_slack * 1e9);
    w->scene = (pst_suspect_scene){.n_rank = p->options.n_rank,
                                   .group = p->grid.tensor,
                                   .rank = ranks,
                                   .job = {p->eval_job, p->job},
                                   .cut = {p->eval_cut, p->cut}};
    w->last_ns = pst_monotonic_ns();
    *watch = w;
    if (w->own) pst_heartbeat_on_tick(heartbeat, tick, w);
    return PST_OK;
}

void pst_self_watch_close(pst_self_watch *w) {
    if (!w) return;
    pst_heartbeat_on_tick(w->heartbeat, NULL, NULL);
    free(w->scene.rank);
    free(w);
}

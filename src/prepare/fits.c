/* Whether every rank of what was prepared fits in memory, and if not, which one change of the run
 * would do. The run is as it was asked for, but for that; src/planning/change.c answers for a
 * search, which chooses the rest anew for every change and counts by its tables. */
#include "prepare/layout.h"
#include "base/bytes.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 64 }; /* of the advice */

typedef struct {
    const pst_prepared *p;
    uint64_t limit;
    int planned; /* a plan says how it lies */
    char text[192];
} advice;

/* --- one change ------------------------------------------------------------------------------- */

/* A plan's keys cannot be changed one by one. */
static const char *where(const advice *a) { return a->planned ? "in a new plan, " : ""; }

/* One for all chunks, where all have the same: a change may bring other chunks. */
static void merge_recompute(pst_layout *l) {
    for (uint32_t c = 1; c < l->n_recompute; c++)
        if (l->recompute[c] != l->recompute[0]) return;
    l->n_recompute = l->n_recompute ? 1 : 0;
}

/* As the run lies, without a cut; 0: no memory. */
static int lay_out(const advice *a, pst_layout *l) {
    pst_layout same = a->p->plan->layout; /* shallow: only read below */
    same.n_chunk = same.n_item = 0;
    same.first_item = same.rank_of_chunk = NULL;
    if (!a->p->config->parallel.n_replicas) same.micros = NULL; /* shared out by speed */
    if (pst_layout_copy(&same, l) != PST_OK) return 0;
    merge_recompute(l);
    return 1;
}

/* How the run would lie on so many ranks; 0: it cannot. */
static int lay_out_on(const advice *a, uint32_t n_rank, pst_layout *l) {
    pst_prepare_options options = a->p->options;
    if (n_rank == options.n_rank) return lay_out(a, l);
    options.n_rank = n_rank;
    return pst_prepare_layout(a->p->config, &options, l) == PST_OK;
}

/* What was measured is of the run's own micro-batches. */
static pst_status prepare(const advice *a, const pst_layout *l, pst_prepared **other) {
    pst_config config = *a->p->config; /* shallow: only read below */
    pst_prepare_options options = a->p->options;
    if (l->micro_batch != config.train.micro_batch)
        config.parallel.measured = (char *)(uintptr_t) "";
    options.layout = l;
    options.n_rank = pst_grid_size(pst_layout_grid(l));
    options.n_eval_micro = l->n_micro;
    return pst_prepare(&config, &options, other);
}

/* Whether it fits when it lies like that; the layout is closed. */
static int fits(const advice *a, pst_layout *l) {
    pst_prepared *other;
    uint32_t rank;
    pst_status status = prepare(a, l, &other);
    pst_layout_close(l);
    if (status != PST_OK) return 0;
    int excess = pst_prepare_excess(other, a->limit, &rank) != 0;
    pst_prepared_close(other);
    return !excess;
}

/* 0: the run file says how many micro-batches each replica has. */
static int set_micro_batch(const advice *a, pst_layout *l, uint32_t micro_batch) {
    if (l->micro_batch == micro_batch) return 1;
    if (l->micros && !a->planned) return 0;
    free(l->micros);
    l->micros = NULL;
    l->micro_batch = micro_batch;
    l->n_micro = (uint32_t)(a->p->config->train.batch / micro_batch);
    return 1;
}

/* --- changes, in the order of what they cost in speed; 1: it would fit, and a->text says so --- */

/* ZeRO: optimizer states shared out among replicas, which costs nothing (1), gradients, too (2). */
static int share_out(advice *a, uint32_t zero) {
    pst_layout l;
    if (a->p->grid.data == 1 || a->p->plan->layout.zero >= zero || !lay_out(a, &l)) return 0;
    l.zero = zero;
    if (!fits(a, &l)) return 0;
    snprintf(a->text, sizeof a->text, "%sparallel.zero=%u would fit", where(a), zero);
    return 1;
}

static int reschedule(advice *a) {
    const pst_config *c = a->p->config;
    uint32_t n;
    const pst_schedule_row *row = pst_schedule_rows(&n), *own = NULL;
    pst_layout l;
    if (pst_schedule_find(a->p->plan->layout.schedule, &own) != PST_OK) return 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!row[i].saves_memory || row + i == own || !lay_out(a, &l)) continue;
        snprintf(l.schedule, sizeof l.schedule, "%s", row[i].name);
        l.chunks = 0;
        if (!fits(a, &l)) continue;
        snprintf(a->text, sizeof a->text, "%sparallel.schedule=%s%s would fit", where(a),
                 row[i].name, c->parallel.chunks && !a->planned ? " with parallel.chunks=0" : "");
        return 1;
    }
    return 0;
}

static int recompute(advice *a) {
    pst_layout l;
    for (uint8_t way = PST_RECOMPUTE_SELECTIVE; way <= PST_RECOMPUTE_FULL; way++) {
        if (!lay_out(a, &l)) continue;
        l.n_recompute = 1; /* there is room: a list has one item at least */
        l.recompute[0] = way;
        if (!fits(a, &l)) continue;
        snprintf(a->text, sizeof a->text, "%sparallel.recompute=%s would fit", where(a),
                 pst_recompute_name((pst_recompute)way));
        return 1;
    }
    return 0;
}

/* Ranks and samples of a micro-batch. */
static int fits_sized(const advice *a, uint32_t n_rank, uint32_t micro_batch) {
    pst_layout l;
    if (!lay_out_on(a, n_rank, &l)) return 0;
    if (set_micro_batch(a, &l, micro_batch)) return fits(a, &l);
    pst_layout_close(&l);
    return 0;
}

static int shrink_micro_batch(advice *a) {
    for (uint32_t micro = a->p->plan->layout.micro_batch - 1; micro >= 1; micro--) {
        if (a->p->config->train.batch % micro || !fits_sized(a, a->p->options.n_rank, micro))
            continue;
        snprintf(a->text, sizeof a->text, "%strain.micro_batch=%u would fit", where(a), micro);
        return 1;
    }
    return 0;
}

static int add_ranks(advice *a) {
    const pst_prepared *p = a->p;
    const int fixed = p->config->parallel.pipeline != 0; /* then -n alone would be refused */
    const uint32_t micro_batch = p->plan->layout.micro_batch;
    for (uint32_t n = p->options.n_rank + 1; n <= MOST_RANKS && n <= p->graph->n_node;
         n += n < 16 ? 1 : n / 2)
        for (int one = 0; one < 2; one++) {
            if (!fits_sized(a, n, one ? 1 : micro_batch)) continue;
            snprintf(a->text, sizeof a->text, "%s%s%u%s would fit, with as much memory for each",
                     where(a), fixed ? "parallel.pipeline=" : "-n ",
                     fixed ? n / pst_prepare_lanes(p->config) : n,
                     one ? " and train.micro_batch=1" : "");
            return 1;
        }
    return 0;
}

/* The cheapest change that brings every rank under the limit. */
static void suggest(advice *a) {
    if (share_out(a, 1) || reschedule(a) || share_out(a, 2) || recompute(a) ||
        shrink_micro_batch(a) || add_ranks(a))
        return;
    snprintf(a->text, sizeof a->text,
             "no schedule, recomputation, micro-batch or number of ranks up to %d would fit",
             MOST_RANKS);
}

/* --- what is said ----------------------------------------------------------------------------- */

static const char *scaled(uint64_t bytes, char text[PST_BYTES_TEXT]) {
    return pst_bytes_text(bytes, PST_BYTES, PST_TIB, 1, text);
}

pst_status pst_prepare_fits(const pst_prepared *p, uint64_t limit) {
    uint32_t rank = 0;
    char needs[32], may[32];
    advice a = {.p = p, .limit = limit, .planned = *p->config->parallel.plan != 0};
    if (!pst_prepare_excess(p, limit, &rank)) return PST_OK;
    uint64_t total = p->memory[rank]->total, room = pst_prepare_room(p, limit, rank);
    suggest(&a);
    if (!strcmp(scaled(total, needs), scaled(room, may))) {
        snprintf(needs, sizeof needs, "%" PRIu64 " bytes", total);
        snprintf(may, sizeof may, "%" PRIu64, room);
    }
    return pst_fail(PST_ENOMEM, "rank %u needs %s but may use %s; %s", rank, needs, may, a.text);
}

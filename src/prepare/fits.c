/* Checks whether every rank fits in memory; if not, finds the change of one key that fits while all
 * other keys keep their values. (src/planning/change.c does this for a search, where all other open
 * keys are chosen again.) */
#include "prepare/layout.h"
#include "base/bytes.h"
#include "graph/layers.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 64 }; /* largest number of ranks to suggest */

typedef struct {
    const pst_prepared *p;
    uint64_t limit;
    int planned;        /* 1: the layout is a plan's */
    uint32_t staleness; /* instead of the run's */
    char text[192];
} advice;

/* --- one change ------------------------------------------------------------------------------- */

/* The keys of a plan cannot be changed one by one. */
static const char *where(const advice *a) { return a->planned ? "with a new plan, " : ""; }

/* Replaces equal modes for each chunk by one mode for all, because a change may change the number
 * of chunks. */
static void merge_recompute(pst_layout *l) {
    for (uint32_t c = 1; c < l->n_recompute; c++)
        if (l->recompute[c] != l->recompute[0]) return;
    l->n_recompute = l->n_recompute ? 1 : 0;
}

/* The run's layout without its cut; 0: no memory. */
static int layout_of(const advice *a, pst_layout *l) {
    pst_layout same = a->p->plan->layout; /* shallow: only read below */
    same.n_chunk = same.n_item = 0;
    same.first_item = same.rank_of_chunk = NULL;
    if (!a->p->config->parallel.n_replicas) same.micros = NULL; /* by speed */
    if (pst_layout_copy(&same, l) != PST_OK) return 0;
    merge_recompute(l);
    return 1;
}

/* The run's layout on n_rank ranks; 0: it is not possible. */
static int layout_on(const advice *a, uint32_t n_rank, pst_layout *l) {
    pst_prepare_options options = a->p->options;
    if (n_rank == options.n_rank) return layout_of(a, l);
    options.n_rank = n_rank;
    return pst_prepare_layout(a->p->config, &options, l) == PST_OK;
}

/* parallel.measured only applies to the micro-batch size of the run. */
static pst_status prepare(const advice *a, const pst_layout *l, pst_prepared **other) {
    pst_config config = *a->p->config; /* shallow: only read below */
    pst_prepare_options options = a->p->options;
    if (l->micro_batch != config.train.micro_batch)
        config.parallel.measured = (char *)(uintptr_t) "";
    config.parallel.staleness = a->staleness;
    options.layout = l;
    options.n_rank = pst_grid_size(pst_layout_grid(l));
    options.n_eval_micro = l->n_micro;
    return pst_prepare(&config, &options, other);
}

/* Whether the layout fits; closes it. */
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

/* Returns 0 if not possible, because the run file gives the micro-batches of each replica. */
static int set_micro_batch(const advice *a, pst_layout *l, uint32_t micro_batch) {
    if (l->micro_batch == micro_batch) return 1;
    if (l->micros && !a->planned) return 0;
    free(l->micros);
    l->micros = NULL;
    l->micro_batch = micro_batch;
    pst_layout_divide(l, (uint64_t)a->p->config->train.batch);
    return 1;
}

/* --- changes in the order of their cost; each returns 1 and sets a->text if the layout fits
 * ----- */

/* ZeRO stage 1 shards the optimizer state among replicas, which costs no time; stage 2 also
 * gradients. */
static int shard(advice *a, uint32_t zero) {
    pst_layout l;
    if (a->p->grid.data == 1 || a->p->plan->layout.zero >= zero || !layout_of(a, &l)) return 0;
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
        if (!row[i].saves_memory || row + i == own || !layout_of(a, &l)) continue;
        snprintf(l.schedule, sizeof l.schedule, "%s", row[i].name);
        l.chunks = 0;
        if (!fits(a, &l)) continue;
        snprintf(a->text, sizeof a->text, "%sparallel.schedule=%s%s would fit", where(a),
                 row[i].name, c->parallel.chunks && !a->planned ? " with parallel.chunks=0" : "");
        return 1;
    }
    return 0;
}

/* Whether the layout fits if all chunks recompute in this way. */
static int fits_with(const advice *a, pst_recompute_way way) {
    pst_layout l;
    if (!layout_of(a, &l)) return 0;
    l.n_recompute = 1; /* allocated: the list has at least one item */
    l.recompute[0] = way;
    return fits(a, &l);
}

static uint32_t count_layers(const pst_graph *g) {
    uint32_t n = 0, *layer = malloc(g->n_node * sizeof *layer);
    if (layer) pst_graph_layers(g, layer);
    for (uint32_t i = 0; layer && i < g->n_node; i++)
        if (layer[i] != PST_NONE) n = layer[i] + 1;
    free(layer);
    return n;
}

/* The fewest layers of each chunk with which the layout fits; 0: not even with all of them. */
static uint32_t fewest_layers(const advice *a) {
    const uint32_t chunks = a->p->schedule->n_chunk, layers = count_layers(a->p->graph);
    uint32_t low = 1, high = layers ? (layers + chunks - 1) / chunks + 1 : 0;
    if (!high || !fits_with(a, pst_recompute_of_layers(high))) return 0;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (fits_with(a, pst_recompute_of_layers(middle))) high = middle;
        else low = middle + 1;
    }
    return high;
}

static int recompute(advice *a) {
    char text[PST_RECOMPUTE_TEXT];
    uint32_t layers = 0;
    if (fits_with(a, PST_RECOMPUTE_SELECTIVE)) pst_recompute_text(PST_RECOMPUTE_SELECTIVE, text);
    else if ((layers = fewest_layers(a)))
        snprintf(text, sizeof text, "{full:%u}", layers); /* one word for a shell */
    else if (fits_with(a, PST_RECOMPUTE_FULL)) pst_recompute_text(PST_RECOMPUTE_FULL, text);
    else return 0;
    snprintf(a->text, sizeof a->text, "%sparallel.recompute=%s would fit", where(a), text);
    return 1;
}

/* Whether the layout fits with n_rank ranks and micro-batches of this size. */
static int fits_sized(const advice *a, uint32_t n_rank, uint32_t micro_batch) {
    pst_layout l;
    if (!layout_on(a, n_rank, &l)) return 0;
    if (set_micro_batch(a, &l, micro_batch)) return fits(a, &l);
    pst_layout_close(&l);
    return 0;
}

static int divides_batches(const pst_config *c, uint32_t micro_batch) {
    return c->train.batch % micro_batch == 0 && c->train.batch_warmup.from % micro_batch == 0;
}

static int shrink_micro_batch(advice *a) {
    for (uint32_t micro = a->p->plan->layout.micro_batch - 1; micro >= 1; micro--) {
        if (!divides_batches(a->p->config, micro) || !fits_sized(a, a->p->options.n_rank, micro))
            continue;
        snprintf(a->text, sizeof a->text, "%strain.micro_batch=%u would fit", where(a), micro);
        return 1;
    }
    return 0;
}

static int add_ranks(advice *a) {
    const pst_prepared *p = a->p;
    /* -n alone would contradict the run file */
    const int fixed = p->config->parallel.pipeline != 0;
    const uint32_t micro_batch = p->plan->layout.micro_batch;
    for (uint32_t n = p->options.n_rank + 1; n <= MOST_RANKS && n <= p->graph->n_node;
         n += n < 16 ? 1 : n / 2)
        for (int one = 0; one < 2; one++) {
            if (!fits_sized(a, n, one ? 1 : micro_batch)) continue;
            snprintf(a->text, sizeof a->text, "%s%s%u%s would fit, with the same memory per rank",
                     where(a), fixed ? "parallel.pipeline=" : "-n ",
                     fixed ? (n - pst_prepare_servers(p->config, n)) / pst_prepare_lanes(p->config)
                           : n,
                     one ? " and train.micro_batch=1" : "");
            return 1;
        }
    return 0;
}

/* Gradients that wait for a shorter time: of as many steps as there is memory for. */
static int apply_sooner(advice *a) {
    const pst_job *job = a->p->job;
    uint32_t rank = 0;
    pst_layout l;
    const uint64_t excess = pst_prepare_excess(a->p, a->limit, &rank),
                   each = a->p->memory[rank]->set_bytes;
    const uint64_t fewer = each ? (excess + each - 1) / each : 0;
    if (!fewer || fewer >= job->staleness || !layout_of(a, &l)) return 0;
    a->staleness = job->staleness - (uint32_t)fewer;
    const int fit = fits(a, &l);
    if (fit) snprintf(a->text, sizeof a->text, "parallel.staleness=%u would fit", a->staleness);
    a->staleness = (uint32_t)a->p->config->parallel.staleness;
    return fit;
}

/* The cheapest change that brings every rank below the limit. */
static void suggest(advice *a) {
    if (apply_sooner(a) || shard(a, 1) || reschedule(a) || shard(a, 2) || recompute(a) ||
        shrink_micro_batch(a) || add_ranks(a))
        return;
    snprintf(a->text, sizeof a->text,
             "no other schedule, recomputation, micro-batch or number of ranks up to %d would fit",
             MOST_RANKS);
}

/* --- the message ------------------------------------------------------------------------------ */

static const char *scaled(uint64_t bytes, char text[PST_BYTES_TEXT]) {
    return pst_bytes_text(bytes, PST_BYTES, PST_TIB, 1, text);
}

pst_status pst_prepare_fits(const pst_prepared *p, uint64_t limit) {
    uint32_t rank = 0;
    char needs[32], may[32];
    advice a = {.p = p,
                .limit = limit,
                .planned = *p->config->parallel.plan != 0,
                .staleness = (uint32_t)p->config->parallel.staleness};
    if (!pst_prepare_excess(p, limit, &rank)) return PST_OK;
    uint64_t total = p->memory[rank]->total, usable = pst_prepare_usable_bytes(p, limit, rank);
    suggest(&a);
    if (!strcmp(scaled(total, needs), scaled(usable, may))) {
        snprintf(needs, sizeof needs, "%" PRIu64 " bytes", total);
        snprintf(may, sizeof may, "%" PRIu64, usable);
    }
    return pst_fail(PST_ENOMEM, "rank %u needs %s of memory, but the limit is %s; %s", rank, needs,
                    may, a.text);
}

/* Estimates the memory of a layout from the micro-batches that its schedule holds in flight, and
 * chooses the recomputation with which it fits. */
#include "partition/search/score.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const pst_search_problem *problem;
    const pst_search_config *c;
    const pst_candidate *candidate;
    const pst_search_flight *flight;
    /* [pipeline] of the first device's kind: kinds differ in time, not in bytes */
    const pst_search_table **table;
    uint64_t *capacity;   /* [pipeline] less the reserve */
    pst_account *account; /* [pipeline] */
} fit_state;

static pst_status open_state(pst_search_context *x, const pst_search_config *c,
                             const pst_candidate *candidate, fit_state *g) {
    const pst_search_problem *p = x->problem;
    const pst_grid grid = pst_search_grid_of(c);
    *g = (fit_state){.problem = p, .c = c, .candidate = candidate};
    PST_TRY(pst_search_flight_of(x, c->schedule, c->pipeline,
                                 candidate->layout.n_chunk / c->pipeline,
                                 pst_search_most_micros(candidate), &g->flight));
    g->capacity = malloc(c->pipeline * sizeof *g->capacity);
    g->account = malloc(c->pipeline * sizeof *g->account);
    g->table = malloc(c->pipeline * sizeof *g->table);
    if (!g->capacity || !g->account || !g->table)
        return pst_fail(PST_ENOMEM, "no memory to fit a layout");
    for (uint32_t s = 0; s < c->pipeline; s++) {
        PST_TRY(pst_search_table_of(x, c, p->cluster->device[candidate->layout.device[0]].kind, s,
                                    &g->table[s]));
        if (!g->table[s]->table) return pst_search_infeasible(g->table[s]);
        g->capacity[s] = UINT64_MAX;
        for (uint32_t r = pst_grid_first(grid, s); r < pst_grid_first(grid, s + 1); r++) {
            uint64_t one = pst_search_capacity(p, candidate->layout.device[r]);
            if (one < g->capacity[s]) g->capacity[s] = one;
        }
        if (g->capacity[s] != UINT64_MAX)
            g->capacity[s] -= c->reserve < g->capacity[s] ? c->reserve : g->capacity[s];
    }
    return PST_OK;
}

static void close_state(fit_state *g) {
    free(g->capacity);
    free(g->account);
    free(g->table);
}

static pst_search_chunk chunk_of(const fit_state *g, uint32_t chunk) {
    const pst_candidate *candidate = g->candidate;
    return (pst_search_chunk){.problem = g->problem,
                              .c = g->c,
                              .table = g->table[g->flight->stage[chunk]],
                              .flight = g->flight,
                              .chunk = chunk,
                              .from = candidate->layout.first_item[chunk],
                              .to = candidate->layout.first_item[chunk + 1],
                              .micros = pst_search_most_micros(candidate)};
}

/* Adds a chunk that recomputes in this way. A rank needs `work` once, for its largest chunk. */
static void add_chunk(const fit_state *g, uint32_t chunk, pst_recompute_way way, pst_account *a) {
    const pst_search_chunk k = chunk_of(g, chunk);
    const uint64_t enter = k.table->table->enter[pst_recompute_mode(way)][k.from];
    const int split = g->flight->b_to_w[chunk] > 0;
    uint64_t work = pst_search_receive_bytes(g->c, k.table, k.from, k.to) +
                    pst_search_work_bytes(k.table, k.from, k.to, way, enter, split);
    pst_search_add_own(&k, a);
    a->held += pst_search_held_bytes(&k, way, enter);
    a->messages += pst_search_message_bytes(k.table, k.from, k.to);
    if (work > a->work) a->work = work;
}

/* Bytes of a stage if `chunk` recomputed in another way. */
static uint64_t peak_of(const fit_state *g, uint32_t stage, uint32_t chunk,
                        pst_recompute_way other) {
    pst_account a = {0};
    for (uint32_t k = 0; k < g->candidate->layout.n_chunk; k++)
        if (g->flight->stage[k] == stage)
            add_chunk(g, k, k == chunk ? other : g->candidate->layout.recompute[k], &a);
    return pst_account_bytes(&a);
}

static void fill_accounts(const fit_state *g, pst_account *account) {
    const pst_candidate *c = g->candidate;
    memset(account, 0, c->layout.pipeline * sizeof *account);
    for (uint32_t k = 0; k < c->layout.n_chunk; k++)
        add_chunk(g, k, c->layout.recompute[k], &account[g->flight->stage[k]]);
}

static void measure(const fit_state *g, pst_candidate *c, uint64_t *excess, uint32_t *stage) {
    fill_accounts(g, g->account);
    memcpy(c->in_flight, g->flight->stage_f_to_b, c->layout.pipeline * sizeof *c->in_flight);
    *excess = 0;
    *stage = 0;
    for (uint32_t s = 0; s < c->layout.pipeline; s++) {
        c->peak_bytes[s] = pst_account_bytes(&g->account[s]);
        if (c->peak_bytes[s] > g->capacity[s] && c->peak_bytes[s] - g->capacity[s] > *excess) {
            *excess = c->peak_bytes[s] - g->capacity[s];
            *stage = s;
        }
    }
}

pst_status pst_search_account_of(pst_search_context *x, const pst_search_config *c,
                                 const pst_candidate *candidate, pst_account *account) {
    fit_state g;
    pst_status status = open_state(x, c, candidate, &g);
    if (status == PST_OK) fill_accounts(&g, account);
    close_state(&g);
    return status;
}

pst_status pst_search_estimate_memory(pst_search_context *x, const pst_search_config *c,
                                      pst_candidate *candidate, uint64_t *excess, uint32_t *stage) {
    fit_state g;
    pst_status status = open_state(x, c, candidate, &g);
    if (status == PST_OK) measure(&g, candidate, excess, stage);
    close_state(&g);
    return status;
}

/* The way of a chunk with a mode; if the search chooses the number of layers, the fewest with which
 * the stage fits, or all. */
static pst_recompute_way way_of(const fit_state *g, uint32_t chunk, pst_recompute mode) {
    const pst_search_chunk k = chunk_of(g, chunk);
    const uint32_t stage = g->flight->stage[chunk];
    const pst_recompute_way way = pst_search_way(g->problem, k.table, mode, k.from, k.to);
    uint32_t low = 1, high = pst_recompute_layers(way);
    if (!pst_search_chooses_layers(g->problem, mode)) return way;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const pst_recompute_way fewer = pst_recompute_of_layers(middle);
        if (peak_of(g, stage, chunk, fewer) <= g->capacity[stage]) high = middle;
        else low = middle + 1;
    }
    return pst_recompute_of_layers(high);
}

static uint64_t again_ns(const fit_state *g, uint32_t chunk, pst_recompute_way way) {
    const pst_search_chunk k = chunk_of(g, chunk);
    return pst_search_run_way(k.table, PST_SEARCH_SUM_AGAIN, way, k.from, k.to);
}

/* A change of the recomputation of one chunk. more_ns: time that it adds. */
typedef struct {
    uint32_t chunk;
    pst_recompute_way way;
    uint64_t more_ns, peak;
    double rate;
    int enough;
} change;

/* Whether a is better than b, which is another change or none (chunk UINT32_MAX). */
static int is_better(const change *a, const change *b) {
    if (b->chunk == UINT32_MAX) return 1;
    if (a->enough != b->enough) return a->enough;
    return a->enough ? a->more_ns < b->more_ns : a->rate > b->rate;
}

/* Changes the recomputation of one chunk: the change that costs least time among those that make
 * the stage fit; if none does, the one that saves most bytes per added time. 0: no change saves
 * memory. */
static int save_memory(pst_candidate *candidate, const fit_state *g, uint32_t stage,
                       uint64_t *peak) {
    change best = {.chunk = UINT32_MAX};
    for (uint32_t k = 0; k < candidate->layout.n_chunk; k++)
        for (uint32_t mode = 0; mode < PST_RECOMPUTE_COUNT && g->flight->stage[k] == stage;
             mode++) {
            if (!g->problem->recompute[mode]) continue;
            change c = {.chunk = k, .way = way_of(g, k, mode)};
            if (c.way == candidate->layout.recompute[k]) continue;
            c.peak = peak_of(g, stage, k, c.way);
            if (c.peak >= *peak) continue;
            const uint64_t again = again_ns(g, k, c.way),
                           was = again_ns(g, k, candidate->layout.recompute[k]);
            c.more_ns = again > was ? again - was : 0;
            c.rate = (double)(*peak - c.peak) / ((double)c.more_ns + 1);
            c.enough = c.peak <= g->capacity[stage];
            if (is_better(&c, &best)) best = c;
        }
    if (best.chunk == UINT32_MAX) return 0;
    candidate->layout.recompute[best.chunk] = best.way;
    *peak = best.peak;
    return 1;
}

static pst_recompute fastest_mode(const pst_search_problem *p) {
    uint32_t mode = 0;
    while (mode + 1 < PST_RECOMPUTE_COUNT && !p->recompute[mode]) mode++;
    return p->recompute[mode] ? mode : PST_RECOMPUTE_NONE;
}

/* Every chunk in the fastest way. */
static void start(const fit_state *g, pst_candidate *candidate) {
    const pst_recompute mode = fastest_mode(g->problem);
    for (uint32_t k = 0; k < candidate->layout.n_chunk; k++) {
        const pst_search_chunk c = chunk_of(g, k);
        candidate->layout.recompute[k] = pst_search_way(g->problem, c.table, mode, c.from, c.to);
    }
}

pst_status pst_search_fit(pst_search_context *x, const pst_search_config *c,
                          pst_candidate *candidate, uint64_t *excess, uint32_t *stage) {
    fit_state g;
    pst_status status = open_state(x, c, candidate, &g);
    if (status == PST_OK) start(&g, candidate);
    if (status == PST_OK) measure(&g, candidate, excess, stage);
    int saved = 0;
    for (uint32_t s = 0; status == PST_OK && s < candidate->layout.pipeline; s++) {
        uint64_t peak = candidate->peak_bytes[s];
        while (peak > g.capacity[s] && save_memory(candidate, &g, s, &peak)) saved = 1;
    }
    if (status == PST_OK && saved) measure(&g, candidate, excess, stage);
    close_state(&g);
    return status;
}

/* Memory of a layout, from what its schedule holds in flight, and the recomputation with which it
 * fits. */
#include "partition/search/parts.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const pst_search_flight *flight;
    const pst_search_table **table; /* [pipeline] of the first device: kinds differ in time, not in
                                       bytes */
    uint64_t *capacity, *work;      /* [pipeline] less what is to be left; most of its chunks */
} ground;

static pst_status open_ground(pst_search_context *x, const pst_search_config *c,
                              const pst_candidate *l, ground *g) {
    const pst_search_problem *p = x->problem;
    const pst_grid grid = pst_search_grid_of(c);
    PST_TRY(pst_search_flight_of(x, c->schedule, c->pipeline, l->layout.n_chunk / c->pipeline,
                                 pst_search_most_micros(l), &g->flight));
    g->capacity = malloc(2 * (size_t)c->pipeline * sizeof *g->capacity);
    g->work = g->capacity + c->pipeline;
    g->table = malloc(c->pipeline * sizeof *g->table);
    if (!g->capacity || !g->table) return pst_fail(PST_ENOMEM, "no memory to fit a layout");
    for (uint32_t s = 0; s < c->pipeline; s++) {
        PST_TRY(pst_search_table_of(x, c, p->cluster->device[l->layout.device[0]].kind, s,
                                    &g->table[s]));
        if (!g->table[s]->table)
            return pst_fail(PST_EINPUT, "tensor %u cannot be had", g->table[s]->tensor);
        g->capacity[s] = UINT64_MAX;
        for (uint32_t r = pst_grid_first(grid, s); r < pst_grid_first(grid, s + 1); r++) {
            uint64_t one = pst_search_capacity(p, l->layout.device[r]);
            if (one < g->capacity[s]) g->capacity[s] = one;
        }
        if (g->capacity[s] != UINT64_MAX)
            g->capacity[s] -= c->reserve < g->capacity[s] ? c->reserve : g->capacity[s];
    }
    return PST_OK;
}

static uint64_t bytes_of(const pst_search_problem *p, const pst_search_config *c,
                         const pst_candidate *l, const ground *g, uint32_t chunk, uint32_t mode) {
    uint32_t from = l->layout.first_item[chunk], to = l->layout.first_item[chunk + 1];
    const pst_search_table *t = g->table[g->flight->stage[chunk]];
    return pst_search_message_bytes(t, from, to) +
           pst_search_own_bytes(p, c, t, from, to, g->flight, chunk, pst_search_most_micros(l)) +
           pst_search_held_bytes(t, from, to, mode, t->table->enter[mode][from], g->flight, chunk);
}

/* What passes of a chunk work on. */
static uint64_t work_of(const pst_search_config *c, const pst_candidate *l, const ground *g,
                        uint32_t chunk, uint32_t mode) {
    uint32_t from = l->layout.first_item[chunk];
    const pst_search_table *t = g->table[g->flight->stage[chunk]];
    return pst_search_receive_bytes(c, t, from, l->layout.first_item[chunk + 1]) +
           pst_search_work_bytes(t, from, l->layout.first_item[chunk + 1], mode,
                                 t->table->enter[mode][from], g->flight->to_w[chunk] > 0);
}

/* Bytes of a stage, as if `chunk` had another mode. */
static uint64_t peak_of(const pst_search_problem *p, const pst_search_config *c,
                        const pst_candidate *l, const ground *g, uint32_t stage, uint32_t chunk,
                        uint32_t other) {
    uint64_t bytes = 0, work = 0;
    for (uint32_t k = 0; k < l->layout.n_chunk; k++) {
        if (g->flight->stage[k] != stage) continue;
        uint32_t mode = k == chunk ? other : l->layout.recompute[k];
        uint64_t own = work_of(c, l, g, k, mode);
        bytes += bytes_of(p, c, l, g, k, mode);
        if (own > work) work = own;
    }
    return bytes + work;
}

static void measure(const pst_search_problem *p, const pst_search_config *c, pst_candidate *l,
                    const ground *g, uint64_t *excess, uint32_t *stage) {
    memset(g->work, 0, l->layout.pipeline * sizeof *g->work);
    memset(l->peak_bytes, 0, l->layout.pipeline * sizeof *l->peak_bytes);
    memcpy(l->in_flight, g->flight->held, l->layout.pipeline * sizeof *l->in_flight);
    for (uint32_t k = 0; k < l->layout.n_chunk; k++) {
        uint32_t s = g->flight->stage[k];
        uint64_t work = work_of(c, l, g, k, l->layout.recompute[k]);
        l->peak_bytes[s] += bytes_of(p, c, l, g, k, l->layout.recompute[k]);
        if (work > g->work[s]) g->work[s] = work;
    }
    *excess = 0;
    *stage = 0;
    for (uint32_t s = 0; s < l->layout.pipeline; s++) {
        l->peak_bytes[s] += g->work[s];
        if (l->peak_bytes[s] > g->capacity[s] && l->peak_bytes[s] - g->capacity[s] > *excess) {
            *excess = l->peak_bytes[s] - g->capacity[s];
            *stage = s;
        }
    }
}

pst_status pst_search_measure(pst_search_context *x, const pst_search_config *c,
                              pst_candidate *layout, uint64_t *excess, uint32_t *stage) {
    ground g = {0};
    pst_status status = open_ground(x, c, layout, &g);
    if (status == PST_OK) measure(x->problem, c, layout, &g, excess, stage);
    free(g.capacity);
    free(g.table);
    return status;
}

/* One step towards fitting: of the changes of a chunk's mode that are enough, the one that takes
 * least time; if none is, the one that saves most for its time. 0: nothing saves any more. */
static int save(const pst_search_problem *p, const pst_search_config *c, pst_candidate *l,
                const ground *g, uint32_t stage, uint64_t *peak) {
    double best_rate = -1;
    uint64_t best_more = UINT64_MAX, best_peak = 0;
    uint32_t best = UINT32_MAX, best_mode = 0;
    for (uint32_t k = 0; k < l->layout.n_chunk; k++)
        for (uint32_t mode = 0; mode < PST_RECOMPUTE_COUNT && g->flight->stage[k] == stage;
             mode++) {
            if (!p->recompute[mode] || mode == l->layout.recompute[k]) continue;
            uint32_t from = l->layout.first_item[k], to = l->layout.first_item[k + 1];
            uint64_t then = peak_of(p, c, l, g, stage, k, mode);
            uint64_t again = pst_search_run(g->table[stage], PST_SUM_AGAIN + mode, from, to);
            uint64_t was =
                pst_search_run(g->table[stage], PST_SUM_AGAIN + l->layout.recompute[k], from, to);
            if (then >= *peak) continue;
            uint64_t more = again > was ? again - was : 0;
            double rate = (double)(*peak - then) / ((double)more + 1);
            int enough = then <= g->capacity[stage];
            if (enough ? more >= best_more : best_more != UINT64_MAX || rate <= best_rate) continue;
            best = k;
            best_mode = mode;
            best_rate = rate;
            best_peak = then;
            if (enough) best_more = more;
        }
    if (best == UINT32_MAX) return 0;
    l->layout.recompute[best] = (uint8_t)best_mode;
    *peak = best_peak;
    return 1;
}

static uint32_t quickest_mode(const pst_search_problem *p) {
    uint32_t mode = 0;
    while (mode + 1 < PST_RECOMPUTE_COUNT && !p->recompute[mode]) mode++;
    return p->recompute[mode] ? mode : PST_RECOMPUTE_NONE;
}

pst_status pst_search_fit(pst_search_context *x, const pst_search_config *c, pst_candidate *layout,
                          uint64_t *excess, uint32_t *stage) {
    ground g = {0};
    pst_status status = open_ground(x, c, layout, &g);
    memset(layout->layout.recompute, (int)quickest_mode(x->problem), layout->layout.n_chunk);
    if (status == PST_OK) measure(x->problem, c, layout, &g, excess, stage);
    int saved = 0;
    for (uint32_t s = 0; status == PST_OK && s < layout->layout.pipeline; s++) {
        uint64_t peak = layout->peak_bytes[s];
        while (peak > g.capacity[s] && save(x->problem, c, layout, &g, s, &peak)) saved = 1;
    }
    if (status == PST_OK && saved) measure(x->problem, c, layout, &g, excess, stage);
    free(g.capacity);
    free(g.table);
    return status;
}

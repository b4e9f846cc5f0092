/* The context of a search, and its cost tables with their prefix sums. */
#include "base/clock.h"
#include "partition/search/paths.h"
#include "base/grow.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The best links of all nodes. */
static void find_links(const pst_cluster *c, pst_search_context *x) {
    for (uint32_t d = 0, here = 0; d < c->n_device; d++) { /* devices of a node are consecutive */
        here = d && c->device[d].node == c->device[d - 1].node ? here + 1 : 1;
        if (here > x->node_devices) x->node_devices = here;
    }
    for (uint32_t n = 0; n < c->n_node; n++) {
        double all = c->node[n].node_bytes_per_s;
        x->device_bw = pst_search_max(x->device_bw, c->node[n].link[PST_LEVEL_DEVICE].bytes_per_s);
        x->node_bw = pst_search_max(x->node_bw, c->node[n].link[PST_LEVEL_NODE].bytes_per_s);
        x->node_total_bw = pst_search_max(x->node_total_bw, all > 0 ? all : INFINITY);
    }
}

static void compare(const pst_search_problem *problem, pst_search_context *x) {
    const pst_cluster *c = problem->cluster;
    x->same_speed = x->uniform = 1;
    for (uint32_t d = 1; d < c->n_device; d++) {
        x->same_speed &=
            c->device[d].kind == c->device->kind && c->device[d].speed == c->device->speed;
        x->uniform &= pst_search_capacity(problem, d) == pst_search_capacity(problem, 0);
    }
    for (uint32_t n = 1; n < c->n_node; n++) {
        x->uniform &= c->node[n].node_bytes_per_s == c->node->node_bytes_per_s;
        for (uint32_t k = 0; k < PST_LEVEL_COUNT; k++)
            x->uniform &= c->node[n].link[k].latency_ns == c->node->link[k].latency_ns &&
                          c->node[n].link[k].bytes_per_s == c->node->link[k].bytes_per_s;
    }
    x->uniform &= x->same_speed;
}

pst_status pst_search_context_open(const pst_search_problem *problem, pst_search_context *x) {
    *x = (pst_search_context){.problem = problem,
                              .end_ns = UINT64_MAX,
                              .limit_ns = UINT64_MAX,
                              .least_excess = UINT64_MAX,
                              .best_ns = UINT64_MAX,
                              .enough_ns = UINT64_MAX,
                              .start_ns = pst_monotonic_ns(),
                              .start_thread_ns = pst_thread_ns()};
    if (problem->n_schedule > PST_SEARCH_SCHEDULES)
        return pst_fail(PST_EINPUT,
                        "%u schedules are given to the search; at most %d are supported",
                        problem->n_schedule, PST_SEARCH_SCHEDULES);
    if (problem->time_limit_s > 0) {
        double limit = problem->time_limit_s * 1e9;
        x->end_ns = limit < 1e18 ? pst_monotonic_ns() + (uint64_t)limit : UINT64_MAX;
    }
    compare(problem, x);
    find_links(problem->cluster, x);
    for (uint32_t d = 0; d < problem->cluster->n_device; d++)
        x->capacity = larger(x->capacity, pst_search_capacity(problem, d));
    for (uint32_t i = 0; i < problem->n_schedule; i++) {
        PST_TRY(pst_schedule_find(problem->schedule[i], &x->row[i]));
        if (x->row[i]->kind != PST_SCHEDULE_GENERATED)
            return pst_fail(PST_EINPUT,
                            "the search does not support schedule %s; choose other schedules",
                            x->row[i]->name);
    }
    return PST_OK;
}

static void close_table(pst_search_table *t) {
    for (uint32_t i = 0; i < PST_SEARCH_SUM_COUNT; i++) free(t->sum[i]);
    free(t->scratch[0]);
    free(t->scratch[1]);
    free(t->largest);
    free(t->layer_bytes[0]);
    free(t->layer_bytes[1]);
    free(t->layer_first);
    free(t->alike);
    free(t->rest);
    free(t);
}

void pst_search_context_close(pst_search_context *x) {
    for (uint32_t i = 0; i < x->n_table; i++) close_table(x->table[i]);
    for (uint32_t i = 0; i < x->n_flight; i++) pst_search_flight_close(x->flight[i]);
    for (uint32_t i = 0; i < PST_SEARCH_CACHED; i++) pst_schedule_close(x->cached[i].built);
    free(x->table);
    free(x->flight);
    pst_search_paths_close(x->paths);
    free(x->path_ends);
    free(x->flush.of);
}

/* --- tables ----------------------------------------------------------------------------------- */

/* NULL: zeros, or sums of other sums. */
static const uint64_t *values_of(const pst_cost_table *t, uint32_t sum) {
    const struct {
        uint32_t first;
        uint64_t *const *of; /* [mode] */
    } by_mode[] = {{PST_SEARCH_SUM_AGAIN, t->again_ns},
                   {PST_SEARCH_SUM_STASH, t->stash},
                   {PST_SEARCH_SUM_RECOMPUTED, t->recomputed},
                   {PST_SEARCH_SUM_STASH_TO_W, t->stash_to_w},
                   {PST_SEARCH_SUM_B_TO_W, t->b_to_w},
                   {PST_SEARCH_SUM_RECOMPUTED_TO_W, t->recomputed_to_w}};
    for (size_t i = 0; i < sizeof by_mode / sizeof *by_mode; i++)
        if (sum >= by_mode[i].first && sum < by_mode[i].first + PST_RECOMPUTE_COUNT)
            return by_mode[i].of[sum - by_mode[i].first];
    switch (sum) {
    case PST_SEARCH_SUM_F: return t->f_ns;
    case PST_SEARCH_SUM_B: return t->b_ns;
    case PST_SEARCH_SUM_W: return t->w_ns;
    case PST_SEARCH_SUM_EXCHANGE: return t->exchange_ns;
    case PST_SEARCH_SUM_ELEMENTS: return t->elements;
    case PST_SEARCH_SUM_FROZEN: return t->frozen;
    case PST_SEARCH_SUM_ACCUMULATED: return t->accumulated;
    case PST_SEARCH_SUM_TIED: return t->tied;
    case PST_SEARCH_SUM_KEPT: return t->kept;
    default: return NULL;
    }
}

/* each NULL: zeros. */
static pst_status range_scratch(pst_search_table *t, const uint64_t *each, uint64_t **scratch) {
    const uint32_t n = t->table->n, blocks = n / PST_SEARCH_BLOCK;
    uint32_t levels = 1;
    while (blocks >> levels) levels++;
    if (!(*scratch = calloc(n + (size_t)levels * blocks, sizeof **scratch)))
        return pst_fail(PST_ENOMEM, "no memory to search a model of %u operators", n);
    for (uint32_t i = 0; i < n; i++) (*scratch)[i] = each ? each[i] : 0;
    for (uint32_t b = 0; b < blocks; b++)
        for (uint32_t i = 0; i < PST_SEARCH_BLOCK; i++)
            (*scratch)[n + b] =
                larger((*scratch)[n + b], (*scratch)[(size_t)b * PST_SEARCH_BLOCK + i]);
    for (uint32_t k = 1; k < levels; k++) {
        const uint64_t *half = *scratch + n + (size_t)(k - 1) * blocks;
        uint64_t *all = *scratch + n + (size_t)k * blocks;
        for (uint32_t i = 0; i + (1u << k) <= blocks; i++)
            all[i] = larger(half[i], half[i + (1u << (k - 1))]);
    }
    return PST_OK;
}

/* All arrays are one allocation. */
static pst_status find_layers(pst_search_table *t) {
    const uint64_t *layer = t->table->layer;
    const uint32_t n = t->table->n;
    uint32_t *at = calloc(4 * (size_t)n + 2, sizeof *at);
    if (!at) return pst_fail(PST_ENOMEM, "no memory to search a model of %u operators", n);
    t->layer_first = at;
    t->layer_end = at + n;
    t->layers_begun = at + 2 * (size_t)n;
    t->layers_ended = at + 3 * (size_t)n + 1;
    for (uint32_t i = 0; i < n; i++) {
        if (layer && layer[i] == PST_LAYER_BEGINS) t->layer_first[t->n_layer++] = i;
        if (layer && layer[i]) t->layer_end[t->n_layer - 1] = i + 1;
        t->layers_begun[i + 1] = t->n_layer;
    }
    for (uint32_t j = 0; j < t->n_layer; j++) t->layers_ended[t->layer_end[j]]++;
    for (uint32_t i = 0; i < n; i++) t->layers_ended[i + 1] += t->layers_ended[i];
    return PST_OK;
}

/* Needs the sums. */
static pst_status range_layers(pst_search_table *t, int split) {
    uint64_t *each = calloc(t->table->n + (size_t)1, sizeof *each);
    if (!each)
        return pst_fail(PST_ENOMEM, "no memory to search a model of %u operators", t->table->n);
    for (uint32_t j = 0; j < t->n_layer; j++)
        each[t->layer_end[j] - 1] =
            pst_search_again_bytes(t, t->layer_first[j], t->layer_end[j], split);
    pst_status status = range_scratch(t, each, &t->layer_bytes[split]);
    free(each);
    return status;
}

static pst_status add_up(pst_search_table *t) {
    uint32_t n = t->table->n;
    t->least_cross = n > 1 ? UINT64_MAX : 0;
    for (uint32_t i = 1; i < n; i++)
        if (t->table->cross[i] < t->least_cross) t->least_cross = t->table->cross[i];
    for (uint32_t mode = 0; mode < PST_RECOMPUTE_COUNT; mode++) {
        t->least_enter[mode] = n > 1 ? UINT64_MAX : 0;
        for (uint32_t i = 1; i < n; i++)
            if (t->table->enter[mode][i] < t->least_enter[mode])
                t->least_enter[mode] = t->table->enter[mode][i];
    }
    PST_TRY(find_layers(t));
    PST_TRY(range_scratch(t, t->table->scratch, &t->scratch[0]));
    PST_TRY(range_scratch(t, t->table->scratch_split, &t->scratch[1]));
    PST_TRY(range_scratch(t, t->table->largest, &t->largest));
    for (uint32_t k = 0; k < PST_SEARCH_SUM_COUNT; k++) {
        const uint64_t *value = values_of(t->table, k);
        uint64_t *sum = t->sum[k] = malloc((n + 1) * sizeof *sum);
        if (!sum) return pst_fail(PST_ENOMEM, "no memory to search a model of %u operators", n);
        sum[0] = 0;
        for (uint32_t i = 0; i < n; i++) sum[i + 1] = sum[i] + (value ? value[i] : 0);
    }
    for (uint32_t mode = 0; mode < PST_RECOMPUTE_COUNT; mode++)
        for (uint32_t i = 1; i <= n; i++) {
            t->sum[PST_SEARCH_SUM_FB + mode][i] = t->sum[PST_SEARCH_SUM_F][i] +
                                                  t->sum[PST_SEARCH_SUM_B][i] +
                                                  t->sum[PST_SEARCH_SUM_AGAIN + mode][i];
            t->sum[PST_SEARCH_SUM_FBW + mode][i] =
                t->sum[PST_SEARCH_SUM_FB + mode][i] + t->sum[PST_SEARCH_SUM_W][i];
        }
    PST_TRY(range_layers(t, 0));
    return range_layers(t, 1);
}

static pst_status ask(pst_search_context *x, pst_search_table *t) {
    pst_status status = x->problem->table(x->problem->arg, &t->key, &t->table);
    if (status == PST_EINPUT) {
        snprintf(t->why, sizeof t->why, "%s", pst_error());
        pst_error_clear();
        t->table = NULL;
        return PST_OK;
    }
    if (status != PST_OK) return status;
    if (t->table->n != x->problem->n_item)
        return pst_fail(PST_EINTERNAL, "the cost table has %u operators, but the model has %u",
                        t->table->n, x->problem->n_item);
    return add_up(t);
}

pst_status pst_search_infeasible(const pst_search_table *t) {
    return pst_fail(PST_EINPUT, "infeasible: %s", t->why);
}

/* Whether the first and the last chunk lie on stages with different numbers of tensor ranks. */
static uint32_t is_untied(const pst_search_context *x, const pst_search_config *c) {
    uint32_t last = x->row[c->schedule]->placement == PST_PLACE_V_SHAPE ? 0 : c->pipeline - 1;
    return pst_grid_degree(pst_search_grid_of(c), 0) !=
           pst_grid_degree(pst_search_grid_of(c), last);
}

pst_status pst_search_table_of(pst_search_context *x, const pst_search_config *c, uint32_t kind,
                               uint32_t stage, const pst_search_table **table) {
    const pst_search_key key = {kind, pst_grid_degree(pst_search_grid_of(c), stage), c->sequence,
                                c->before ? is_untied(x, c) : 0, c->micro_batch};
    for (uint32_t k = 0; k < x->n_table; k++) {
        uint32_t i = (x->last_table + k) % x->n_table; /* usually the same as before */
        const pst_search_table *t = x->table[i];
        if (memcmp(&t->key, &key, sizeof key) != 0) continue;
        x->last_table = i;
        *table = t;
        return PST_OK;
    }
    PST_TRY(pst_grow(&x->table, sizeof *x->table, x->n_table, &x->table_capacity,
                     "for the layout search"));
    pst_search_table *t = calloc(1, sizeof *t);
    if (!t) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    t->key = key;
    t->rest = calloc(1, sizeof *t->rest);
    pst_status status =
        t->rest ? ask(x, t) : pst_fail(PST_ENOMEM, "no memory for the layout search");
    if (status != PST_OK) {
        close_table(t);
        return status;
    }
    *table = x->table[x->n_table++] = t;
    return PST_OK;
}

/* Lower bound of a configuration from the pipelines of the orders of devices that are searched. A
 * pipeline is what the replicas of an order have on their stages; pipelines that are alike are
 * bounded once. The step is at least that of every replica. How many micro-batches a replica gets
 * depends on the cut if the replicas differ. But for any numbers whose sum is less than the
 * micro-batches plus the replicas, some replica gets at least its number: if all got fewer, too few
 * would be distributed. So the least of the bounds of all holds. */
#include "base/hash.h"
#include "partition/cost/replicas.h"
#include "partition/search/bound.h"
#include "partition/search/fluid.h"
#include "partition/search/score.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Most pipelines of a configuration, and most replicas that are compared. */
enum { MOST_PIPELINES = 64, MOST_REPLICAS = 4096 };

typedef struct {
    pst_search_context *x;
    const pst_search_config *c;
    const uint32_t *device; /* of the order */
    const pst_search_flight *flight;
    pst_search_pipeline of; /* of the replica */
    double *period;         /* [data] */
    uint32_t *micros;       /* [data] */
    uint32_t *near;         /* [nodes] zero between uses */
    double rest;            /* the smaller micro-batch, as a part, which is counted; 0: it is not */
    uint32_t n;             /* pipelines so far */
    uint64_t seen[MOST_PIPELINES];
    double least; /* of all orders */
} bounds;

static const pst_cluster_device *device_of(const bounds *a, uint32_t stage, uint32_t replica) {
    const pst_grid grid = pst_search_grid_of(a->c);
    return &a->x->problem->cluster->device[a->device[pst_grid_rank(grid, stage, replica, 0)]];
}

/* Speed and memory of a tensor group: those of its slowest and its smallest device. */
static void fill_group(const bounds *a, uint32_t stage, uint32_t replica,
                       pst_search_fluid_stage *s) {
    const pst_search_problem *p = a->x->problem;
    const uint32_t *group = a->device + pst_grid_rank(pst_search_grid_of(a->c), stage, replica, 0);
    s->speed = INFINITY;
    s->capacity = UINT64_MAX;
    for (uint32_t t = 0; t < a->c->tensor; t++) {
        const uint64_t capacity = pst_search_capacity(p, group[t]);
        s->speed = pst_search_min(s->speed, p->cluster->device[group[t]].speed);
        if (capacity < s->capacity) s->capacity = capacity;
    }
}

/* The slowest exchange of the stage's replicas, which depends on how many are on one node. */
static double exchange_of(const bounds *a, uint32_t stage) {
    double slowest = 0;
    for (uint32_t k = 0; k < a->c->data; k++) a->near[device_of(a, stage, k)->node]++;
    for (uint32_t k = 0; k < a->c->data; k++) {
        uint32_t *near = &a->near[device_of(a, stage, k)->node];
        if (*near) slowest = pst_search_max(slowest, pst_search_exchange_of(a->x, a->c, *near));
        *near = 0;
    }
    return slowest;
}

static void fill_flush(const bounds *a, uint32_t stage, pst_search_fluid_stage *s) {
    const pst_search_problem *p = a->x->problem;
    const pst_cost_table *t = s->table->table;
    const double d = a->c->data, ns = a->c->data > 1 ? exchange_of(a, stage) : 0;
    s->norm = t->norm_ns / s->speed / d;
    s->step = t->step_ns / s->speed / (a->c->zero ? d : 1);
    s->sum = ns * pst_search_sum_bytes(p, a->c->zero) +
             t->reduce_ns / s->speed * (d - 1) / d * pst_search_sum_share(p);
    s->gather = a->c->zero && a->c->data > 1 ? ns * pst_search_change_bytes(p) : 0;
}

/* Least time of a message from a chunk to the next one: with the fewest bytes, alone on the link.
 */
static double hop_of(const bounds *a, uint32_t chunk, uint32_t replica, int *linked) {
    const pst_cluster *cluster = a->x->problem->cluster;
    const pst_grid grid = pst_search_grid_of(a->c);
    const uint32_t from = a->flight->stage[chunk], to = a->flight->stage[chunk + 1];
    const uint32_t one = a->device[pst_grid_rank(grid, from, replica, 0)],
                   other = a->device[pst_grid_rank(grid, to, replica, 0)];
    pst_cluster_link link;
    if (from == to) return 0;
    *linked &= pst_search_link(cluster, one, other, &link);
    if (!*linked) return 0;
    return (double)link.latency_ns +
           (double)a->of.stage[from].table->least_cross * 1e9 / link.bytes_per_s;
}

static uint64_t hash_of(const bounds *a) {
    uint64_t hash = pst_hash64(&a->of.first, sizeof a->of.first, a->of.m);
    for (uint32_t s = 0; s < a->c->pipeline; s++) {
        const pst_search_fluid_stage *own = &a->of.stage[s];
        const double of[] = {own->speed, own->sum, own->norm, own->gather, own->step};
        hash = pst_hash64(&own->table, sizeof own->table, hash);
        hash = pst_hash64(&own->capacity, sizeof own->capacity, hash);
        hash = pst_hash64(of, sizeof of, hash);
    }
    return pst_hash64(a->of.hop, a->flight->n_chunk * sizeof *a->of.hop, hash);
}

/* *allowed 0: this order is not. */
static pst_status fill_pipeline(bounds *a, uint32_t replica, int *allowed) {
    for (uint32_t s = 0; s < a->c->pipeline; s++) {
        pst_search_fluid_stage *own = &a->of.stage[s];
        const uint32_t kind = device_of(a, s, replica)->kind;
        PST_TRY(pst_search_table_of(a->x, a->c, kind, s, &own->table));
        *allowed &= own->table->table != NULL;
        if (!*allowed) return PST_OK;
        fill_group(a, s, replica, own);
        fill_flush(a, s, own);
    }
    for (uint32_t k = 0; k + 1 < a->flight->n_chunk; k++)
        a->of.hop[k] = hop_of(a, k, replica, allowed);
    return PST_OK;
}

/* Time of a micro-batch if all stages were equally long. */
static double period_of(const bounds *a) {
    double rate = 0;
    for (uint32_t s = 0; s < a->c->pipeline; s++) {
        const pst_search_table *t = a->of.stage[s].table;
        const double ns =
            (double)t->sum[PST_SEARCH_SUM_FBW + PST_RECOMPUTE_NONE][a->x->problem->n_item];
        rate += a->of.stage[s].speed / pst_search_max(ns, 1);
    }
    return 1 / rate;
}

static int was_seen(bounds *a, uint64_t hash) {
    for (uint32_t i = 0; i < a->n; i++)
        if (a->seen[i] == hash) return 1;
    if (a->n < MOST_PIPELINES) a->seen[a->n] = hash;
    a->n++;
    return 0;
}

/* Bounds each kind of pipeline of the order. all: every replica has the same number of
 * micro-batches for every cut, so that the first one's bound holds. */
static pst_status bound_order(bounds *a, int all) {
    const uint32_t replicas = all ? 1 : a->c->data;
    for (uint32_t k = 0; k < replicas && a->n <= MOST_PIPELINES; k++) {
        int allowed = 1;
        double bound;
        PST_TRY(fill_pipeline(a, k, &allowed));
        if (!allowed) return PST_OK;
        a->of.m = a->micros[k];
        a->of.first = k || !a->rest ? 1 : a->rest;
        if (was_seen(a, hash_of(a)) || a->n > MOST_PIPELINES) continue;
        PST_TRY(pst_search_fluid_bound(a->x, a->c, &a->of, (double)a->x->enough_ns, &bound));
        a->least = pst_search_min(a->least, bound);
        if (a->least <= (double)a->c->bound_ns) return PST_OK;
    }
    return PST_OK;
}

static pst_status share_micros(bounds *a, int *all) {
    int allowed = 1;
    for (uint32_t k = 0; k < a->c->data; k++) {
        a->period[k] = 1;
        if (a->x->same_speed) continue;
        PST_TRY(fill_pipeline(a, k, &allowed));
        if (!allowed) return PST_OK;
        a->period[k] = period_of(a);
    }
    *all = a->x->same_speed && a->c->n_micro % a->c->data == 0;
    const uint32_t n_micro = a->c->n_micro + (*all ? 0 : a->c->data - 1);
    a->rest = a->c->rest;
    pst_replicas_share_rest(a->period, a->c->data, n_micro + (a->rest > 0), a->rest, a->micros);
    if (a->rest > 0 && a->micros[0] > 1) return PST_OK;
    a->rest = 0;
    pst_replicas_share(a->period, a->c->data, n_micro, a->micros);
    return PST_OK;
}

static pst_status bound_orders(bounds *a, const pst_search_orders *orders) {
    for (uint32_t i = 0; i < orders->n && a->n <= MOST_PIPELINES; i++) {
        int all = 0;
        a->device = orders->device + (size_t)i * orders->size;
        PST_TRY(share_micros(a, &all));
        PST_TRY(bound_order(a, all));
        if (a->least <= (double)a->c->bound_ns) return PST_OK;
    }
    return PST_OK;
}

static pst_status open_bounds(bounds *a) {
    const pst_search_config *c = a->c;
    const uint32_t n_chunk = pst_search_chunk_count(a->x, c);
    PST_TRY(pst_search_flight_of(a->x, c->schedule, c->pipeline, n_chunk / c->pipeline,
                                 c->n_micro / c->data, &a->flight));
    a->of.stage = calloc(c->pipeline, sizeof *a->of.stage);
    a->of.hop = calloc((size_t)n_chunk + c->data, sizeof *a->of.hop);
    a->micros = calloc((size_t)c->data + a->x->problem->cluster->n_node, sizeof *a->micros);
    if (!a->of.stage || !a->of.hop || !a->micros)
        return pst_fail(PST_ENOMEM, "no memory for the layout search");
    a->period = a->of.hop + n_chunk;
    a->near = a->micros + c->data;
    return PST_OK;
}

pst_status pst_search_tighten_orders(pst_search_context *x, pst_search_config *c) {
    bounds a = {.x = x, .c = c, .least = INFINITY};
    pst_search_orders orders = {0};
    if (c->ordered) return PST_OK;
    c->ordered = 1;
    if (x->problem->micros || c->before || c->n_micro < c->data || c->data > MOST_REPLICAS)
        return PST_OK;
    pst_status status = pst_search_orders_of(x->problem, c, &orders);
    if (status == PST_OK) status = open_bounds(&a);
    if (status == PST_OK) status = bound_orders(&a, &orders);
    if (status == PST_OK && a.n <= MOST_PIPELINES && a.least > (double)c->bound_ns &&
        a.least < 1e18)
        c->bound_ns = (uint64_t)a.least;
    free(orders.device);
    free(a.of.stage);
    free(a.of.hop);
    free(a.micros);
    return status;
}

/* Orders of devices: which device serves which stage and replica. A tensor group has devices of one
 * node and kind with about the same speed. For few devices all distinct orders are tried. For many:
 * replicas of a stage next to each other, or stages of a replica next to each other, each in the
 * order of the file, from the fastest and from the slowest device. */
#include "partition/search/space.h"
#include <stdlib.h>
#include <string.h>

enum { ALL_OF = 6, MOST_ORDERS = 1024 };

typedef struct {
    const pst_search_problem *problem;
    pst_grid grid;
    uint32_t n, size;
    uint32_t *class_, *used; /* [n_device] the first equal device; 1: taken */
    uint32_t *at;            /* [size] */
    pst_search_orders *orders;
    pst_status status;
} every;

static int same(const pst_cluster_device *a, const pst_cluster_device *b) {
    return a->node == b->node && a->kind == b->kind && a->speed == b->speed &&
           a->memory == b->memory;
}

static pst_status keep(pst_search_orders *o, const uint32_t *device) {
    for (uint32_t i = 0; i < o->n; i++)
        if (!memcmp(o->device + (size_t)i * o->size, device, o->size * sizeof *device))
            return PST_OK;
    uint32_t *more = realloc(o->device, ((size_t)o->n + 1) * o->size * sizeof *more);
    if (!more) return pst_fail(PST_ENOMEM, "no memory for orders of %u devices", o->size);
    o->device = more;
    memcpy(o->device + (size_t)o->n++ * o->size, device, o->size * sizeof *device);
    return PST_OK;
}

/* --- all of few ------------------------------------------------------------------------------- */

/* Skips equivalent orders: classes ascend within a tensor group, and replicas ascend by their
 * devices, stage by stage, unless their micro-batches are given. The first replica is not compared:
 * all norms pass through its first rank. */
static int is_first_of_equals(const every *e) {
    const pst_cluster_device *of = e->problem->cluster->device;
    for (uint32_t r = 1; r < e->size; r++)
        if (pst_grid_at(e->grid, r).tensor) {
            uint32_t a = e->at[r - 1], b = e->at[r];
            if (a > b || of[a].kind != of[b].kind) return 0;
            if (of[a].node != of[b].node && !e->problem->tensor_across_nodes) return 0;
        }
    for (uint32_t k = 2; k < e->grid.data && !e->problem->micros; k++) {
        int less = 0, greater = 0;
        for (uint32_t s = 0; s < e->grid.pipeline && !less && !greater; s++)
            for (uint32_t t = 0; t < pst_grid_degree(e->grid, s) && !less && !greater; t++) {
                uint32_t a = e->at[pst_grid_rank(e->grid, s, k - 1, t)],
                         b = e->at[pst_grid_rank(e->grid, s, k, t)];
                less = e->class_[a] < e->class_[b];
                greater = e->class_[a] > e->class_[b];
            }
        if (greater) return 0;
    }
    return 1;
}

/* Recursion, at most ALL_OF deep. */
static void place(every *e, uint32_t depth) {
    if (e->status != PST_OK || e->orders->n >= MOST_ORDERS) return;
    if (depth == e->size) {
        if (is_first_of_equals(e)) e->status = keep(e->orders, e->at);
        return;
    }
    for (uint32_t d = 0; d < e->n; d++) {
        int earlier = 0; /* an equal device before it is free */
        for (uint32_t i = e->class_[d]; i < d; i++)
            earlier |= e->class_[i] == e->class_[d] && !e->used[i];
        if (e->used[d] || earlier) continue;
        e->used[d] = 1;
        e->at[depth] = d;
        place(e, depth + 1);
        e->used[d] = 0;
    }
}

static pst_status all_orders(const pst_search_problem *problem, pst_grid grid,
                             pst_search_orders *orders) {
    uint32_t class_[ALL_OF], used[ALL_OF] = {0}, at[ALL_OF];
    every e = {.problem = problem,
               .grid = grid,
               .n = problem->cluster->n_device,
               .size = orders->size,
               .class_ = class_,
               .used = used,
               .at = at,
               .orders = orders};
    for (uint32_t d = 0; d < e.n; d++) {
        class_[d] = 0;
        while (!same(&problem->cluster->device[class_[d]], &problem->cluster->device[d]))
            class_[d]++;
    }
    place(&e, 0);
    orders->all = orders->n < MOST_ORDERS;
    return e.status;
}

/* --- some of many ----------------------------------------------------------------------------- */

typedef struct {
    const pst_cluster_device *of;
    uint32_t device;
    double speed; /* the sort key */
} ranked;

/* Node by node and kind by kind, the fastest first. */
static int by_node(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->of->node != y->of->node) return x->of->node < y->of->node ? -1 : 1;
    if (x->of->kind != y->of->kind) return x->of->kind < y->of->kind ? -1 : 1;
    if (x->of->speed != y->of->speed) return x->of->speed > y->of->speed ? -1 : 1;
    return x->device < y->device ? -1 : x->device > y->device;
}

static int by_speed_up(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->speed != y->speed) return x->speed < y->speed ? -1 : 1;
    return x->device < y->device ? -1 : x->device > y->device;
}

static int by_speed_down(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->speed != y->speed) return x->speed > y->speed ? -1 : 1;
    return x->device < y->device ? -1 : x->device > y->device;
}

static int by_place(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    return x->device < y->device ? -1 : x->device > y->device;
}

/* Rough speed of a device: the highest matrix-product rate of its kind in fp32 or 16 bits, or its
 * relative speed where the kind is unknown. */
static double speed_of(const pst_cluster *c, const pst_cluster_device *d) {
    double most = 0;
    for (int i = 0; c->kind && d->kind < c->n_kind && i <= PST_F16; i++)
        if (c->kind[d->kind].flops[i] > most) most = c->kind[d->kind].flops[i];
    return d->speed * (most > 0 ? most : 1);
}

/* Makes tensor groups of `tensor` consecutive entries of `sorted`; first[g] is the first entry of
 * group g. Returns the number of groups. */
static uint32_t make_groups(const pst_search_problem *p, uint32_t tensor, const ranked *sorted,
                            ranked *group, uint32_t *first) {
    uint32_t n = p->cluster->n_device, n_group = 0;
    for (uint32_t i = 0; i + tensor <= n;) {
        const pst_cluster_device *a = sorted[i].of, *b = sorted[i + tensor - 1].of;
        int one_node = p->tensor_across_nodes || a->node == b->node;
        int one_kind = 1;
        for (uint32_t k = i; k < i + tensor; k++) one_kind &= sorted[k].of->kind == a->kind;
        if (!one_node || !one_kind) {
            i++;
            continue;
        }
        group[n_group] = (ranked){.of = a, .device = n_group, .speed = speed_of(p->cluster, b)};
        first[n_group++] = i;
        i += tensor;
    }
    return n_group;
}

/* Tensor groups of one size on all devices. */
typedef struct {
    uint32_t pipeline, tensor, data;
    ranked *sorted, *group;
    uint32_t *first, *at; /* first entry of each group in `sorted`; devices of an order */
} groups;

/* group: the groups to use, in order. by_replica: the stages of a replica are neighbours. */
static pst_status lay(const groups *g, int by_replica, pst_search_orders *orders) {
    for (uint32_t s = 0; s < g->pipeline; s++)
        for (uint32_t k = 0; k < g->data; k++) {
            uint32_t of = g->group[by_replica ? k * g->pipeline + s : s * g->data + k].device;
            for (uint32_t t = 0; t < g->tensor; t++)
                g->at[(s * g->data + k) * g->tensor + t] = g->sorted[g->first[of] + t].device;
        }
    return keep(orders, g->at);
}

/* In the order of the file, from the slowest and from the fastest group. */
static pst_status lay_all(const pst_search_problem *p, const groups *g, pst_search_orders *orders) {
    const uint32_t need = g->pipeline * g->data;
    uint32_t n = make_groups(p, g->tensor, g->sorted, g->group, g->first);
    for (int way = 0; n >= need && way < 3; way++) {
        n = make_groups(p, g->tensor, g->sorted, g->group, g->first);
        if (way || n > need) qsort(g->group, n, sizeof *g->group, by_speed_down);
        if (way == 1) qsort(g->group, need, sizeof *g->group, by_speed_up);
        if (way == 0) /* the fastest groups, in the order of the file */
            qsort(g->group, need, sizeof *g->group, by_place);
        for (int by_replica = 0; by_replica < 2; by_replica++) PST_TRY(lay(g, by_replica, orders));
    }
    return PST_OK;
}

static pst_status some_orders(const pst_search_problem *p, uint32_t pipeline, uint32_t tensor,
                              uint32_t data, pst_search_orders *orders) {
    uint32_t n = p->cluster->n_device;
    groups g = {.pipeline = pipeline,
                .tensor = tensor,
                .data = data,
                .sorted = malloc(2 * (size_t)n * sizeof *g.sorted),
                .first = malloc(2 * (size_t)n * sizeof *g.first)};
    pst_status status = g.sorted && g.first
                            ? PST_OK
                            : pst_fail(PST_ENOMEM, "no memory for orders of %u devices", n);
    if (status == PST_OK) {
        g.group = g.sorted + n;
        g.at = g.first + n;
        for (uint32_t d = 0; d < n; d++)
            g.sorted[d] = (ranked){.of = &p->cluster->device[d], .device = d};
        qsort(g.sorted, n, sizeof *g.sorted, by_node);
        status = lay_all(p, &g, orders);
    }
    free(g.sorted);
    free(g.first);
    return status;
}

/* --- groups of several sizes ------------------------------------------------------------------ */

/* The first free devices of one node and kind; UINT32_MAX: none. */
static uint32_t find_free(const pst_search_problem *p, const ranked *sorted, const uint8_t *taken,
                          uint32_t tensor) {
    uint32_t n = p->cluster->n_device, have = 0;
    for (uint32_t i = 0; i < n; i++) {
        const pst_cluster_device *a = sorted[i].of, *b = sorted[i - have].of;
        if (taken[i]) {
            have = 0;
            continue;
        }
        have = have && (a->kind != b->kind || (a->node != b->node && !p->tensor_across_nodes))
                   ? 1
                   : have + 1;
        if (have == tensor) return i + 1 - tensor;
    }
    return UINT32_MAX;
}

/* Each stage and replica takes the first free devices, the largest groups first, so that small
 * groups do not break up what large ones need. */
static int place_groups(const pst_search_problem *p, pst_grid grid, const ranked *sorted,
                        int by_replica, uint8_t *taken, uint32_t *at) {
    memset(taken, 0, p->cluster->n_device);
    for (uint32_t tensor = grid.tensor; tensor; tensor--)
        for (uint32_t i = 0; i < grid.pipeline * grid.data; i++) {
            uint32_t s = by_replica ? i % grid.pipeline : i / grid.data;
            uint32_t k = by_replica ? i / grid.pipeline : i % grid.data;
            if (pst_grid_degree(grid, s) != tensor) continue;
            uint32_t from = find_free(p, sorted, taken, tensor);
            if (from == UINT32_MAX) return 0;
            memset(taken + from, 1, tensor);
            for (uint32_t t = 0; t < tensor; t++)
                at[pst_grid_rank(grid, s, k, t)] = sorted[from + t].device;
        }
    return 1;
}

static pst_status unequal_orders(const pst_search_problem *p, pst_grid grid,
                                 pst_search_orders *orders) {
    uint32_t n = p->cluster->n_device;
    ranked *sorted = malloc(n * sizeof *sorted);
    uint32_t *at = malloc(n * sizeof *at);
    uint8_t *taken = malloc(n);
    pst_status status = sorted && at && taken
                            ? PST_OK
                            : pst_fail(PST_ENOMEM, "no memory for orders of %u devices", n);
    for (uint32_t d = 0; status == PST_OK && d < n; d++)
        sorted[d] = (ranked){.of = &p->cluster->device[d], .device = d};
    if (status == PST_OK) qsort(sorted, n, sizeof *sorted, by_node);
    for (int by_replica = 0; status == PST_OK && by_replica < 2; by_replica++)
        if (place_groups(p, grid, sorted, by_replica, taken, at)) status = keep(orders, at);
    free(sorted);
    free(at);
    free(taken);
    return status;
}

pst_status pst_search_orders_of(const pst_search_problem *problem, const pst_search_config *c,
                                pst_search_orders *orders) {
    const pst_grid grid = pst_search_grid_of(c);
    *orders = (pst_search_orders){.size = pst_grid_size(grid)};
    if (orders->size > problem->cluster->n_device) return PST_OK;
    if (problem->cluster->n_device <= ALL_OF) return all_orders(problem, grid, orders);
    if (c->before) return unequal_orders(problem, grid, orders);
    return some_orders(problem, c->pipeline, c->tensor, c->data, orders);
}

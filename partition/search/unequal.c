/* Stages with different numbers of tensor ranks, for problems too large to try all combinations.
 * Hill climbing from the best rows: one stage gets more ranks, from unused devices or from other
 * stages, while the step becomes shorter. Each is cut anew. */
#include "partition/search/bound.h"
#include "partition/search/candidates.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EVALUATIONS = 48, MANY_DEVICES = 64 };

int pst_search_has_unequal(const pst_search_problem *p) {
    int whole = 0;
    for (uint32_t i = 0; i < p->sequence.n; i++) whole |= !p->sequence.value[i];
    return whole && p->tensor.n > 1 && !p->n_degree && !pst_search_is_small(p) &&
           p->cluster->n_device <= MANY_DEVICES;
}

/* --- bound ------------------------------------------------------------------------------------ */

/* What no layout of one size of micro-batch is below. */
typedef struct {
    uint32_t micro_batch;
    double *least; /* [n_item] least device time of each item over all kinds and tensor degrees */
    double *near;  /* [kinds][tensor degrees] how near each comes to that with its best item */
    double *sum;   /* [n_item] scratch memory */
} least_times;

static uint32_t kinds_of(const pst_search_problem *p) {
    return p->cluster->n_kind ? p->cluster->n_kind : 1;
}

static pst_status table_of(pst_search_context *x, const least_times *l, uint32_t kind,
                           uint32_t degree, const pst_search_table **at) {
    const pst_search_config c = {.pipeline = 1,
                                 .data = 1,
                                 .tensor = x->problem->tensor.value[degree],
                                 .micro_batch = l->micro_batch};
    return pst_search_table_of(x, &c, kind, 0, at);
}

/* near: NULL: adds to the least times; else adds to how near a kind comes with this degree. */
static void add_table(const pst_search_table *at, uint32_t tensor, double *near, least_times *l) {
    const pst_cost_table *t = at->table;
    for (uint32_t i = 0; t && i < t->n; i++) {
        const double own = tensor * (double)(t->f_ns[i] + t->b_ns[i] + t->w_ns[i]);
        if (!near) l->least[i] = pst_search_min(l->least[i], own);
        else *near = pst_search_max(*near, own > 0 ? l->least[i] / own : 1);
    }
}

static pst_status find_least(pst_search_context *x, least_times *l) {
    const pst_search_problem *p = x->problem;
    for (uint32_t i = 0; i < p->n_item; i++) l->least[i] = INFINITY;
    memset(l->near, 0, (size_t)kinds_of(p) * p->tensor.n * sizeof *l->near);
    for (int turn = 0; turn < 2; turn++)
        for (uint32_t k = 0; k < kinds_of(p); k++)
            for (uint32_t t = 0; t < p->tensor.n; t++) {
                const pst_search_table *at;
                PST_TRY(table_of(x, l, k, t, &at));
                double *near = &l->near[(size_t)k * p->tensor.n + t];
                add_table(at, p->tensor.value[t], turn ? near : NULL, l);
            }
    return PST_OK;
}

static double nearest(const pst_search_problem *p, const least_times *l, uint32_t kind) {
    double near = 0;
    for (uint32_t t = 0; t < p->tensor.n; t++)
        near = pst_search_max(near, l->near[(size_t)kind * p->tensor.n + t]);
    return near;
}

/* The rate of as many equal devices as d replicas can use. At least one stage of each replica has
 * another degree than the best one. */
static double equal_rate(const pst_search_problem *p, uint32_t d, const least_times *l) {
    const pst_cluster_device *of = &p->cluster->device[0];
    const double *near = &l->near[(size_t)of->kind * p->tensor.n], best = nearest(p, l, of->kind);
    double least = INFINITY;
    int is_best = 1; /* the first of the best degrees does not count */
    for (uint32_t t = 0; t < p->tensor.n; t++) {
        if (near[t] >= best && is_best) is_best = 0;
        else least = pst_search_min(least, p->tensor.value[t] * (best - near[t]));
    }
    return least < INFINITY ? of->speed * d * (p->cluster->n_device / d * best - least) : 0;
}

/* Parts of a mean of bounds: of one micro-batch; of the work of all, per device: of F, and of B and
 * W. */
typedef struct {
    double path, forward, backward;
} parts_of_mean;

/* Each item on the kind and with the degree where what it adds to the mean is least. */
static pst_status least_sum(pst_search_context *x, const least_times *l, parts_of_mean part,
                            double *sum) {
    const pst_search_problem *p = x->problem;
    for (uint32_t i = 0; i < p->n_item; i++) l->sum[i] = INFINITY;
    for (uint32_t k = 0; k < kinds_of(p); k++)
        for (uint32_t t = 0; t < p->tensor.n; t++) {
            const pst_search_table *at;
            PST_TRY(table_of(x, l, k, t, &at));
            const pst_cost_table *of = at->table;
            const double ranks = nearest(p, l, k) * p->tensor.value[t];
            const double f = part.path + ranks * part.forward;
            const double b = part.path + ranks * part.backward;
            const double w = ranks * part.backward;
            for (uint32_t i = 0; of && i < p->n_item; i++)
                l->sum[i] =
                    pst_search_min(l->sum[i], f * (double)of->f_ns[i] + b * (double)of->b_ns[i] +
                                                  w * (double)of->w_ns[i]);
        }
    *sum = 0;
    for (uint32_t i = 0; i < p->n_item; i++) *sum += l->sum[i];
    return PST_OK;
}

static double rate_of_all(const pst_search_context *x, uint32_t d, const least_times *l,
                          double *fastest) {
    const pst_search_problem *p = x->problem;
    const pst_cluster *c = p->cluster;
    double rate = 0;
    *fastest = 0;
    for (uint32_t k = 0; k < c->n_device; k++) {
        rate += c->device[k].speed * nearest(p, l, c->device[k].kind);
        *fastest = pst_search_max(*fastest, c->device[k].speed);
    }
    return x->same_speed ? rate / c->n_device * (c->n_device / d * d) : rate;
}

/* Least time of the mean rank behind its last pass. sums: of gradients, which may hide the last
 * pass, or be hidden by it; rest: the norm and the optimizer. */
typedef struct {
    double sums, rest;
} flush_times;

static int shards(const pst_search_problem *p) {
    return p->zero.n && p->zero.value[p->zero.n - 1] > 0;
}

static pst_status find_flush(pst_search_context *x, uint32_t d, const least_times *l,
                             double fastest, flush_times *to) {
    const pst_search_problem *p = x->problem;
    const pst_search_config like = {.data = d, .tensor = 1};
    const double each = d > 1 ? pst_search_exchange_bound(x, &like) : 0;
    *to = (flush_times){INFINITY, INFINITY};
    for (uint32_t k = 0; k < kinds_of(p); k++)
        for (uint32_t t = 0; t < p->tensor.n; t++) {
            const pst_search_table *at;
            PST_TRY(table_of(x, l, k, t, &at));
            if (!at->table) continue;
            const double elements = (double)at->sum[PST_SEARCH_SUM_ELEMENTS][p->n_item] *
                                    p->tensor.value[t] / (double)(p->cluster->n_device / d);
            const double own =
                at->table->norm_ns / d + at->table->step_ns / (shards(p) ? (double)d : 1);
            to->sums =
                pst_search_min(to->sums, each * elements * pst_search_sum_bytes(p, shards(p)));
            to->rest = pst_search_min(to->rest, own * elements / fastest);
        }
    if (!(to->rest < INFINITY)) *to = (flush_times){0, 0};
    return PST_OK;
}

/* The work of equal devices, of which one stage has another degree than the best. */
static double bound_of_equal(const pst_search_context *x, uint32_t d, uint32_t most,
                             const least_times *l, const flush_times *flush) {
    const double rate = equal_rate(x->problem, d, l);
    double work = 0;
    for (uint32_t i = 0; i < x->problem->n_item; i++) work += l->least[i];
    if (rate <= 0) return INFINITY;
    return pst_search_max(most * work / rate, (most - d) * work / rate + flush->sums) + flush->rest;
}

/* With d replicas: all work spread evenly over as many devices as d replicas can use; one
 * micro-batch, forward and backward; and weighted means of both, because more tensor ranks make
 * one micro-batch shorter and all work longer. The largest is the bound. */
static pst_status bound_of_replicas(pst_search_context *x, uint32_t d, uint32_t n_micro,
                                    const least_times *l, double *bound) {
    static const double parts[] = {0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 1}; /* of the path */
    double fastest;
    flush_times flush;
    const double rate = rate_of_all(x, d, l, &fastest);
    const uint32_t most = x->same_speed ? (n_micro + d - 1) / d * d : n_micro;
    *bound = INFINITY;
    if (rate <= 0 || fastest <= 0) return PST_OK;
    PST_TRY(find_flush(x, d, l, fastest, &flush));
    *bound = x->same_speed ? bound_of_equal(x, d, most, l, &flush) : 0;
    for (size_t i = 0; i < 2 * sizeof parts / sizeof *parts && *bound < INFINITY; i++) {
        const double path = parts[i / 2], rest = 1 - path;
        const int hides = i % 2; /* the sums hide the last pass of each rank */
        const parts_of_mean part = {path / fastest, rest * most / rate,
                                    rest * (most - (hides ? d : 0)) / rate};
        double sum;
        PST_TRY(least_sum(x, l, part, &sum));
        sum += rest * (flush.rest + (hides ? flush.sums : 0)) - path * x->problem->n_item;
        *bound = pst_search_max(*bound, sum);
    }
    return PST_OK;
}

/* Two stages or more, of which one has more tensor ranks than another. */
enum { LEAST_RANKS = 3 };

/* Lowers *bound to that of this size. */
static pst_status bound_of_size(pst_search_context *x, const least_times *l, double *bound) {
    const pst_search_problem *p = x->problem;
    const uint32_t n_micro = p->batch / l->micro_batch;
    for (uint32_t k = 0; k < p->data.n; k++) {
        const uint32_t d = p->data.value[k];
        double own;
        if (!d || d > n_micro || (uint64_t)d * LEAST_RANKS > p->cluster->n_device) continue;
        PST_TRY(bound_of_replicas(x, d, n_micro, l, &own));
        *bound = pst_search_min(*bound, own);
    }
    return PST_OK;
}

pst_status pst_search_unequal_bound(pst_search_context *x, uint64_t *least_ns) {
    const pst_search_problem *p = x->problem;
    const size_t n = p->n_item;
    double *all = calloc(2 * n + (size_t)kinds_of(p) * p->tensor.n, sizeof *all), bound = INFINITY;
    least_times l = {.least = all, .sum = all + n, .near = all + 2 * n};
    pst_status status = all ? PST_OK : pst_fail(PST_ENOMEM, "no memory for the layout search");
    for (uint32_t b = 0; b < p->micro_batch.n && status == PST_OK; b++) {
        l.micro_batch = p->micro_batch.value[b];
        if (!l.micro_batch || l.micro_batch > p->batch) continue;
        status = find_least(x, &l);
        if (status == PST_OK) status = bound_of_size(x, &l, &bound);
    }
    *least_ns = bound < 1e18 ? (uint64_t)pst_search_max(bound, 1) : UINT64_MAX;
    free(all);
    return status;
}

/* --- climb ------------------------------------------------------------------------------------ */

typedef struct {
    pst_search_context *x;
    const pst_search_candidates *from;
    pst_search_candidates best; /* row.best NULL: none is shorter yet */
    uint32_t *degree, *attempt; /* [pipeline] of the best; of the current attempt */
    uint64_t least_ns;
    uint32_t evaluations;
} climb;

static pst_status open_set(const climb *u, pst_search_candidates *set) {
    const pst_search_config *like = &u->from->best_config;
    *set = (pst_search_candidates){.row = u->from->row, .rest_ns = UINT64_MAX, .n_config = 1};
    set->row.best = NULL;
    set->row.fits = 0;
    set->row.excess = 0;
    *set->row.why = 0;
    set->row.before = malloc((like->pipeline + (size_t)1) * sizeof *set->row.before);
    set->config = malloc(sizeof *set->config);
    if (!set->row.before || !set->config)
        return pst_fail(PST_ENOMEM, "no memory for the layout search");
    *set->config = *like;
    set->row.tensor = set->config->tensor =
        pst_grid_prefix_sums(u->attempt, like->pipeline, set->row.before);
    set->config->before = set->row.before;
    set->config->sequence = 0;
    set->config->bound_ns = 0;
    set->config->exhausted = 1; /* pst_search_unequal_bound covers all of these */
    return PST_OK;
}

/* *shorter: it is, and became the best. */
static pst_status evaluate_attempt(climb *u, int *shorter) {
    const uint32_t p = u->from->row.pipeline;
    pst_search_candidates set = {0};
    uint32_t same = 1;
    *shorter = 0;
    for (uint32_t s = 0; s < p; s++) same &= u->attempt[s] == u->attempt[0];
    if (same) return PST_OK;
    u->evaluations--;
    pst_status status = open_set(u, &set);
    if (status == PST_OK) status = pst_search_evaluate(u->x, &set, set.config, u->least_ns);
    if (status == PST_OK && set.row.fits && set.row.best->step_ns < u->least_ns) {
        pst_search_candidates_close(&u->best);
        u->best = set;
        u->least_ns = set.row.best->step_ns;
        *shorter = 1;
        memcpy(u->degree, u->attempt, p * sizeof *u->degree);
        return PST_OK;
    }
    pst_search_candidates_close(&set);
    return status;
}

/* The next larger or smaller tensor degree; 0: there is none. */
static uint32_t next_of(const pst_search_values *c, uint32_t value, int more) {
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->value[i] != value) continue;
        if (more) return i + 1 < c->n ? c->value[i + 1] : 0;
        return i ? c->value[i - 1] : 0;
    }
    return 0;
}

static uint64_t ranks_of(const climb *u) {
    uint64_t sum = 0;
    for (uint32_t s = 0; s < u->from->row.pipeline; s++) sum += u->attempt[s];
    return sum * u->from->row.data;
}

/* Stages after `at` (cyclically), beginning `after` places on, give up ranks until the devices
 * suffice. after 0: none has to. 0: they do not suffice. */
static int take_from(const climb *u, uint32_t at, uint32_t after) {
    const uint32_t p = u->from->row.pipeline;
    if (!after) return pst_search_allows_size(u->x->problem, ranks_of(u));
    for (uint32_t k = after; k < p; k++) {
        uint32_t *its = &u->attempt[(at + k) % p], less = next_of(&u->x->problem->tensor, *its, 0);
        if (less) *its = less;
        if (less && pst_search_allows_size(u->x->problem, ranks_of(u))) return 1;
    }
    return 0;
}

/* Gives one stage more ranks. *moved: the step became shorter. */
static pst_status raise_one(climb *u, int *moved) {
    const uint32_t p = u->from->row.pipeline;
    *moved = 0;
    for (uint32_t i = p; i-- > 0 && u->evaluations && !pst_search_timed_out(u->x);)
        for (uint32_t after = 0; after < p && u->evaluations && !*moved; after++) {
            uint32_t more = next_of(&u->x->problem->tensor, u->degree[i], 1);
            if (!more) break;
            memcpy(u->attempt, u->degree, p * sizeof *u->attempt);
            u->attempt[i] = more;
            if (!take_from(u, i, after)) continue;
            PST_TRY(evaluate_attempt(u, moved));
        }
    return PST_OK;
}

pst_status pst_search_unequal(pst_search_context *x, const pst_search_candidates *from,
                              uint64_t limit_ns, pst_search_candidates *found) {
    const uint32_t p = from->row.pipeline;
    climb u = {.x = x,
               .from = from,
               .least_ns = limit_ns,
               .degree = malloc(2 * (size_t)p * sizeof *u.degree)};
    u.evaluations = EVALUATIONS;
    *found = (pst_search_candidates){0};
    if (!u.degree) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    u.attempt = u.degree + p;
    for (uint32_t s = 0; s < p; s++) u.degree[s] = from->row.tensor;
    pst_status status = PST_OK;
    for (int moved = 1; moved && u.evaluations && status == PST_OK;) status = raise_one(&u, &moved);
    free(u.degree);
    if (status == PST_OK) *found = u.best;
    else pst_search_candidates_close(&u.best);
    return status;
}

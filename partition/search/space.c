/* Lists the configurations for given degrees, each with a lower bound from totals (all work spread
 * evenly over the fastest devices) and a guess of its step, which sets the order of evaluation. */
#include "partition/search/bound.h"
#include "partition/search/score.h"
#include "base/grow.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const pst_search_table *table; /* of the first kind that is feasible; NULL: none is, */
    const char *why;               /* for this reason */
    double work_ns, fb_ns,         /* of a micro-batch, each item where it is fastest */
        most_ns;                   /* of the item with most work */
    double fastest_group;          /* of the fastest tensor group */
    double rate, fastest; /* sum over tensor groups of their share of work_ns; the same of one
                             stage's groups, the fastest ones */
    int even;             /* all devices are equally fast */
} totals;

/* --- totals ----------------------------------------------------------------------------------- */

static double work_of(const pst_cost_table *t, uint32_t i) {
    return (double)t->f_ns[i] + (double)t->b_ns[i] + (double)t->w_ns[i];
}

static int descending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Adds the highest total rate of `groups` groups of `tensor` devices: rates are sorted in
 * descending order, and each group is as fast as its slowest device. */
static pst_status add_rates(const pst_cluster *c, const double *of_kind, uint32_t groups,
                            uint32_t data, uint32_t tensor, totals *t) {
    double *rate = malloc(c->n_device * sizeof *rate);
    if (!rate) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    t->even = 1;
    t->rate = t->fastest = 0;
    for (uint32_t d = 0; d < c->n_device; d++) {
        rate[d] = c->device[d].speed * of_kind[c->device[d].kind];
        t->even &= rate[d] == rate[0];
    }
    if (!t->even) qsort(rate, c->n_device, sizeof *rate, descending);
    for (uint32_t g = 0; g < groups; g++) {
        t->rate += rate[g * tensor + tensor - 1];
        if (!g) t->fastest_group = t->rate;
        if (g + 1 == data) t->fastest = t->rate;
    }
    free(rate);
    return PST_OK;
}

/* The same where stages have different numbers of tensor ranks: each stage has its groups on the
 * fastest device. rate_of: rates by kind, from first[stage] on. */
static void add_unequal_rates(const pst_cluster *cluster, const pst_search_config *c,
                              const double *rate_of, const uint32_t *first, totals *t) {
    t->even = 1;
    t->rate = t->fastest = t->fastest_group = 0;
    for (uint32_t d = 1; d < cluster->n_device; d++)
        t->even &= cluster->device[d].speed == cluster->device[0].speed &&
                   cluster->device[d].kind == cluster->device[0].kind;
    for (uint32_t s = 0; s < c->pipeline; s++) {
        double most = 0;
        for (uint32_t d = 0; d < cluster->n_device; d++)
            most = pst_search_max(most, cluster->device[d].speed *
                                            rate_of[first[s] + cluster->device[d].kind]);
        t->fastest_group = pst_search_max(t->fastest_group, most);
        t->rate += c->data * most;
    }
    t->fastest = c->data * t->fastest_group;
}

/* Index of each stage's first entry in rate_of; stages with equal tensor degrees share it. Returns
 * the number of entries. */
static uint32_t find_entries(const pst_search_config *c, uint32_t kinds, uint32_t *first) {
    const pst_grid grid = pst_search_grid_of(c);
    uint32_t entries = 0;
    for (uint32_t s = 0; s < c->pipeline; s++) {
        uint32_t like = 0;
        while (like < s && pst_grid_degree(grid, like) != pst_grid_degree(grid, s)) like++;
        first[s] = like < s ? first[like] : entries;
        entries += like < s ? 0 : kinds;
    }
    return entries;
}

/* first NULL: all stages have the same entries. */
static pst_status find_tables(pst_search_context *x, const pst_search_config *c, uint32_t kinds,
                              const uint32_t *first, const pst_search_table **table) {
    for (uint32_t s = 0; s < (first ? c->pipeline : 1); s++)
        for (uint32_t k = 0; k < kinds; k++) {
            const pst_search_table **at = &table[(first ? first[s] : 0) + k];
            if (!*at) PST_TRY(pst_search_table_of(x, c, k, s, at));
        }
    return PST_OK;
}

/* Adds each item with its shortest time over all entries. rate_of: how near each entry comes to
 * that with its best item. */
static void add_items(const pst_search_table *const *table, uint32_t entries, uint32_t n,
                      double *rate_of, totals *t) {
    for (uint32_t i = 0; i < n; i++) {
        double least = INFINITY, least_fb = INFINITY;
        for (uint32_t k = 0; k < entries; k++) {
            if (!table[k]->table) continue;
            least = pst_search_min(least, work_of(table[k]->table, i));
            least_fb = pst_search_min(least_fb, (double)table[k]->table->f_ns[i] +
                                                    (double)table[k]->table->b_ns[i]);
        }
        t->work_ns += least;
        t->fb_ns += least_fb;
        t->most_ns = pst_search_max(t->most_ns, least);
        for (uint32_t k = 0; k < entries; k++) {
            if (!table[k]->table) continue;
            double work = work_of(table[k]->table, i);
            rate_of[k] = pst_search_max(rate_of[k], work > 0 ? least / work : 1);
        }
    }
}

enum { MOST_ENTRIES = 64 };

/* table NULL: infeasible on every kind. first: NULL, or space for the index of each stage. */
static pst_status find_totals_of(pst_search_context *x, const pst_search_config *c, uint32_t *first,
                                 totals *t) {
    const pst_cluster *cluster = x->problem->cluster;
    uint32_t kinds = cluster->n_kind ? cluster->n_kind : 1,
             entries = first ? find_entries(c, kinds, first) : kinds;
    const pst_search_table *table[MOST_ENTRIES] = {0};
    double rate_of[MOST_ENTRIES] = {0};
    if (entries > MOST_ENTRIES)
        return pst_fail(
            PST_EINPUT,
            "%u combinations of device kind and tensor degree; at most %d are supported", entries,
            MOST_ENTRIES);
    *t = (totals){0};
    PST_TRY(find_tables(x, c, kinds, first, table));
    for (uint32_t k = 0; k < entries; k++) {
        if (table[k]->key.tensor != c->tensor) continue;
        if (!table[k]->table) t->why = table[k]->why;
        else if (!t->table) t->table = table[k];
    }
    if (!t->table) return PST_OK;
    add_items(table, entries, x->problem->n_item, rate_of, t);
    if (first) {
        add_unequal_rates(cluster, c, rate_of, first, t);
        return PST_OK;
    }
    return add_rates(cluster, rate_of, c->pipeline * c->data, c->data, c->tensor, t);
}

static pst_status find_totals(pst_search_context *x, const pst_search_config *c, totals *t) {
    if (!c->before) return find_totals_of(x, c, NULL, t);
    uint32_t *first = malloc(c->pipeline * sizeof *first);
    if (!first) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    pst_status status = find_totals_of(x, c, first, t);
    free(first);
    return status;
}

pst_status pst_search_tensor_bound(pst_search_context *x, uint32_t tensor, uint64_t *least_ns) {
    const pst_search_problem *p = x->problem;
    double least = INFINITY;
    for (uint32_t b = 0; b < p->micro_batch.n; b++)
        for (uint32_t q = 0; q < (tensor > 1 ? p->sequence.n : 1); q++) {
            uint32_t size = p->micro_batch.value[b];
            pst_search_config c = {
                .pipeline = p->cluster->n_device / tensor, .data = 1, .tensor = tensor};
            totals t;
            if (!size || size > p->batch) continue;
            c.micro_batch = size;
            c.sequence = tensor > 1 ? p->sequence.value[q] : 0;
            PST_TRY(find_totals(x, &c, &t));
            if (!t.table || t.rate <= 0) continue;
            PST_TRY(pst_search_rest_of(x, &c));
            const double whole = p->batch / size;
            const double ns = (whole + c.rest) * t.work_ns - c.rest_less_ns;
            least = pst_search_min(least, pst_search_max(ns, whole * t.work_ns) / t.rate);
        }
    if (least < 1) least = 1;
    *least_ns = least >= 1e18 ? UINT64_MAX : (uint64_t)least;
    return PST_OK;
}

/* --- guesses ---------------------------------------------------------------------------------- */

static double replica_bytes_per_s(const pst_cluster *c, const pst_search_config *at) {
    const pst_cluster_node *node = &c->node[0];
    uint32_t each = c->n_device / c->n_node ? c->n_device / c->n_node : 1;
    if (c->n_node == 1 || at->data * at->tensor <= each)
        return node->link[PST_LEVEL_DEVICE].bytes_per_s;
    double one = node->link[PST_LEVEL_NODE].bytes_per_s, all = node->node_bytes_per_s / each;
    return all > 0 && all < one ? all : one;
}

static double least_stash(const pst_search_problem *p, const totals *t) {
    double least = INFINITY;
    for (uint32_t mode = 0; mode < PST_RECOMPUTE_COUNT; mode++)
        if (p->recompute[mode] || !mode)
            least = pst_search_min(least,
                                   (double)t->table->sum[PST_SEARCH_SUM_STASH + mode][p->n_item]);
    return least;
}

/* The stash of all items with the mode that keeps least. */
static double smallest_stash(const pst_search_problem *p, const totals *t) {
    double least = INFINITY;
    for (uint32_t mode = 0; mode < PST_RECOMPUTE_COUNT; mode++)
        if (p->recompute[mode])
            least = pst_search_min(least,
                                   (double)t->table->sum[PST_SEARCH_SUM_STASH + mode][p->n_item]);
    return least < INFINITY ? least : (double)t->table->sum[PST_SEARCH_SUM_STASH][p->n_item];
}

static double frozen_bytes(const pst_search_problem *p, const totals *t) {
    return (double)t->table->sum[PST_SEARCH_SUM_FROZEN][p->n_item] * p->weight_bytes;
}

/* The memory left for activations in flight decides how much is recomputed; without any, the guess
 * is very long. */
static double guess(pst_search_context *x, pst_search_config *c, const totals *t) {
    const pst_search_problem *p = x->problem;
    uint32_t n = p->n_item, chunks = pst_search_chunk_count(x, c) / c->pipeline, mode = 0;
    double bubble, held, m = ceil((double)c->n_micro / c->data), stages = c->pipeline;
    double memory = (double)pst_search_capacity(p, 0),
           elements = (double)t->table->sum[PST_SEARCH_SUM_ELEMENTS][n] / stages;
    double bytes = elements * (p->weight_bytes + (double)p->state_bytes / (c->zero ? c->data : 1) +
                               (double)p->grad_bytes / (c->zero == 2 ? c->data : 1)) +
                   frozen_bytes(p, t) / stages +
                   (double)pst_search_work_bytes(t->table, 0, n, PST_RECOMPUTE_NONE, 0, 0);
    const pst_schedule_size size = {c->pipeline, chunks, (uint32_t)m};
    pst_schedule_estimate(x->row[c->schedule], &size, &bubble, &held);
    while (mode < PST_RECOMPUTE_COUNT &&
           (!p->recompute[mode] ||
            bytes + held * (double)t->table->sum[PST_SEARCH_SUM_STASH + mode][n] / stages > memory))
        mode++;
    c->min_bytes = (uint64_t)(bytes + held * smallest_stash(p, t) / stages);
    /* the cut is uneven */
    double work =
        (double)c->bound_ns + (c->pipeline > 1 ? m * t->most_ns / t->fastest * c->data / 2 : 0);
    if (mode < PST_RECOMPUTE_COUNT)
        work *= 1 + (double)t->table->sum[PST_SEARCH_SUM_AGAIN + mode][n] /
                        pst_search_max(t->work_ns, 1);
    else work *= 100;
    double bw = replica_bytes_per_s(p->cluster, c),
           sums = c->data > 1 && bw > 0 ? elements * pst_search_sum_bytes(p, 0) * 1e9 / bw : 0;
    if (c->zero == 2) sums *= m / 2;
    return work * (1 + bubble * (stages - 1) / m) + sums * (c->zero == 1 ? 1.01 : 1);
}

/* --- all -------------------------------------------------------------------------------------- */

typedef struct {
    pst_search_config *at;
    uint32_t n;
    size_t capacity;
    int micros, feasible; /* 1: some micro-batch size is possible; some table is feasible */
    const char *why;      /* why a table is not */
} list;

/* Least time of a rank's link: its share of what replicas exchange, or the messages between stages
 * in one direction where fewest bytes cross. */
static double least_traffic(const pst_search_context *x, const pst_search_config *c,
                            const totals *t) {
    const pst_search_problem *p = x->problem;
    double sums = 0, hops = 0,
           elements = (double)t->table->sum[PST_SEARCH_SUM_ELEMENTS][p->n_item] / c->pipeline;
    /* with zero 2, gradients are exchanged once per micro-batch */
    const double times = c->zero == 2 ? c->n_micro / c->data : 1;
    const double bytes =
        times * pst_search_sum_bytes(p, c->zero) + (c->zero ? pst_search_change_bytes(p) : 0.);
    if (c->data > 1) sums = pst_search_exchange_bound(x, c) * elements * bytes;
    const double bw = (uint64_t)c->pipeline * c->tensor > x->node_devices
                          ? x->node_bw
                          : pst_search_max(x->device_bw, x->node_bw);
    if (c->pipeline > 1 && bw > 0)
        hops = (double)t->table->least_cross * (c->n_micro / c->data) * 1e9 / bw;
    return c->before ? 0 : pst_search_max(sums, hops);
}

/* The largest of: all work spread evenly; the largest item, which one stage has; one micro-batch,
 * forward and backward (passes of chunks are rounded to ns); and the links. */
static uint64_t bound_of(const pst_search_context *x, const pst_search_config *c, const totals *t) {
    const double whole = t->even ? ceil((double)c->n_micro / c->data) * c->data : c->n_micro;
    double path_ns = (x->row[c->schedule]->split ? t->fb_ns : t->work_ns) / t->fastest_group -
                     x->problem->n_item;
    path_ns = pst_search_max(path_ns, least_traffic(x, c, t));
    /* where all replicas have as many whole micro-batches, one has the smaller one as well */
    const double replicas = t->even ? c->data : 1;
    const double rest = t->even && c->n_micro % c->data ? 0 : c->rest;
    const double more = whole + replicas * rest, less = replicas * c->rest_less_ns;
    const double with_rest = pst_search_max((more * t->work_ns - less) / t->rate,
                                            (more * t->most_ns - less) / t->fastest);
    const double without = whole * pst_search_max(t->work_ns / t->rate, t->most_ns / t->fastest);
    return (uint64_t)pst_search_max(pst_search_max(with_rest, without), path_ns);
}

static pst_status add(list *l, const pst_search_config *c) {
    PST_TRY(pst_grow(&l->at, sizeof *l->at, l->n, &l->capacity, "for the layout search"));
    l->at[l->n++] = *c;
    return PST_OK;
}

/* 1: all devices of a pipeline together cannot hold what exists once plus one micro-batch. */
static int is_too_large(const pst_search_context *x, const pst_search_config *c, const totals *t) {
    const pst_search_problem *p = x->problem;
    uint32_t n = p->n_item;
    double elements = (double)t->table->sum[PST_SEARCH_SUM_ELEMENTS][n];
    double sums = (double)t->table->sum[PST_SEARCH_SUM_ACCUMULATED][n] * p->grad_bytes;
    double bytes = elements * (p->weight_bytes + (double)p->state_bytes / (c->zero ? c->data : 1)) +
                   frozen_bytes(p, t) + least_stash(p, t);
    bytes += c->zero == 2 ? sums / c->data + elements * p->grad_bytes : sums;
    bytes += (double)t->table->sum[PST_SEARCH_SUM_KEPT][n] * (c->n_micro / c->data);
    return bytes > (double)x->capacity * c->pipeline;
}

static int has(const pst_search_values *c, uint32_t value) {
    for (uint32_t i = 0; i < c->n; i++)
        if (c->value[i] == value) return 1;
    return 0;
}

/* With one stage all orders of passes take the same time, except for rounding. Only two schedules
 * matter: 1f1b, with the fewest micro-batches in flight, and interleaved, in which the gradient
 * sums of one chunk overlap with the passes of another chunk. */
static int is_the_same(const pst_search_context *x, const pst_search_config *c) {
    const pst_schedule_row *row = x->row[c->schedule];
    if (c->pipeline > 1 || pst_search_is_small(x->problem) || row->single_stage) return 0;
    if (c->data > 1 && !row->n_virtual) return 0;
    for (uint32_t i = 0; i < x->problem->n_schedule; i++)
        if (x->row[i]->single_stage) return 1;
    return 0;
}

/* Zero 2 needs the gradients of two chunks in addition to their sums, and reduces once per
 * micro-batch. With at most two chunks, a lower ZeRO stage is never slower and never needs more
 * memory. */
static int is_too_much_zero(const pst_search_problem *p, const pst_search_config *c) {
    return c->zero == 2 && c->chunks <= 2 && p->zero.n > 1;
}

static pst_status add_chunks(pst_search_context *x, pst_search_config c, const totals *t, list *l) {
    const pst_search_problem *p = x->problem;
    const pst_schedule_row *row = x->row[c.schedule];
    uint32_t own[1] = {row->n_virtual}, n = row->n_virtual ? 1 : p->chunks.n;
    const uint32_t *value = row->n_virtual ? own : p->chunks.value;
    if (row->n_virtual && !has(&p->chunks, 0) && !has(&p->chunks, row->n_virtual)) return PST_OK;
    for (uint32_t i = 0; i < n; i++) {
        c.chunks = value[i] ? value[i] : 2;
        if (!row->n_virtual && i && !value[i]) continue;
        if (!row->n_virtual && value[i] == 2 && has(&p->chunks, 0)) continue; /* 0 is 2 */
        if ((uint64_t)c.pipeline * c.chunks > p->n_item) continue;
        if ((uint64_t)c.pipeline * c.chunks * ((c.n_micro + c.data - 1) / c.data) >
            PST_SEARCH_PASSES)
            continue;
        if (!row->n_virtual && c.chunks == 1 && p->chunks.n > 1) continue; /* 1f1b */
        if (is_too_much_zero(p, &c)) continue;
        c.bound_ns = bound_of(x, &c, t);
        c.guess_ns = (uint64_t)guess(x, &c, t);
        if (is_too_large(x, &c, t))
            c.bound_ns = PST_SEARCH_TOO_LARGE; /* it may still be the nearest one */
        PST_TRY(add(l, &c));
    }
    return PST_OK;
}

static int by_guess(const void *a, const void *b) {
    const pst_search_config *x = a, *y = b;
    if (x->guess_ns != y->guess_ns) return x->guess_ns < y->guess_ns ? -1 : 1;
    if (x->zero != y->zero) return x->zero < y->zero ? -1 : 1;
    if (x->micro_batch != y->micro_batch) return x->micro_batch < y->micro_batch ? -1 : 1;
    return (x->schedule > y->schedule) - (x->schedule < y->schedule);
}

/* All schedules and ZeRO stages with one micro-batch and sequence setting. */
static pst_status add_all(pst_search_context *x, pst_search_config c, list *l) {
    const pst_search_problem *p = x->problem;
    totals t = {0};
    for (uint32_t s = 0; s < p->n_schedule; s++) {
        c.schedule = s;
        if (!s || c.before)
            PST_TRY(find_totals(x, &c, &t)); /* where the last chunk lies decides whether parameters
                                                are tied */
        l->feasible |= t.table != NULL;
        if (!t.table) l->why = t.why;
        if (!t.table || t.rate <= 0 || is_the_same(x, &c)) continue;
        for (uint32_t z = 0; z < (c.data > 1 ? p->zero.n : 1); z++) {
            c.zero = p->zero.value[z];
            PST_TRY(add_chunks(x, c, &t, l));
        }
    }
    return PST_OK;
}

/* How many sequence settings apply: none between stages of different tensor degrees, where
 * positions are not split. */
static uint32_t sequences(const pst_search_problem *p, const pst_search_config *like) {
    return like->tensor > 1 && !like->before ? p->sequence.n : 1;
}

static uint32_t least_batch(const pst_search_problem *p) {
    return p->least_batch ? p->least_batch : p->batch;
}

/* Whether the micro-batches of a step are equal shares of the gradient accumulators. */
static int fills_parts(const pst_search_problem *p, uint32_t batch, uint32_t size) {
    return !p->parts || (batch / size + (batch % size != 0)) % p->parts == 0;
}

/* Each replica has a whole micro-batch, and each gradient accumulator an equal share, in every
 * step. */
static int is_size(const pst_search_problem *p, uint32_t data, uint32_t size) {
    if (!size || least_batch(p) / size < data) return 0;
    return fills_parts(p, p->batch, size) && fills_parts(p, least_batch(p), size);
}

static void say_infeasible(const pst_search_problem *p, const pst_search_config *like,
                           const list *l, char why[160]) {
    if (!l->micros)
        snprintf(why, 160,
                 "infeasible: %u samples are too few for %u replicas with each allowed micro_batch",
                 least_batch(p), like->data);
    else if (!l->feasible) snprintf(why, 160, "infeasible: %s", l->why);
    else
        snprintf(why, 160,
                 "infeasible: every schedule for %u stages needs more than %u operators, or is too "
                 "long to search",
                 like->pipeline, p->n_item);
}

pst_status pst_search_configs(pst_search_context *x, const pst_search_config *like,
                              pst_search_config **config, uint32_t *n, char why[160]) {
    const pst_search_problem *p = x->problem;
    list l = {0};
    pst_status status = PST_OK;
    for (uint32_t b = 0; b < p->micro_batch.n && status == PST_OK; b++) {
        uint32_t size = p->micro_batch.value[b];
        if (!is_size(p, like->data, size)) continue;
        l.micros = 1;
        for (uint32_t q = 0; q < sequences(p, like) && status == PST_OK; q++) {
            pst_search_config c = {.pipeline = like->pipeline,
                                   .tensor = like->tensor,
                                   .data = like->data,
                                   .before = like->before,
                                   .micro_batch = size,
                                   .sequence =
                                       like->tensor > 1 && !like->before ? p->sequence.value[q] : 0,
                                   .n_micro = p->batch / size};
            status = pst_search_rest_of(x, &c);
            if (status == PST_OK) status = add_all(x, c, &l);
        }
    }
    if (status == PST_OK && !l.n) say_infeasible(p, like, &l, why);
    if (l.n) qsort(l.at, l.n, sizeof *l.at, by_guess);
    if (status != PST_OK) free(l.at);
    else {
        *config = l.at;
        *n = l.n;
    }
    return status;
}

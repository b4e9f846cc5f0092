/* Lower bound on the step of a configuration over all cuts, from all stages together. The time of
 * each stage from the start of the step to its flush is a path through the schedule's order, and
 * the longest path is at least any weighted mean of such paths. A mean is a sum over chunks of the
 * time of their operators times the weight of the chunk. Its minimum over all cuts is at least the
 * sum in which each operator lies in the chunk where it weighs least. Stage weights are chosen so
 * that chunks weigh about the same. Any weights give a valid bound; poor ones give a low one.
 *
 * Paths of stage r, with m micro-batches and chunks in the order of the model; w(k) is how many F
 * of chunk k run before the stage's first B:
 *
 *   forward  F of the chunks before r, then all work of the stage
 *   first B  F of all chunks, B of the chunks after the stage's last one, then all its work except
 *            w(k) F of each of its chunks k
 *   gather   all-gather of the stage's new weights (zero 1 and 2), then all its work
 *   round j  (interleaved) F of the chunks before its j-th one, then its work except F of the
 *            chunks before that in one round
 *
 * Each path ends with the gradient sums and the norm of the stage's first chunk, which finishes
 * last; or, where B and W are one pass, with BW of the chunks before r and of one round, until the
 * first stage ends. A second bound: some stage has several of the largest operators. */
#include "partition/search/bound.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WEIGHED = 1 << 18, MOST_CHUNKS = 64, MOST_LARGE_ITEMS = 3, TURNS = 4 };

/* of a stage's weight for its first-B path: near the last stage more gains nothing */
#define MOST_FIRST_B 0.5

/* ns of all items or of one item; b includes the cheapest recomputation that is allowed */
typedef struct {
    double f, b, w, e; /* e: elements of parameters */
} amount;

typedef struct {
    const pst_search_config *c;
    const pst_search_table *table;
    uint32_t p, chunks, n_chunk, m;
    double speed, sum, norm, gather, step; /* ns per element; step: of the optimizer */
    amount all;
    amount *weight;          /* [n_chunk] weights of a chunk's F, B, W and elements */
    double *share, *first_b; /* [p] weight of all paths of a stage; of its first-B path */
    double constant;         /* ns */
    /* beside: replica sums may overlap the stage's last pass, and the path goes through the longer
     * of both (about). longer: that is the sums; the pass does not count then, else the sums. */
    int beside, longer, split;
} mean;

/* --- groups of equal operators ---------------------------------------------------------------- */

static double least_again(const pst_search_problem *p, const pst_cost_table *t, uint32_t item) {
    /* a chunk need not recompute this layer */
    const int may_keep =
        p->recompute[PST_RECOMPUTE_LAYERS] && p->layers != PST_RECOMPUTE_MOST_LAYERS;
    double least = p->recompute[PST_RECOMPUTE_NONE] || may_keep ? 0 : INFINITY;
    for (uint32_t mode = 1; mode < PST_RECOMPUTE_COUNT; mode++)
        if (p->recompute[mode]) least = pst_search_min(least, (double)t->again_ns[mode][item]);
    return least < INFINITY ? least : 0;
}

static int alike(const pst_search_problem *p, const pst_cost_table *t, uint32_t a, uint32_t b) {
    return t->f_ns[a] == t->f_ns[b] && t->b_ns[a] == t->b_ns[b] && t->w_ns[a] == t->w_ns[b] &&
           t->elements[a] == t->elements[b] && !(least_again(p, t, a) < least_again(p, t, b)) &&
           !(least_again(p, t, b) < least_again(p, t, a));
}

static uint64_t size_of(const pst_search_problem *p, const pst_cost_table *t, uint32_t i) {
    return t->f_ns[i] + t->b_ns[i] + (uint64_t)least_again(p, t, i) + t->w_ns[i];
}

/* Groups operators with the same costs, so that each group is weighed once; the largest first. */
static pst_status sort_items(const pst_search_problem *p, pst_search_table *t) {
    uint32_t n = t->table->n;
    if (t->alike) return PST_OK;
    if (!(t->alike = calloc(2 * (size_t)n, sizeof *t->alike)))
        return pst_fail(PST_ENOMEM, "no memory for the layout search");
    t->n_of = t->alike + n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        while (k < t->n_alike && !alike(p, t->table, t->alike[k], i)) k++;
        if (k == t->n_alike) t->alike[t->n_alike++] = i;
        t->n_of[k]++;
    }
    for (uint32_t i = 1; i < t->n_alike; i++)
        for (uint32_t k = i;
             k && size_of(p, t->table, t->alike[k - 1]) < size_of(p, t->table, t->alike[k]); k--) {
            uint32_t item = t->alike[k], n_of = t->n_of[k];
            t->alike[k] = t->alike[k - 1];
            t->n_of[k] = t->n_of[k - 1];
            t->alike[k - 1] = item;
            t->n_of[k - 1] = n_of;
        }
    return PST_OK;
}

static amount amount_of(const pst_search_problem *p, const pst_search_table *t, uint32_t item,
                        double speed) {
    const pst_cost_table *c = t->table;
    return (amount){(double)c->f_ns[item] / speed,
                    ((double)c->b_ns[item] + least_again(p, c, item)) / speed,
                    (double)c->w_ns[item] / speed, (double)c->elements[item]};
}

/* --- flush ------------------------------------------------------------------------------------ */

double pst_search_exchange_bound(const pst_search_context *x, const pst_search_config *c) {
    const uint32_t largest =
        x->problem->tensor_across_nodes ? x->node_devices : x->node_devices / c->tensor;
    double least = INFINITY, d = c->data;
    for (uint32_t near = 1; near <= largest && near <= c->data; near++) {
        double bw = pst_search_min(x->node_bw, x->node_total_bw / (near * c->tensor));
        if (pst_costs_program_is_other(x->problem->program)) {
            const pst_costs_replicas replicas = {c->data, near, x->device_bw, bw};
            least = pst_search_min(
                least, 1e-9 * pst_costs_program_exchange_ns(x->problem->program, &replicas));
            continue;
        }
        double inside = near > 1 && x->device_bw > 0 ? (near - 1) / (d * x->device_bw) : 0;
        double outside = near < c->data && bw > 0 ? (d - near) / (d * bw) : 0;
        least = pst_search_min(least, pst_search_max(inside, outside));
    }
    return least < INFINITY ? least * 1e9 : 0;
}

static void fill_flush(const pst_search_context *x, mean *a) {
    const pst_cost_table *t = a->table->table;
    double d = a->c->data, ns = a->c->data > 1 ? pst_search_exchange_bound(x, a->c) : 0;
    a->norm = t->norm_ns / a->speed / d;
    a->step = t->step_ns / a->speed / (a->c->zero ? d : 1);
    a->sum = ns * pst_search_sum_bytes(x->problem, a->c->zero) +
             t->reduce_ns / a->speed * (d - 1) / d * pst_search_sum_share(x->problem);
    a->gather = a->c->zero ? ns * pst_search_change_bytes(x->problem) : 0;
}

/* --- weights: B and W apart, one chunk, or two in a V ----------------------------------------- */

/* Of a path through the replica sums of stage r: how much of them counts, and how many of the
 * stage's last passes do not. */
static double sums_of(const mean *x, uint32_t r) {
    int early = x->beside && (x->split || !r);
    return early && !x->longer ? 0 : x->sum;
}
static double passes_of(const mean *x, uint32_t r) {
    return x->beside && (x->split || !r) && x->longer ? 1 : 0;
}

/* Whether the all-gather of the stage's new weights takes longer than the first micro-batch to
 * reach the stage. */
static int waits_for_gather(const mean *x, uint32_t r) {
    return x->gather * x->all.e > r * x->all.f;
}

/* From the last stage to the first: chooses weights such that both chunks of a stage weigh 1, with
 * what later stages add to them. */
static void weigh_split(const pst_search_context *x, mean *a) {
    const pst_schedule_row *row = x->row[a->c->schedule];
    const pst_schedule_size size = {a->p, a->chunks, a->m};
    double forward = 0, first_b = 0, all = 0, work = a->m * (a->all.f + a->all.b + a->all.w);
    for (uint32_t r = a->p; r-- > 0;) {
        int gather = waits_for_gather(a, r);
        double w0 = pst_schedule_warm_up(row, &size, r, 0) * a->all.f, w1 = 0, s = 0;
        double own0 = work - passes_of(a, r) * a->all.w +
                      (a->norm + sums_of(a, r) + (gather ? a->gather : 0)) * a->all.e,
               own1 = work + a->norm * a->all.e;
        double more0 = forward * a->all.f, more1 = first_b * a->all.b, q = own1 / own0;
        if (a->chunks > 1) {
            w1 = pst_schedule_warm_up(row, &size, r, 1) * a->all.f;
            double gain = w0 * q - w1;
            s = pst_search_max(0, 1 - q + q * more0 - more1);
            s = s < MOST_FIRST_B * gain / own0 ? s / gain : MOST_FIRST_B / own0;
        }
        double share = (1 - more0 + s * w0) / own0;
        if (a->chunks > 1) share = pst_search_max(share, (1 - more1 + s * w1) / own1);
        share = pst_search_max(share, 0);
        s = pst_search_min(s, share);
        a->share[r] = share;
        a->first_b[r] = s;
        forward += gather ? 0 : share - s;
        first_b += s;
        all += share;
    }
    for (uint32_t r = 0; r < a->p; r++) {
        a->share[r] /= all;
        a->first_b[r] /= all;
    }
}

static void set_split(const pst_search_context *x, mean *a) {
    const pst_schedule_row *row = x->row[a->c->schedule];
    const pst_schedule_size size = {a->p, a->chunks, a->m};
    double forward = 0, first_b = 0;
    for (uint32_t r = a->p; r-- > 0;) {
        int gather = waits_for_gather(a, r);
        double share = a->share[r], s = a->first_b[r], work = share * a->m;
        a->weight[r] =
            (amount){work + forward - s * pst_schedule_warm_up(row, &size, r, 0), work,
                     work - share * passes_of(a, r),
                     share * (a->norm + sums_of(a, r)) + (gather ? (share - s) * a->gather : 0)};
        if (a->chunks > 1)
            a->weight[2 * a->p - 1 - r] =
                (amount){work - s * pst_schedule_warm_up(row, &size, r, 1), work + first_b, work,
                         share * a->norm};
        forward += gather ? 0 : share - s;
        first_b += s;
    }
    a->constant = first_b * a->all.f;
}

/* --- weights: BW as one, chunks in rounds ----------------------------------------------------- */

/* Weights of the paths that begin (or end) at each chunk of a stage, the last chunk first. The
 * weights are equal if a round has as many micro-batches as there are stages. If a round has more,
 * earlier chunks have smaller weights, because they then carry the weight of later ones. */
static void spread_paths(const mean *a, double round, double *frequency) {
    double ratio = pst_search_max(0.1, 2 * round / a->p - 1), all = 0, one = 1;
    for (uint32_t j = a->chunks; j-- > 0; one *= ratio) {
        frequency[j] = one;
        all += one;
    }
    for (uint32_t j = 0; j < a->chunks; j++) frequency[j] /= all;
}

/* first, last: micro-batches in the first and the last round. */
static void set_rounds(mean *a, double first, double last, int tail) {
    double behind = 0, begin[MOST_CHUNKS], end[MOST_CHUNKS];
    spread_paths(a, first, begin);
    spread_paths(a, last, end);
    for (uint32_t r = a->p; r-- > 0;) {
        double share = a->share[r], work = share * a->m, forward = 0, backward = 0;
        for (uint32_t j = a->chunks; j-- > 0;) {
            double f = behind * begin[j] + forward * (1 - first * share);
            double b = tail ? behind * end[j] + backward * (1 - last * share) : 0;
            double sums = a->norm + (j ? 0 : sums_of(a, r)),
                   beside = j || tail ? 0 : share * passes_of(a, r);
            a->weight[j * a->p + r] =
                (amount){work + f, work + b - beside, work + b - beside, tail ? 0 : share * sums};
            forward += begin[j];
            backward += end[j];
        }
        behind += share;
    }
}

static double weigh(const amount *k, const amount *x) {
    return k->f * x->f + k->b * x->b + k->w * x->w + k->e * x->e;
}

static void weigh_rounds(mean *a, int tail) {
    uint32_t rounds = a->m < a->p ? 1 : a->m / a->p, size = a->m / rounds;
    double first = size + (a->m % rounds > 0), work = a->m * (a->all.f + a->all.b + a->all.w);
    for (uint32_t r = 0; r < a->p; r++) a->share[r] = 1. / a->p;
    for (int turn = 0;; turn++) {
        double sum = 0, all = 0;
        set_rounds(a, first, size, tail);
        if (turn == TURNS) break;
        for (uint32_t r = 0; r < a->p; r++) {
            double least = INFINITY;
            for (uint32_t j = 0; j < a->chunks; j++)
                least = pst_search_min(least, weigh(&a->weight[j * a->p + r], &a->all));
            a->first_b[r] = least;
            sum += least;
        }
        for (uint32_t r = 0; r < a->p; r++) {
            a->share[r] = pst_search_max(0, a->share[r] + (sum / a->p - a->first_b[r]) / work);
            all += a->share[r];
        }
        for (uint32_t r = 0; r < a->p; r++) a->share[r] /= all;
    }
}

/* --- bound ------------------------------------------------------------------------------------ */

static uint32_t most_micros(const pst_search_problem *p, const pst_search_config *c) {
    uint32_t most = (c->n_micro + c->data - 1) / c->data;
    for (uint32_t k = 0; k < c->data && p->micros; k++)
        if (p->micros[k] > most) most = p->micros[k];
    return most;
}

/* Each operator at the chunk where it weighs least. Subtracts what rounding to ns may add. */
static double least_of(const pst_search_problem *p, const mean *a) {
    double all = a->constant + a->step * a->all.e / a->p;
    for (uint32_t i = 0; i < a->table->n_alike; i++) {
        amount one = amount_of(p, a->table, a->table->alike[i], a->speed);
        double least = INFINITY;
        for (uint32_t k = 0; k < a->n_chunk; k++)
            least = pst_search_min(least, weigh(&a->weight[k], &one));
        all += least * a->table->n_of[i];
    }
    return all - 3. * a->m * a->chunks - 3. * a->n_chunk - 8;
}

/* One stage has at least k + 1 of the k p + 1 largest operators (pigeonhole): its work is at least
 * that of the smallest k + 1 of them. */
static double largest_items_bound(const pst_search_problem *p, const mean *a) {
    const pst_search_table *t = a->table;
    double most = 0;
    for (uint64_t k = 1; k * a->p < p->n_item && k <= MOST_LARGE_ITEMS; k++) {
        uint64_t behind = 0, from = k * a->p - k; /* operators [from, from + k], by size */
        double sum = 0;
        for (uint32_t i = 0; i < t->n_alike; i++) {
            amount one = amount_of(p, t, t->alike[i], a->speed);
            uint64_t low = behind > from ? behind : from, high = behind + t->n_of[i];
            if (high > from + k + 1) high = from + k + 1;
            if (high > low) sum += (double)(high - low) * (one.f + one.b + one.w);
            behind += t->n_of[i];
        }
        most = pst_search_max(most, sum);
    }
    return a->m * most - 3. * a->m * a->chunks;
}

static void raise_bound(pst_search_context *x, pst_search_config *c, mean *a) {
    const pst_search_problem *p = x->problem;
    fill_flush(x, a);
    for (uint32_t i = 0; i < a->table->n_alike; i++) {
        amount one = amount_of(p, a->table, a->table->alike[i], a->speed);
        double n = a->table->n_of[i];
        a->all.f += n * one.f;
        a->all.b += n * one.b;
        a->all.w += n * one.w;
        a->all.e += n * one.e;
    }
    int split = x->row[c->schedule]->split;
    a->split = split;
    a->beside = pst_search_overlaps_sums(p, c);
    a->longer = a->sum * a->all.e > (split ? 0 : a->all.b) + a->all.w;
    double least = largest_items_bound(p, a);
    if (split) {
        weigh_split(x, a);
        set_split(x, a);
        least = pst_search_max(least, least_of(p, a));
    }
    for (int tail = 0; !split && tail < 2; tail++) {
        weigh_rounds(a, tail);
        least = pst_search_max(least, least_of(p, a));
    }
    if (least > (double)c->bound_ns && least < 1e18) c->bound_ns = (uint64_t)least;
}

pst_status pst_search_tighten(pst_search_context *x, pst_search_config *c) {
    const pst_schedule_row *row = x->row[c->schedule];
    const pst_search_table *t;
    mean a = {.c = c, .p = c->pipeline, .speed = x->problem->cluster->device[0].speed};
    int v_shape = row->placement == PST_PLACE_V_SHAPE;
    a.n_chunk = pst_search_chunk_count(x, c);
    a.chunks = a.n_chunk / a.p;
    a.m = most_micros(x->problem, c);
    int known = !v_shape && a.chunks <= MOST_CHUNKS;
    if (row->split) known = a.chunks == 1 + (uint32_t)v_shape;
    if (c->tightened || !x->same_speed || !known || c->before) return PST_OK;
    c->tightened = 1;
    PST_TRY(pst_search_table_of(x, c, x->problem->cluster->device[0].kind, 0, &t));
    if (!t->table) return PST_OK;
    PST_TRY(sort_items(x->problem, (pst_search_table *)t));
    if ((uint64_t)t->n_alike * a.n_chunk > MOST_WEIGHED) return PST_OK;
    a.table = t;
    a.weight = malloc(a.n_chunk * sizeof *a.weight);
    a.share = calloc(2 * (size_t)a.p, sizeof *a.share);
    a.first_b = a.share ? a.share + a.p : NULL;
    pst_status status =
        a.weight && a.share ? PST_OK : pst_fail(PST_ENOMEM, "no memory for the layout search");
    if (status == PST_OK) raise_bound(x, c, &a);
    free(a.weight);
    free(a.share);
    return status;
}

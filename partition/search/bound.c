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
 *   wait     (B and W as one pass) F of the first chunks of the stages before the last, all F of
 * the last stage before its first B, BW of the last chunks of the stages behind, then all its work
 * except the F before its first B
 *
 * Each path ends with the gradient sums and the norm of the stage's first chunk, which finishes
 * last; or, where B and W are one pass, with BW of the chunks before r and of one round, until the
 * first stage ends. A second bound: some stage has several of the largest operators. */
#include "partition/search/bound.h"
#include "partition/search/price.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WEIGHED = 1 << 18, MOST_CHUNKS = 64, MOST_LARGE_ITEMS = 3, TURNS = 4 };

/* of a stage's weight for its first-B path: near the last stage more gains nothing */
#define MOST_FIRST_B 0.5

/* parts of the memory for which prices are tried */
#define LEAST_PART 0.2
#define NEXT_PART 0.8

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
    double *waits;           /* [p] share of the weight that its wait path has */
    double part;             /* of the weight that wait paths get */
    int tail;                /* 1: paths end at the first stage; 0: with sums and norm */
    double constant;         /* ns */
    /* beside: replica sums may overlap the stage's last pass, and the path goes through the longer
     * of both (about). longer: that is the sums; the pass does not count then, else the sums. */
    int beside, longer, split;
    int priced; /* 1: memory has a price, and cuts are whole */
    pst_search_price price;
    pst_search_weight *weights; /* [n_chunk] */
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

static int alike(const pst_search_table *t, uint32_t a, uint32_t b) {
    for (uint32_t sum = 0; sum < PST_SEARCH_SUM_COUNT; sum++)
        if (pst_search_run(t, sum, a, a + 1) != pst_search_run(t, sum, b, b + 1)) return 0;
    return 1;
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
        while (k < t->n_alike && !alike(t, t->alike[k], i)) k++;
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

double pst_search_exchange_of(const pst_search_context *x, const pst_search_config *c,
                              uint32_t near) {
    const double bw = pst_search_min(x->node_bw, x->node_total_bw / (near * c->tensor)),
                 d = c->data;
    if (pst_costs_program_is_other(x->problem->program)) {
        const pst_costs_replicas replicas = {c->data, near, x->device_bw, bw};
        return pst_costs_program_exchange_ns(x->problem->program, &replicas);
    }
    double least = INFINITY;
    for (uint32_t first = 1; first <= near; first *= 2) {
        if (first > 1 && !pst_search_is_two_level(x->problem, c, first)) break;
        const double of_node = (first - 1) * (d / first) + (double)near / first - 1;
        const double inside = near > 1 && x->device_bw > 0 ? of_node / (d * x->device_bw) : 0;
        const double outside = near < c->data && bw > 0 ? (d - near) / first / (d * bw) : 0;
        least = pst_search_min(least, pst_search_max(inside, outside));
    }
    return least * 1e9;
}

double pst_search_exchange_bound(const pst_search_context *x, const pst_search_config *c) {
    const uint32_t largest =
        x->problem->tensor_across_nodes ? x->node_devices : x->node_devices / c->tensor;
    double least = INFINITY;
    for (uint32_t near = 1; near <= largest && near <= c->data; near++)
        least = pst_search_min(least, pst_search_exchange_of(x, c, near));
    return least < INFINITY ? least : 0;
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

/* What the memory of all operators costs on a chunk, per weight. */
static double extra_of(const mean *a, uint32_t chunk) {
    return a->priced ? a->price.extra[chunk] : 0;
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
        own0 += extra_of(a, r);
        own1 += a->chunks > 1 ? extra_of(a, 2 * a->p - 1 - r) : 0;
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

/* The weight of F on the last stage and before it, which all wait paths have. */
static void set_waits(const pst_search_context *x, mean *a) {
    const pst_schedule_row *row = x->row[a->c->schedule];
    const pst_schedule_size size = {a->p, a->chunks, a->m};
    double before = 0;
    for (uint32_t r = 0; r < a->p; r++) {
        const uint32_t last_chunk = (a->chunks - 1) * a->p + r;
        for (uint32_t j = 0; j < a->chunks; j++)
            a->weight[j * a->p + r].f -= a->waits[r] * pst_schedule_warm_up(row, &size, r, j);
        before += a->waits[r];
        a->weight[last_chunk].b += before - (r + 1 < a->p ? a->waits[r] : 0);
        a->weight[last_chunk].w += before - (r + 1 < a->p ? a->waits[r] : 0);
    }
    const uint32_t last = a->p - 1;
    a->weight[(a->chunks - 1) * a->p + last].b -= a->waits[last];
    a->weight[(a->chunks - 1) * a->p + last].w -= a->waits[last];
    for (uint32_t r = 0; r + 1 < a->p; r++) a->weight[r].f += before;
    for (uint32_t j = 0; j < a->chunks; j++)
        a->weight[j * a->p + last].f += before * pst_schedule_warm_up(row, &size, last, j);
}

/* first, last: micro-batches in the first and the last round. */
static void set_rounds(const pst_search_context *x, mean *a, double first, double last) {
    double behind = 0, behind_f = 0, begun = 0, begin[MOST_CHUNKS], end[MOST_CHUNKS];
    spread_paths(a, first, begin);
    spread_paths(a, last, end);
    for (uint32_t r = 0; r < a->p; r++) {
        a->waits[r] = a->part * a->share[r];
        begun += a->share[r] - a->waits[r];
    }
    for (uint32_t r = a->p; r-- > 0;) {
        double share = a->share[r], work = share * a->m, forward = 0, backward = 0;
        const double begins = share - a->waits[r];
        for (uint32_t j = a->chunks; j-- > 0;) {
            double f = behind_f * begin[j] + forward * (begun - first * begins);
            double b = a->tail ? behind * end[j] + backward * (1 - last * share) : 0;
            double sums = a->norm + (j ? 0 : sums_of(a, r)),
                   beside = j || a->tail ? 0 : share * passes_of(a, r);
            a->weight[j * a->p + r] = (amount){work + f, work + b - beside, work + b - beside,
                                               a->tail ? 0 : share * sums};
            forward += begin[j];
            backward += end[j];
        }
        behind += share;
        behind_f += begins;
    }
    if (a->part > 0) set_waits(x, a);
}

static double weigh(const amount *k, const amount *x) {
    return k->f * x->f + k->b * x->b + k->w * x->w + k->e * x->e;
}

static void weigh_rounds(const pst_search_context *x, mean *a) {
    uint32_t rounds = a->m < a->p ? 1 : a->m / a->p, size = a->m / rounds;
    double first = size + (a->m % rounds > 0), work = a->m * (a->all.f + a->all.b + a->all.w);
    for (uint32_t r = 0; r < a->p; r++) a->share[r] = 1. / a->p;
    for (int turn = 0;; turn++) {
        double sum = 0, all = 0;
        set_rounds(x, a, first, size);
        if (turn == TURNS) break;
        for (uint32_t r = 0; r < a->p; r++) {
            double least = INFINITY;
            for (uint32_t j = 0; j < a->chunks; j++)
                least = pst_search_min(least, weigh(&a->weight[j * a->p + r], &a->all) +
                                                  a->share[r] * extra_of(a, j * a->p + r));
            a->first_b[r] = least;
            sum += least;
        }
        for (uint32_t r = 0; r < a->p; r++) {
            a->share[r] = pst_search_max(0, a->share[r] + (sum / a->p - a->first_b[r]) /
                                                              (work + extra_of(a, r)));
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

/* Each operator at the chunk where it weighs least. */
static double least_of_items(const pst_search_problem *p, const mean *a) {
    double all = 0;
    for (uint32_t i = 0; i < a->table->n_alike; i++) {
        amount one = amount_of(p, a->table, a->table->alike[i], a->speed);
        double least = INFINITY;
        for (uint32_t k = 0; k < a->n_chunk; k++)
            least = pst_search_min(least, weigh(&a->weight[k], &one));
        all += least * a->table->n_of[i];
    }
    return all;
}

/* The cut that weighs least, with the price of its memory, less the price of all there is. */
static double least_of_cuts(const mean *a) {
    double room = 0;
    for (uint32_t k = 0; k < a->n_chunk; k++) {
        const uint32_t s = a->price.flight->stage[k];
        const amount *of = &a->weight[k];
        a->weights[k] =
            (pst_search_weight){of->f, of->b, of->w, of->e, a->share[s] * a->price.stage[s]};
    }
    for (uint32_t s = 0; s < a->p; s++) room += a->share[s] * a->price.stage[s] * a->price.room;
    return pst_search_price_least(&a->price, a->weights, PST_NONE, 0) - room;
}

/* Subtracts what rounding to ns may add. */
static double least_of(const pst_search_problem *p, const mean *a) {
    const double items = a->priced ? least_of_cuts(a) : least_of_items(p, a);
    return a->constant + a->step * a->all.e / a->p + items - 3. * a->m * a->chunks -
           3. * a->n_chunk - 8;
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

static void add_all(const pst_search_problem *p, mean *a) {
    for (uint32_t i = 0; i < a->table->n_alike; i++) {
        amount one = amount_of(p, a->table, a->table->alike[i], a->speed);
        double n = a->table->n_of[i];
        a->all.f += n * one.f;
        a->all.b += n * one.b;
        a->all.w += n * one.w;
        a->all.e += n * one.e;
    }
}

/* Whether the number of F before the first B of a stage is known, not only a limit of it. */
static int knows_warm_up(const pst_search_context *x, const mean *a) {
    const pst_schedule_row *row = x->row[a->c->schedule];
    return !a->split && a->p > 1 && row->rules && row->rules->warm_up;
}

static double mean_of(const pst_search_context *x, mean *a) {
    if (a->split) {
        weigh_split(x, a);
        set_split(x, a);
    } else weigh_rounds(x, a);
    return least_of(x->problem, a);
}

/* The best of the means; sets how it was found. */
static double mean_bound(const pst_search_context *x, mean *a) {
    static const double parts[] = {0, 0.5, 1};
    const size_t n = knows_warm_up(x, a) ? sizeof parts / sizeof *parts : 1;
    double best = 0, part = 0;
    int tail = 0;
    for (size_t i = 0; i < n; i++)
        for (a->tail = 0; a->tail < (a->split ? 1 : 2); a->tail++) {
            a->part = parts[i];
            const double now = mean_of(x, a);
            if (now <= best) continue;
            best = now;
            part = a->part;
            tail = a->tail;
        }
    a->part = part;
    a->tail = tail;
    return best;
}

static void begin(pst_search_context *x, const pst_search_config *c, mean *a) {
    fill_flush(x, a);
    add_all(x->problem, a);
    a->split = x->row[c->schedule]->split;
    a->beside = pst_search_overlaps_sums(x->problem, c);
    a->longer = a->sum * a->all.e > (a->split ? 0 : a->all.b) + a->all.w;
}

static void raise_to(pst_search_config *c, double ns) {
    if (ns > (double)c->bound_ns && ns < 1e18) c->bound_ns = (uint64_t)ns;
}

/* Whether paths of this configuration are known. */
static int is_known(const pst_search_context *x, const pst_search_config *c, const mean *a) {
    const pst_schedule_row *row = x->row[c->schedule];
    const int v_shape = row->placement == PST_PLACE_V_SHAPE;
    int known = !v_shape && a->chunks <= MOST_CHUNKS;
    if (row->split) known = a->chunks == 1 + (uint32_t)v_shape;
    return x->same_speed && known && !c->before;
}

/* *known 0: there is no bound of this kind. The caller closes *a, also after a failure. */
static pst_status open_mean(pst_search_context *x, const pst_search_config *c, mean *a,
                            int *known) {
    const pst_search_table *t;
    *a = (mean){.c = c, .p = c->pipeline, .speed = x->problem->cluster->device[0].speed};
    a->n_chunk = pst_search_chunk_count(x, c);
    a->chunks = a->n_chunk / a->p;
    a->m = most_micros(x->problem, c);
    *known = 0;
    if (!is_known(x, c, a)) return PST_OK;
    PST_TRY(pst_search_table_of(x, c, x->problem->cluster->device[0].kind, 0, &t));
    if (!t->table) return PST_OK;
    PST_TRY(sort_items(x->problem, (pst_search_table *)t));
    if ((uint64_t)t->n_alike * a->n_chunk > MOST_WEIGHED) return PST_OK;
    a->table = t;
    a->weight = malloc(a->n_chunk * sizeof *a->weight);
    a->share = calloc(3 * (size_t)a->p, sizeof *a->share);
    if (!a->weight || !a->share) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    a->first_b = a->share + a->p;
    a->waits = a->share + 2 * (size_t)a->p;
    *known = 1;
    begin(x, c, a);
    return PST_OK;
}

static void close_mean(mean *a) {
    pst_search_price_close(&a->price);
    free(a->weights);
    free(a->weight);
    free(a->share);
}

pst_status pst_search_tighten(pst_search_context *x, pst_search_config *c) {
    mean a;
    int known;
    if (c->tightened) return PST_OK;
    c->tightened = 1;
    pst_status status = open_mean(x, c, &a, &known);
    if (status == PST_OK && known) {
        raise_to(c, largest_items_bound(x->problem, &a));
        raise_to(c, mean_bound(x, &a));
    }
    close_mean(&a);
    return status;
}

/* The prices are those of a fluid model, which needs less memory than cuts do: a fluid model in
 * less memory may give better ones. */
static void raise_by_prices(const pst_search_context *x, pst_search_config *c, mean *a) {
    double best = 0;
    for (double part = 1; part > LEAST_PART; part *= NEXT_PART) {
        pst_search_price_find(&a->price, c, part, a->m);
        const double now = mean_of(x, a);
        raise_to(c, now);
        if (now < best || !a->price.limited) break;
        best = now;
    }
}

static pst_status raise_priced(pst_search_context *x, pst_search_config *c, mean *a) {
    int known;
    PST_TRY(pst_search_price_open(x, c, a->table, a->speed, &a->price, &known));
    if (!known) return PST_OK;
    a->weights = malloc(a->n_chunk * sizeof *a->weights);
    if (!a->weights) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    raise_to(c, mean_bound(x, a));
    a->priced = 1;
    raise_by_prices(x, c, a);
    return PST_OK;
}

pst_status pst_search_tighten_more(pst_search_context *x, pst_search_config *c) {
    mean a;
    int known;
    if (c->priced) return PST_OK;
    c->priced = 1;
    pst_status status = open_mean(x, c, &a, &known);
    if (status == PST_OK && known) status = raise_priced(x, c, &a);
    close_mean(&a);
    return status;
}

/* Prices of memory for lower bounds. See price.h. */
#include "partition/search/price.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HALVINGS = 40 };
/* times the last price, where a stage has no memory left for more operators */
#define DEAR 1000

/* --- sums ------------------------------------------------------------------------------------- */

static void find_modes(const pst_search_problem *p, pst_search_price *price) {
    int any = 0;
    price->some_layers =
        p->recompute[PST_RECOMPUTE_LAYERS] && p->layers != PST_RECOMPUTE_MOST_LAYERS;
    for (uint32_t mode = 0; mode < PST_RECOMPUTE_COUNT; mode++) any |= p->recompute[mode];
    for (uint32_t mode = 0; mode < PST_RECOMPUTE_COUNT; mode++) {
        const int none = mode == PST_RECOMPUTE_NONE;
        price->may_begin[mode] = p->recompute[mode] || (none && !any);
        if (price->may_begin[mode] || (none && price->some_layers))
            price->mode[price->n_mode++] = mode;
    }
}

/* Bytes of parameters before item i, of the mean rank: no more than the largest rank has. The
 * buffer for a gradient (zero 2) does not count. */
static double own_bytes(const pst_search_problem *p, const pst_search_config *c,
                        const pst_search_table *t, uint32_t i) {
    const double states = (double)p->state_bytes / (c->zero ? c->data : 1),
                 gradients = (double)p->grad_bytes / (c->zero == 2 ? c->data : 1);
    return (double)t->sum[PST_SEARCH_SUM_ELEMENTS][i] * (p->weight_bytes + states) +
           (double)t->sum[PST_SEARCH_SUM_FROZEN][i] * p->weight_bytes +
           (double)t->sum[PST_SEARCH_SUM_ACCUMULATED][i] * gradients +
           (double)t->sum[PST_SEARCH_SUM_KEPT][i] * (c->n_micro / c->data);
}

static void fill_sums(const pst_search_problem *p, const pst_search_config *c,
                      const pst_search_table *t, pst_search_price *price) {
    for (uint32_t i = 0; i <= p->n_item; i++) {
        price->elements[i] = (double)t->sum[PST_SEARCH_SUM_ELEMENTS][i];
        price->own[i] = own_bytes(p, c, t, i);
    }
    for (uint32_t k = 0; k < price->n_mode; k++) {
        const uint32_t mode = price->mode[k];
        const pst_search_way_sums *to = &price->way[k];
        for (uint32_t i = 0; i <= p->n_item; i++) {
            to->f_to_b[i] = (double)t->sum[PST_SEARCH_SUM_STASH + mode][i];
            to->to_w[i] = (double)t->sum[PST_SEARCH_SUM_STASH_TO_W + mode][i];
            to->apart[i] = (double)t->sum[PST_SEARCH_SUM_B_TO_W + mode][i] -
                           (double)t->sum[PST_SEARCH_SUM_RECOMPUTED_TO_W + mode][i];
        }
    }
}

/* All arrays are one allocation. */
static pst_status open_arrays(const pst_search_config *c, const pst_search_table *t,
                              uint32_t n_chunk, pst_search_price *price) {
    const size_t n = t->table->n + (size_t)1;
    double *at = calloc((4 + 3 * (size_t)price->n_mode) * n + c->pipeline + n_chunk, sizeof *at);
    price->elements = at;
    price->fluid = malloc(c->pipeline * sizeof *price->fluid);
    price->time_of = calloc(n_chunk, sizeof *price->time_of);
    if (!at || !price->fluid || !price->time_of)
        return pst_fail(PST_ENOMEM, "no memory for the layout search");
    double **of[] = {&price->own, &price->least, &price->least_before};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) *of[i] = at += n;
    for (uint32_t k = 0; k < price->n_mode; k++) {
        price->way[k].f_to_b = at += n;
        price->way[k].to_w = at += n;
        price->way[k].apart = at += n;
        price->way[k].enter = t->table->enter[price->mode[k]];
    }
    price->least_enter = UINT64_MAX;
    for (uint32_t k = 0; k < price->n_mode; k++)
        if (t->least_enter[price->mode[k]] < price->least_enter)
            price->least_enter = t->least_enter[price->mode[k]];
    price->stage = at + n;
    price->extra = price->stage + c->pipeline;
    return PST_OK;
}

static void fill_times(const pst_search_table *t, double speed, const pst_search_price *price,
                       pst_search_price_times *to) {
    for (uint32_t i = 0; i <= price->n_item; i++) {
        to->f_ns[i] = (double)t->sum[PST_SEARCH_SUM_F][i] / speed;
        to->b_ns[i] = (double)t->sum[PST_SEARCH_SUM_B][i] / speed;
        to->w_ns[i] = (double)t->sum[PST_SEARCH_SUM_W][i] / speed;
        for (uint32_t k = 0; k < price->n_mode; k++)
            to->again_ns[k][i] = (double)t->sum[PST_SEARCH_SUM_AGAIN + price->mode[k]][i] / speed;
    }
}

pst_status pst_search_price_add_times(const pst_search_table *t, double speed,
                                      pst_search_price *price) {
    const size_t n = price->n_item + (size_t)1;
    pst_search_price_times *more = realloc(price->time, (price->n_time + (size_t)1) * sizeof *more);
    if (!more) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    price->time = more;
    double *at = malloc((3 + price->n_mode) * n * sizeof *at);
    if (!at) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    pst_search_price_times *to = &price->time[price->n_time++];
    *to = (pst_search_price_times){.f_ns = at, .b_ns = at + n, .w_ns = at + 2 * n};
    for (uint32_t k = 0; k < price->n_mode; k++) to->again_ns[k] = at + (3 + k) * n;
    fill_times(t, speed, price, to);
    return PST_OK;
}

pst_status pst_search_price_open(pst_search_context *x, const pst_search_config *c,
                                 const pst_search_table *t, double speed, pst_search_price *price,
                                 int *known) {
    const pst_search_problem *p = x->problem;
    *price = (pst_search_price){
        .room = (double)x->capacity, .limited = x->capacity != UINT64_MAX, .n_item = p->n_item};
    *known = 0;
    if (p->micros || c->before || c->n_micro < c->data) return PST_OK;
    const uint32_t n_chunk = pst_search_chunk_count(x, c);
    PST_TRY(pst_search_flight_of(x, c->schedule, c->pipeline, n_chunk / c->pipeline,
                                 c->n_micro / c->data, &price->flight));
    find_modes(p, price);
    PST_TRY(open_arrays(c, t, n_chunk, price));
    fill_sums(p, c, t, price);
    PST_TRY(pst_search_price_add_times(t, speed, price));
    *known = 1;
    return PST_OK;
}

void pst_search_price_close(pst_search_price *price) {
    for (uint32_t i = 0; i < price->n_time; i++) free(price->time[i].f_ns);
    free(price->time);
    free(price->time_of);
    free(price->elements);
    free(price->fluid);
}

/* --- prices ----------------------------------------------------------------------------------- */

typedef struct {
    double again_ns, bytes;
} choice;

/* The mode that follows: of those with fewer bytes the one that adds least time per byte saved. */
static uint32_t next_choice(const choice *all, uint32_t n, const choice *now) {
    uint32_t best = n;
    double least = INFINITY;
    for (uint32_t k = 0; k < n; k++) {
        if (all[k].bytes >= now->bytes) continue;
        const double rate = (all[k].again_ns - now->again_ns) / (now->bytes - all[k].bytes);
        if (rate < least) {
            least = rate;
            best = k;
        }
    }
    return best;
}

static uint32_t first_choice(const choice *all, uint32_t n) {
    uint32_t at = 0;
    for (uint32_t k = 1; k < n; k++)
        if (all[k].again_ns < all[at].again_ns ||
            (all[k].again_ns <= all[at].again_ns && all[k].bytes < all[at].bytes))
            at = k;
    return at;
}

static pst_search_fluid fluid_of(const choice *all, uint32_t n, double room, double work_ns,
                                 double m) {
    pst_search_fluid f = {0};
    for (uint32_t at = first_choice(all, n); at < n; f.n++) {
        const uint32_t next = next_choice(all, n, &all[at]);
        f.most[f.n] = all[at].bytes > 0 ? room / all[at].bytes : INFINITY;
        f.ns[f.n] = m * f.most[f.n] * (work_ns + all[at].again_ns);
        if (next < n)
            f.price[f.n] =
                m * (all[next].again_ns - all[at].again_ns) / (all[at].bytes - all[next].bytes);
        else f.price[f.n] = DEAR * m * work_ns / pst_search_max(all[at].bytes, 1);
        at = next;
    }
    return f;
}

/* Share of the model that a stage computes within ns; *price: of a byte then. */
static double share_within(const pst_search_fluid *f, double ns, double *price) {
    *price = 0;
    if (!(f->most[0] < INFINITY) || f->ns[0] <= 0) return 1;
    if (ns <= f->ns[0]) return f->most[0] * ns / f->ns[0];
    for (uint32_t k = 0; k + 1 < f->n; k++) {
        *price = f->price[k];
        const double more = f->ns[k + 1] - f->ns[k];
        if (ns <= f->ns[k + 1] && more > 0)
            return f->most[k] + (f->most[k + 1] - f->most[k]) * (ns - f->ns[k]) / more;
    }
    *price = f->price[f->n - 1];
    return f->most[f->n - 1];
}

static double bytes_on(const pst_search_price *price, uint32_t mode, uint32_t chunk) {
    const pst_search_flight *f = price->flight;
    const pst_search_way_sums *way = &price->way[mode];
    const uint32_t n = price->n_item;
    const double bytes = price->own[n] + way->f_to_b[n] * f->f_to_b[chunk];
    if (!f->b_to_w[chunk]) return bytes;
    return bytes + way->to_w[n] * (f->f_to_w[chunk] - f->f_to_b[chunk]) +
           way->apart[n] * f->b_to_w[chunk];
}

static double work_of(const pst_search_price *price) {
    const uint32_t n = price->n_item;
    return price->time->f_ns[n] + price->time->b_ns[n] + price->time->w_ns[n];
}

static void fill_fluid(pst_search_price *price, uint32_t stage, double room, double m) {
    choice mean[PST_RECOMPUTE_COUNT] = {0};
    uint32_t chunks = 0;
    for (uint32_t k = 0; k < price->flight->n_chunk; k++) {
        if (price->flight->stage[k] != stage) continue;
        chunks++;
        room -= k ? (double)price->least_enter * price->flight->f_to_b[k] : 0;
        for (uint32_t i = 0; i < price->n_mode; i++) mean[i].bytes += bytes_on(price, i, k);
    }
    for (uint32_t i = 0; i < price->n_mode; i++) {
        mean[i].bytes /= chunks;
        mean[i].again_ns = price->time->again_ns[i][price->n_item];
    }
    price->fluid[stage] = fluid_of(mean, price->n_mode, pst_search_max(room, 1), work_of(price), m);
}

/* What all operators on a chunk add to it per weight: recomputation beyond the least, and memory.
 */
static void fill_extra(pst_search_price *price, double m) {
    double least_again = INFINITY;
    for (uint32_t i = 0; i < price->n_mode; i++)
        least_again = pst_search_min(least_again, price->time->again_ns[i][price->n_item]);
    for (uint32_t k = 0; k < price->flight->n_chunk; k++) {
        const double per_byte = price->stage[price->flight->stage[k]];
        double least = INFINITY;
        for (uint32_t i = 0; i < price->n_mode; i++)
            least =
                pst_search_min(least, m * (price->time->again_ns[i][price->n_item] - least_again) +
                                          per_byte * bytes_on(price, i, k));
        price->extra[k] = least;
    }
}

void pst_search_price_find(pst_search_price *price, const pst_search_config *c, double part,
                           double m) {
    double low = 0, high = 2 * m * work_of(price), unused;
    if (!price->limited) return;
    for (uint32_t s = 0; s < c->pipeline; s++) {
        const pst_search_fluid *f = &price->fluid[s];
        fill_fluid(price, s, part * price->room, m);
        if (f->most[f->n - 1] < INFINITY) high = pst_search_max(high, f->ns[f->n - 1]);
    }
    for (uint32_t i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        double sum = 0;
        for (uint32_t s = 0; s < c->pipeline; s++)
            sum += share_within(&price->fluid[s], middle, &unused);
        if (sum >= 1) high = middle;
        else low = middle;
    }
    for (uint32_t s = 0; s < c->pipeline; s++)
        share_within(&price->fluid[s], high, &price->stage[s]);
    fill_extra(price, m);
}

/* --- the least sum ---------------------------------------------------------------------------- */

/* What the operators before item i add to a chunk with the mode of this index. */
static double sum_to(const pst_search_price *price, const pst_search_weight *w, uint32_t chunk,
                     uint32_t mode, uint32_t i) {
    const pst_search_flight *f = price->flight;
    const pst_search_way_sums *way = &price->way[mode];
    const pst_search_price_times *ns = &price->time[price->time_of[chunk]];
    const double to_w = f->b_to_w[chunk] ? f->f_to_w[chunk] - f->f_to_b[chunk] : 0;
    return w->f * ns->f_ns[i] + w->b * (ns->b_ns[i] + ns->again_ns[mode][i]) + w->w * ns->w_ns[i] +
           w->e * price->elements[i] +
           w->byte * (price->own[i] + f->f_to_b[chunk] * way->f_to_b[i] + to_w * way->to_w[i] +
                      f->b_to_w[chunk] * way->apart[i]);
}

/* The chunk has operators [from, to) with one mode: least[to] is the least of least_before[from]
 * plus what they add. rests 1: operators behind them may have the mode of index 0. */
static void add_chunk(pst_search_price *price, const pst_search_weight *w, uint32_t chunk,
                      uint32_t mode, int rests) {
    const double received = w->byte * price->flight->f_to_b[chunk];
    double best = INFINITY, best_then = INFINITY, before = 0;
    for (uint32_t to = 1; to <= price->n_item; to++) {
        const uint64_t enter = to > 1 ? price->way[mode].enter[to - 1] : 0;
        best =
            pst_search_min(best, price->least_before[to - 1] - before + received * (double)enter);
        const double sum = sum_to(price, w, chunk, mode, to);
        price->least[to] = pst_search_min(price->least[to], best + sum);
        before = sum;
        if (!rests) continue;
        const double rest = sum_to(price, w, chunk, 0, to);
        price->least[to] = pst_search_min(price->least[to], best_then + rest);
        best_then = pst_search_min(best_then, best + sum - rest);
    }
}

/* Leaves only cuts in which the item is on this chunk: chunks before it end before the item, and it
 * ends behind the item. */
static void leave_with(pst_search_price *price, uint32_t k, uint32_t item, uint32_t chunk) {
    if (item == PST_NONE || k > chunk) return;
    const uint32_t from = k == chunk ? 0 : item + 1;
    const uint32_t to = k == chunk ? item : price->n_item;
    for (uint32_t i = from; i <= to; i++) price->least[i] = INFINITY;
}

double pst_search_price_least(const pst_search_price *of, const pst_search_weight *weight,
                              uint32_t item, uint32_t chunk) {
    pst_search_price price = *of;
    const uint32_t n = price.n_item;
    for (uint32_t i = 0; i <= n; i++) price.least[i] = i ? INFINITY : 0;
    for (uint32_t k = 0; k < price.flight->n_chunk; k++) {
        double *was = price.least_before;
        price.least_before = price.least;
        price.least = was;
        for (uint32_t i = 0; i <= n; i++) price.least[i] = INFINITY;
        for (uint32_t q = 0; q < price.n_mode; q++) {
            const int some = price.mode[q] == PST_RECOMPUTE_LAYERS && price.some_layers;
            if (price.may_begin[price.mode[q]]) add_chunk(&price, &weight[k], k, q, some);
        }
        leave_with(&price, k, item, chunk);
    }
    return price.least[n];
}

uint64_t pst_search_price_effort(const pst_search_context *x, const pst_search_config *c) {
    return (uint64_t)pst_search_chunk_count(x, c) * x->problem->n_item * PST_RECOMPUTE_COUNT;
}

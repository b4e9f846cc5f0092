/* Which nodes of a stage run their slower variant, which needs less memory: a knapsack. The
 * fractional relaxation refuses most cases; else branch and bound, skipping dominated choices. See
 * tensor.h. */
#include "partition/foreign/tensor.h"
#include <math.h>
#include <stdlib.h>

static int by_price(const void *a, const void *b) {
    const pst_tensor_swap *x = a, *y = b;
    double p = x->cost * y->bytes, q = y->cost * x->bytes;
    if (p != q) return p < q ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

/* out: [n] a swap is skipped if one that costs no more and saves no less was skipped before. */
typedef struct {
    const pst_tensor_swap *swap;
    uint32_t n, steps;
    uint16_t *out;
    uint8_t *take; /* [n] of the swaps, in their order */
} packing;

/* Whether swaps from `at` on, in fractions, can save `need` at a cost of at most `slack`. */
static int could(const packing *k, uint32_t at, double need, double slack) {
    for (; need > 0; at++) {
        if (at == k->n) return 0;
        const pst_tensor_swap *s = &k->swap[at];
        if (k->out[at]) continue;
        if (s->bytes >= need) return s->cost * (need / s->bytes) <= slack;
        need -= s->bytes;
        slack -= s->cost;
        if (slack < 0) return 0;
    }
    return slack >= 0;
}

enum { MOST_STEPS = 20000 };

static void pass_over(packing *k, uint32_t at, int sign) {
    const pst_tensor_swap *s = &k->swap[at];
    for (uint32_t i = at + 1; i < k->n; i++)
        if (k->swap[i].bytes <= s->bytes && k->swap[i].cost >= s->cost)
            k->out[i] = (uint16_t)(k->out[i] + sign);
}

/* With this swap, or without it and those that it dominates. */
static int try_all(packing *k, uint32_t at, double need, double slack) {
    while (need > 0 && at < k->n && k->out[at]) at++;
    if (k->steps++ > MOST_STEPS || !could(k, at, need, slack)) return 0;
    if (need <= 0) return 1;
    k->take[at] = 1;
    if (try_all(k, at + 1, need - k->swap[at].bytes, slack - k->swap[at].cost)) return 1;
    k->take[at] = 0;
    pass_over(k, at, 1);
    int found = try_all(k, at + 1, need, slack);
    pass_over(k, at, -1);
    return found;
}

static pst_tensor_fit pack(packing *k, double need, double slack) {
    qsort((void *)k->swap, k->n, sizeof *k->swap, by_price);
    if (!could(k, 0, need, slack)) return PST_TENSOR_NEVER;
    if (try_all(k, 0, need, slack)) return PST_TENSOR_FITS;
    return k->steps > MOST_STEPS ? PST_TENSOR_UNKNOWN : PST_TENSOR_NEVER;
}

/* The faster variant; the smaller one if equally fast. */
static uint32_t fast_way(const pst_tensor_item *i) {
    if (i->cost[0] != i->cost[1]) return i->cost[1] < i->cost[0];
    return i->bytes[1] < i->bytes[0];
}

pst_tensor_fit pst_tensor_pack(const pst_tensor_item *item, uint32_t n, double limit, double memory,
                               pst_tensor_swap *swap, uint8_t *way) {
    double need = -memory, slack = limit;
    uint32_t n_swap = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t fast = fast_way(&item[i]), slow = !fast;
        slack -= item[i].cost[fast];
        need += item[i].bytes[fast];
        if (isfinite(item[i].cost[slow]) && item[i].bytes[slow] < item[i].bytes[fast])
            swap[n_swap++] = (pst_tensor_swap){item[i].cost[slow] - item[i].cost[fast],
                                               item[i].bytes[fast] - item[i].bytes[slow], i};
    }
    if (!(slack >= 0)) return PST_TENSOR_NEVER;
    if (need <= 0 && !way) return PST_TENSOR_FITS;
    uint8_t *take = calloc(n_swap + 1, 1);
    uint16_t *out = calloc(n_swap + 1, sizeof *out);
    packing k = {.swap = swap, .n = n_swap, .take = take, .out = out};
    if (!take || !out) {
        free(take);
        free(out);
        return PST_TENSOR_UNKNOWN;
    }
    pst_tensor_fit fit = need <= 0 ? PST_TENSOR_FITS : pack(&k, need, slack);
    if (fit == PST_TENSOR_FITS && way) {
        for (uint32_t i = 0; i < n; i++) way[i] = (uint8_t)fast_way(&item[i]);
        for (uint32_t i = 0; i < n_swap; i++)
            if (take[i]) way[swap[i].item] = !way[swap[i].item];
    }
    free(take);
    free(out);
    return fit;
}

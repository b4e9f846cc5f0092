/* Looks at one configuration: its devices in every order that is tried, with the best cut of the surrogate; in small
 * problems with every cut, simulated where it may be the best. */
#include "partition/search_parts.h"
#include <stdlib.h>
#include <string.h>

enum { SMALL_ITEMS = 12, SMALL_DEVICES = 6, SMALL_MICROS = 64 };

int pst_search_is_small(const pst_search_problem *problem) {
    return problem->n_item <= SMALL_ITEMS && problem->cluster->n_device <= SMALL_DEVICES &&
           problem->batch <= SMALL_MICROS;
}

/* The better of the row's layout and this one. */
static int is_better(const pst_search_lot *lot, const pst_search_layout *l, uint64_t excess) {
    if (l->step_ns == UINT64_MAX) return 0;
    if (!lot->row.layout) return 1;
    if (excess) return !lot->row.fits && excess < lot->row.excess;
    return !lot->row.fits || l->step_ns < lot->row.layout->step_ns;
}

static pst_status keep(pst_search_lot *lot, const pst_search_config *c, const pst_search_layout *l, uint64_t excess,
                       uint32_t stage) {
    pst_search_layout *copy;
    if (!is_better(lot, l, excess)) return PST_OK;
    PST_TRY(pst_search_layout_copy(l, &copy));
    pst_search_layout_close(lot->row.layout);
    lot->row.layout = copy, lot->row.fits = !excess, lot->row.excess = excess, lot->row.stage = stage;
    lot->best = *c, lot->accounted = 0;
    return PST_OK;
}

/* first_item and device are set. */
static pst_status consider(pst_search_context *x, pst_search_lot *lot, const pst_search_config *c,
                           pst_search_layout *l) {
    const pst_search_problem *p = x->problem;
    uint64_t excess;
    uint32_t stage;
    if (p->micros) memcpy(l->micros, p->micros, l->data * sizeof *l->micros);
    else memset(l->micros, 0, l->data * sizeof *l->micros);
    PST_TRY(pst_search_fit(x, c, l, &excess, &stage));
    if (excess && (lot->row.fits || (lot->row.layout && excess >= lot->row.excess))) return PST_OK;
    pst_status status = pst_search_predict(x, c, l, PST_SCORE_WALK);
    if (status == PST_OK && !excess && l->data > 1) status = pst_search_measure(x, c, l, &excess, &stage);
    if (status == PST_OK && !excess && lot->small && is_better(lot, l, 0))
        status = pst_search_predict(x, c, l, PST_SCORE_SIMULATE);
    if (status == PST_EINPUT) { /* no link, or no such tensor degree on a kind */
        if (!lot->row.layout) snprintf(lot->row.why, sizeof lot->row.why, "%s", pst_error());
        pst_error_clear();
        return PST_OK;
    }
    return status == PST_OK ? keep(lot, c, l, excess, stage) : status;
}

/* Cuts in order: the last one that can moves on by one, those behind follow it closely. 0: there is no other. */
static int next_cut(uint32_t *first, uint32_t n_chunk, uint32_t n_item) {
    for (uint32_t k = n_chunk; k-- > 1;) {
        if (first[k] + 1 > n_item - (n_chunk - k)) continue;
        first[k]++;
        for (uint32_t i = k + 1; i < n_chunk; i++) first[i] = first[i - 1] + 1;
        return 1;
    }
    return 0;
}

static pst_status every_cut(pst_search_context *x, pst_search_lot *lot, const pst_search_config *c,
                            pst_search_layout *l) {
    for (uint32_t k = 0; k <= l->n_chunk; k++) l->first_item[k] = k == l->n_chunk ? l->n_item : k;
    do {
        PST_TRY(consider(x, lot, c, l));
    } while (!pst_search_late(x) && next_cut(l->first_item, l->n_chunk, l->n_item));
    return PST_OK;
}

/* bound_ns: of all cuts with this order. */
static pst_status best_cut(pst_search_context *x, pst_search_lot *lot, const pst_search_config *c, pst_search_layout *l,
                           uint64_t limit_ns, uint64_t *bound_ns) {
    pst_status status = pst_search_cut(x, c, l, limit_ns, bound_ns);
    if (status == PST_EINPUT) {
        if (!lot->row.layout) snprintf(lot->row.why, sizeof lot->row.why, "%s", pst_error());
        pst_error_clear();
        *bound_ns = UINT64_MAX;
        return PST_OK;
    }
    if (status != PST_OK || (*bound_ns != UINT64_MAX && *bound_ns >= limit_ns)) return status;
    if ((*bound_ns == UINT64_MAX && lot->row.fits) || !l->first_item[l->n_chunk]) return PST_OK;
    x->limit_ns = limit_ns;
    status = consider(x, lot, c, l);
    x->limit_ns = UINT64_MAX;
    return status;
}

static pst_status look(pst_search_context *x, pst_search_lot *lot, pst_search_config *c, uint64_t limit_ns) {
    uint64_t least = UINT64_MAX;
    pst_search_layout *l;
    PST_TRY(pst_search_layout_open(x->problem, c, pst_search_chunk_count(x, c), &l));
    pst_status status = PST_OK;
    for (uint32_t i = 0; i < lot->orders.n && status == PST_OK && !(i && pst_search_late(x)); i++) {
        uint64_t bound = c->bound_ns;
        memcpy(l->device, lot->orders.device + (size_t)i * lot->orders.size, lot->orders.size * sizeof *l->device);
        if (lot->small) status = every_cut(x, lot, c, l);
        else status = best_cut(x, lot, c, l, limit_ns, &bound);
        if (bound < least) least = bound;
    }
    if (status == PST_OK && pst_search_late(x)) least = c->bound_ns; /* perhaps not all have been looked at */
    else if (lot->small && lot->orders.all) c->closed = 1;
    if (least > c->bound_ns && x->swell[c->schedule] <= 1) c->bound_ns = least; /* else in less room than there is */
    pst_search_layout_close(l);
    return status;
}

pst_status pst_search_look(pst_search_context *x, pst_search_lot *lot, pst_search_config *c, uint64_t limit_ns) {
    c->seen = 1;
    if (!lot->orders.device) {
        PST_TRY(pst_search_orders_of(x->problem, c->pipeline, c->tensor, c->data, &lot->orders));
        if (!lot->orders.n)
            snprintf(lot->row.why, sizeof lot->row.why, "the nodes have fewer than %u groups of %u devices of one kind",
                     c->pipeline * c->data, c->tensor);
    }
    if (!lot->orders.n) {
        lot->n_config = 0, lot->rest_ns = UINT64_MAX;
        return PST_OK;
    }
    return c->bound_ns >= limit_ns ? PST_OK : look(x, lot, c, limit_ns);
}

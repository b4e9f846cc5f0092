/* What bounds know of a step's smaller first micro-batch. Small kernels are less efficient, so that
 * an operator takes at least the part of its time for a whole micro-batch that the samples are;
 * where costs say otherwise, for tiles of matrices for example, the differences are added up, and
 * bounds subtract them: no path has a pass of an operator for one micro-batch twice. */
#include "partition/search/space.h"

enum { MOST_KINDS = 16 };

static double less_than_part(const uint64_t *whole, const uint64_t *rest, uint32_t i, double part) {
    const double least = whole ? part * (double)whole[i] : 0;
    const double costs = rest ? (double)rest[i] : 0;
    return pst_search_max(least - costs, 0);
}

static double less_of(const pst_cost_table *whole, const pst_cost_table *rest, uint32_t i,
                      double part) {
    double again = 0;
    for (uint32_t mode = 1; mode < PST_RECOMPUTE_COUNT; mode++)
        again = pst_search_max(
            again, less_than_part(whole->again_ns[mode], rest->again_ns[mode], i, part));
    return less_than_part(whole->f_ns, rest->f_ns, i, part) +
           less_than_part(whole->b_ns, rest->b_ns, i, part) +
           less_than_part(whole->w_ns, rest->w_ns, i, part) + again;
}

/* Sets table[] of all kinds that are feasible. */
static pst_status find_tables(pst_search_context *x, const pst_search_config *c,
                              const pst_search_table **table) {
    for (uint32_t k = 0; k < MOST_KINDS && (!k || k < x->problem->cluster->n_kind); k++)
        PST_TRY(pst_search_table_of(x, c, k, 0, &table[k]));
    return PST_OK;
}

/* Each operator on the kind where it is shorter by most. Negative: a kind has no costs of it. */
static double add_up(const pst_search_table *const *whole, const pst_search_table *const *rest,
                     uint32_t n, double part) {
    double sum = 0;
    for (uint32_t k = 0; k < MOST_KINDS && whole[k]; k++)
        if (whole[k]->table && !rest[k]->table) return -1;
    for (uint32_t i = 0; i < n; i++) {
        double most = 0;
        for (uint32_t k = 0; k < MOST_KINDS && whole[k]; k++)
            if (whole[k]->table)
                most = pst_search_max(most, less_of(whole[k]->table, rest[k]->table, i, part));
        sum += most;
    }
    return sum;
}

pst_status pst_search_rest_of(pst_search_context *x, pst_search_config *c) {
    const pst_search_problem *p = x->problem;
    const pst_search_table *whole[MOST_KINDS] = {0}, *rest[MOST_KINDS] = {0};
    const uint32_t samples = p->batch % c->micro_batch;
    const double part = (double)samples / c->micro_batch;
    c->rest = 0;
    c->rest_less_ns = 0;
    if (!samples || c->before || p->cluster->n_kind > MOST_KINDS) return PST_OK;
    PST_TRY(find_tables(x, c, whole));
    pst_search_rest *r = whole[0]->rest;
    if (!r->known) {
        pst_search_config like = *c;
        like.micro_batch = samples;
        PST_TRY(find_tables(x, &like, rest));
        r->less_ns = add_up(whole, rest, p->n_item, part);
        r->known = 1;
    }
    if (r->less_ns < 0) return PST_OK;
    c->rest = part;
    c->rest_less_ns = r->less_ns;
    for (uint32_t d = 0; d < p->cluster->n_device; d++)
        c->rest_less_ns = pst_search_max(c->rest_less_ns, r->less_ns / p->cluster->device[d].speed);
    return PST_OK;
}

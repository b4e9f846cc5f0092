/* Memory of a chunk by class (partition/cost/account.h), from the cost table, the schedule's
 * micro-batches in flight and the sharding over replicas. Never more than the memory map has. */
#include "partition/search/score.h"
#include "pipeline/compile/job.h"
#include "pipeline/compile/share.h"

void pst_search_add_own(const pst_search_chunk *k, pst_account *a) {
    const pst_search_problem *p = k->problem;
    const pst_account_rule rule = {p->weight_bytes, p->state_bytes, p->grad_bytes, k->c->data,
                                   k->c->zero};
    const int copies = k->flight->stage[k->chunk] != k->flight->stage[0];
    const pst_account_parameters of = {
        pst_search_run(k->table, PST_SEARCH_SUM_ELEMENTS, k->from, k->to),
        pst_search_run(k->table, PST_SEARCH_SUM_ACCUMULATED, k->from, k->to),
        copies ? pst_search_run(k->table, PST_SEARCH_SUM_TIED, k->from, k->to) : 0,
        pst_search_run(k->table, PST_SEARCH_SUM_FROZEN, k->from, k->to)};
    pst_account_add(a, &rule, &of);
    a->kept += pst_search_run(k->table, PST_SEARCH_SUM_KEPT, k->from, k->to) * k->micros;
}

uint64_t pst_search_own_bytes(const pst_search_chunk *k) {
    pst_account a = {0};
    pst_search_add_own(k, &a);
    return pst_account_bytes(&a);
}

uint64_t pst_search_held_bytes(const pst_search_chunk *k, pst_recompute_way way, uint64_t enter) {
    const pst_search_table *t = k->table;
    const pst_search_flight *flight = k->flight;
    const uint32_t chunk = k->chunk, to_w = flight->b_to_w[chunk];
    uint64_t bytes = (pst_search_run_way(t, PST_SEARCH_SUM_STASH, way, k->from, k->to) + enter) *
                     flight->f_to_b[chunk];
    if (!to_w) return bytes;
    bytes += pst_search_run_way(t, PST_SEARCH_SUM_STASH_TO_W, way, k->from, k->to) *
             (flight->f_to_w[chunk] - flight->f_to_b[chunk]);
    uint64_t again = pst_search_run_way(t, PST_SEARCH_SUM_RECOMPUTED_TO_W, way, k->from, k->to);
    uint64_t apart = pst_search_run_way(t, PST_SEARCH_SUM_B_TO_W, way, k->from, k->to);
    return bytes + (apart - (again < enter ? again : enter)) * to_w;
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t most_of_few(const uint64_t *each, uint32_t from, uint32_t to) {
    uint64_t most = 0;
    for (uint32_t i = from; i < to; i++) most = larger(most, each[i]);
    return most;
}

/* Of whole blocks by the table, of the items before and behind them one by one. */
static uint64_t most_of(const uint64_t *each, uint32_t n, uint32_t from, uint32_t to) {
    const uint32_t first = (from + PST_SEARCH_BLOCK - 1) / PST_SEARCH_BLOCK,
                   end = to / PST_SEARCH_BLOCK;
    uint32_t level = 0;
    if (first >= end) return most_of_few(each, from, to);
    while ((end - first) >> (level + 1)) level++;
    const uint64_t *at = each + n + (size_t)level * (n / PST_SEARCH_BLOCK);
    const uint64_t whole = larger(at[first], at[end - (1u << level)]);
    return larger(whole, larger(most_of_few(each, from, first * PST_SEARCH_BLOCK),
                                most_of_few(each, end * PST_SEARCH_BLOCK, to)));
}

/* Of items [from, to), the layer that recomputes most bytes at a time; the first and the last layer
 * may be there in part. */
static uint64_t largest_layer(const pst_search_table *t, uint32_t from, uint32_t to, int split) {
    uint32_t first = t->layers_ended[from], end = t->layers_ended[to];
    uint64_t most = 0;
    if (first < t->n_layer && t->layer_first[first] < from) {
        const uint32_t until = t->layer_end[first] < to ? t->layer_end[first] : to;
        most = pst_search_again_bytes(t, from, until, split);
        first++;
    }
    if (first < end) {
        const uint64_t all = most_of(t->layer_bytes[split], t->table->n, t->layer_first[first],
                                     t->layer_end[end - 1]);
        most = all > most ? all : most;
    }
    if (end >= first && end < t->n_layer && t->layer_first[end] < to) {
        const uint64_t last = pst_search_again_bytes(t, t->layer_first[end], to, split);
        most = last > most ? last : most;
    }
    return most;
}

/* Bytes of recomputed values that are in memory at a time. */
static uint64_t again_bytes(const pst_search_table *t, uint32_t from, uint32_t to,
                            pst_recompute_way way, int split) {
    if (pst_recompute_mode(way) == PST_RECOMPUTE_LAYERS)
        return largest_layer(t, from, pst_search_layers_end(t, way, from, to), split);
    const uint64_t all = pst_search_run(t, PST_SEARCH_SUM_RECOMPUTED + way, from, to),
                   to_w = split ? pst_search_run(t, PST_SEARCH_SUM_RECOMPUTED_TO_W + way, from, to)
                                : 0;
    return all > to_w ? all - to_w : 0;
}

uint64_t pst_search_work_bytes(const pst_search_table *t, uint32_t from, uint32_t to,
                               pst_recompute_way way, uint64_t enter, int split) {
    uint64_t held = again_bytes(t, from, to, way, split);
    uint64_t most = most_of(t->scratch[split], t->table->n, from, to);
    held = held > enter ? held - enter : 0;
    return held > most ? held : most;
}

uint64_t pst_search_receive_bytes(const pst_search_config *c, const pst_search_table *t,
                                  uint32_t from, uint32_t to) {
    if (c->data == 1) return 0;
    uint64_t largest = most_of(t->largest, t->table->n, from, to);
    return (largest < PST_PIECE ? largest : PST_PIECE) * sizeof(float) * PST_PIECES_IN_FLIGHT *
           (c->data - 1);
}

uint64_t pst_search_message_bytes(const pst_search_table *t, uint32_t from, uint32_t to) {
    uint32_t n = t->table->n;
    return 2 * ((from ? t->table->cross[from] : 0) + (to < n ? t->table->cross[to] : 0));
}

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

uint64_t pst_search_held_bytes(const pst_search_chunk *k, uint32_t recompute, uint64_t enter) {
    const pst_search_table *t = k->table;
    const pst_search_flight *flight = k->flight;
    const uint32_t chunk = k->chunk, to_w = flight->b_to_w[chunk];
    uint64_t bytes = (pst_search_run(t, PST_SEARCH_SUM_STASH + recompute, k->from, k->to) + enter) *
                     flight->f_to_b[chunk];
    if (!to_w) return bytes;
    bytes += pst_search_run(t, PST_SEARCH_SUM_STASH_TO_W + recompute, k->from, k->to) *
             (flight->f_to_w[chunk] - flight->f_to_b[chunk]);
    uint64_t again = pst_search_run(t, PST_SEARCH_SUM_RECOMPUTED_TO_W + recompute, k->from, k->to);
    uint64_t apart = pst_search_run(t, PST_SEARCH_SUM_B_TO_W + recompute, k->from, k->to);
    return bytes + (apart - (again < enter ? again : enter)) * to_w;
}

static uint64_t most_of(const uint64_t *each, uint32_t n, uint32_t from, uint32_t to) {
    uint32_t level = 0;
    while ((to - from) >> (level + 1)) level++;
    const uint64_t *at = each + (size_t)level * n, one = at[from], other = at[to - (1u << level)];
    return one > other ? one : other;
}

uint64_t pst_search_work_bytes(const pst_search_table *t, uint32_t from, uint32_t to,
                               uint32_t recompute, uint64_t enter, int split) {
    uint64_t held = pst_search_run(t, PST_SEARCH_SUM_RECOMPUTED + recompute, from, to);
    uint64_t besides =
        enter +
        (split ? pst_search_run(t, PST_SEARCH_SUM_RECOMPUTED_TO_W + recompute, from, to) : 0);
    uint64_t most = most_of(t->scratch[split], t->table->n, from, to);
    held = held > besides ? held - besides : 0;
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

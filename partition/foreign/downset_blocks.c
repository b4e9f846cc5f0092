/* A smaller problem: items that follow each other in an order are merged into blocks. */
#include "partition/foreign/downset.h"
#include <stdlib.h>

/* Nets between blocks; within a block they cost nothing. mark: [n_block] 1 + the last net of the
 * block. */
static void fill_nets(const pst_downset_problem *p, const uint32_t *block_of, uint32_t *mark,
                      pst_downset_problem *to) {
    for (uint32_t net = 0; net < p->n_net; net++) {
        uint32_t from = to->net_first[to->n_net], end = from;
        for (uint32_t i = p->net_first[net]; i < p->net_first[net + 1]; i++) {
            uint32_t block = block_of[p->pin[i]];
            if (mark[block] == net + 1) continue;
            mark[block] = net + 1;
            to->pin[end++] = block;
        }
        if (end - from < 2) continue;
        to->net_cost[to->n_net++] = p->net_cost[net];
        to->net_first[to->n_net] = end;
    }
}

pst_status pst_downset_blocks(const pst_downset_problem *p, const uint32_t *block_of, uint32_t n,
                              pst_downset_problem *to) {
    uint32_t *mark = calloc((size_t)n + 1, sizeof *mark);
    *to = (pst_downset_problem){.n_item = n, .n_edge = n - 1, .n_kind = p->n_kind};
    for (uint32_t k = 0; k < p->n_kind; k++) to->kind[k] = p->kind[k];
    to->edge = calloc(n, sizeof *to->edge);
    to->time = calloc((size_t)n * p->n_kind, sizeof *to->time);
    to->size = calloc(n, sizeof *to->size);
    to->exchange = calloc(n, sizeof *to->exchange);
    to->net_first = calloc((size_t)p->n_net + 2, sizeof *to->net_first);
    to->net_cost = calloc((size_t)p->n_net + 1, sizeof *to->net_cost);
    to->pin = calloc((size_t)p->net_first[p->n_net] + 1, sizeof *to->pin);
    int ok = mark && to->edge && to->time && to->size && to->exchange && to->net_first &&
             to->net_cost && to->pin;
    for (uint32_t b = 0; ok && b + 1 < n; b++) to->edge[b] = (pst_downset_edge){b, b + 1};
    for (uint32_t i = 0; ok && i < p->n_item; i++) {
        uint32_t b = block_of[i];
        to->size[b] += p->size[i];
        to->exchange[b] += p->exchange[i];
        for (uint32_t k = 0; k < p->n_kind; k++)
            to->time[(size_t)k * n + b] += p->time[(size_t)k * p->n_item + i];
    }
    if (ok) fill_nets(p, block_of, mark, to);
    free(mark);
    return ok ? PST_OK : pst_no_memory("for a coarse partition");
}

/* Replicas that take the same time: on equal devices they differ only in the links between their
 * stages. One of them stands for all, so that a search over many devices takes little longer. */
#include "partition/search/score.h"
#include <stdlib.h>

static uint32_t node_of(const pst_search_problem *p, const pst_candidate *c, uint32_t stage,
                        uint32_t replica) {
    const uint32_t rank = pst_grid_rank(pst_layout_grid(&c->layout), stage, replica, 0);
    return p->cluster->device[c->layout.device[rank]].node;
}

pst_status pst_search_count_beside(const pst_search_problem *p, const pst_candidate *c,
                                   uint32_t *beside) {
    const uint32_t data = c->layout.data;
    uint32_t *count = calloc(p->cluster->n_node, sizeof *count);
    if (!count) return pst_fail(PST_ENOMEM, "no memory to score a layout");
    for (uint32_t s = 0; s < c->layout.pipeline; s++) {
        for (uint32_t k = 0; k < data; k++) count[node_of(p, c, s, k)]++;
        for (uint32_t k = 0; k < data; k++)
            beside[(size_t)s * data + k] = count[node_of(p, c, s, k)];
        for (uint32_t k = 0; k < data; k++) count[node_of(p, c, s, k)] = 0;
    }
    free(count);
    return PST_OK;
}

uint64_t pst_search_replica_hash(const pst_search_problem *p, const pst_candidate *c,
                                 const pst_search_replicas *of, uint32_t replica) {
    uint64_t hash = c->layout.micros[replica];
    if (c->layout.rest && !replica) hash = ~hash; /* its first one is smaller */
    for (uint32_t k = 0; k + 1 < c->layout.n_chunk; k++) {
        const uint32_t from = of->stage[k], to = of->stage[k + 1];
        const int apart = node_of(p, c, from, replica) != node_of(p, c, to, replica);
        const uint32_t ranks = apart ? of->beside[(size_t)from * c->layout.data + replica] : 0;
        hash = (hash ^ ranks) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* What a rank of a pipeline that is prepared on its own has for its exchange with the other replicas (pst_job_spec.exchange),
 * by the links of the cluster. As all replicas do the same at the same time, each of them sends as much to each other one:
 * those of its node through its own link, the others through its NIC, which the node's NICs together limit for all ranks of
 * the node that exchange with others. */
#include "engine/prepare.h"
#include <math.h>
#include <stdlib.h>

static uint32_t node_of(const pst_prepared *p, uint32_t rank) { return p->cluster->device[p->device[rank]].node; }

/* Ranks of a node that have a replica elsewhere; n: [nodes]. */
static void count_leaving(const pst_prepared *p, uint32_t *n) {
    for (uint32_t r = 0; r < p->options.n_rank; r++) {
        pst_grid_place at = pst_grid_at(p->grid, r);
        int leaves = 0;
        for (uint32_t k = 0; k < p->grid.data && !leaves; k++)
            leaves = node_of(p, pst_grid_rank(p->grid, at.stage, k, at.tensor)) != node_of(p, r);
        n[node_of(p, r)] += (uint32_t)leaves;
    }
}

/* Seconds in which a byte has gone to every other replica, or has come from there; and the latency of the slowest. */
static pst_status each_other(const pst_prepared *p, uint32_t rank, const uint32_t *leaving, double *s,
                             uint64_t *latency_ns) {
    pst_grid_place at = pst_grid_at(p->grid, rank);
    const pst_cluster_node *node = &p->cluster->node[node_of(p, rank)];
    double within = 0, apart = 0, together = 0;
    for (uint32_t k = 0; k < p->grid.data; k++) {
        uint32_t other = pst_grid_rank(p->grid, at.stage, k, at.tensor);
        pst_cluster_link link;
        if (other == rank) continue;
        PST_TRY(pst_cluster_between(p->cluster, p->device[rank], p->device[other], &link));
        *latency_ns = link.latency_ns > *latency_ns ? link.latency_ns : *latency_ns;
        if (node_of(p, other) == node_of(p, rank)) within += 1 / link.bytes_per_s;
        else apart += 1 / link.bytes_per_s, together += leaving[node_of(p, rank)] / node->node_bytes_per_s;
    }
    *s = fmax(within, fmax(apart, together));
    return PST_OK;
}

static pst_status find_links(const pst_prepared *p, const uint32_t *leaving, pst_cluster_link *link) {
    for (uint32_t s = 0; s < p->grid.pipeline; s++) {
        double slowest = 0;
        link[s] = (pst_cluster_link){0};
        for (uint32_t r = pst_grid_rank(p->grid, s, 0, 0); r < pst_grid_rank(p->grid, s + 1, 0, 0); r++) {
            double needs;
            PST_TRY(each_other(p, r, leaving, &needs, &link[s].latency_ns));
            slowest = fmax(slowest, needs);
        }
        link[s].bytes_per_s = slowest > 0 ? (p->grid.data - 1) / slowest : 0;
    }
    return PST_OK;
}

pst_status pst_prepare_exchange(const pst_prepared *p, pst_cluster_link **links) {
    *links = NULL;
    if (!p->options.lane || !p->cluster || p->grid.data == 1) return PST_OK;
    pst_cluster_link *link = malloc(p->grid.pipeline * sizeof *link);
    uint32_t *leaving = calloc(p->cluster->n_node, sizeof *leaving);
    pst_status status =
        link && leaving ? PST_OK : pst_fail(PST_ENOMEM, "no memory for the links of %u ranks", p->options.n_rank);
    if (status == PST_OK) {
        count_leaving(p, leaving);
        status = find_links(p, leaving, link);
    }
    free(leaving);
    if (status == PST_OK) *links = link;
    else free(link);
    return status;
}

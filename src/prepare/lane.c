/* Jobs that are only predicted, not run: decides which are so large that only one lane is prepared,
 * and how fast a rank of the lane exchanges data with the other replicas (pst_job_spec.exchange),
 * from the cluster's links. All replicas do the same at the same time, so each replica sends the
 * same amount to every other one: to replicas on the same node over the rank's own link, to others
 * over the NIC; the NICs of a node together limit all ranks of the node that exchange with other
 * nodes. With a two-level exchange (pst_job.near) a replica sends one part of what each other
 * replica of its host owns, and of what this one is a relay for; and over the NIC one part of what
 * each replica owns for which it is a relay. */
#include "pipeline/compile/share.h"
#include "prepare/prepare.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- is the job reduced to a single lane ------------------------------------------------------ */

/* A job with more ranks, passes of chunks or exchanges of pieces is reduced to one lane. If
 * replicas differ, the limit of exchanges is higher, because one lane is then less accurate: a rank
 * also waits for others in sums that it does not exchange at the same time. */
enum { RANKS = 64, PASSES = 1 << 15, EXCHANGES = 1 << 20, UNEQUAL_EXCHANGES = 1 << 23 };
/* ... or with more ranks x parameters. */
enum { RANK_PARAMETERS = 1 << 20 };

/* Approximate number over all replicas: each piece of a sum is sent to every other replica and
 * added (in zero 2 for every micro-batch), and its result comes back. */
static uint64_t count_exchanges(const pst_prepared *p, const pst_layout *l) {
    const uint64_t data = p->grid.data, sums = p->plan->layout.zero == 2 ? l->n_micro : data;
    uint64_t pieces = 0;
    for (uint32_t i = 0; i < p->whole->n_param; i++)
        pieces += pst_pieces(pst_param_elements(p->whole->param + i));
    return data > 1 ? pieces * (3 * sums + 2 * data) : 0;
}

static int are_equal(const pst_prepared *p, const pst_layout *l) {
    for (uint32_t k = 1; l->micros && k < p->grid.data; k++)
        if (l->micros[k] != l->micros[0]) return 0;
    return 1;
}

/* The replica that takes longest for its micro-batches; the first among equals. */
static uint32_t longest(const pst_prepared *p, const pst_layout *l) {
    double most = 0;
    uint32_t replica = 0;
    for (uint32_t k = 0; l->micros && k < p->grid.data; k++) {
        double takes = l->micros[k] / pst_prepare_speed(p, k);
        if (takes > most) {
            most = takes;
            replica = k;
        }
    }
    return replica;
}

void pst_prepare_choose_lane(pst_prepared *p) {
    const pst_layout *l = &p->plan->layout;
    if (!p->options.score || !l->n_chunk || pst_prepare_islands(p->config, p->grid.data) > 1 ||
        pst_prepare_staleness(p->config) || p->options.lane || p->options.schedules ||
        pst_schedule_kind_of(l->schedule) == PST_SCHEDULE_SOLVED || p->grid.servers)
        return;
    /* the exchange of another program is known only in sum */
    if ((pst_costs_program_is_other(p->options.program) && p->cluster && p->grid.data > 1) ||
        p->options.n_rank > RANKS ||
        (uint64_t)p->options.n_rank * p->whole->n_param > RANK_PARAMETERS ||
        (uint64_t)p->grid.tensor * l->n_chunk * l->n_micro > PASSES ||
        count_exchanges(p, l) > (are_equal(p, l) ? EXCHANGES : UNEQUAL_EXCHANGES))
        p->options.lane = 1 + longest(p, l);
}

/* --- the links of a lane ---------------------------------------------------------------------- */

static uint32_t node_of(const pst_prepared *p, uint32_t rank) {
    return p->cluster->device[p->device[rank]].node;
}

/* n: [nodes] number of ranks on each node that have a replica on another node. */
static void count_leaving(const pst_prepared *p, uint32_t *n) {
    for (uint32_t r = 0; r < p->options.n_rank; r++) {
        pst_grid_place at = pst_grid_at(p->grid, r);
        int leaves = 0;
        for (uint32_t k = 0; k < p->grid.data && !leaves; k++)
            leaves = node_of(p, pst_grid_rank(p->grid, at.stage, k, at.tensor)) != node_of(p, r);
        n[node_of(p, r)] += (uint32_t)leaves;
    }
}

static pst_costs_replicas replicas_of(const pst_prepared *p, uint32_t rank,
                                      const uint32_t *leaving) {
    const pst_grid_place at = pst_grid_at(p->grid, rank);
    const pst_cluster_node *node = &p->cluster->node[node_of(p, rank)];
    uint32_t near = 0;
    for (uint32_t k = 0; k < p->grid.data; k++)
        near += node_of(p, pst_grid_rank(p->grid, at.stage, k, at.tensor)) == node_of(p, rank);
    double between = node->link[PST_LEVEL_NODE].bytes_per_s;
    if (leaving[node_of(p, rank)] && node->node_bytes_per_s > 0)
        between = fmin(between, node->node_bytes_per_s / leaving[node_of(p, rank)]);
    return (pst_costs_replicas){p->grid.data, near, node->link[PST_LEVEL_DEVICE].bytes_per_s,
                                between};
}

/* As each_other, of another program, whose replicas exchange within nodes first. */
static double other_program_s(const pst_prepared *p, uint32_t rank, const uint32_t *leaving) {
    const pst_costs_replicas replicas = replicas_of(p, rank, leaving);
    return pst_costs_program_exchange_ns(p->options.program, &replicas) * 1e-9 * p->grid.data;
}

pst_status pst_prepare_shard_ns(const pst_prepared *p, double *ns) {
    const pst_costs_program *program = p->options.program;
    *ns = 0;
    if (!pst_costs_program_is_other(program) || !(program->shards > 0) || !p->cluster ||
        p->grid.data == 1)
        return PST_OK;
    uint32_t *leaving = calloc(p->cluster->n_node, sizeof *leaving);
    if (!leaving)
        return pst_fail(PST_ENOMEM, "no memory for the links of %u ranks", p->options.n_rank);
    count_leaving(p, leaving);
    for (uint32_t r = 0; r < p->options.n_rank; r++) {
        const pst_costs_replicas replicas = replicas_of(p, r, leaving);
        *ns = fmax(*ns, pst_costs_program_shard_ns(program, &replicas));
    }
    free(leaving);
    return PST_OK;
}

/* How many gradients of each owned element a replica sends to another one. */
static uint32_t parts_for(uint32_t group, uint32_t near, uint32_t own, uint32_t other) {
    if (own / near == other / near) return group / near;
    return own % near == other % near;
}

/* How replicas exchange; leaving: see count_leaving. */
typedef struct {
    const pst_prepared *p;
    uint32_t near;
    uint32_t *leaving;
} exchanging;

/* *s: seconds in which the links of a rank carry one byte of each part that it sends, or receives;
 * *latency_ns: latency of the slowest link. */
static pst_status each_other(const exchanging *x, uint32_t rank, double *s, uint64_t *latency_ns) {
    const pst_prepared *p = x->p;
    const pst_grid_place at = pst_grid_at(p->grid, rank);
    const pst_cluster_node *node = &p->cluster->node[node_of(p, rank)];
    const uint32_t group = p->grid.data / pst_prepare_islands(p->config, p->grid.data),
                   first = at.replica / group * group;
    double within = 0, apart = 0, together = 0;
    for (uint32_t k = 0; k < group; k++) {
        uint32_t other = pst_grid_rank(p->grid, at.stage, first + k, at.tensor);
        const double parts = parts_for(group, x->near, at.replica - first, k);
        pst_cluster_link link;
        if (other == rank || !(parts > 0)) continue;
        PST_TRY(pst_cluster_between(p->cluster, p->device[rank], p->device[other], &link));
        *latency_ns = link.latency_ns > *latency_ns ? link.latency_ns : *latency_ns;
        if (node_of(p, other) == node_of(p, rank)) within += parts / link.bytes_per_s;
        else {
            apart += parts / link.bytes_per_s;
            together += parts * x->leaving[node_of(p, rank)] / node->node_bytes_per_s;
        }
    }
    *s = fmax(within, fmax(apart, together));
    if (pst_costs_program_is_other(p->options.program)) *s = other_program_s(p, rank, x->leaving);
    return PST_OK;
}

static pst_status find_links(const exchanging *x, pst_cluster_link *link) {
    const pst_prepared *p = x->p;
    for (uint32_t s = 0; s < p->grid.pipeline; s++) {
        double slowest = 0;
        link[s] = (pst_cluster_link){0};
        for (uint32_t r = pst_grid_first(p->grid, s); r < pst_grid_first(p->grid, s + 1); r++) {
            double needs;
            if (pst_grid_is_server(p->grid, r)) continue;
            PST_TRY(each_other(x, r, &needs, &link[s].latency_ns));
            slowest = fmax(slowest, needs);
        }
        link[s].bytes_per_s = slowest > 0 ? (p->grid.data - 1) / slowest : 0;
    }
    return PST_OK;
}

pst_status pst_prepare_exchange(const pst_prepared *p, uint32_t near, pst_cluster_link **links) {
    *links = NULL;
    if (!p->cluster || p->grid.data == 1) return PST_OK;
    pst_cluster_link *link = malloc(p->grid.pipeline * sizeof *link);
    const exchanging x = {p, near, calloc(p->cluster->n_node, sizeof *x.leaving)};
    pst_status status =
        link && x.leaving
            ? PST_OK
            : pst_fail(PST_ENOMEM, "no memory for the links of %u ranks", p->options.n_rank);
    if (status == PST_OK) {
        count_leaving(p, x.leaving);
        status = find_links(&x, link);
    }
    free(x.leaving);
    if (status == PST_OK) *links = link;
    else free(link);
    return status;
}

pst_status pst_prepare_near_is_shorter(const pst_prepared *p, uint32_t near, int *shorter) {
    pst_cluster_link *flat = NULL, *two_level = NULL;
    double most[2] = {0};
    *shorter = 1;
    if (!p->cluster) return PST_OK;
    pst_status status = pst_prepare_exchange(p, 1, &flat);
    if (status == PST_OK) status = pst_prepare_exchange(p, near, &two_level);
    for (uint32_t s = 0; status == PST_OK && s < p->grid.pipeline; s++) {
        most[0] = fmax(most[0], 1 / flat[s].bytes_per_s);
        most[1] = fmax(most[1], 1 / two_level[s].bytes_per_s);
    }
    *shorter = most[1] < most[0];
    free(flat);
    free(two_level);
    return status;
}

/* The cluster that a run is prepared for: each rank's device, its speed, and the durations of
 * messages. When a run starts, its hosts' links are measured (link.h), which then replaces these.
 */
#include "base/plural.h"
#include "prepare/prepare.h"
#include <math.h>
#include <stdlib.h>

static pst_status check_devices(const pst_prepared *p, const char *name) {
    uint32_t n = p->options.n_rank, most = p->cluster->n_device;
    if (most < n)
        return pst_fail(PST_EINPUT,
                        "%s has only %u device%s; expected at least %u, one for each rank", name,
                        most, pst_plural(most), n);
    for (uint32_t r = 0; r < n; r++)
        if (p->device[r] >= most)
            return pst_fail(PST_EINPUT, "rank %u has device %u, but %s only has devices 0 to %u", r,
                            p->device[r], name, most - 1);
    return PST_OK;
}

/* The run is modelled for the kind of the first rank's device. */
static pst_status check_kinds(const pst_prepared *p) {
    pst_dtype dtype = pst_dtype_of_precision(p->config->train.precision);
    for (uint32_t r = 0; r < p->options.n_rank; r++) {
        uint32_t device = p->device[r];
        const pst_device_kind *kind = &p->cluster->kind[p->cluster->device[device].kind];
        if (kind->flops[dtype] <= 0)
            return pst_fail(PST_EINPUT,
                            "train.precision %s: device %u of the cluster (%s) does not support it",
                            p->config->train.precision, device, kind->name);
    }
    return PST_OK;
}

double pst_prepare_slow(const pst_prepared *p, uint32_t rank) {
    pst_dtype dtype = pst_dtype_of_precision(p->config->train.precision);
    const pst_cluster *c = p->cluster;
    const pst_cluster_device *first = &c->device[p->device[0]], *own = &c->device[p->device[rank]];
    return c->kind[first->kind].flops[dtype] / c->kind[own->kind].flops[dtype] / own->speed;
}

/* The link between two ranks while all ranks of the stage on the sender's node use it at the same
 * time. */
static pst_status busy_link(const pst_prepared *p, uint32_t from, uint32_t to,
                            pst_cluster_link *link) {
    const pst_cluster_device *device = p->cluster->device, *own = device + p->device[from];
    uint32_t stage = pst_grid_stage(p->grid, from), n = 0;
    PST_TRY(pst_cluster_between(p->cluster, p->device[from], p->device[to], link));
    if (device[p->device[to]].node == own->node) return PST_OK;
    for (uint32_t r = pst_grid_first(p->grid, stage); r < pst_grid_first(p->grid, stage + 1); r++)
        n += device[p->device[r]].node == own->node;
    link->bytes_per_s = fmin(link->bytes_per_s, p->cluster->node[own->node].node_bytes_per_s / n);
    return PST_OK;
}

static pst_status slower(const pst_prepared *p, uint32_t from, uint32_t to,
                         pst_cluster_link *slowest) {
    pst_cluster_link link;
    PST_TRY(busy_link(p, from, to, &link));
    slowest->bytes_per_s = fmin(slowest->bytes_per_s, link.bytes_per_s);
    if (link.latency_ns > slowest->latency_ns) slowest->latency_ns = link.latency_ns;
    return PST_OK;
}

/* The size of a message between replicas: LATENCIES times the bytes that fit into the link's
 * latency, so that latency is a small part of the time. From one piece up to MOST, while receive
 * buffers take at most CAPACITY bytes. The size does not change any bits. */
static uint64_t message_of(const pst_cluster_link *link, uint32_t replicas) {
    enum { LATENCIES = 8, MOST = 16 * PST_PIECE, CAPACITY = 256 << 20 };
    const double wanted = LATENCIES * 1e-9 * (double)link->latency_ns * link->bytes_per_s;
    const uint64_t buffers = PST_PIECES_IN_FLIGHT * (replicas - UINT64_C(1));
    uint64_t n = PST_PIECE;
    while (n < MOST && (double)(n * sizeof(float)) < wanted &&
           2 * n * sizeof(float) * buffers <= CAPACITY)
        n *= 2;
    return n;
}

/* All tensor groups wait for the slowest one, and so do neighbouring stages: one link each, the
 * slowest, is accurate enough. */
static pst_status find_links(pst_prepared *p) {
    pst_cluster_link tensor = {0, INFINITY}, stage = tensor, data = tensor;
    for (uint32_t r = 0; r < p->options.n_rank; r++) {
        pst_grid_place at = pst_grid_at(p->grid, r);
        uint32_t group = pst_grid_degree(p->grid, at.stage), first = r - at.tensor;
        if (group > 1) /* between neighbours in the group, as in a ring */
            PST_TRY(slower(p, r, first + (at.tensor + 1) % group, &tensor));
        if (at.replica)
            PST_TRY(slower(p, pst_grid_rank(p->grid, at.stage, 0, at.tensor), r, &data));
        if (!at.stage || pst_grid_is_server(p->grid, r)) continue;
        PST_TRY(slower(p, pst_grid_in_lane(p->grid, at.stage - 1, pst_grid_lane(p->grid, r)), r,
                       &stage));
    }
    if (p->grid.tensor > 1) p->tensor_link = tensor;
    if (p->grid.pipeline > 1) p->stage_link = stage;
    if (p->grid.data > 1) p->message = message_of(&data, p->grid.data);
    return PST_OK;
}

static pst_status load(pst_prepared *p, const char *name) {
    if (*p->config->parallel.cluster) {
        PST_TRY(pst_cluster_load(name, &p->cluster));
        pst_cluster_reserve(p->cluster,
                            pst_device_communicators(p->options.n_rank, p->grid.tensor));
    } else {
        uint32_t most = 0;
        for (uint32_t r = 0; r < p->options.n_rank; r++)
            most = p->device[r] > most ? p->device[r] : most;
        PST_TRY(pst_cluster_default(most + 1, &p->cluster));
        for (uint32_t r = 0; r < p->options.n_rank; r++)
            p->cluster->device[p->device[r]].speed = 1 / p->throttle[r];
    }
    for (uint32_t i = 0; i < p->options.n_what_if; i++)
        PST_TRY(pst_cluster_change(p->cluster, p->options.what_if[i]));
    return PST_OK;
}

pst_status pst_prepare_cluster(pst_prepared *p) {
    const char *name = *p->config->parallel.cluster ? p->config->parallel.cluster : "the cluster";
    p->tensor_link = p->stage_link = pst_costs_link;
    if (p->options.infer || (!*p->config->parallel.cluster && !p->options.n_what_if)) return PST_OK;
    PST_TRY(load(p, name));
    PST_TRY(check_devices(p, name));
    PST_TRY(check_kinds(p));
    return find_links(p);
}

/* --- messages --------------------------------------------------------------------------------- */

/* Ranks whose devices are on one node share its NICs. */
static pst_status share_hosts(const pst_prepared *p, pst_job *job) {
    const pst_cluster *c = p->cluster;
    uint32_t *first = malloc(c->n_node * sizeof *first);
    job->host = malloc(job->n_rank * sizeof *job->host);
    job->host_bytes_per_s = malloc(job->n_rank * sizeof *job->host_bytes_per_s);
    if (!first || !job->host || !job->host_bytes_per_s) {
        free(first);
        return pst_fail(PST_ENOMEM, "no memory for the nodes of %u ranks", job->n_rank);
    }
    for (uint32_t i = 0; i < c->n_node; i++) first[i] = PST_NONE;
    for (uint32_t r = 0; r < job->n_rank; r++) {
        uint32_t node = c->device[p->device[r]].node;
        if (first[node] == PST_NONE) first[node] = r;
        job->host[r] = first[node];
        job->host_bytes_per_s[r] = c->node[node].node_bytes_per_s;
    }
    free(first);
    return PST_OK;
}

static void set_duration(pst_instr *in, const pst_cluster_link *link) {
    in->wire_ns = (uint64_t)llround((double)in->bytes * 1e9 / link->bytes_per_s);
    in->ns = link->latency_ns + in->wire_ns;
}

static pst_status time_rank(const pst_prepared *p, pst_job *job, uint32_t rank) {
    for (uint32_t i = 0; i < job->list[rank].n_instr; i++) {
        pst_instr *in = &job->list[rank].instr[i];
        pst_cluster_link link;
        if ((in->opcode != PST_OP_SEND && in->opcode != PST_OP_RECV) || in->peer == rank) continue;
        PST_TRY(pst_cluster_between(p->cluster, p->device[rank], p->device[in->peer], &link));
        set_duration(in, &link);
    }
    return PST_OK;
}

/* For a single lane, whose ranks stand for those of all lanes. A rank's message to itself is
 * exchanged with other replicas (prepare/lane.c), or stays on the rank. */
static pst_status time_rank_alone(const pst_prepared *p, pst_job *job, uint32_t rank) {
    for (uint32_t i = 0; i < job->list[rank].n_instr; i++) {
        pst_instr *in = &job->list[rank].instr[i];
        uint32_t from = in->opcode == PST_OP_SEND ? rank : in->peer,
                 to = from == rank ? in->peer : rank;
        pst_cluster_link link;
        if ((in->opcode != PST_OP_SEND && in->opcode != PST_OP_RECV) || from == to) continue;
        PST_TRY(busy_link(p, from, to, &link));
        set_duration(in, &link);
    }
    return PST_OK;
}

/* Passes of another program wait for the messages between stages, which then take no other time. */
static void wait_for_messages(const pst_prepared *p, pst_job *job, uint32_t rank) {
    const pst_costs_program *program = p->options.program;
    pst_instr_list *list = &job->list[rank];
    uint64_t longest = 0;
    if (!program || !(program->messages > 0)) return;
    for (uint32_t i = 0; i < list->n_instr; i++) {
        pst_instr *in = &list->instr[i];
        if ((in->opcode != PST_OP_SEND && in->opcode != PST_OP_RECV) || in->param != PST_NONE)
            continue;
        longest = in->ns > longest ? in->ns : longest;
        in->ns = in->wire_ns = 0;
    }
    const uint64_t waits = (uint64_t)(program->messages * (double)longest);
    for (uint32_t i = 0; i < list->n_instr; i++) {
        pst_instr *in = &list->instr[i];
        if (in->opcode == PST_OP_F || in->opcode == PST_OP_B || in->opcode == PST_OP_BW)
            in->ns += waits;
    }
}

pst_status pst_prepare_time_messages(pst_prepared *p) {
    pst_job *job = p->job;
    int alone = p->options.lane && pst_grid_lanes(p->grid) > 1;
    if (!p->cluster) return PST_OK;
    if (!alone) PST_TRY(share_hosts(p, job));
    for (uint32_t r = 0; r < job->n_rank; r++)
        PST_TRY((alone ? time_rank_alone : time_rank)(p, job, r));
    for (uint32_t r = 0; r < job->n_rank; r++) wait_for_messages(p, job, r);
    return PST_OK;
}

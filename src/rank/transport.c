/* The transport of a rank's messages if the host cannot access the device's memory. */
#include "rank/exchange_device.h"
#include "rank/rank.h"
#include "rank/staged.h"
#include <stdlib.h>
#include <string.h>

int pst_rank_transport_reaches(const pst_transport *t, const pst_device_ops *device) {
    return t->ops->flags & PST_TRANSPORT_DEVICE_MEMORY ||
           (t->reaches_cuda && device->flags & PST_DEVICE_CUDA);
}

static uint64_t largest_message(const pst_instr_list *list) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < list->n_instr; i++)
        if ((list->instr[i].opcode == PST_OP_SEND || list->instr[i].opcode == PST_OP_RECV) &&
            list->instr[i].bytes > most)
            most = list->instr[i].bytes;
    return most;
}

static uint64_t largest_exchange(const pst_graph *g) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < g->n_node; i++)
        for (pst_pass pass = 0; pass < PST_PASS_COUNT; pass++) {
            uint64_t bytes = pst_far_exchange_message(g, g->node + i, pass);
            if (bytes > most) most = bytes;
        }
    return most;
}

static void note_peers(const pst_instr_list *list, uint8_t *talks) {
    for (uint32_t i = 0; i < list->n_instr; i++)
        if (list->instr[i].opcode == PST_OP_SEND || list->instr[i].opcode == PST_OP_RECV)
            talks[list->instr[i].peer] = 1;
}

static pst_status open_direct(pst_rank *r, const pst_direct_ops *direct) {
    const pst_prepared *p = r->p;
    uint32_t n_rank = r->transport->size, n = pst_grid_degree(p->grid, r->place.stage);
    uint8_t *talks = calloc(n_rank, sizeof *talks);
    uint32_t *member = calloc(n, sizeof *member);
    pst_status status =
        talks && member ? PST_OK : pst_fail(PST_ENOMEM, "no memory for %u ranks", n_rank);
    r->library_adds = !strcmp(p->config->parallel.collectives, "fast") && direct->sum;
    if (status == PST_OK) {
        note_peers(p->job->list + r->rank, talks);
        if (p->eval_job) note_peers(p->eval_job->list + r->rank, talks);
        for (uint32_t t = 0; t < n; t++)
            member[t] = pst_grid_rank(p->grid, r->place.stage, r->place.replica, t);
        const pst_direct_config config = {.inner = r->transport,
                                          .device = r->device,
                                          .talks = talks,
                                          .member = member,
                                          .n_member = r->device_exchanger ? n : 0,
                                          .sums = r->library_adds};
        status = direct->open(&config, &r->staged);
    }
    if (status == PST_OK) r->direct = direct;
    free(talks);
    free(member);
    return status;
}

pst_status pst_rank_connect(pst_rank *r) {
    uint64_t bytes;
    if (!r->direct) return PST_OK;
    r->staged->ops->progress(r->staged);
    return r->direct->connect(r->staged, &bytes);
}

/* Chooses the transport for the messages of the executor and of a tensor group, if the host cannot
 * access the device's memory: the given one if it can move device memory; a transport of the device
 * if it was requested by name; else one that is staged through the host. */
pst_status pst_rank_transport_open(pst_rank *r) {
    const pst_prepared *p = r->p;
    const pst_direct_ops *direct = NULL;
    uint64_t most = largest_message(p->job->list + r->rank);
    uint64_t eval = p->eval_job ? largest_message(p->eval_job->list + r->rank) : 0;
    uint64_t exchange = r->device_exchanger ? largest_exchange(r->graph) : 0;
    if (!r->on_device || pst_rank_transport_reaches(r->transport, r->device->ops)) return PST_OK;
    if (eval > most) most = eval;
    if (exchange > most) most = exchange;
    if (strcmp(r->transport->ops->name, "self")) /* these ranks are in one process */
        PST_TRY(pst_registry_direct(p->config->parallel.transport, r->device->ops,
                                    p->options.ranks_here, &direct));
    if (direct && most) return open_direct(r, direct);
    return most ? pst_staged_open(r->transport, r->device, most, PST_STAGED_CHUNK, &r->staged)
                : PST_OK;
}

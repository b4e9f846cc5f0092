/* Messages of the device of far_module.c as a transport of its own: those of the host's, at the
 * addresses where the memory really lies. It has the name of NCCL's, which the registry asks
 * for. */
#include "far/far_direct.h"
#include <stdlib.h>

typedef struct {
    pst_transport base; /* first */
    pst_transport *inner;
    pst_device *device;
} direct;

static pst_transport *inner_of(pst_transport *t) { return ((direct *)t)->inner; }

static pst_status post(pst_transport *t, const pst_transfer *transfer, uint64_t *id) {
    pst_transfer there = *transfer;
    there.mem = pst_far_real((const pst_far_memory *)((direct *)t)->device, transfer->mem);
    return inner_of(t)->ops->post(inner_of(t), &there, id);
}

static pst_status test(pst_transport *t, uint64_t id, uint64_t *end_ns) {
    return inner_of(t)->ops->test(inner_of(t), id, end_ns);
}
static uint32_t progress(pst_transport *t) { return inner_of(t)->ops->progress(inner_of(t)); }
static uint64_t next_ns(pst_transport *t) {
    return inner_of(t)->ops->next_ns ? inner_of(t)->ops->next_ns(inner_of(t)) : PST_NEVER;
}
static pst_status arm(pst_transport *t, int *fd) { return inner_of(t)->ops->arm(inner_of(t), fd); }
static void give_up(pst_transport *t) { inner_of(t)->ops->abort(inner_of(t)); }
static void close_direct(pst_transport *t) { free(t); }

static const pst_transport_ops ops = {.name = "nccl",
                                      .flags = PST_TRANSPORT_DEVICE_MEMORY,
                                      .post = post,
                                      .test = test,
                                      .progress = progress,
                                      .next_ns = next_ns,
                                      .arm = arm,
                                      .abort = give_up,
                                      .close = close_direct};

/* As if the machine had two GPUs. */
static const char *reject(uint32_t ranks_here) {
    return ranks_here > 2 ? "more ranks than GPUs" : NULL;
}

static pst_status open_direct(const pst_direct_config *config, pst_transport **transport) {
    direct *t = malloc(sizeof *t);
    pst_transport *inner = config->inner;
    if (!t) return PST_ENOMEM;
    t->base = (pst_transport){
        .ops = &ops, .clock = inner->clock, .rank = inner->rank, .size = inner->size};
    t->inner = inner;
    t->device = config->device;
    pst_log(PST_LOG_INFO, "far: messages go directly");
    *transport = &t->base;
    return PST_OK;
}

static pst_status connect_direct(pst_transport *t, uint64_t *bytes) {
    (void)t;
    *bytes = 0;
    return PST_OK;
}

const pst_direct_ops pst_far_direct = {
    .name = "nccl", .reject = reject, .open = open_direct, .connect = connect_direct};

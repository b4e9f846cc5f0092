/* Transport nccl: messages between GPUs (message.c) and collectives of tensor groups (group.c) by
 * NCCL, without a copy in host memory. This file opens and closes it and has its table. */
#ifdef PST_NCCL
#include "base/status.h"
#include "kernels/cuda/nccl/parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNEL = PST_CHANNEL_COLLECTIVE + 3, GROUP_CHANNEL };

typedef pst_nccl_transport nccl;
typedef pst_nccl_request request;

static pst_status enter(const nccl *t) {
    int ordinal = ((const pst_cuda_device *)t->device)->ordinal, current = -1;
    cudaError_t error = cudaGetDevice(&current);
    if (error == cudaSuccess && current != ordinal) error = cudaSetDevice(ordinal);
    return pst_cuda_status(error, "cudaSetDevice");
}

/* --- communicators ---------------------------------------------------------------------------- */

/* Continues to make the communicators: on all ranks the job's first. */
static pst_status go_on(nccl *t) {
    pst_status status = t->connected ? PST_OK : pst_nccl_comm_connect(t->all);
    if (status == PST_OK && !t->group && t->of_group.n)
        status = pst_nccl_comm_open(&t->of_group, &t->group);
    if (status == PST_OK && t->group && !t->connected) status = pst_nccl_comm_connect(t->group);
    if (status == PST_OK) t->connected = 1;
    return status == PST_BUSY ? PST_OK : status;
}

static pst_status failure(const nccl *t) {
    return t->failed == PST_OK ? PST_BUSY : pst_fail(t->failed, "%s", t->why);
}

/* The arena leaves pst_cuda_reserve free: NCCL has taken its part of that, kernels will need the
 * rest. */
static void say_bytes(const nccl *t, uint64_t bytes) {
    pst_log_level level = t->base.rank ? PST_LOG_DEBUG : PST_LOG_INFO;
    if (bytes > pst_cuda_reserve / 4 * 3) level = PST_LOG_WARN;
    pst_log(
        level,
        "NCCL has allocated %.0f MiB of GPU memory, of %.0f MiB that are reserved for libraries%s",
        (double)bytes / 0x1p20, (double)pst_cuda_reserve / 0x1p20,
        level == PST_LOG_WARN ? "; the rest may not suffice for kernels (NCCL_BUFFSIZE=1048576 "
                                "reduces NCCL's buffers)"
                              : "");
}

static pst_status connect_nccl(pst_transport *base, uint64_t *bytes) {
    nccl *t = (nccl *)base;
    if (!t->connected || t->failed != PST_OK) return failure(t);
    *bytes = pst_nccl_comm_bytes(t->all) + (t->group ? pst_nccl_comm_bytes(t->group) : 0);
    say_bytes(t, *bytes);
    return PST_OK;
}

static pst_status swap(pst_transport *base, const pst_swap *s) {
    return pst_nccl_swap(((nccl *)base)->group, s);
}

static pst_status sum(pst_transport *base, const pst_group_sum *s) {
    return pst_nccl_sum(((nccl *)base)->group, s);
}

/* --- the table -------------------------------------------------------------------------------- */

static pst_status take_request(nccl *t, request **out) {
    request *r = t->spare;
    if (r) {
        t->spare = r->next;
        *out = r;
        return PST_OK;
    }
    PST_TRY(enter(t));
    if (!(r = calloc(1, sizeof *r))) return pst_fail(PST_ENOMEM, "no memory for a transfer");
    pst_status status =
        pst_cuda_status(cudaEventCreateWithFlags(&r->event, cudaEventDisableTiming), "an event");
    if (status != PST_OK) {
        free(r);
        return status;
    }
    *out = r;
    return PST_OK;
}

static pst_status nccl_post(pst_transport *base, const pst_transfer *transfer, uint64_t *id) {
    nccl *t = (nccl *)base;
    request *r = NULL;
    if (transfer->peer >= base->size || transfer->peer == base->rank)
        return pst_fail(PST_EINTERNAL,
                        "transport nccl: rank %u cannot send to or receive from rank %u",
                        base->rank, transfer->peer);
    PST_TRY(take_request(t, &r));
    *r = (request){.transfer = *transfer,
                   .event = r->event,
                   .ready = {.bytes = transfer->bytes},
                   .ask = PST_NCCL_NONE,
                   .tell = PST_NCCL_NONE,
                   .tell_place = PST_NCCL_NONE};
    *t->last = r;
    t->last = &r->next;
    *id = (uint64_t)(uintptr_t)r;
    return pst_nccl_begin(t, r);
}

static pst_status nccl_test(pst_transport *base, uint64_t id, uint64_t *end_ns) {
    nccl *t = (nccl *)base;
    request *r = (request *)(uintptr_t)id, **link = &t->active;
    if (r->phase != PST_NCCL_DONE) return failure(t);
    if (end_ns) *end_ns = r->end_ns;
    while (*link != r) link = &(*link)->next;
    if (t->last == &r->next) t->last = link;
    *link = r->next;
    r->next = t->spare;
    t->spare = r;
    t->unseen--;
    return PST_OK;
}

static pst_status advance_all(nccl *t, uint32_t *moved) {
    PST_TRY(enter(t));
    PST_TRY(go_on(t));
    return pst_nccl_advance(t, moved);
}

static uint32_t nccl_progress(pst_transport *base) {
    nccl *t = (nccl *)base;
    uint32_t moved = t->inner->ops->progress(t->inner);
    pst_status status = t->failed == PST_OK ? advance_all(t, &moved) : PST_OK;
    if (status != PST_OK) {
        t->failed = status;
        snprintf(t->why, sizeof t->why, "%s", pst_error());
    }
    return moved + t->unseen + (t->failed != PST_OK);
}

static uint64_t nccl_next_ns(pst_transport *base) {
    pst_transport *inner = ((nccl *)base)->inner;
    return inner->ops->next_ns ? inner->ops->next_ns(inner) : PST_NEVER;
}

static pst_status nccl_arm(pst_transport *base, int *fd) {
    nccl *t = (nccl *)base;
    if (!t->connected || t->busy || t->unseen || t->failed != PST_OK)
        return PST_BUSY; /* no file descriptor signals the end of work on the device */
    return t->inner->ops->arm
               ? t->inner->ops->arm(t->inner, fd)
               : pst_fail(PST_EINPUT, "transport nccl cannot wait on a file descriptor");
}

static void nccl_abort(pst_transport *base) {
    nccl *t = (nccl *)base;
    if (t->failed == PST_OK) {
        t->failed = PST_EPEER;
        snprintf(t->why, sizeof t->why, "NCCL: aborted");
    }
    enter(t);
    pst_nccl_comm_abort(t->all);
    pst_nccl_comm_abort(t->group);
    cudaGetLastError();
    t->inner->ops->abort(t->inner);
}

static void free_requests(request *r) {
    for (request *next; r; r = next) {
        next = r->next;
        cudaEventDestroy(r->event);
        free(r);
    }
}

static void nccl_close(pst_transport *base) {
    nccl *t = (nccl *)base;
    if (!t) return;
    enter(t);
    if (t->failed == PST_OK && !t->busy) {
        pst_nccl_comm_finish(t->all);
        pst_nccl_comm_finish(t->group);
    }
    pst_nccl_comm_close(t->all);
    pst_nccl_comm_close(t->group);
    free_requests(t->active);
    free_requests(t->spare);
    cudaGetLastError();
    free(t->member);
    free(t);
}

static const pst_transport_ops ops = {.name = "nccl",
                                      .flags = PST_TRANSPORT_DEVICE_MEMORY,
                                      .post = nccl_post,
                                      .test = nccl_test,
                                      .progress = nccl_progress,
                                      .next_ns = nccl_next_ns,
                                      .arm = nccl_arm,
                                      .abort = nccl_abort,
                                      .close = nccl_close};

static const char *reject(uint32_t ranks_here) {
    static char line[160];
    const char *why;
    int count = 0;
    if (!pst_nccl_get(&why)) return why;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError();
        return "this machine has no usable GPU";
    }
    if (ranks_here <= (uint32_t)count) return NULL;
    snprintf(line, sizeof line,
             "%u ranks of this host share %d GPU%s, but NCCL needs one GPU per rank; use "
             "parallel.transport=ucx",
             ranks_here, count, count == 1 ? "" : "s");
    return line;
}

/* member: [inner->size] room. */
static pst_status open_comms(nccl *t, const pst_direct_config *c, uint32_t *member) {
    pst_nccl_comm_config config = {.nccl = t->nccl,
                                   .inner = c->inner,
                                   .channel = CHANNEL,
                                   .device = c->device,
                                   .member = member,
                                   .n = c->inner->size,
                                   .talks = c->talks,
                                   .of = "messages"};
    for (uint32_t i = 0; i < config.n; i++) member[i] = i;
    PST_TRY(pst_nccl_comm_open(&config, &t->all));
    memcpy(member, c->member, c->n_member * sizeof *member);
    config.channel = GROUP_CHANNEL;
    config.stream = pst_cuda_stream(c->device);
    config.n = c->n_member;
    config.talks = NULL;
    config.sums = c->sums;
    config.of = "tensor ranks";
    t->of_group = config;
    return PST_OK;
}

static pst_status open_nccl(const pst_direct_config *c, pst_transport **transport) {
    const char *why;
    const pst_nccl *api = pst_nccl_get(&why);
    if (!api) return pst_fail(PST_EINPUT, "transport nccl: %s", why);
    nccl *t = calloc(1, sizeof *t);
    if (!t) return pst_fail(PST_ENOMEM, "no memory for transport nccl");
    t->base = (pst_transport){
        .ops = &ops, .clock = c->inner->clock, .rank = c->inner->rank, .size = c->inner->size};
    t->inner = c->inner;
    t->device = c->device;
    t->nccl = api;
    t->last = &t->active;
    t->member = calloc(c->inner->size, sizeof *t->member);
    pst_status status =
        t->member ? enter(t) : pst_fail(PST_ENOMEM, "no memory for %u ranks", c->inner->size);
    if (status == PST_OK) status = open_comms(t, c, t->member);
    if (status != PST_OK) {
        nccl_close(&t->base);
        return status;
    }
    *transport = &t->base;
    return PST_OK;
}

const pst_direct_ops pst_direct_nccl = {.name = "nccl",
                                        .reject = reject,
                                        .open = open_nccl,
                                        .connect = connect_nccl,
                                        .swap = swap,
                                        .sum = sum};
#endif

/* Messages between GPUs by NCCL, without a copy in the host's memory.
 *
 * NCCL has no tags, and a send or receive that waits for its other half holds up what follows and
 * some of the GPU. So the two ends agree before, over the transport of the host's memory: the
 * receiver says that it has posted (READY), the sender then that it sends, and as how many-th from
 * this rank to that one (GO); both queue their halves at once and in that order. Whatever is queued
 * has its other half, in whatever order messages were posted. Each direction of each pair has a
 * communicator and a stream of its own, which no other waits for; the first message makes them, and
 * other messages go on meanwhile, for nothing here blocks. */
#ifdef PST_NCCL
#include "kernels/cuda/nccl.h"
#include "base/status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FINISH_NS = 2000000000, NAP_NS = 100000 };
enum {
    GO_WAY = 0,
    READY_WAY = 1
}; /* of a message's own words; they have sequence numbers of their own */

typedef struct {
    uint64_t bytes, order;
    ncclUniqueId id; /* with order 0: of the pair's communicator */
} go;

typedef enum { WAITS, STANDS, QUEUED, RUNS, DONE } phase;

typedef struct request request;
struct request {
    request *next;
    pst_transfer transfer;
    phase phase;
    go go;
    uint64_t ready;     /* the receiver's number of bytes */
    uint64_t ask, tell; /* inner requests: what is waited for, what was sent; tell: NONE when it is
                           through */
    cudaEvent_t event;
    uint64_t end_ns;
};

typedef struct {
    ncclComm_t comm;
    cudaStream_t stream;
    int connected;           /* the communicator is made */
    uint64_t n_go, n_queued; /* messages that were given an order; those that were queued, in that
                                order */
    request *queuing;        /* NCCL has taken it, and is not through with taking it */
    ncclUniqueId id;
} pair;

typedef struct {
    pst_transport base; /* first */
    pst_transport *inner;
    pst_device *device;
    const pst_nccl *nccl;
    pair *pair[2]; /* [size] to and from each rank */
    request *active, **last, *spare;
    uint32_t unseen, busy; /* done and not tested; on the device or about to be */
    pst_status failed;
    char why[512];
} nccl;

#define NONE UINT64_MAX

static int sends(const request *r) { return r->transfer.kind == PST_TRANSFER_SEND; }
static pair *pair_of(nccl *t, const request *r) {
    return &t->pair[sends(r) ? 0 : 1][r->transfer.peer];
}

/* NCCL's word for a failure of a pair: it is the peer that is named. */
static pst_status check(nccl *t, const request *r, ncclResult_t result, const char *what) {
    if (result == ncclSuccess || result == ncclInProgress) return PST_OK;
    ncclComm_t comm = pair_of(t, r)->comm;
    const char *last = comm ? t->nccl->last(comm) : NULL;
    return pst_fail(
        result == ncclRemoteError || result == ncclSystemError ? PST_EPEER : PST_EINTERNAL,
        "NCCL: %s rank %u: %s: %s%s%s", sends(r) ? "sending to" : "receiving from",
        r->transfer.peer, what, t->nccl->text(result), last && *last ? ": " : "", last ? last : "");
}

/* --- words between the ends ------------------------------------------------------------------- */

typedef struct {
    pst_transfer_kind kind;
    int way;
    void *mem;
    uint64_t bytes;
} word;

static pst_status post_word(nccl *t, const request *r, word w, uint64_t *id) {
    const pst_transfer transfer = {.kind = w.kind,
                                   .peer = r->transfer.peer,
                                   .channel = r->transfer.channel,
                                   .seq = r->transfer.seq << 1 | (uint32_t)w.way,
                                   .mem = w.mem,
                                   .bytes = w.bytes};
    return t->inner->ops->post(t->inner, &transfer, id);
}

static pst_status test_word(nccl *t, uint64_t *id, int *done) {
    pst_status status = *id == NONE ? PST_OK : t->inner->ops->test(t->inner, *id, NULL);
    *done = status == PST_OK;
    if (*done) *id = NONE;
    return status == PST_BUSY ? PST_OK : status;
}

static pst_status differ(const nccl *t, const request *r) {
    uint32_t from = sends(r) ? t->base.rank : r->transfer.peer,
             to = sends(r) ? r->transfer.peer : t->base.rank;
    return pst_fail(PST_EINPUT,
                    "rank %u sent %llu bytes, rank %u expects %llu (message %u on channel %u)",
                    from, (unsigned long long)r->go.bytes, to,
                    (unsigned long long)(sends(r) ? r->ready : r->transfer.bytes), r->transfer.seq,
                    r->transfer.channel);
}

/* The receiver is there: this is the next message of the pair. */
static pst_status give_order(nccl *t, request *r) {
    pair *p = pair_of(t, r);
    r->go = (go){.bytes = r->transfer.bytes};
    if (r->go.bytes && r->ready == r->go.bytes) {
        if (!p->n_go) PST_TRY(check(t, r, t->nccl->unique_id(&p->id), "ncclGetUniqueId"));
        r->go.order = p->n_go++;
        r->go.id = p->id;
    }
    return post_word(t, r, (word){PST_TRANSFER_SEND, GO_WAY, &r->go, sizeof r->go}, &r->tell);
}

/* --- the device ------------------------------------------------------------------------------- */

static pst_status enter(const nccl *t) {
    int ordinal = ((const pst_cuda_device *)t->device)->ordinal, current = -1;
    cudaError_t error = cudaGetDevice(&current);
    if (error == cudaSuccess && current != ordinal) error = cudaSetDevice(ordinal);
    return pst_cuda_status(error, "cudaSetDevice");
}

/* Both ends come here with their first message, the sender as rank 0; nobody waits. */
static pst_status connect_pair(nccl *t, request *r, pair *p) {
    ncclResult_t state = ncclSuccess;
    if (!p->comm) {
        int least, greatest;
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        PST_TRY(pst_cuda_status(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                                "priorities of streams"));
        PST_TRY(pst_cuda_status(
            cudaStreamCreateWithPriority(&p->stream, cudaStreamNonBlocking, greatest), "a stream"));
        PST_TRY(check(t, r, t->nccl->init(&p->comm, 2, r->go.id, sends(r) ? 0 : 1, &config),
                      "ncclCommInitRankConfig"));
        if (!p->comm)
            return pst_fail(PST_EINTERNAL, "NCCL: no communicator with rank %u", r->transfer.peer);
    }
    PST_TRY(check(t, r, t->nccl->state(p->comm, &state), "ncclCommGetAsyncError"));
    PST_TRY(check(t, r, state, "connecting"));
    p->connected = state == ncclSuccess;
    return PST_OK;
}

static pst_status queue(nccl *t, request *r, pair *p) {
    ncclResult_t result =
        sends(r) ? t->nccl->send(r->transfer.mem, r->go.bytes, ncclInt8, 1, p->comm, p->stream)
                 : t->nccl->recv(r->transfer.mem, r->go.bytes, ncclInt8, 0, p->comm, p->stream);
    PST_TRY(check(t, r, result, sends(r) ? "ncclSend" : "ncclRecv"));
    r->phase = QUEUED;
    p->queuing = r;
    p->n_queued++;
    return PST_OK;
}

/* What NCCL has taken stands in the stream once it says so; the event behind it tells when the
 * bytes are there. */
static pst_status settle(nccl *t, request *r, pair *p) {
    ncclResult_t state;
    PST_TRY(check(t, r, t->nccl->state(p->comm, &state), "ncclCommGetAsyncError"));
    PST_TRY(check(t, r, state, sends(r) ? "ncclSend" : "ncclRecv"));
    if (state != ncclSuccess) return PST_OK;
    PST_TRY(pst_cuda_status(cudaEventRecord(r->event, p->stream), "cudaEventRecord"));
    r->phase = RUNS;
    p->queuing = NULL;
    return PST_OK;
}

static pst_status watch(nccl *t, request *r, pair *p, int *done) {
    ncclResult_t state;
    cudaError_t error = cudaEventQuery(r->event);
    *done = error == cudaSuccess;
    if (error != cudaErrorNotReady)
        return pst_cuda_status(error, sends(r) ? "ncclSend" : "ncclRecv");
    PST_TRY(check(t, r, t->nccl->state(p->comm, &state), "ncclCommGetAsyncError"));
    return check(t, r, state, "under way");
}

/* --- a message -------------------------------------------------------------------------------- */

static pst_status meet(nccl *t, request *r, uint32_t *moved) {
    int heard;
    PST_TRY(test_word(t, &r->ask, &heard));
    if (!heard) return PST_OK;
    ++*moved;
    if (sends(r))
        PST_TRY(give_order(t, r)); /* which says the bytes to the other end even where they
                                      differ */
    if (r->go.bytes != (sends(r) ? r->ready : r->transfer.bytes)) return differ(t, r);
    r->phase = STANDS;
    t->busy++;
    return PST_OK;
}

static pst_status stand(nccl *t, request *r, uint32_t *moved) {
    pair *p = pair_of(t, r);
    if (!r->go.bytes) {
        r->phase = RUNS;
        return PST_OK;
    }
    if (!p->connected) PST_TRY(connect_pair(t, r, p));
    if (!p->connected || p->queuing || r->go.order != p->n_queued) return PST_OK;
    ++*moved;
    return queue(t, r, p);
}

static pst_status finish(nccl *t, request *r, uint32_t *moved) {
    int through = 1, told;
    if (r->go.bytes) PST_TRY(watch(t, r, pair_of(t, r), &through));
    PST_TRY(test_word(t, &r->tell, &told));
    if (!through || !told) return PST_OK;
    r->phase = DONE;
    r->end_ns = pst_clock_now(t->base.clock);
    t->busy--;
    t->unseen++;
    ++*moved;
    return PST_OK;
}

static pst_status advance(nccl *t, request *r, uint32_t *moved) {
    if (r->phase == WAITS) PST_TRY(meet(t, r, moved));
    if (r->phase == STANDS) PST_TRY(stand(t, r, moved));
    if (r->phase == QUEUED) PST_TRY(settle(t, r, pair_of(t, r)));
    return r->phase == RUNS ? finish(t, r, moved) : PST_OK;
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
        return pst_fail(PST_EINTERNAL, "rank %u sends no messages to rank %u", base->rank,
                        transfer->peer);
    PST_TRY(take_request(t, &r));
    *r = (request){.transfer = *transfer,
                   .event = r->event,
                   .ready = transfer->bytes,
                   .ask = NONE,
                   .tell = NONE};
    *t->last = r;
    t->last = &r->next;
    *id = (uint64_t)(uintptr_t)r;
    if (sends(r))
        return post_word(t, r, (word){PST_TRANSFER_RECV, READY_WAY, &r->ready, sizeof r->ready},
                         &r->ask);
    PST_TRY(post_word(t, r, (word){PST_TRANSFER_SEND, READY_WAY, &r->ready, sizeof r->ready},
                      &r->tell));
    return post_word(t, r, (word){PST_TRANSFER_RECV, GO_WAY, &r->go, sizeof r->go}, &r->ask);
}

static pst_status nccl_test(pst_transport *base, uint64_t id, uint64_t *end_ns) {
    nccl *t = (nccl *)base;
    request *r = (request *)(uintptr_t)id, **link = &t->active;
    if (r->phase != DONE) return t->failed == PST_OK ? PST_BUSY : pst_fail(t->failed, "%s", t->why);
    if (end_ns) *end_ns = r->end_ns;
    while (*link != r) link = &(*link)->next;
    if (t->last == &r->next) t->last = link;
    *link = r->next;
    r->next = t->spare;
    t->spare = r;
    t->unseen--;
    return PST_OK;
}

static uint32_t nccl_progress(pst_transport *base) {
    nccl *t = (nccl *)base;
    uint32_t moved = t->inner->ops->progress(t->inner);
    pst_status status = enter(t);
    for (request *r = t->active; r && status == PST_OK && t->failed == PST_OK; r = r->next)
        status = advance(t, r, &moved);
    if (status != PST_OK && t->failed == PST_OK) {
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
    if (t->busy || t->unseen || t->failed != PST_OK)
        return PST_BUSY; /* no file says when the device is through */
    return t->inner->ops->arm ? t->inner->ops->arm(t->inner, fd)
                              : pst_fail(PST_EINPUT, "it cannot be slept on");
}

/* Ends what waits on the device for a rank that is gone; the communicators are of no use after
 * it. */
static void drop_pairs(nccl *t) {
    enter(t);
    for (int way = 0; way < 2; way++)
        for (uint32_t k = 0; t->pair[way] && k < t->base.size; k++) {
            pair *p = &t->pair[way][k];
            if (p->comm) t->nccl->abort(p->comm);
            if (p->stream) cudaStreamDestroy(p->stream);
            *p = (pair){0};
        }
    cudaGetLastError();
}

/* NCCL's own threads may still be moving what the device has handed them: each pair is let finish,
 * all at once and not for ever, for its other end may be gone. What is left is for drop_pairs. */
static void finish_pairs(nccl *t) {
    const uint64_t until = pst_monotonic_ns() + FINISH_NS;
    const struct timespec nap = {.tv_nsec = NAP_NS};
    enter(t);
    for (uint32_t i = 0; i < 2 * t->base.size; i++) {
        pair *p = &t->pair[i & 1][i / 2];
        ncclResult_t state = p->connected ? t->nccl->finalize(p->comm) : ncclInvalidUsage;
        if (state != ncclSuccess && state != ncclInProgress) p->connected = 0;
    }
    for (uint32_t i = 0; i < 2 * t->base.size; i++) {
        pair *p = &t->pair[i & 1][i / 2];
        ncclResult_t state = ncclInProgress;
        while (p->connected && t->nccl->state(p->comm, &state) == ncclSuccess &&
               state == ncclInProgress && pst_monotonic_ns() < until)
            nanosleep(&nap, NULL);
        if (p->connected && state == ncclSuccess) {
            t->nccl->destroy(p->comm);
            p->comm = NULL;
        }
    }
}

static void nccl_abort(pst_transport *base) {
    nccl *t = (nccl *)base;
    if (t->failed == PST_OK) {
        t->failed = PST_EPEER;
        snprintf(t->why, sizeof t->why, "NCCL: given up");
    }
    drop_pairs(t);
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
    if (t->pair[0] && t->pair[1] && t->failed == PST_OK && !t->busy) finish_pairs(t);
    drop_pairs(t);
    free_requests(t->active);
    free_requests(t->spare);
    free(t->pair[0]);
    free(t->pair[1]);
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
        return "there is no GPU";
    }
    if (ranks_here <= (uint32_t)count) return NULL;
    snprintf(
        line, sizeof line,
        "%u ranks of this host share %d GPU%s, and NCCL wants one for each; transport ucx does not",
        ranks_here, count, count == 1 ? "" : "s");
    return line;
}

static pst_status open_nccl(pst_transport *inner, pst_device *device, pst_transport **transport) {
    const char *why;
    const pst_nccl *api = pst_nccl_get(&why);
    if (!api) return pst_fail(PST_EINPUT, "transport nccl: %s", why);
    nccl *t = calloc(1, sizeof *t);
    if (!t) return pst_fail(PST_ENOMEM, "no memory for transport nccl");
    t->base = (pst_transport){
        .ops = &ops, .clock = inner->clock, .rank = inner->rank, .size = inner->size};
    t->inner = inner;
    t->device = device;
    t->nccl = api;
    t->last = &t->active;
    for (int way = 0; way < 2; way++) t->pair[way] = calloc(inner->size, sizeof *t->pair[way]);
    if (!t->pair[0] || !t->pair[1]) {
        nccl_close(&t->base);
        return pst_fail(PST_ENOMEM, "no memory for transport nccl among %u ranks", inner->size);
    }
    *transport = &t->base;
    return PST_OK;
}

const pst_direct_ops pst_direct_nccl = {.name = "nccl", .reject = reject, .open = open_nccl};
#endif

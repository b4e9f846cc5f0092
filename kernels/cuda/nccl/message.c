/* See parts.h. Messages between GPUs by NCCL, without a copy in host memory: one communicator of
 * all ranks of the job, on one stream.
 *
 * NCCL has no tags, and a send or receive whose peer has not queued its half blocks the operations
 * after it and occupies a part of the GPU. So the two ends first agree by three control messages
 * over the host-memory transport: the receiver has posted (READY); the sender, once it has posted
 * as well, proposes a position in the order (GO); the receiver answers with the position (AT). Then
 * both queue their halves. So every queued half has its other half, in whatever order messages are
 * posted.
 *
 * All messages of the job have one order, in which every rank queues its own. Each rank has a
 * counter. A sender proposes its counter + 1, and the receiver takes the maximum of that and its
 * own counter + 1; both counters then are at least that. Equal positions are ordered by sender,
 * then by what the sender proposed. A rank queues a message when it knows of no earlier one,
 * including messages whose position is only proposed: their final position is the proposed one or
 * later. So no message is queued after a later one. (Skeen's total-order multicast with two
 * receivers; a proposal waits only for its answer, which is immediate.)
 *
 * Why one order: with 1F1B a rank sends activations to the next rank and gets gradients from it. If
 * both ends had queued their sends first, each would wait for a receive that is queued after a
 * send: a deadlock; with more ranks the cycles are longer. With one order, all messages before the
 * first unfinished one are complete, so that one is at the front at both ends and makes progress.
 * Messages that are ready at the same time are queued in one group, within which they do not wait
 * for each other: so both directions of a link are used. */
#ifdef PST_NCCL
#include "base/status.h"
#include "kernels/cuda/nccl/parts.h"
#include <stdio.h>

/* Control messages of a message; each kind has its own sequence numbers. */
enum { READY_WAY, GO_WAY, AT_WAY, WAYS = 4 };

enum { BATCH = 16 };

typedef pst_nccl_place place;
typedef pst_nccl_word word;
typedef pst_nccl_transport nccl;
typedef pst_nccl_request request;

static int sends(const request *r) { return r->transfer.kind == PST_TRANSFER_SEND; }

/* Adds the other end's rank to an error. */
static pst_status of_message(const request *r, pst_status status) {
    if (status == PST_OK || status == PST_BUSY) return status;
    char why[400];
    snprintf(why, sizeof why, "%s", pst_error());
    return pst_fail(status, "%s rank %u: %s",
                    sends(r) ? "sending a message to" : "receiving a message from",
                    r->transfer.peer, why);
}

/* --- control messages ------------------------------------------------------------------------- */

static pst_status post_word(nccl *t, const request *r, pst_transfer_kind kind, uint32_t way,
                            word *mem, uint64_t *id) {
    const pst_transfer transfer = {.kind = kind,
                                   .peer = r->transfer.peer,
                                   .channel = r->transfer.channel,
                                   .seq = r->transfer.seq * WAYS | way,
                                   .mem = mem,
                                   .bytes = sizeof *mem};
    return t->inner->ops->post(t->inner, &transfer, id);
}

static pst_status test_word(nccl *t, uint64_t *id, int *done) {
    pst_status status = *id == PST_NCCL_NONE ? PST_OK : t->inner->ops->test(t->inner, *id, NULL);
    *done = status == PST_OK;
    if (*done) *id = PST_NCCL_NONE;
    return status == PST_BUSY ? PST_OK : status;
}

static pst_status differ(const nccl *t, const request *r) {
    uint32_t from = sends(r) ? t->base.rank : r->transfer.peer,
             to = sends(r) ? r->transfer.peer : t->base.rank;
    return pst_fail(PST_EINPUT,
                    "rank %u sent %llu bytes, rank %u expects %llu (message %u on channel %u)",
                    from, (unsigned long long)r->go.bytes, to, (unsigned long long)r->ready.bytes,
                    r->transfer.seq, r->transfer.channel);
}

/* The receiver has posted. The sender tells its size even if the sizes differ, so that both ends
 * fail. */
static pst_status propose(nccl *t, request *r) {
    int goes = r->transfer.bytes && r->ready.bytes == r->transfer.bytes;
    r->go = (word){r->transfer.bytes, goes ? ++t->count : 0};
    r->place = (place){r->go.at, r->go.at, t->base.rank};
    r->phase = goes ? PST_NCCL_ASKS : PST_NCCL_RUNS;
    PST_TRY(post_word(t, r, PST_TRANSFER_SEND, GO_WAY, &r->go, &r->tell));
    if (r->ready.bytes != r->transfer.bytes) return differ(t, r);
    return goes ? post_word(t, r, PST_TRANSFER_RECV, AT_WAY, &r->place_is, &r->ask) : PST_OK;
}

static void count_to(nccl *t, uint64_t at) {
    if (t->count < at) t->count = at;
}

/* The sender has proposed a position. */
static pst_status answer(nccl *t, request *r) {
    if (r->go.bytes != r->ready.bytes) return differ(t, r);
    r->phase = r->go.at ? PST_NCCL_STANDS : PST_NCCL_RUNS;
    if (!r->go.at) return PST_OK;
    count_to(t, t->count + 1);
    count_to(t, r->go.at);
    r->place = (place){t->count, r->go.at, r->transfer.peer};
    r->place_is = (word){r->go.bytes, t->count};
    return post_word(t, r, PST_TRANSFER_SEND, AT_WAY, &r->place_is, &r->tell_place);
}

static pst_status meet(nccl *t, request *r, uint32_t *moved) {
    int heard;
    PST_TRY(test_word(t, &r->ask, &heard));
    if (!heard) return PST_OK;
    ++*moved;
    t->busy++;
    return sends(r) ? propose(t, r) : answer(t, r);
}

static pst_status learn(nccl *t, request *r, uint32_t *moved) {
    int heard;
    PST_TRY(test_word(t, &r->ask, &heard));
    if (!heard) return PST_OK;
    ++*moved;
    r->place.at = r->place_is.at;
    count_to(t, r->place.at);
    r->phase = PST_NCCL_STANDS;
    return PST_OK;
}

/* --- the device ------------------------------------------------------------------------------- */

static int comes_before(place a, place b) {
    if (a.at != b.at) return a.at < b.at;
    return a.sender != b.sender ? a.sender < b.sender : a.proposed < b.proposed;
}

/* The first message in the order, agreed or proposed; NULL: there is none, or its position is only
 * proposed. */
static request *first_to_queue(const nccl *t) {
    request *first = NULL;
    for (request *r = t->active; r; r = r->next)
        if ((r->phase == PST_NCCL_STANDS || r->phase == PST_NCCL_ASKS) &&
            (!first || comes_before(r->place, first->place)))
            first = r;
    return first && first->phase == PST_NCCL_STANDS ? first : NULL;
}

static pst_status queue_one(nccl *t, request *r) {
    ncclComm_t comm = pst_nccl_comm_of(t->all);
    cudaStream_t stream = pst_nccl_comm_stream(t->all);
    int peer = (int)r->transfer.peer; /* in the job's communicator ranks have the job's numbers */
    uint64_t bytes = r->transfer.bytes;
    ncclResult_t result = sends(r)
                              ? t->nccl->send(r->transfer.mem, bytes, ncclInt8, peer, comm, stream)
                              : t->nccl->recv(r->transfer.mem, bytes, ncclInt8, peer, comm, stream);
    PST_TRY(of_message(r, pst_nccl_comm_check(t->all, result, sends(r) ? "ncclSend" : "ncclRecv")));
    r->phase = PST_NCCL_QUEUED;
    return PST_OK;
}

static pst_status queue_group(nccl *t, uint32_t *moved) {
    request *r = t->taking || !t->connected ? NULL : first_to_queue(t);
    if (!r) return PST_OK;
    request *last = r;
    pst_status status = pst_nccl_comm_check(t->all, t->nccl->group_start(), "ncclGroupStart");
    for (int n = 0; r && n < BATCH && status == PST_OK; n++) {
        status = queue_one(t, last = r);
        r = first_to_queue(t);
        ++*moved;
    }
    ncclResult_t ended = t->nccl->group_end();
    t->taking = 1;
    PST_TRY(status);
    return of_message(last, pst_nccl_comm_check(t->all, ended, "ncclGroupEnd"));
}

/* What NCCL has taken is queued on the stream; events after it tell when the transfer has ended. */
static pst_status settle(nccl *t) {
    pst_status status = t->taking ? pst_nccl_comm_taken(t->all, "queueing") : PST_BUSY;
    if (status == PST_BUSY) return PST_OK;
    for (request *r = t->active; r; r = r->next) {
        if (r->phase != PST_NCCL_QUEUED) continue;
        PST_TRY(of_message(r, status));
        PST_TRY(pst_cuda_status(cudaEventRecord(r->event, pst_nccl_comm_stream(t->all)),
                                "cudaEventRecord"));
        r->phase = PST_NCCL_RUNS;
    }
    t->taking = 0;
    return status;
}

static pst_status watch(nccl *t, const request *r, int *done) {
    cudaError_t error = cudaEventQuery(r->event);
    *done = error == cudaSuccess;
    if (error != cudaErrorNotReady)
        return pst_cuda_status(error, sends(r) ? "ncclSend" : "ncclRecv");
    cudaGetLastError();
    pst_status status = pst_nccl_comm_taken(t->all, "in flight");
    return status == PST_BUSY ? PST_OK : of_message(r, status);
}

static pst_status finish(nccl *t, request *r, uint32_t *moved) {
    int through = 1, told, told_place;
    if (r->place.at) PST_TRY(watch(t, r, &through));
    PST_TRY(test_word(t, &r->tell, &told));
    PST_TRY(test_word(t, &r->tell_place, &told_place));
    if (!through || !told || !told_place) return PST_OK;
    r->phase = PST_NCCL_DONE;
    r->end_ns = pst_clock_now(t->base.clock);
    t->busy--;
    t->unseen++;
    ++*moved;
    return PST_OK;
}

static pst_status advance(nccl *t, request *r, uint32_t *moved) {
    if (r->phase == PST_NCCL_WAITS) PST_TRY(meet(t, r, moved));
    if (r->phase == PST_NCCL_ASKS) PST_TRY(learn(t, r, moved));
    return r->phase == PST_NCCL_RUNS ? finish(t, r, moved) : PST_OK;
}

/* --- progress --------------------------------------------------------------------------------- */

pst_status pst_nccl_begin(nccl *t, request *r) {
    if (sends(r)) return post_word(t, r, PST_TRANSFER_RECV, READY_WAY, &r->ready, &r->ask);
    PST_TRY(post_word(t, r, PST_TRANSFER_SEND, READY_WAY, &r->ready, &r->tell));
    return post_word(t, r, PST_TRANSFER_RECV, GO_WAY, &r->go, &r->ask);
}

pst_status pst_nccl_advance(nccl *t, uint32_t *moved) {
    PST_TRY(settle(t));
    for (request *r = t->active; r; r = r->next) PST_TRY(advance(t, r, moved));
    PST_TRY(queue_group(t, moved));
    return settle(t);
}
#endif

/* See nccl.h. A communicator is made in three steps: its first member creates the unique id and
 * sends it to the others; all call ncclCommInitRankConfig; then each exchanges one small message
 * with every peer that it will talk to, in one group, so that NCCL connects them and allocates its
 * buffers. */
#ifdef PST_NCCL
#include "base/status.h"
#include "kernels/cuda/nccl/nccl.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FINISH_NS = 2000000000, NAP_NS = 100000, WORD = 16 };

typedef enum { NAMES, ASKS, TALKS, RUNS, CONNECTED } turn;

struct pst_nccl_comm {
    pst_nccl_comm_config config;
    uint32_t *member, own;
    uint8_t *talks;
    turn turn;
    ncclUniqueId id;
    uint64_t *request; /* [n] messages with the id that are in flight */
    uint32_t n_request;
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t event;
    uint8_t *word; /* [2 n] in device memory, WORD bytes each: to and from each member */
    uint64_t free_before, bytes;
};

ncclComm_t pst_nccl_comm_of(const pst_nccl_comm *c) { return c->comm; }
cudaStream_t pst_nccl_comm_stream(const pst_nccl_comm *c) {
    return c->config.stream ? c->config.stream : c->stream;
}
uint64_t pst_nccl_comm_bytes(const pst_nccl_comm *c) { return c->bytes; }

int pst_nccl_comm_member(const pst_nccl_comm *c, uint32_t rank) {
    for (uint32_t i = 0; i < c->config.n; i++)
        if (c->member[i] == rank) return (int)i;
    return -1;
}

pst_status pst_nccl_comm_check(pst_nccl_comm *c, ncclResult_t result, const char *what) {
    if (result == ncclSuccess || result == ncclInProgress) return PST_OK;
    const char *last = c->comm ? c->config.nccl->last(c->comm) : NULL;
    int of_peer = result == ncclRemoteError || result == ncclSystemError;
    pst_status status = pst_fail(of_peer ? PST_EPEER : PST_EINTERNAL, "NCCL: %s: %s: %s",
                                 c->config.of, what, c->config.nccl->text(result));
    return last && *last ? pst_fail(status, "%s: %s", pst_error(), last) : status;
}

pst_status pst_nccl_comm_taken(pst_nccl_comm *c, const char *what) {
    ncclResult_t state;
    PST_TRY(pst_nccl_comm_check(c, c->config.nccl->state(c->comm, &state), what));
    PST_TRY(pst_nccl_comm_check(c, state, what));
    return state == ncclSuccess ? PST_OK : PST_BUSY;
}

/* --- its unique id ---------------------------------------------------------------------------- */

static pst_status post_name(pst_nccl_comm *c, pst_transfer_kind kind, uint32_t peer) {
    const pst_transfer t = {.kind = kind,
                            .peer = c->member[peer],
                            .channel = c->config.channel,
                            .mem = &c->id,
                            .bytes = sizeof c->id};
    pst_transport *inner = c->config.inner;
    PST_TRY(inner->ops->post(inner, &t, &c->request[c->n_request]));
    c->n_request++;
    return PST_OK;
}

static pst_status begin_name(pst_nccl_comm *c) {
    if (c->own) return post_name(c, PST_TRANSFER_RECV, 0);
    PST_TRY(pst_nccl_comm_check(c, c->config.nccl->unique_id(&c->id), "ncclGetUniqueId"));
    for (uint32_t i = 1; i < c->config.n; i++) PST_TRY(post_name(c, PST_TRANSFER_SEND, i));
    return PST_OK;
}

static pst_status end_name(pst_nccl_comm *c) {
    pst_transport *inner = c->config.inner;
    while (c->n_request) {
        pst_status status = inner->ops->test(inner, c->request[c->n_request - 1], NULL);
        if (status != PST_OK) return status;
        c->n_request--;
    }
    return PST_OK;
}

/* --- NCCL ------------------------------------------------------------------------------------- */

static int ctas(const pst_nccl_comm *c) {
    uint32_t eighth = ((const pst_cuda_device *)c->config.device)->processors / 8;
    if (eighth >= PST_NCCL_CTAS || !eighth) return PST_NCCL_CTAS;
    return (int)eighth;
}

static pst_status ask(pst_nccl_comm *c) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.maxCTAs = ctas(c);
    PST_TRY(pst_nccl_comm_check(
        c, c->config.nccl->init(&c->comm, (int)c->config.n, c->id, (int)c->own, &config),
        "ncclCommInitRankConfig"));
    return c->comm
               ? PST_OK
               : pst_fail(PST_EINTERNAL, "NCCL: %s: no communicator was returned", c->config.of);
}

/* Every member does this first, in one group, within which operations do not wait for each
 * other. */
static pst_status talk(pst_nccl_comm *c) {
    const pst_nccl *nccl = c->config.nccl;
    cudaStream_t stream = pst_nccl_comm_stream(c);
    ncclResult_t result = nccl->group_start();
    uint8_t *word = c->word;
    for (uint32_t i = 0; i < c->config.n && result == ncclSuccess; i++, word += 2 * WORD) {
        if (i == c->own || !c->talks[i]) continue;
        result = nccl->send(word, WORD, ncclInt8, (int)i, c->comm, stream);
        if (result == ncclSuccess || result == ncclInProgress)
            result = nccl->recv(word + WORD, WORD, ncclInt8, (int)i, c->comm, stream);
        if (result == ncclInProgress) result = ncclSuccess;
    }
    ncclResult_t ended = nccl->group_end();
    return pst_nccl_comm_check(c, result == ncclSuccess ? ended : result, "connecting");
}

/* All-reduce once as well if it will be used. */
static pst_status talk_end(pst_nccl_comm *c) {
    cudaStream_t stream = pst_nccl_comm_stream(c);
    PST_TRY(pst_nccl_comm_taken(c, "connecting"));
    if (c->config.sums) {
        c->config.sums = 0;
        PST_TRY(
            pst_nccl_comm_check(c,
                                c->config.nccl->all_reduce(c->word, c->word, WORD / 2, ncclBfloat16,
                                                           ncclSum, c->comm, stream),
                                "ncclAllReduce"));
        PST_TRY(pst_nccl_comm_taken(c, "connecting"));
    }
    return pst_cuda_status(cudaEventRecord(c->event, stream), "cudaEventRecord");
}

static pst_status talked(pst_nccl_comm *c) {
    size_t left = 0, total;
    cudaError_t error = cudaEventQuery(c->event);
    if (error == cudaErrorNotReady) {
        cudaGetLastError();
        PST_TRY(pst_nccl_comm_taken(c, "connecting"));
        return PST_BUSY;
    }
    PST_TRY(pst_cuda_status(error, "connecting"));
    PST_TRY(pst_cuda_status(cudaMemGetInfo(&left, &total), "cudaMemGetInfo"));
    c->bytes = left < c->free_before ? c->free_before - left : 0;
    return PST_OK;
}

static pst_status take_turn(pst_nccl_comm *c) {
    switch (c->turn) {
    case NAMES: PST_TRY(end_name(c)); return ask(c);
    case ASKS: PST_TRY(pst_nccl_comm_taken(c, "ncclCommInitRankConfig")); return talk(c);
    case TALKS: return talk_end(c);
    case RUNS: return talked(c);
    case CONNECTED: break;
    }
    return PST_OK;
}

pst_status pst_nccl_comm_connect(pst_nccl_comm *c) {
    while (c->turn != CONNECTED) {
        PST_TRY(take_turn(c));
        c->turn++;
    }
    return PST_OK;
}

/* --- life ------------------------------------------------------------------------------------- */

static pst_status open_device_parts(pst_nccl_comm *c) {
    int least, greatest;
    size_t left = 0, total, bytes = 2 * WORD * (size_t)c->config.n;
    void *word = NULL;
    PST_TRY(pst_cuda_status(cudaMemGetInfo(&left, &total), "cudaMemGetInfo"));
    c->free_before = left;
    PST_TRY(pst_cuda_status(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                            "reading stream priorities"));
    if (!c->config.stream)
        PST_TRY(pst_cuda_status(
            cudaStreamCreateWithPriority(&c->stream, cudaStreamNonBlocking, greatest), "a stream"));
    PST_TRY(pst_cuda_status(cudaEventCreateWithFlags(&c->event, cudaEventDisableTiming),
                            "creating an event"));
    PST_TRY(
        pst_cuda_status(cudaMalloc(&word, bytes), "allocating memory for NCCL's first messages"));
    c->word = word;
    return pst_cuda_status(cudaMemsetAsync(word, 0, bytes, pst_nccl_comm_stream(c)), "fill");
}

static pst_status open_parts(pst_nccl_comm *c) {
    const uint32_t n = c->config.n;
    c->member = calloc(n, sizeof *c->member);
    c->talks = calloc(n, sizeof *c->talks);
    c->request = calloc(n, sizeof *c->request);
    if (!c->member || !c->talks || !c->request)
        return pst_fail(PST_ENOMEM, "no memory for a communicator of %u ranks", n);
    for (uint32_t i = 0; i < n; i++) {
        c->member[i] = c->config.member[i];
        c->talks[i] = !c->config.talks || c->config.talks[i];
        if (c->member[i] == c->config.inner->rank) c->own = i;
    }
    PST_TRY(open_device_parts(c));
    return begin_name(c);
}

pst_status pst_nccl_comm_open(const pst_nccl_comm_config *config, pst_nccl_comm **out) {
    pst_nccl_comm *c = calloc(1, sizeof *c);
    if (!c) return pst_fail(PST_ENOMEM, "no memory for a communicator");
    c->config = *config;
    pst_status status = open_parts(c);
    if (status == PST_OK) *out = c;
    else pst_nccl_comm_close(c);
    return status;
}

void pst_nccl_comm_finish(pst_nccl_comm *c) {
    const uint64_t until = pst_monotonic_ns() + FINISH_NS;
    const struct timespec nap = {.tv_nsec = NAP_NS};
    if (!c || c->turn != CONNECTED || !c->comm) return;
    const pst_nccl *nccl = c->config.nccl;
    ncclResult_t state = nccl->finalize(c->comm);
    if (state != ncclSuccess && state != ncclInProgress) return;
    do {
        if (nccl->state(c->comm, &state) != ncclSuccess) return;
        if (state == ncclInProgress) nanosleep(&nap, NULL);
    } while (state == ncclInProgress && pst_monotonic_ns() < until);
    if (state != ncclSuccess) return;
    nccl->destroy(c->comm);
    c->comm = NULL;
}

void pst_nccl_comm_abort(pst_nccl_comm *c) {
    if (!c || !c->comm) return;
    c->config.nccl->abort(c->comm);
    c->comm = NULL;
}

void pst_nccl_comm_close(pst_nccl_comm *c) {
    if (!c) return;
    pst_nccl_comm_abort(c);
    if (c->word) cudaFree(c->word);
    if (c->event) cudaEventDestroy(c->event);
    if (c->stream) cudaStreamDestroy(c->stream);
    free(c->member);
    free(c->talks);
    free(c->request);
    free(c);
}
#endif

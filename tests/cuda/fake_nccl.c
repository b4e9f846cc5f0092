/* See fake_nccl.h. */
#ifdef PST_NCCL
#include "cuda/fake_nccl.h"
#include "cuda/fake.h"
#include "kernels/cuda/nccl.h"
#include <stdlib.h>
#include <string.h>

enum { HALVES = 4096, COMMS = 256, MOVE_NS = 5000 };

typedef struct {
    void *mem;
    size_t bytes;
    uint64_t end_ns; /* UINT64_MAX: it waits for the other half */
    int sends;
} half;

struct ncclComm {
    uint64_t id;
    int rank, waits, dead, final, n_half, n_met;
    half half[HALVES];
};

fake_nccl_state fake_nccl;
static struct ncclComm *comms[COMMS];
static int n_comm;
static uint64_t ids;

static struct ncclComm *other(const struct ncclComm *c) {
    for (int i = 0; i < n_comm; i++)
        if (comms[i] && comms[i]->id == c->id && comms[i] != c) return comms[i];
    return NULL;
}

static ncclResult_t version(int *v) {
    *v = NCCL_VERSION_CODE;
    return ncclSuccess;
}
static ncclResult_t unique_id(ncclUniqueId *id) {
    ids++;
    memcpy(id->internal, &ids, sizeof ids);
    return ncclSuccess;
}

static ncclResult_t init(ncclComm_t *comm, int n, ncclUniqueId id, int rank, ncclConfig_t *config) {
    if (n != 2 || config->blocking || n_comm == COMMS) return ncclInvalidArgument;
    struct ncclComm *c = calloc(1, sizeof *c);
    memcpy(&c->id, id.internal, sizeof c->id);
    c->rank = rank;
    c->waits = fake_nccl.slow;
    comms[n_comm++] = c;
    fake_nccl.live++;
    *comm = c;
    return ncclInProgress;
}

/* Those at the head of both ends move. */
static void meet(struct ncclComm *a, struct ncclComm *b) {
    for (; a->n_met < a->n_half && b->n_met < b->n_half; a->n_met++, b->n_met++) {
        half *x = a->half + a->n_met, *y = b->half + b->n_met;
        if (x->bytes != y->bytes || x->sends == y->sends) {
            fake_nccl.unlike++;
            continue;
        }
        if (fake_nccl.fails_at && !--fake_nccl.fails_at) {
            a->dead = b->dead = 1;
            return;
        }
        if (x->sends) memcpy(y->mem, x->mem, x->bytes);
        else memcpy(x->mem, y->mem, x->bytes);
        x->end_ns = y->end_ns = fake.now + MOVE_NS;
    }
}

static ncclResult_t queue(struct ncclComm *c, half h, cudaStream_t stream) {
    if (c->n_half == HALVES || c->waits)
        return ncclInvalidUsage; /* it is not through with what came before */
    h.end_ns = UINT64_MAX;
    c->half[c->n_half] = h;
    fake_await(stream, &c->half[c->n_half++].end_ns);
    c->waits = fake_nccl.slow;
    struct ncclComm *o = other(c);
    if (o && !fake_nccl.holds) meet(c, o);
    return c->waits ? ncclInProgress : ncclSuccess;
}
static ncclResult_t send(const void *mem, size_t n, ncclDataType_t type, int peer, ncclComm_t c,
                         cudaStream_t stream) {
    if (type != ncclInt8 || peer == c->rank) return ncclInvalidArgument;
    return queue(c, (half){.mem = (void *)(uintptr_t)mem, .bytes = n, .sends = 1}, stream);
}
static ncclResult_t recv(void *mem, size_t n, ncclDataType_t type, int peer, ncclComm_t c,
                         cudaStream_t stream) {
    if (type != ncclInt8 || peer == c->rank) return ncclInvalidArgument;
    return queue(c, (half){.mem = mem, .bytes = n}, stream);
}

/* A communicator is made when both ends have asked for it. */
static ncclResult_t state(ncclComm_t c, ncclResult_t *now) {
    if (c->final) {
        *now = fake_nccl.deaf || c->waits ? ncclInProgress : ncclSuccess;
        if (c->waits) c->waits--;
        return ncclSuccess;
    }
    *now = c->waits || (!other(c) && !c->n_half) ? ncclInProgress : ncclSuccess;
    if (c->dead || fake_nccl.dies) *now = ncclRemoteError;
    if (c->waits) c->waits--;
    return ncclSuccess;
}

static ncclResult_t finalize(ncclComm_t c) {
    c->final = 1;
    c->waits = fake_nccl.slow;
    return ncclInProgress;
}

static ncclResult_t drop(ncclComm_t c) {
    for (int i = 0; i < n_comm; i++)
        if (comms[i] == c) comms[i] = NULL;
    fake_nccl.live--;
    if (!fake_nccl.live) n_comm = 0;
    free(c);
    return ncclSuccess;
}
static ncclResult_t destroy(ncclComm_t c) {
    if (!c->final || c->waits) fake_nccl.unlike++;
    return drop(c);
}
static ncclResult_t give_up(ncclComm_t c) {
    fake_nccl.aborted++;
    return drop(c);
}
static const char *text(ncclResult_t result) {
    return result == ncclRemoteError ? "remote error" : "some error";
}
static const char *last(ncclComm_t c) {
    (void)c;
    return "the cable is out";
}

const pst_nccl *pst_nccl_get(const char **why) {
    static const pst_nccl api = {.version = version,
                                 .unique_id = unique_id,
                                 .init = init,
                                 .send = send,
                                 .recv = recv,
                                 .state = state,
                                 .finalize = finalize,
                                 .destroy = destroy,
                                 .abort = give_up,
                                 .text = text,
                                 .last = last};
    *why = "";
    return &api;
}
#endif

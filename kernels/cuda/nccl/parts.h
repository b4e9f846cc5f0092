/* Private to transport.c (the transport) and message.c (its messages). */
#ifndef PST_KERNELS_CUDA_NCCL_PARTS_H
#define PST_KERNELS_CUDA_NCCL_PARTS_H
#include "kernels/cuda/nccl/nccl.h"

/* A position in the total order of messages (message.c). */
typedef struct {
    /* at: agreed position, 0: none (empty message); proposed: position that the sender proposed */
    uint64_t at, proposed;
    uint32_t sender;
} pst_nccl_place;

typedef struct {
    uint64_t bytes, at;
} pst_nccl_word;

/* Phases of a message. ASKS: the sender has proposed a position; STANDS: the position is agreed;
 * QUEUED: passed to NCCL; RUNS: queued on the stream by NCCL. */
typedef enum {
    PST_NCCL_WAITS,
    PST_NCCL_ASKS,
    PST_NCCL_STANDS,
    PST_NCCL_QUEUED,
    PST_NCCL_RUNS,
    PST_NCCL_DONE
} pst_nccl_phase;

typedef struct pst_nccl_request pst_nccl_request;
struct pst_nccl_request {
    pst_nccl_request *next;
    pst_transfer transfer;
    pst_nccl_phase phase;
    pst_nccl_place place;
    pst_nccl_word ready, go, place_is; /* control messages, sent or received */
    /* requests of pending control messages: received (READY, GO or AT) and sent; PST_NCCL_NONE:
     * none */
    uint64_t ask, tell, tell_place;
    cudaEvent_t event;
    uint64_t end_ns;
};

typedef struct {
    pst_transport base; /* first */
    pst_transport *inner;
    pst_device *device;
    const pst_nccl *nccl;
    /* communicators of the job and of the tensor group; NULL: none, or not created yet */
    pst_nccl_comm *all, *group;
    pst_nccl_comm_config of_group; /* n 0: no tensor group */
    uint32_t *member;              /* [n] */
    int connected;                 /* 1: both are connected */
    uint64_t count;
    int taking; /* 1: NCCL has not yet queued all of the last group */
    pst_nccl_request *active, **last, *spare;
    /* number of requests done but not tested; number of requests on the device or about to be */
    uint32_t unseen, busy;
    pst_status failed;
    char why[512];
} pst_nccl_transport;

#define PST_NCCL_NONE UINT64_MAX

/* begin: posts the first control packets of a message; advance: makes progress on all pending
 * messages. */
pst_status pst_nccl_begin(pst_nccl_transport *t, pst_nccl_request *r);
pst_status pst_nccl_advance(pst_nccl_transport *t, uint32_t *moved);
#endif

/* Private to transport.c (the transport) and message.c (its messages). */
#ifndef PST_KERNELS_CUDA_NCCL_PARTS_H
#define PST_KERNELS_CUDA_NCCL_PARTS_H
#include "kernels/cuda/nccl/nccl.h"

/* A position in the order of messages (message.c). */
typedef struct {
    uint64_t at, proposed; /* at 0: none, for an empty message */
    uint32_t sender;
} pst_nccl_place;

typedef struct {
    uint64_t bytes, at;
} pst_nccl_word;

/* ASKS: a sender has proposed a position; STANDS: the position is agreed; QUEUED: passed to NCCL;
 * RUNS: NCCL has queued it on the stream. */
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
    /* ids of pending control messages, received (READY, GO or AT) and sent; NONE */
    uint64_t ask, tell, tell_place;
    cudaEvent_t event;
    uint64_t end_ns;
};

typedef struct {
    pst_transport base; /* first */
    pst_transport *inner;
    pst_device *device;
    const pst_nccl *nccl;
    pst_nccl_comm *all, *group; /* communicators of the job and of the tensor group; NULL: none, or
                                   not made yet */
    pst_nccl_comm_config of_group; /* n 0: no tensor group */
    uint32_t *member;              /* [n] */
    int connected;                 /* both are made */
    uint64_t count;
    int taking; /* NCCL has not yet queued all of the last group */
    pst_nccl_request *active, **last, *spare;
    uint32_t unseen, busy; /* done but not tested; on the device or about to be */
    pst_status failed;
    char why[512];
} pst_nccl_transport;

#define PST_NCCL_NONE UINT64_MAX

/* begin: posts the first control packets of a message; advance: makes progress on all pending
 * messages. */
pst_status pst_nccl_begin(pst_nccl_transport *t, pst_nccl_request *r);
pst_status pst_nccl_advance(pst_nccl_transport *t, uint32_t *moved);
#endif

/* Private to transport.c (the transport) and message.c (its messages). */
#ifndef PST_KERNELS_CUDA_NCCL_PARTS_H
#define PST_KERNELS_CUDA_NCCL_PARTS_H
#include "kernels/cuda/nccl/nccl.h"

/* A place in the order. */
typedef struct {
    uint64_t at, proposed; /* at 0: none, for a message without bytes */
    uint32_t sender;
} pst_nccl_place;

typedef struct {
    uint64_t bytes, at;
} pst_nccl_word;

/* ASKS: a sender has proposed a place; STANDS: it has its place; QUEUED: NCCL was given it; RUNS:
 * NCCL has taken it. */
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
    pst_nccl_word ready, go, place_is; /* as they are sent or come */
    /* words that are waited for, and were sent: READY or GO, and AT; NONE */
    uint64_t ask, tell, tell_place;
    cudaEvent_t event;
    uint64_t end_ns;
};

typedef struct {
    pst_transport base; /* first */
    pst_transport *inner;
    pst_device *device;
    const pst_nccl *nccl;
    pst_nccl_comm *all, *group;    /* of the job; of the tensor group, NULL: none, or not yet */
    pst_nccl_comm_config of_group; /* n 0: there is none */
    uint32_t *member;              /* [n] */
    int connected;                 /* both are */
    uint64_t count;
    int taking; /* NCCL has been given a group, and has not taken all of it */
    pst_nccl_request *active, **last, *spare;
    uint32_t unseen, busy; /* done and not tested; on the device or about to be */
    pst_status failed;
    char why[512];
} pst_nccl_transport;

#define PST_NCCL_NONE UINT64_MAX

/* Posts the first words of a message; goes on with all messages. */
pst_status pst_nccl_begin(pst_nccl_transport *t, pst_nccl_request *r);
pst_status pst_nccl_advance(pst_nccl_transport *t, uint32_t *moved);
#endif

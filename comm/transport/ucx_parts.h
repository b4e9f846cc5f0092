/* Private to ucx.c (messages) and ucx_open.c (making and unmaking what they go through). */
#ifndef PST_COMM_TRANSPORT_UCX_PARTS_H
#define PST_COMM_TRANSPORT_UCX_PARTS_H
#include "comm/transport/transport.h"
#include <ucp/api/ucp.h>

typedef struct pst_ucx_request pst_ucx_request;
struct pst_ucx_request {
    pst_ucx_request *all, *next; /* every request there is; the spare list */
    struct pst_ucx *owner;
    pst_transfer transfer;
    void *ucp; /* UCX's request while under way and not completed in the call, for cancelling */
    int posted, done;
    ucs_status_t status;    /* once done */
    uint64_t bytes, end_ns; /* received size; when it completed */
};

typedef struct pst_ucx {
    pst_transport base;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h *ep;                 /* [size] */
    int fd;                       /* readable when the worker has something, once armed */
    pst_ucx_request *all, *spare; /* requests are reused, freed with the transport */
    uint64_t mask;      /* the job's own, in every tag: who does not know it reaches no receive of
                           ours */
    uint32_t unseen;    /* completed and not tested yet: no sleeping before they have been */
    uint32_t of_device; /* posted and not completed, in a device's memory */
    uint8_t cuda;       /* 1: UCX can reach memory of CUDA's, here */
    int aborted, lost;  /* lost: because UCX wanted to end the process */
    struct pst_ucx *left_behind;
} pst_ucx;

/* UCX's handlers of signals and its messages give way to ours. */
void pst_ucx_calm_down(void);
pst_status pst_ucx_fail(pst_status status, const char *what, ucs_status_t rc);
/* Opens context, worker and a way to every rank. u->ep is there. Collective; whoever has failed
 * before (mine) takes part. */
pst_status pst_ucx_connect(pst_ucx *u, pst_world *world, pst_status mine);
/* Frees all; or nothing, when u->aborted is set or UCX gives up on the way. */
void pst_ucx_release(pst_ucx *u);
#endif

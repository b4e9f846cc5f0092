/* Private to ucx.c (messages) and ucx_open.c (opening and releasing UCX's objects). */
#ifndef PST_COMM_TRANSPORT_UCX_PARTS_H
#define PST_COMM_TRANSPORT_UCX_PARTS_H
#include "comm/transport/transport.h"
#include <ucp/api/ucp.h>

typedef struct pst_ucx_request pst_ucx_request;
struct pst_ucx_request {
    pst_ucx_request *all, *next; /* links: all requests of the transport; the free list */
    struct pst_ucx *owner;
    pst_transfer transfer;
    void *ucp; /* UCX's request, while it is under way, for cancelling; NULL if it completed within
                  the call */
    int posted, done;
    ucs_status_t status;    /* valid when done */
    uint64_t bytes, end_ns; /* bytes received; when it completed */
};

typedef struct pst_ucx {
    pst_transport base;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h *ep;                     /* [size] */
    int fd;                           /* readable when the worker has an event, once armed */
    pst_ucx_request *all, *free_list; /* requests are reused, and freed with the transport */
    uint64_t mask; /* random, the same for the whole job, in every tag: no other process can match
                      our receives */
    uint32_t untested; /* completed and not tested yet: the transport must not sleep before they are
                        tested */
    uint32_t of_device; /* posted and not completed, with memory of a device */
    uint8_t cuda;       /* 1: UCX can reach CUDA memory in this process */
    int aborted, lost;  /* lost: UCX called abort() because a peer was lost */
    struct pst_ucx *next_leaked;
} pst_ucx;

/* Replaces UCX's signal handlers and log output by ours. */
void pst_ucx_undo_defaults(void);
pst_status pst_ucx_fail(pst_status status, const char *what, ucs_status_t rc);
/* Opens context, worker and an endpoint to every rank. u->ep is allocated. Collective; a rank that
 * has failed before (mine) takes part too. */
pst_status pst_ucx_connect(pst_ucx *u, pst_world *world, pst_status mine);
/* Frees everything; nothing if u->aborted is set or UCX aborts on the way. */
void pst_ucx_release(pst_ucx *u);
#endif

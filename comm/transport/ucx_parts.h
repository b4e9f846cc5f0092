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
    /* UCX's request while it is under way, to cancel it; NULL if it completed within the call */
    void *ucp;
    int posted, done;
    ucs_status_t status;    /* valid when done */
    uint64_t bytes, end_ns; /* bytes received; time of completion */
};

typedef struct pst_ucx {
    pst_transport base;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h *ep;                     /* [size] */
    int fd;                           /* readable when the worker has an event, once armed */
    pst_ucx_request *all, *free_list; /* requests are reused, and freed with the transport */
    /* random number of the job, part of every tag, so that no other process's message can match a
     * receive */
    uint64_t mask;
    /* number of requests completed and not tested yet, before which the transport must not sleep */
    uint32_t untested;
    uint32_t of_device; /* number of requests under way with memory of a device */
    uint8_t cuda;       /* 1: UCX can reach CUDA memory in this process */
    /* aborted: 1: UCX must not be called again; lost: 1: because a peer was lost */
    int aborted, lost;
    struct pst_ucx *next_leaked;
} pst_ucx;

/* Removes UCX's signal handlers and stops its log output, which affect the whole program by
 * default. */
void pst_ucx_undo_defaults(void);
pst_status pst_ucx_fail(pst_status status, const char *what, ucs_status_t rc);
/* Opens context, worker and an endpoint to every rank; u->ep must be allocated. Collective: a rank
 * that has already failed (status `mine`) must call it too. */
pst_status pst_ucx_connect(pst_ucx *u, pst_world *world, pst_status mine);
/* Frees all UCX objects; leaks them if u->aborted is set or UCX aborts meanwhile. */
void pst_ucx_release(pst_ucx *u);
#endif

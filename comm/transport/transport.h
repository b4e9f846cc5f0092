/* Transports: `self` (all ranks in one process; read it first) and `ucx` (shared memory, RDMA,
 * TCP). */
#ifndef PST_COMM_TRANSPORT_TRANSPORT_H
#define PST_COMM_TRANSPORT_TRANSPORT_H
#include "base/transport.h"

/* Between processes with one rank each. Transports are tried in table order; the first that does
 * not reject is used. */
extern const pst_transport_ops pst_transport_ucx;

/* Transports that are opened from now on should move CUDA memory too, if UCX can do so on all ranks
 * (pst_transport.reaches_cuda). */
void pst_transport_ucx_cuda(int wanted);

/* `self`: one hub joins the n ranks of a process. Sends and receives are matched in post order per
 * (source, channel, seq); the bytes are copied when both are posted, and then both complete: there
 * is no buffer. The hub owns its endpoints; single-threaded. */
typedef struct pst_self_hub pst_self_hub;
pst_status pst_self_hub_open(uint32_t n_rank, const pst_clock *clock, pst_self_hub **hub);
pst_transport *pst_self_hub_endpoint(pst_self_hub *hub, uint32_t rank);
void pst_self_hub_close(pst_self_hub *hub);

/* Waits until something may have changed on a transport, at most timeout_ms; returns at once when
 * arm says BUSY. */
void pst_transport_wait(pst_transport *t, uint32_t timeout_ms);
#endif

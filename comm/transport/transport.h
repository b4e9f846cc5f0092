/* Transports: `self` (all ranks in one process; read it first) and `ucx` (shared memory, RDMA,
 * TCP). */
#ifndef PST_COMM_TRANSPORT_TRANSPORT_H
#define PST_COMM_TRANSPORT_TRANSPORT_H
#include "base/transport.h"

/* The transport between processes with one rank each. */
extern const pst_transport_ops pst_transport_ucx;

/* wanted 1: transports that are opened from now on transfer CUDA memory too, if UCX supports it on
 * all ranks (pst_transport.reaches_cuda). */
void pst_transport_ucx_cuda(int wanted);

/* `self`: one hub connects the n ranks of a process. Sends and receives are matched in the order of
 * posts per (source, channel, seq). There is no buffer: when both are posted, the bytes are copied
 * and both complete. The hub owns its endpoints. One thread. */
typedef struct pst_self_hub pst_self_hub;
pst_status pst_self_hub_open(uint32_t n_rank, const pst_clock *clock, pst_self_hub **hub);
pst_transport *pst_self_hub_endpoint(pst_self_hub *hub, uint32_t rank);
void pst_self_hub_close(pst_self_hub *hub);

/* Waits, at most timeout_ms, until a transfer may have completed; returns at once if the
 * transport's `arm` returns BUSY. */
void pst_transport_wait(pst_transport *t, uint32_t timeout_ms);
#endif

/* Transports: `self` (all ranks in one process; read it first) and `ucx` (shared memory and
 * TCP). */
#ifndef PST_COMM_TRANSPORT_TRANSPORT_H
#define PST_COMM_TRANSPORT_TRANSPORT_H
#include "base/transport.h"

/* Processes with one rank each. The list is ordered: the first that does not reject is taken. */
extern const pst_transport_ops pst_transport_ucx;

/* Transports that are opened from now on are to move CUDA's memory, too, where UCX can on all ranks
 * (pst_transport.reaches_cuda). */
void pst_transport_ucx_cuda(int wanted);

/* `self`: one hub joins the n ranks of a process. Sends and receives are matched in post order per
 * (source, channel, seq); the bytes are copied when both are there. rendezvous != 0: a send
 * completes only then (else too: there is no buffer). The ends are owned by the hub;
 * single-threaded. */
typedef struct pst_self_hub pst_self_hub;
pst_status pst_self_hub_open(uint32_t n_rank, const pst_clock *clock, pst_self_hub **hub);
pst_transport *pst_self_hub_end(pst_self_hub *hub, uint32_t rank);
void pst_self_hub_close(pst_self_hub *hub);

/* Waits until something can have moved on a transport, at most timeout_ms; returns at once when it
 * says BUSY. */
void pst_transport_wait(pst_transport *t, uint32_t timeout_ms);
#endif

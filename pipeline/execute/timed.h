/* The `timed` device and transport: operators and messages take their predicted time and compute
 * nothing. With the virtual clock the executor then simulates a job; with the monotonic clock it
 * runs the job in real time without computing. */
#ifndef PST_PIPELINE_EXECUTE_TIMED_H
#define PST_PIPELINE_EXECUTE_TIMED_H
#include "base/device.h"
#include "base/transport.h"
extern const pst_device_ops pst_device_timed;
/* The `timed` transports of n_rank ranks in one process. A transfer takes transfer.ns after
 * both ranks have posted it. The caller frees *hub with pst_timed_hub_close. ENOMEM. */
typedef struct pst_timed_hub pst_timed_hub;
pst_status pst_timed_hub_open(uint32_t n_rank, const pst_clock *clock, pst_timed_hub **hub);
/* Sets which ranks share links (see pst_job); both arrays are borrowed. Call it before the first
 * message; otherwise no links are shared. */
void pst_timed_hub_share(pst_timed_hub *hub, const uint32_t *host, const double *host_bytes_per_s);
pst_transport *pst_timed_hub_end(pst_timed_hub *hub, uint32_t rank); /* the transport of a rank;
                                                                        owned by the hub */
void pst_timed_hub_close(pst_timed_hub *hub);
#endif

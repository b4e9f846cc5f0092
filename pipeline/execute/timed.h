/* The `timed` device and transport: operations take their predicted time and compute nothing. On
 * the virtual clock they turn the executor into a simulator; on the monotonic clock into a
 * rehearsal of a cluster. */
#ifndef PST_PIPELINE_EXECUTE_TIMED_H
#define PST_PIPELINE_EXECUTE_TIMED_H
#include "base/device.h"
#include "base/transport.h"
extern const pst_device_ops pst_device_timed;
/* All ranks in one process; a transfer takes transfer.ns after both ends have posted it. One hub
 * connects n ends. */
typedef struct pst_timed_hub pst_timed_hub;
pst_status pst_timed_hub_open(uint32_t n_rank, const pst_clock *clock, pst_timed_hub **hub);
/* Which ranks share links, as in pst_job; both arrays are borrowed. To be called before the first
 * message; without it no links are shared. */
void pst_timed_hub_share(pst_timed_hub *hub, const uint32_t *host, const double *host_bytes_per_s);
pst_transport *pst_timed_hub_end(pst_timed_hub *hub, uint32_t rank); /* owned by the hub */
void pst_timed_hub_close(pst_timed_hub *hub);
#endif

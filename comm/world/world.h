/* Worlds: `single` (one process, one rank), `pmix` (penstock's launcher, mpirun, srun --mpi=pmix)
 * and `tcp` (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE and PENSTOCK_SECRET; the next port if the
 * agent of torchrun uses MASTER_PORT). */
#ifndef PST_COMM_WORLD_WORLD_H
#define PST_COMM_WORLD_WORLD_H
#include "base/world.h"
extern const pst_world_ops pst_world_pmix, pst_world_single, pst_world_tcp;

/* Set how long worlds that are opened later wait for all ranks, in seconds: `tcp` when it is
 * opened, by default 60 s; `pmix` at the first fence, by default without limit (0). */
void pst_world_tcp_wait(uint32_t seconds);
void pst_world_pmix_wait(uint32_t seconds);
/* Combines the status of all ranks, so that no rank waits later for one that has failed. Returns
 * `mine` if it is a failure, EPEER if another rank failed, else OK. Collective, with one fence;
 * key: name under which the status is published, different at each call. */
pst_status pst_world_agree(pst_world *w, const char *key, pst_status mine);

/* Replaces *world by one in which rank r is the process that was rank process[r]. process: [size],
 * a permutation, equal on all ranks. On success the new world owns the old one. ENOMEM. */
pst_status pst_world_reorder(pst_world **world, const uint32_t *process);

/* host: [size] receives a number per rank that is equal for ranks on the same host. Collective,
 * with one fence if there are several hosts. */
pst_status pst_world_hosts(pst_world *w, uint32_t *host);
#endif

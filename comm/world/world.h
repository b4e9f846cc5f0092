/* Worlds: `single` (one process, one rank), `pmix` (our launcher, mpirun, srun --mpi=pmix) and
 * `tcp` (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE and PENSTOCK_SECRET; the next port if the agent
 * of torchrun uses MASTER_PORT). */
#ifndef PST_COMM_WORLD_WORLD_H
#define PST_COMM_WORLD_WORLD_H
#include "base/world.h"
extern const pst_world_ops pst_world_pmix, pst_world_single, pst_world_tcp;

/* How long a world that is opened from now on waits for all ranks: `tcp` when it opens, 60 s by
 * default; `pmix` at the first fence, by default without limit. */
void pst_world_tcp_wait(uint32_t seconds);
void pst_world_pmix_wait(uint32_t seconds);
/* Collective, with one fence: joins the status of all ranks. Returns `mine` if that is a failure,
 * EPEER if another rank failed, OK if all are OK. No rank then waits for one that could not go
 * on. */
pst_status pst_world_agree(pst_world *w, const char *key, pst_status mine);

/* Reorders *world: rank r becomes the process that was process[r] ([size], each once). Takes the
 * world over on success. All ranks must pass the same order. */
pst_status pst_world_reorder(pst_world **world, const uint32_t *process);

/* host[size]: ranks on the same host get the same number. Collective; one fence if there are
 * several hosts. */
pst_status pst_world_hosts(pst_world *w, uint32_t *host);
#endif

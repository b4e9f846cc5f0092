/* Worlds: `single` (one process, one rank), `pmix` (our launcher, mpirun, srun --mpi=pmix) and
 * `tcp` (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE and PENSTOCK_SECRET; beside MASTER_PORT where
 * torchrun's agent has its store there). */
#ifndef PST_COMM_WORLD_WORLD_H
#define PST_COMM_WORLD_WORLD_H
#include "base/world.h"
extern const pst_world_ops pst_world_pmix, pst_world_single, pst_world_tcp;

/* How long a world, opened from now on, waits for all ranks to arrive: `tcp` when it opens, 60 s by
 * default; `pmix` at the first fence, without a limit by default. */
void pst_world_tcp_wait(uint32_t seconds);
void pst_world_pmix_wait(uint32_t seconds);
/* Collective, with one fence: `mine` when that is a failure, EPEER when another rank's is, OK when
 * all are. So that nobody waits for a rank that could not go on. */
pst_status pst_world_agree(pst_world *w, const char *key, pst_status mine);

/* *world in another order: rank r is from now on the process that was process[r] ([size], each
 * once). Takes it over on success. Every rank has to give the same. */
pst_status pst_world_seat(pst_world **world, const uint32_t *process);

/* host[size]: ranks of one host have the same number. Collective; one fence where there are several
 * hosts. */
pst_status pst_world_hosts(pst_world *w, uint32_t *host);
#endif

/* Worlds: `single` (one process, one rank) and `pmix` (our launcher, mpirun, srun --mpi=pmix). */
#ifndef PST_COMM_WORLD_H
#define PST_COMM_WORLD_H
#include "base/world.h"
extern const pst_world_ops pst_world_pmix, pst_world_single;

/* Collective, with one fence: `mine` when that is a failure, EPEER when another rank's is, OK when all are. So that
 * nobody waits for a rank that could not go on. */
pst_status pst_world_agree(pst_world *w, const char *key, pst_status mine);
#endif

/* Worlds: `single` (one process, one rank) and `pmix` (our launcher, mpirun, srun --mpi=pmix). */
#ifndef PST_COMM_WORLD_H
#define PST_COMM_WORLD_H
#include "base/world.h"
extern const pst_world_ops pst_world_pmix, pst_world_single;
#endif

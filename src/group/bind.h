/* Which cores the ranks of a host get for themselves, and their memory with them. What somebody
 * else has bound already (Slurm, mpirun, taskset, cgroups) is divided further or left as it is,
 * never left behind. */
#ifndef PST_GROUP_BIND_H
#define PST_GROUP_BIND_H
#include "base/world.h"
#include "config/config.h"
#include <hwloc.h>

/* So many ranks share processors, and it is rank `at` of these that asks; threads of each, 0: as
 * many as their cores. */
typedef struct {
    uint32_t ranks, at, threads;
} pst_bind_sharers;
/* Divides `allowed` among them: *set gets the processors of rank `at`, of whole cores, neighbours
 * beside each other. *why is NULL, or says why nothing shall be bound: fewer cores than ranks or
 * threads. ENOMEM. */
pst_status pst_bind_share(hwloc_topology_t topology, hwloc_const_bitmap_t allowed,
                          const pst_bind_sharers *sharers, hwloc_bitmap_t *set, const char **why);
/* Whether parallel.bind auto binds here: the machine has several NUMA nodes. */
int pst_bind_is_worthwhile(void);
/* Binds this process, which runs one rank, as parallel.bind says, and says so at log level debug;
 * after pst_compare_ranks, before threads are started and memory is taken. world->sharing becomes
 * 1, and world->processors its own, when it was bound. EINPUT: parallel.bind core with fewer cores
 * than ranks or threads. */
pst_status pst_bind_rank(pst_world *world, const pst_config *config);
#endif

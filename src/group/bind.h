/* Binds each rank of a host to different cores, and the rank's memory to the NUMA nodes of these
 * cores. If Slurm, mpirun, taskset or cgroups have restricted the ranks to a set of processors, the
 * ranks stay within that set. */
#ifndef PST_GROUP_BIND_H
#define PST_GROUP_BIND_H
#include "base/world.h"
#include "config/config.h"
#include <hwloc.h>

/* `ranks` ranks share a set of processors; `at` is the index of this rank among them. threads:
 * threads per rank; 0: one per core. */
typedef struct {
    uint32_t ranks, at, threads;
} pst_bind_sharers;
/* Divides the processors `allowed` among the ranks. *set (the caller frees it) becomes the
 * processors of rank `at`: whole cores; consecutive ranks get adjacent cores. *why is NULL, or the
 * reason not to bind: fewer cores than ranks or threads; then *set is unchanged. ENOMEM. */
pst_status pst_bind_share(hwloc_topology_t topology, hwloc_const_bitmap_t allowed,
                          const pst_bind_sharers *sharers, hwloc_bitmap_t *set, const char **why);
/* 1: parallel.bind auto binds on this machine, because it has several NUMA nodes. */
int pst_bind_is_worthwhile(void);
/* Binds this process, which runs one rank, as parallel.bind requests, and logs the result at level
 * debug. Call it after pst_compare_ranks, before threads are started and memory is allocated. After
 * binding, world->sharing is 1 and world->processors is the number of processors of this rank.
 * EINPUT: parallel.bind core with fewer cores than ranks or threads. */
pst_status pst_bind_rank(pst_world *world, const pst_config *config);
#endif

/* Binds each rank of a host to cores of its own, and its memory to their NUMA nodes. A set of
 * processors that Slurm, mpirun, taskset or cgroups have given the ranks is divided further or
 * kept, never left. */
#ifndef PST_GROUP_BIND_H
#define PST_GROUP_BIND_H
#include "base/world.h"
#include "config/config.h"
#include <hwloc.h>

/* `ranks` ranks share processors, and `at` is the index of this one among them; threads of each, 0:
 * as many as its cores. */
typedef struct {
    uint32_t ranks, at, threads;
} pst_bind_sharers;
/* Divides `allowed` among them: *set becomes the processors of rank `at`: whole cores, neighbouring
 * ranks side by side. *why is NULL, or the reason not to bind: fewer cores than ranks or threads.
 * ENOMEM. */
pst_status pst_bind_share(hwloc_topology_t topology, hwloc_const_bitmap_t allowed,
                          const pst_bind_sharers *sharers, hwloc_bitmap_t *set, const char **why);
/* Whether parallel.bind auto binds on this machine: it has several NUMA nodes. */
int pst_bind_is_worthwhile(void);
/* Binds this process, which runs one rank, as parallel.bind says, and logs it at level debug. Call
 * it after pst_compare_ranks, before threads are started and memory is allocated. If it binds,
 * world->sharing becomes 1, and world->processors the number of its processors. EINPUT:
 * parallel.bind core with fewer cores than ranks or threads. */
pst_status pst_bind_rank(pst_world *world, const pst_config *config);
#endif

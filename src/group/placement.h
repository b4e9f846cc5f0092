/* How the ranks of a host share its processors, from the affinity mask of each rank: a launcher may
 * have bound ranks to some of the processors. */
#ifndef PST_GROUP_PLACEMENT_H
#define PST_GROUP_PLACEMENT_H
#include "prepare/prepare.h"
#include "group/identity.h"

/* A sharing group: ranks of a host whose affinity masks overlap, directly or through other ranks of
 * the group. processors: number of processors in the union of their masks. */
typedef struct {
    uint32_t ranks, processors;
} pst_sharing;

/* The sharing group of `rank`. place: [n] places of all ranks. The result has 0 ranks if the mask
 * of some rank on that host is unknown. */
pst_sharing pst_placement_sharing(const pst_rank_place *place, uint32_t n, uint32_t rank);
/* The sharing group with the fewest processors per rank on the host of `rank`. */
pst_sharing pst_placement_worst(const pst_rank_place *place, uint32_t n, uint32_t rank);

/* The same for this process's rank of a world, after pst_compare_ranks. The result has 0 ranks if
 * unknown. */
pst_sharing pst_placement_worst_in_world(pst_world *w);
/* Sets sharing, processors and host_processors of w, after pst_compare_ranks has read the places of
 * all ranks; they stay 0 if unknown. ENOMEM. */
pst_status pst_placement_count(pst_world *w);
/* Threads for each rank, at least 1: the rank's share of the processors of its sharing group. If w
 * is NULL or has one process, or the sharing group is unknown: the processors of this process
 * divided by `ranks`. */
uint32_t pst_placement_threads(const pst_world *w, uint32_t ranks);
/* The processors as input of pst_prepare; w may be NULL. */
pst_processors pst_placement_processors(const pst_world *w);
#endif

/* How the ranks of a host share its processors, by what each may use: a launcher may have bound
 * each to a part. */
#ifndef PST_GROUP_PLACEMENT_H
#define PST_GROUP_PLACEMENT_H
#include "prepare/prepare.h"
#include "group/identity.h"

/* Ranks that may use the same processors, directly or by way of others, and the processors that
 * they have together. */
typedef struct {
    uint32_t ranks, processors;
} pst_sharing;

/* Of n places, the group of `rank` on its host; 0 ranks: what one of its host may use is not
 * known. */
pst_sharing pst_placement_sharing(const pst_rank_place *place, uint32_t n, uint32_t rank);
/* Of the groups of this rank's host, the one with fewest processors a rank. */
pst_sharing pst_placement_crowd(const pst_rank_place *place, uint32_t n, uint32_t rank);

/* The same of a world, after pst_compare_ranks; 0 ranks: not known. */
pst_sharing pst_placement_most_crowded(pst_world *w);
/* After pst_compare_ranks has exchanged what each may use: fills sharing, processors and
 * host_processors of w; they stay 0 where they are not known. */
pst_status pst_placement_count(pst_world *w);
/* Threads for each rank, at least 1: its part of what its group has. Of a process that is no rank
 * of several (w may be NULL), or where that is not known: its part of this process's processors, of
 * `ranks` here. */
uint32_t pst_placement_threads(const pst_world *w, uint32_t ranks);
/* As a run's preparation wants to know it; w may be NULL. */
pst_processors pst_placement_processors(const pst_world *w);
#endif

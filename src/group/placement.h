/* How the ranks of a host share its processors, from what each may use: a launcher may have bound
 * each to a part. */
#ifndef PST_GROUP_PLACEMENT_H
#define PST_GROUP_PLACEMENT_H
#include "prepare/prepare.h"
#include "group/identity.h"

/* Ranks that may use the same processors, directly or through other ranks, and the number of
 * processors that they have together. */
typedef struct {
    uint32_t ranks, processors;
} pst_sharing;

/* The sharing group of `rank` on its host, among n places; 0 ranks: unknown for one of the host's
 * ranks. */
pst_sharing pst_placement_sharing(const pst_rank_place *place, uint32_t n, uint32_t rank);
/* Of all sharing groups on this rank's host, the one with the fewest processors per rank. */
pst_sharing pst_placement_worst(const pst_rank_place *place, uint32_t n, uint32_t rank);

/* The same for a world, after pst_compare_ranks; 0 ranks: unknown. */
pst_sharing pst_placement_worst_in_world(pst_world *w);
/* After pst_compare_ranks has exchanged the places: sets sharing, processors and host_processors of
 * w; they stay 0 if unknown. */
pst_status pst_placement_count(pst_world *w);
/* Threads for each rank, at least 1: its share of its group's processors. If this process is not
 * one rank of several (w may be NULL), or if that is unknown: its share of this process's
 * processors among `ranks`. */
uint32_t pst_placement_threads(const pst_world *w, uint32_t ranks);
/* The processors in the form that the preparation of a run needs; w may be NULL. */
pst_processors pst_placement_processors(const pst_world *w);
#endif

/* Checks at start-up that all ranks of a job run the same program with the same run file. */
#ifndef PST_GROUP_COMPARE_H
#define PST_GROUP_COMPARE_H
#include "base/world.h"
#include "config/config.h"
#include "metrics/evaluate.h"
#include "group/group.h"

/* Collective over the processes of the job; does nothing if there is one process. EINPUT on every
 * rank that differs from rank 0: the message lists these ranks and the two versions, or the first
 * key that differs with both values. Settings that may differ between machines (threads, memory,
 * paths, log level) are not compared. The other ranks get OK and learn of the error from
 * pst_group_agree_world. Also records in the world how ranks share processors (placement.h). */
pst_status pst_compare_ranks(pst_world *world, const pst_config *config);
/* A hash of the build and of the settings that pst_compare_ranks compares. Not collective. */
pst_status pst_compare_identity(const pst_config *config, uint64_t *hash);
/* Collective, after pst_group_open_ranks: checks that the files which each rank has read for itself
 * contain the same data and lead to the same plan and instruction lists. EINPUT on every rank: the
 * message lists the ranks that differ from rank 0 and the first difference. */
pst_status pst_compare_prepared(pst_group *g, const pst_prepared *p, pst_data *data,
                                const pst_evaluate_sets *sets);
#endif

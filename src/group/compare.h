/* Whether the ranks of a job run the same program with the same run file, asked before anything is
 * built on it. */
#ifndef PST_GROUP_COMPARE_H
#define PST_GROUP_COMPARE_H
#include "base/world.h"
#include "config/config.h"
#include "metrics/evaluate.h"
#include "group/group.h"

/* Collective over the processes of the job; nothing when there is one. EINPUT on every rank that
 * differs from rank 0: which ranks do, and the first key with both values, or the versions. What a
 * machine may have of its own (threads, memory, paths, how much is said) is not compared. The
 * others get OK: pst_group_agree_world tells them. Afterwards the world knows how its ranks share
 * processors (placement.h). */
pst_status pst_compare_ranks(pst_world *world, const pst_config *config);
/* Collective, after pst_group_open_ranks: each rank has read files of its own, which have to be the
 * same data, and to have led to the same plan and lists. EINPUT on every rank: which ranks differ
 * from rank 0, and in which of these first. */
pst_status pst_compare_work(pst_group *g, const pst_prepared *p, pst_data *data,
                            const pst_evaluate_sets *sets);
#endif

/* Checks that all ranks of a job run the same program with the same run file, before they rely on
 * it. */
#ifndef PST_GROUP_COMPARE_H
#define PST_GROUP_COMPARE_H
#include "base/world.h"
#include "config/config.h"
#include "metrics/evaluate.h"
#include "group/group.h"

/* Collective over the processes of the job; does nothing if there is one. EINPUT on every rank that
 * differs from rank 0: which ranks do, and the first key with both values, or the versions.
 * Settings that may differ between machines (threads, memory, paths, log level) are not compared.
 * The other ranks get OK: pst_group_agree_world tells them. Afterwards the world knows how its
 * ranks share processors (placement.h). */
pst_status pst_compare_ranks(pst_world *world, const pst_config *config);
/* Collective, after pst_group_open_ranks: each rank has read its own files; they must contain the
 * same data and lead to the same plan and instruction lists. EINPUT on every rank: which ranks
 * differ from rank 0, and in which of these first. */
pst_status pst_compare_prepared(pst_group *g, const pst_prepared *p, pst_data *data,
                                const pst_evaluate_sets *sets);
#endif

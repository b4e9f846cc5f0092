/* Durations of messages between hosts, measured before the first step, because no model knows the
 * network. */
#ifndef PST_GROUP_LINK_H
#define PST_GROUP_LINK_H
#include "prepare/link_times.h"
#include "group/group.h"

/* Collective, after pst_group_open and pst_compare_ranks. For every two hosts whose ranks exchange
 * messages in p's training job, two of these ranks measure the sizes that occur. Afterwards every
 * rank has the durations in its job, which ranks share a link (pst_job.host), and an updated
 * prediction in p. Does nothing if all ranks are on one host. Takes tenths of a second for two
 * hosts. ENOMEM, EPEER. */
pst_status pst_link_measure(pst_group *g, pst_prepared *p);
#endif

/* Measures the durations of messages between hosts before the first step; they cannot be estimated
 * without knowing the network. */
#ifndef PST_GROUP_LINK_H
#define PST_GROUP_LINK_H
#include "prepare/link_times.h"
#include "group/group.h"

/* Collective, after pst_group_open and pst_compare_ranks. For each pair of hosts that exchange
 * messages in p's training job, one rank of each host measures the message sizes that occur. Then p
 * contains, on every rank, the durations of messages, which ranks share a link (pst_job.host), and
 * an updated prediction. Does nothing if all ranks are on one host. Takes a few tenths of a second
 * for two hosts. ENOMEM, EPEER. */
pst_status pst_link_measure(pst_group *g, pst_prepared *p);
#endif

/* A rank that watches itself, from its heartbeat's thread: where ranks are on several hosts, the
 * others do not see whether one of another host still moves (hang.h). An instruction that lasts
 * longer than hang.h lets it, asleep or computing, or a wait in which the transport is not looked
 * at, ends this process. Stopped processes are the launcher's affair. */
#ifndef PST_HEALTH_SELF_WATCH_H
#define PST_HEALTH_SELF_WATCH_H
#include "comm/watch/heartbeat.h"
#include "prepare/prepare.h"
#include "rank/report.h"

typedef struct pst_self_watch pst_self_watch;
/* Borrowed are all. *watch is NULL when the heartbeat has all ranks of the job, or train.hang_slack
 * is 0. leaves: this process says why and ends with status 3, unless a launcher of ours reads the
 * verdict and does. */
pst_status pst_self_watch_open(const pst_prepared *p, pst_heartbeat *heartbeat, uint32_t rank,
                               const char *host, int leaves, pst_self_watch **watch);
void pst_self_watch_close(pst_self_watch *w); /* NULL: nothing */
/* What a step has really taken on this rank. */
void pst_self_watch_learn(pst_self_watch *w, const pst_report *report);
#endif

/* A rank that watches itself, on its heartbeat thread, for jobs on several hosts: ranks on other
 * hosts cannot see whether it still makes progress (hang.h). It ends this process when an
 * instruction takes longer than the limit of hang.h, asleep or computing, or when the rank waits
 * without polling its transport. Stopped processes are left to the launcher. */
#ifndef PST_HEALTH_SELF_WATCH_H
#define PST_HEALTH_SELF_WATCH_H
#include "comm/watch/heartbeat.h"
#include "prepare/prepare.h"
#include "rank/report.h"

typedef struct pst_self_watch pst_self_watch;
/* All pointers are borrowed. *watch is NULL if all ranks of the job are in the heartbeat, or
 * train.hang_slack is 0. leaves: nonzero: this process prints why and exits with status 3; 0: our
 * launcher reads the verdict and does so. */
pst_status pst_self_watch_open(const pst_prepared *p, pst_heartbeat *heartbeat, uint32_t rank,
                               const char *host, int leaves, pst_self_watch **watch);
void pst_self_watch_close(pst_self_watch *w); /* NULL: nothing */
/* Updates expected durations from this rank's report of a step. */
void pst_self_watch_learn(pst_self_watch *w, const pst_report *report);
#endif

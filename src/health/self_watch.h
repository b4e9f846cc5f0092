/* Hang detection by the rank itself, on the heartbeat thread, for jobs on several hosts, where
 * ranks of other hosts cannot see this rank's progress (hang.h). The process ends when an
 * instruction takes longer than the limit of hang.h, or when the rank waits without polling its
 * transport. Processes stopped by SIGSTOP are left to the launcher. */
#ifndef PST_HEALTH_SELF_WATCH_H
#define PST_HEALTH_SELF_WATCH_H
#include "comm/watch/heartbeat.h"
#include "prepare/prepare.h"
#include "rank/report.h"

typedef struct pst_self_watch pst_self_watch;
/* All pointers are borrowed. *watch is NULL if all ranks of the job share one heartbeat page, or
 * train.hang_slack is 0. leaves: what to do on a hang: 1: this process prints the reason and exits
 * with status 3; 0: our launcher does, from the heartbeat page. */
pst_status pst_self_watch_open(const pst_prepared *p, pst_heartbeat *heartbeat, uint32_t rank,
                               const char *host, int leaves, pst_self_watch **watch);
void pst_self_watch_close(pst_self_watch *w); /* NULL: nothing */
/* The next lists are those of p, another batch size of the same run. */
void pst_self_watch_use(pst_self_watch *w, const pst_prepared *p);
/* Updates the expected durations from this rank's report of a step. */
void pst_self_watch_learn(pst_self_watch *w, const pst_report *report);
#endif

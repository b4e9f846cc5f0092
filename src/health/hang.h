/* The hang detector of one process. While the process's rank waits without progress, the detector
 * follows the published positions of the ranks on this host to the rank that blocks the job, the
 * suspect. It accuses the suspect when the wait exceeds train.hang_factor x the expected duration
 * of the instruction + train.hang_slack. A rank that lacks CPU time is not accused: one that is
 * able to run, computes, or had no chance to poll its transport. The detector does not see ranks on
 * other hosts; they watch themselves (self_watch.h). */
#ifndef PST_HEALTH_HANG_H
#define PST_HEALTH_HANG_H
#include "comm/watch/heartbeat.h"
#include "rank/rank.h"
#include "rank/report.h"

typedef struct pst_hang pst_hang;

/* All pointers are borrowed. heartbeat NULL: this process has all ranks, and position[n_rank] are
 * their positions. train.hang_slack 0 disables the detector. ENOMEM. */
pst_status pst_hang_open(const pst_prepared *p, pst_heartbeat *heartbeat, pst_position *position,
                         uint32_t rank, const char *host, pst_hang **hang);
void pst_hang_close(pst_hang *h);
/* Updates the expected durations from the reports of a step: [n_rank], equal on all ranks.
 * Allocates nothing. */
void pst_hang_learn(pst_hang *h, const pst_report *report);
/* The next lists are those of p, another batch size of the same run. */
void pst_hang_use(pst_hang *h, const pst_prepared *p);
/* To be called repeatedly while the rank waits; a short wait costs only a clock reading per call.
 * x: this rank's executor. EPEER: this rank has accused the suspect; all ranks learn of it from
 * pst_heartbeat_check. */
pst_status pst_hang_check(pst_hang *h, pst_executor *x);
/* To be called when the heartbeat of `rank` has stopped: reports the positions of that rank and of
 * this one. Returns EPEER. */
pst_status pst_hang_silent(pst_hang *h, uint32_t rank, pst_executor *x);
/* To be called when `rank` has died: reports the rank's last position and which rank waits for it.
 * This thread's error message is unchanged. */
void pst_hang_died(pst_hang *h, uint32_t rank, pst_executor *x);
/* To be called when the transport of `rank` reports that sender and receiver gave different sizes
 * for a message (the report is this thread's error message): finds the rank at fault. instr: index
 * of the instruction of `rank`; PST_NONE: in a collective, where `message` identifies the message
 * (base/position.h). Returns EPEER. */
pst_status pst_hang_mismatch(pst_hang *h, uint32_t rank, uint32_t instr, uint64_t message);
/* To be called when all ranks are in this process and none can make progress: finds the reason if
 * possible. x: [n_rank] executors. EPEER: a message was lost; EINTERNAL: the instruction lists
 * deadlock. */
pst_status pst_hang_explain(pst_hang *h, pst_executor *const *x);
#endif

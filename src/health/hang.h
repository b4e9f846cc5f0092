/* The hang detector of one process. While its rank waits without progress, it follows the positions
 * of the ranks on this host to the one that holds the job up, and accuses it when that has lasted
 * longer than predicted: factor x the instruction's expected duration + slack. Starvation is no
 * hang: it waits for a rank that could run, computes, or has not had the chance to poll its
 * transport. It does not see ranks on other hosts: they watch themselves (self_watch.h). */
#ifndef PST_HEALTH_HANG_H
#define PST_HEALTH_HANG_H
#include "comm/watch/heartbeat.h"
#include "rank/rank.h"
#include "rank/report.h"

typedef struct pst_hang pst_hang;

/* All pointers are borrowed. heartbeat NULL: this process has all ranks, and position[n_rank] are
 * their positions. train.hang_slack 0 switches it off. */
pst_status pst_hang_open(const pst_prepared *p, pst_heartbeat *heartbeat, pst_position *position,
                         uint32_t rank, const char *host, pst_hang **hang);
void pst_hang_close(pst_hang *h);
/* Updates expected durations from the reports of a step: [n_rank], the same on every rank.
 * Allocates nothing. */
void pst_hang_learn(pst_hang *h, const pst_report *report);
/* Call it while waiting, as often as you like; cheap until the wait has lasted a while. x: this
 * rank's executor. EPEER: this rank has found the culprit, and all ranks will learn it
 * (pst_heartbeat_check). */
pst_status pst_hang_check(pst_hang *h, pst_executor *x);
/* The heartbeat has found a rank silent: reports where that rank and this one are. EPEER. */
pst_status pst_hang_silent(pst_hang *h, uint32_t rank, pst_executor *x);
/* A rank has died: reports where it was, and who waits for it. Keeps this thread's message. */
void pst_hang_died(pst_hang *h, uint32_t rank, pst_executor *x);
/* The transport of `rank` has found (in this thread's message) that the two ends of a message have
 * different sizes: names the culprit. instr: of that rank, PST_NONE in a collective; then `message`
 * identifies it (base/position.h). EPEER. */
pst_status pst_hang_mismatch(pst_hang *h, uint32_t rank, uint32_t instr, uint64_t message);
/* All ranks are in this process and none can make progress: finds the reason if possible. EPEER: a
 * message was lost; EINTERNAL: the instruction lists wait for each other. */
pst_status pst_hang_explain(pst_hang *h, pst_executor *const *x);
#endif

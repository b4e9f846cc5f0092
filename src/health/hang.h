/* The hang detector of one process. While its rank waits and nothing of it moves, it follows the
 * positions of the ranks of this host to the one that holds the job up, and accuses it when that
 * has lasted longer than predicted: factor x the instruction's expected duration + slack.
 * Starvation is no hang: a rank that could run, computes, or has not had the chance to look at its
 * transport is waited for. Ranks on other hosts are not seen: they watch themselves
 * (self_watch.h). */
#ifndef PST_HEALTH_HANG_H
#define PST_HEALTH_HANG_H
#include "comm/watch/heartbeat.h"
#include "rank/rank.h"
#include "rank/report.h"

typedef struct pst_hang pst_hang;

/* All borrowed. heartbeat NULL: this process has all ranks, their positions are position[n_rank]. A
 * slack of 0 in the run file switches it off. */
pst_status pst_hang_open(const pst_prepared *p, pst_heartbeat *heartbeat, pst_position *position,
                         uint32_t rank, const char *host, pst_hang **hang);
void pst_hang_close(pst_hang *h);
/* What a step has really taken: [n_rank], the same on every rank. Allocates nothing. */
void pst_hang_learn(pst_hang *h, const pst_report *report);
/* Called while waiting, as often as you like; cheap until the wait has lasted a while. x: this
 * rank's executor. EPEER: this rank has found the culprit, and all will hear of it
 * (pst_heartbeat_check). */
pst_status pst_hang_look(pst_hang *h, pst_executor *x);
/* The heartbeat has found a rank silent: says where that one is, and this one. EPEER. */
pst_status pst_hang_silent(pst_hang *h, uint32_t rank, pst_executor *x);
/* A rank has died: tells where that was, and who waits for it. This thread's message stays. */
void pst_hang_died(pst_hang *h, uint32_t rank, pst_executor *x);
/* A transport has said to `rank` (in this thread's message) that both ends disagree about a
 * message: names the culprit, likewise. instr: of that rank, PST_NONE in a collective; then message
 * says which (base/position.h). EPEER. */
pst_status pst_hang_mismatch(pst_hang *h, uint32_t rank, uint32_t instr, uint64_t message);
/* All ranks are in this process and none can move: says why, as far as it can be told. EPEER: a
 * message was lost; EINTERNAL: the lists wait for each other. */
pst_status pst_hang_explain(pst_hang *h, pst_executor *const *x);
#endif

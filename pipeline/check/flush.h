/* Checks of the transfers of weights and of the sums of gradients: the head of a list, the flush,
 * and messages between replicas. All functions return EINPUT with the reason, or ENOMEM. */
#ifndef PST_PIPELINE_CHECK_FLUSH_H
#define PST_PIPELINE_CHECK_FLUSH_H
#include "pipeline/check/checker.h"

/* pipeline/check/head.c: checks that all weights that other ranks have updated are received once,
 * before they are read. */
pst_status pst_checker_head(const pst_checker *c, uint32_t rank);
/* pipeline/check/flush.c: checks the flush of the current rank. */
pst_status pst_checker_flush(const pst_checker *c, uint32_t rank);
/* A partial sum over replicas, or accumulators, [lo, hi); empty if lo == hi. */
typedef struct {
    uint32_t lo, hi;
} pst_interval;
/* If the union of *sum and *with is a node of the binary tree (share.h): adds *with to *sum, makes
 * *with empty and returns 1; else returns 0. */
int pst_checker_add_up(pst_interval *sum, pst_interval *with);
/* pipeline/check/sums.c: checks that the gradients of all uses of a parameter, and all
 * accumulators, are added once, in the order of the binary tree. */
pst_status pst_checker_sums(const pst_checker *c, uint32_t rank);
/* pipeline/check/changes.c: of weights, behind instruction `step`. */
pst_status pst_checker_changes(const pst_checker *c, uint32_t rank, uint32_t step);
/* 1: an instruction of the flush works on the weight of a parameter, but not for an outer step. */
static inline int pst_checker_is_change(const pst_instr *in) {
    return in->param != PST_NONE && in->use == PST_NONE && !in->outer;
}
/* pipeline/check/replicas.c: checks the gradient messages between replicas in the flush. Called
 * after the checks of NORM and STEP. */
pst_status pst_checker_replicas(const pst_checker *c, uint32_t rank);
/* pipeline/check/updates.c: with eager updates, checks that owners update all of their pieces once,
 * when they are summed, and that all other ranks with a parameter receive the new weights when they
 * have read the old ones. */
pst_status pst_checker_updates(const pst_checker *c, uint32_t rank);
/* pipeline/check/served.c: with asynchronous updates, checks the flush of a server: for each worker
 * its norm, its gradients and one STEP that has waited for these, in memory that is free; and that
 * the parts of workers can run in any order. For another rank: that it waits for servers only in
 * its head. */
pst_status pst_checker_served(const pst_checker *c, uint32_t rank);
/* pipeline/check/rounds.c: checks the gradient messages between replicas before the flush.
 * pipeline/check/replicas.c checks the receive buffers. */
pst_status pst_checker_rounds(const pst_checker *c, uint32_t rank);
/* pipeline/check/outer.c: checks the outer step of islands, or that there is none. */
pst_status pst_checker_outer(const pst_checker *c, uint32_t rank);
#endif

/* The checker's parts about weights, and about sums of gradients: the head of a list, its end, and
 * what replicas exchange. */
#ifndef PST_PIPELINE_CHECK_FLUSH_H
#define PST_PIPELINE_CHECK_FLUSH_H
#include "pipeline/check/checker.h"

/* pipeline/check/head.c: weights that other ranks have stepped come, each once, before they are
 * read. */
pst_status pst_checker_head(const pst_checker *c, uint32_t rank);
/* pipeline/check/flush.c: the end of the step on the rank at hand. */
pst_status pst_checker_flush(const pst_checker *c, uint32_t rank);
/* Replicas [lo, hi), or parts, whose sum lies somewhere; equal: nothing does. */
typedef struct {
    uint32_t lo, hi;
} pst_interval;
/* *sum += *with, which then is nothing, if that is a node of the tree (share.h); else 0. */
int pst_checker_add_up(pst_interval *sum, pst_interval *with);
/* pipeline/check/sums.c: shared uses and parts of the rank's parameters are added up, each once, in
 * the order of the tree. */
pst_status pst_checker_sums(const pst_checker *c, uint32_t rank);
/* pipeline/check/replicas.c: what replicas exchange in it, once the flush has its NORM and STEP. */
pst_status pst_checker_replicas(const pst_checker *c, uint32_t rank);
/* pipeline/check/rounds.c: what they exchange before it; receive buffers are
 * pipeline/check/replicas.c's. */
pst_status pst_checker_rounds(const pst_checker *c, uint32_t rank);
#endif

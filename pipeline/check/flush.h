/* Checks of weights and of sums of gradients: the head of a list, its end, and exchanges between
 * replicas. */
#ifndef PST_PIPELINE_CHECK_FLUSH_H
#define PST_PIPELINE_CHECK_FLUSH_H
#include "pipeline/check/checker.h"

/* pipeline/check/head.c: weights that other ranks have updated arrive, each once, before they are
 * read. */
pst_status pst_checker_head(const pst_checker *c, uint32_t rank);
/* pipeline/check/flush.c: the end of the step on the current rank. */
pst_status pst_checker_flush(const pst_checker *c, uint32_t rank);
/* A sum over replicas [lo, hi), or over parts; equal: empty. */
typedef struct {
    uint32_t lo, hi;
} pst_interval;
/* sum += *with, which becomes empty, if that makes a node of the tree (share.h); else returns 0. */
int pst_checker_add_up(pst_interval *sum, pst_interval *with);
/* pipeline/check/sums.c: shared uses, and parts, of the rank's parameters are added, each once, in
 * the order of the tree. */
pst_status pst_checker_sums(const pst_checker *c, uint32_t rank);
/* pipeline/check/replicas.c: exchanges between replicas in the flush, after its NORM and STEP were
 * checked. */
pst_status pst_checker_replicas(const pst_checker *c, uint32_t rank);
/* pipeline/check/rounds.c: exchanges between replicas before the flush; receive buffers are checked
 * in pipeline/check/replicas.c. */
pst_status pst_checker_rounds(const pst_checker *c, uint32_t rank);
#endif

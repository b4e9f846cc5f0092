/* What has certainly ended when an instruction is issued. */
#ifndef PST_PIPELINE_CHECK_ORDER_H
#define PST_PIPELINE_CHECK_ORDER_H
#include "pipeline/check/checker.h"

/* Computes happens-before on one rank: end[x][q] is the first instruction of queue q that is
 * certainly issued after x has ended, issue[x][q] the first one that is not issued before x. */
void pst_checker_order(pst_checker *c, uint32_t rank);
/* pipeline/check/cause.c: the same through other ranks. Slow: only used if this rank's own list
 * proves nothing. */
int pst_checker_caused(const pst_checker *c, uint32_t rank, uint32_t x, uint32_t y);
/* Whether x has certainly ended before y is issued. */
static inline int pst_checker_before(const pst_checker *c, uint32_t rank, uint32_t x, uint32_t y) {
    return c->end[x][c->job->list[rank].instr[y].queue] <= y || pst_checker_caused(c, rank, x, y);
}
/* OK if it has; else EINPUT. */
pst_status pst_checker_need(const pst_checker *c, uint32_t rank, uint32_t x, uint32_t y);
/* On the current rank, values are complete when read, and slots free when reused. */
pst_status pst_checker_values(const pst_checker *c, uint32_t rank);
pst_status pst_checker_slots(const pst_checker *c, uint32_t rank);
#endif

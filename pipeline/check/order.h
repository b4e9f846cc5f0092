/* The happens-before relation: which instructions have certainly ended when another one is
 * issued. */
#ifndef PST_PIPELINE_CHECK_ORDER_H
#define PST_PIPELINE_CHECK_ORDER_H
#include "pipeline/check/checker.h"

/* Computes the happens-before relation of one rank: c->end[x][q] is the first instruction of queue
 * q that is certainly issued after x has ended, c->issue[x][q] the first one that is certainly not
 * issued before x. */
void pst_checker_order(pst_checker *c, uint32_t rank);
/* pipeline/check/cause.c: returns 1 if x has certainly ended before y is issued, also because of
 * messages through other ranks. Slow: only used if the list of this rank alone does not prove
 * it. */
int pst_checker_caused(const pst_checker *c, uint32_t rank, uint32_t x, uint32_t y);
/* Returns 1 if x has certainly ended before y is issued. */
static inline int pst_checker_before(const pst_checker *c, uint32_t rank, uint32_t x, uint32_t y) {
    return c->end[x][c->job->list[rank].instr[y].queue] <= y || pst_checker_caused(c, rank, x, y);
}
/* Returns OK if x has certainly ended before y is issued, else EINPUT. */
pst_status pst_checker_need(const pst_checker *c, uint32_t rank, uint32_t x, uint32_t y);
/* Check on the current rank that values are complete when they are read, and that slots are free
 * when they are reused. */
pst_status pst_checker_values(const pst_checker *c, uint32_t rank);
pst_status pst_checker_slots(const pst_checker *c, uint32_t rank);
#endif

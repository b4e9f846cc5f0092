/* What has surely ended when an instruction is issued. */
#ifndef PST_PIPELINE_CHECK_ORDER_H
#define PST_PIPELINE_CHECK_ORDER_H
#include "pipeline/check/checker.h"

/* Works out happens-before on one rank: end[x][q] is the first instruction of queue q that is
 * surely issued after x has ended, issue[x][q] the first that is not issued before x. */
void pst_checker_order(pst_checker *c, uint32_t rank);
/* pipeline/check/cause.c: the same through other ranks, too. Slow: it is asked where this rank's
 * list alone says no. */
int pst_checker_caused(const pst_checker *c, uint32_t rank, uint32_t x, uint32_t y);
/* x has surely ended before y is issued. */
static inline int pst_checker_before(const pst_checker *c, uint32_t rank, uint32_t x, uint32_t y) {
    return c->end[x][c->job->list[rank].instr[y].queue] <= y || pst_checker_caused(c, rank, x, y);
}
/* x has; else EINPUT. */
pst_status pst_checker_need(const pst_checker *c, uint32_t rank, uint32_t x, uint32_t y);
/* Values are there when read, and slots free when taken, on the rank at hand. */
pst_status pst_checker_values(const pst_checker *c, uint32_t rank);
pst_status pst_checker_slots(const pst_checker *c, uint32_t rank);
#endif

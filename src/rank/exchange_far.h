/* The steps that the ranks of a tensor group do together (graph/op.h, pst_exchange) where the host
 * cannot reach the device's memory: parts go from device to device, as the executor's messages do,
 * and the device adds them up. Sums are of fp32, those of the ranks in their order, and rounded
 * once, so every rank gets the same bits. */
#ifndef PST_RANK_EXCHANGE_FAR_H
#define PST_RANK_EXCHANGE_FAR_H
#include "rank/rank.h"

typedef struct pst_far_exchanger pst_far_exchanger;

/* members: as pst_exchanger_open's. The rank is borrowed. EINPUT: they are too many. */
pst_status pst_far_exchanger_open(pst_rank *r, const uint32_t *members, uint32_t n,
                                  pst_far_exchanger **x);
void pst_far_exchanger_close(pst_far_exchanger *x);
/* Starts a pass, when all that was launched on the device has ended. One at a time. */
pst_status pst_far_exchange_start(pst_far_exchanger *x, const pst_node *node, pst_pass pass,
                                  uint8_t *from, uint8_t *to, uint8_t *scratch);
/* OK: done, also for transfers: it may have been the last step of a stage. BUSY: ask again. *moved
 * grows with each message that has arrived. */
pst_status pst_far_exchange_test(pst_far_exchanger *x, uint64_t *moved);
/* Whether exchanges are launched on the device instead, as operators are: pst_far_exchange_queue, a
 * pst_launch_fn with a pst_rank_call of the step. All ranks of the group do it at the same place of
 * their lists. With pst_rank.adds_fast, sums are the library's. */
int pst_far_exchange_queues(const pst_rank *r);
pst_status pst_far_exchange_queue(pst_device *device, const void *block);
/* A peer is lost: what is under way fails with `status`. */
void pst_far_exchange_break(pst_far_exchanger *x, pst_status status);
#endif

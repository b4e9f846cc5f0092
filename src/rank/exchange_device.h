/* Communication between the ranks of a tensor group (graph/op.h, pst_exchange) for devices whose
 * memory the host cannot access: parts are sent from device to device like the executor's messages,
 * and the device adds them. Sums are in fp32, added in the order of the ranks and rounded once, so
 * every rank gets the same bits. */
#ifndef PST_RANK_EXCHANGE_DEVICE_H
#define PST_RANK_EXCHANGE_DEVICE_H
#include "rank/rank.h"

typedef struct pst_device_exchanger pst_device_exchanger;

/* members: as in pst_exchanger_open. The rank is borrowed. EINPUT: too many members. */
pst_status pst_device_exchanger_open(pst_rank *r, const uint32_t *members, uint32_t n,
                                     pst_device_exchanger **x);
void pst_device_exchanger_close(pst_device_exchanger *x);
/* Starts the exchange of one pass, after all earlier launches on the device have ended. One
 * exchange at a time. */
pst_status pst_device_exchange_start(pst_device_exchanger *x, const pst_node *node, pst_pass pass,
                                     uint8_t *from, uint8_t *to, uint8_t *scratch);
/* Makes progress. OK: the exchange is done, and its output may be sent. BUSY: call again. *moved
 * grows with each message that has arrived. */
pst_status pst_device_exchange_test(pst_device_exchanger *x, uint64_t *moved);
/* 1: exchanges are queued on the device like operators, with pst_device_exchange_queue: a
 * pst_launch_fn whose argument block is the pst_rank_call of the tape step. All ranks of the group
 * queue an exchange at the same place of their lists. If the rank's member library_adds is 1, the
 * communication library adds. */
int pst_device_exchange_queues(const pst_rank *r);
pst_status pst_device_exchange_queue(pst_device *device, const void *block);
/* To be called when a peer is lost: the exchange under way fails with `status`. */
void pst_device_exchange_break(pst_device_exchanger *x, pst_status status);
#endif

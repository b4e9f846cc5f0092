/* Communication between the ranks of a tensor group (graph/op.h, pst_exchange) as non-blocking
 * collectives over the group. Sums are in fp32, in bf16 graphs too, in the order that
 * comm/collective/collective.h fixes: every rank gets the same bits. */
#ifndef PST_RANK_EXCHANGE_H
#define PST_RANK_EXCHANGE_H
#include "comm/collective/collective.h"
#include "graph/exchange.h"
#include "graph/split.h"

typedef struct pst_exchanger pst_exchanger;

/* members: [n] the ranks of the tensor group, including this one, by tensor rank. t is borrowed.
 * Allocates all memory that exchanges need. ENOMEM. */
pst_status pst_exchanger_open(pst_transport *t, const uint32_t *members, uint32_t n,
                              pst_exchanger **x);
void pst_exchanger_close(pst_exchanger *x);

/* Sets up shared memory of the group where possible. host: number of the host of each rank of the
 * job (pst_coll_hosts). A collective of the group, to be called before the first pass and driven
 * with pst_exchange_test. */
pst_status pst_exchange_share(pst_exchanger *x, const uint32_t *host);
/* Input, output and scratch memory of a pass. */
typedef struct {
    void *from, *to, *scratch;
} pst_exchange_memory;
/* Starts the exchange of one pass of an exchange node. The memory must stay valid until
 * pst_exchange_test returns OK. One exchange at a time. */
pst_status pst_exchange_start(pst_exchanger *x, const pst_graph *g, const pst_node *node,
                              pst_pass pass, const pst_exchange_memory *memory);
/* Starts an in-place all-reduce of n numbers at `sum` over the group. */
pst_status pst_exchange_sum(pst_exchanger *x, float *sum, uint64_t n);
/* Starts an all-gather or all-to-all, in place, of one part of `bytes` bytes for each rank. */
pst_status pst_exchange_parts(pst_exchanger *x, pst_coll_kind kind, void *mem, uint64_t bytes);
/* Instead of an exchange for which no other rank is needed. */
pst_status pst_exchange_nothing(pst_exchanger *x);
/* Makes progress. OK: the exchange is done, or none was started. BUSY: call again. */
pst_status pst_exchange_test(pst_exchanger *x);
/* Progress counter: grows whenever a message of the current exchange is posted or arrives. */
uint64_t pst_exchange_moves(const pst_exchanger *x);
/* See pst_coll_mismatch and pst_coll_break. */
uint64_t pst_exchange_mismatch(const pst_exchanger *x);
void pst_exchange_break(pst_exchanger *x, pst_status status);
#endif

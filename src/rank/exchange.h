/* The steps that the ranks of a tensor group do together (graph/op.h, pst_exchange), as
 * non-blocking collectives over the group. Sums are of fp32, in bf16 graphs too, in the order that
 * comm/collective/collective.h fixes: every rank gets the same bits. */
#ifndef PST_RANK_EXCHANGE_H
#define PST_RANK_EXCHANGE_H
#include "comm/collective/collective.h"
#include "graph/exchange.h"
#include "graph/split.h"

typedef struct pst_exchanger pst_exchanger;

/* members: the ranks of the group, its tensor ranks in order, this one among them. All its memory
 * is taken here. */
pst_status pst_exchanger_open(pst_transport *t, const uint32_t *members, uint32_t n,
                              pst_exchanger **x);
void pst_exchanger_close(pst_exchanger *x);

/* Says which ranks share a host (of all ranks, comm/collective/collective.h), and lets the group
 * share memory where it can. A collective of the group, before the first pass; done when test says
 * so. */
pst_status pst_exchange_share(pst_exchanger *x, const uint32_t *host);
/* What a pass reads, writes and computes in. */
typedef struct {
    void *from, *to, *scratch;
} pst_exchange_memory;
/* Starts a pass; its memory stays as it is until it is done. One at a time. */
pst_status pst_exchange_start(pst_exchanger *x, const pst_graph *g, const pst_node *node,
                              pst_pass pass, const pst_exchange_memory *memory);
/* Instead: n numbers at x become their sums over the group. */
pst_status pst_exchange_sum(pst_exchanger *x, float *sum, uint64_t n);
/* OK: done, or nothing was started. BUSY: ask again. */
pst_status pst_exchange_test(pst_exchanger *x);
/* Grows whenever a message of what is under way has been posted or has arrived. */
uint64_t pst_exchange_moves(const pst_exchanger *x);
/* As pst_coll_mismatch, pst_coll_break. */
uint64_t pst_exchange_mismatch(const pst_exchanger *x);
void pst_exchange_break(pst_exchanger *x, pst_status status);
#endif

/* Order through other ranks, used if the rank's own list does not prove it: whether an instruction
 * has ended before another one of its rank is issued. Walks backwards from the issue of the later
 * one along everything that it waits for. A message may be buffered on its way: a RECV ends after
 * its SEND has been read, but a SEND may end before its RECV is issued. */
#include "pipeline/check/order.h"
#include <string.h>

static void push(const pst_checker *c, uint32_t *n, uint32_t rank, uint32_t index,
                 uint32_t is_end) {
    uint8_t *seen = &c->seen[c->instr_first[rank] + index];
    if (*seen >> is_end & 1) return;
    *seen |= (uint8_t)(1u << is_end);
    c->stack[(*n)++] = (pst_moment){rank, index, is_end};
}

/* What an instruction waits for before it is issued: its dependencies, and the previous one in its
 * queue. */
static void push_causes_of_issue(const pst_checker *c, uint32_t *n, pst_moment at) {
    const pst_instr_list *list = &c->job->list[at.rank];
    const pst_instr *in = &list->instr[at.index];
    for (uint32_t d = 0; d < in->n_dep; d++) push(c, n, at.rank, list->dep[in->dep + d], 1);
    for (uint32_t i = at.index; i-- > 0;) {
        if (list->instr[i].queue != in->queue) continue;
        push(c, n, at.rank, i, pst_queue_computes(in->queue));
        return;
    }
}

int pst_checker_caused(const pst_checker *c, uint32_t rank, uint32_t x, uint32_t y) {
    uint32_t n = 0, last = c->job->n_rank - 1;
    memset(c->seen, 0, c->instr_first[last] + c->job->list[last].n_instr);
    push(c, &n, rank, y, 0);
    while (n) {
        pst_moment at = c->stack[--n];
        const pst_instr *in = &c->job->list[at.rank].instr[at.index];
        if (!at.is_end) {
            push_causes_of_issue(c, &n, at);
            continue;
        }
        if (at.rank == rank && at.index == x) return 1;
        push(c, &n, at.rank, at.index, 0);
        if (in->opcode == PST_OP_RECV)
            push(c, &n, in->peer, c->walk->partner[at.rank][at.index], 1);
    }
    return 0;
}

pst_status pst_checker_need(const pst_checker *c, uint32_t rank, uint32_t x, uint32_t y) {
    if (pst_checker_before(c, rank, x, y)) return PST_OK;
    return pst_checker_fail(c, rank, y, "does not wait for", x);
}

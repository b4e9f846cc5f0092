/* Algorithm `doubling` (recursive doubling): in each of log2(n) rounds, pairs exchange everything
 * they have; for small sizes. All-reduce: the partners of round k differ in bit k of their index,
 * and both add the same two operands. If n is no power of two, the members beyond the largest power
 * of two first send their data to a partner below it, and get the result from it at the end.
 * Barrier (dissemination): in round k, an empty message to the member 2^k further on. All-gather:
 * for powers of two only. */
#include "comm/collective/algorithm.h"

/* Rounds of an all-reduce, and the number of members that take part in them. */
static uint32_t rounds_of(uint32_t n) {
    uint32_t log = pst_coll_log2(n);
    return UINT64_C(1) << log == n ? log : log - 1;
}

static void doubling_plan(pst_coll_run *r) {
    uint32_t rounds = r->kind == PST_COLL_ALL_REDUCE ? rounds_of(r->n) : pst_coll_log2(r->n);
    if (r->kind == PST_COLL_ALL_REDUCE) {
        pst_coll_split(r, pst_coll_total(r), 2 * (rounds + UINT64_C(1)));
        r->n_step = r->n_segment * (3 * rounds + UINT64_C(3));
        r->n_seq = (uint32_t)(r->n_segment * (rounds + UINT64_C(2)));
        return;
    }
    pst_coll_split(r, 0, 0);
    r->n_step = 2 * rounds;
    r->n_seq = rounds;
}

/* Members beyond the largest power of two: their data goes to `peer` before the rounds, and the
 * result comes back after them. */
static void fold_step(const pst_coll_run *r, uint32_t rounds, uint64_t s, uint64_t at,
                      pst_coll_step *step) {
    uint32_t half = UINT32_C(1) << rounds, beyond = r->me >= half;
    uint64_t block = 3 * rounds + UINT64_C(3), begin = s * block, use = s * (rounds + UINT64_C(1));
    int before = at < 2;
    step->peer = beyond ? r->me - half : r->me + half;
    step->seq = (uint32_t)(s * (rounds + UINT64_C(2)) + (before ? 0 : rounds + UINT64_C(1)));
    pst_coll_op op = (at == 0) == beyond ? PST_COLL_SEND : PST_COLL_RECV;
    if (at == 1) op = PST_COLL_ADD;
    pst_coll_cover_all(r, step, op, s);
    if (!beyond && before) pst_coll_use_slot(r, step, use);
    if (!before) step->after[0] = beyond ? begin : begin + block - 2;
    else if (at == 1) step->after[0] = begin;
    if ((at == 1 && beyond) || (!beyond && r->me + half >= r->n)) step->op = PST_COLL_SKIP;
}

/* The step that read the use-th message from its slot. */
static uint64_t taken(uint32_t rounds, uint64_t use) {
    uint64_t s = use / (rounds + UINT64_C(1)), round = use % (rounds + UINT64_C(1));
    return s * (3 * rounds + UINT64_C(3)) + (round ? 3 * round + 1 : 1);
}

/* Steps of a segment: fold in (2), [SEND, RECV, ADD] * rounds, fold out. */
static void reduce_step(const pst_coll_run *r, uint64_t i, pst_coll_step *step) {
    uint32_t rounds = rounds_of(r->n);
    uint64_t block = 3 * rounds + UINT64_C(3), s = i / block, at = i % block, round = (at - 2) / 3,
             what = (at - 2) % 3;
    uint64_t use = s * (rounds + UINT64_C(1)) + (at < 2 ? 0 : 1 + round);
    if (at < 2 || at == block - 1) {
        fold_step(r, rounds, s, at, step);
    } else {
        step->peer = r->me ^ UINT32_C(1) << round;
        step->seq = (uint32_t)(s * (rounds + UINT64_C(2)) + 1 + round);
        static const pst_coll_op ops[] = {PST_COLL_SEND, PST_COLL_RECV, PST_COLL_ADD};
        pst_coll_cover_all(r, step, ops[what], s);
        if (what) pst_coll_use_slot(r, step, use);
        if (what == 0) step->after[0] = i - 1; /* the addition of the round before */
        if (what == 2) {
            step->after[0] = i - 1;
            step->after[1] = i - 2;
        }
        if (r->me >= UINT32_C(1) << rounds) step->op = PST_COLL_SKIP;
    }
    /* exists also if nothing is received: later steps depend on it */
    int takes_slot = at == 0 || (at < block - 1 && what == 1);
    if (takes_slot && use >= r->n_slot) step->after[1] = taken(rounds, use - r->n_slot);
}

static void barrier_step(const pst_coll_run *r, uint64_t i, pst_coll_step *step) {
    uint64_t remote = UINT64_C(1) << (i / 2);
    step->seq = (uint32_t)(i / 2);
    step->op = i % 2 ? PST_COLL_RECV : PST_COLL_SEND;
    step->peer =
        (uint32_t)(i % 2 ? (r->me + r->n - remote % r->n) % r->n : (r->me + remote) % r->n);
    step->after_all = step->op == PST_COLL_SEND;
}

/* Before round k a member has 2^k parts, beginning with its index with the last k bits cleared. */
static void gather_step(const pst_coll_run *r, uint64_t i, pst_coll_step *step) {
    uint32_t have = UINT32_C(1) << (i / 2);
    step->seq = (uint32_t)(i / 2);
    step->peer = r->me ^ have;
    uint32_t first = (i % 2 ? step->peer : r->me) & ~(have - 1);
    step->at = r->offset[first];
    step->bytes = r->offset[first + have] - step->at;
    step->op = i % 2 ? PST_COLL_RECV : PST_COLL_SEND;
    if (!step->bytes) step->op = PST_COLL_SKIP;
    step->after_all = i % 2 == 0;
}

static void doubling_step(const pst_coll_run *r, uint64_t i, pst_coll_step *step) {
    if (r->kind == PST_COLL_ALL_REDUCE) reduce_step(r, i, step);
    else if (r->kind == PST_COLL_BARRIER) barrier_step(r, i, step);
    else gather_step(r, i, step);
}

static const char *doubling_reject(const pst_coll_shape *s) {
    if (s->kind == PST_COLL_ALL_GATHER && s->n & (s->n - 1))
        return "the number of ranks is not a power of two";
    return NULL;
}

static void doubling_cost(const pst_coll_shape *s, pst_coll_cost *c) {
    double log = pst_coll_log2(s->n), remote = pst_coll_log2(s->n_host), bytes = (double)s->bytes;
    double fold = s->kind == PST_COLL_ALL_REDUCE && s->n & (s->n - 1) ? 1 : 0; /* pst_coll_log2
                                                                                  rounds up: one
                                                                                  round too many */
    if (s->kind == PST_COLL_BARRIER && remote > 0) remote = log;
    c->local_rounds = log + fold - remote;
    c->remote_rounds = remote;
    c->messages = 2 * (log + fold) * (1 + bytes / PST_COLL_SEGMENT);
    if (s->kind == PST_COLL_BARRIER) return;
    int gathers = s->kind == PST_COLL_ALL_GATHER;
    c->local_bytes = gathers ? bytes * s->max_per_host / s->n : (log + fold - remote) * bytes;
    if (remote > 0) c->remote_bytes = (gathers ? bytes : remote * bytes) * s->max_per_host;
    c->added = gathers ? 0 : log * bytes;
}

const pst_coll_algorithm pst_coll_doubling = {
    .name = "doubling",
    .kinds = PST_COLL_BIT(PST_COLL_BARRIER) | PST_COLL_BIT(PST_COLL_ALL_GATHER) |
             PST_COLL_BIT(PST_COLL_ALL_REDUCE),
    .reject = doubling_reject,
    .cost = doubling_cost,
    .plan = doubling_plan,
    .step = doubling_step,
};

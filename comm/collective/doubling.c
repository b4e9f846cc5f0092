/* Algorithm `doubling`: log2(n) turns, in each of which pairs exchange all they have; for what is
 * small. All-reduce: the partners of turn k differ in bit k, and both compute the same sum of two
 * equal halves; where n is no power of two, the members beyond the last one add to those at the
 * beginning first, and get the result from them. Barrier (dissemination): in turn k, a word to the
 * member 2^k further. All-gather: for powers of two. */
#include "comm/collective/algorithm.h"

/* Turns of an all-reduce, and how many members take part in them. */
static uint32_t turns_of(uint32_t n) {
    uint32_t log = pst_coll_log2(n);
    return UINT64_C(1) << log == n ? log : log - 1;
}

static void doubling_plan(pst_coll_run *r) {
    uint32_t turns = r->kind == PST_COLL_ALL_REDUCE ? turns_of(r->n) : pst_coll_log2(r->n);
    if (r->kind == PST_COLL_ALL_REDUCE) {
        pst_coll_cut(r, pst_coll_total(r), 2 * (turns + UINT64_C(1)));
        r->n_step = r->n_segment * (3 * turns + UINT64_C(3));
        r->n_seq = (uint32_t)(r->n_segment * (turns + UINT64_C(2)));
        return;
    }
    pst_coll_cut(r, 0, 0);
    r->n_step = 2 * turns;
    r->n_seq = turns;
}

/* Members beyond the last power of two: what they have goes to `peer` before the turns, and comes
 * back behind them. */
static void fold_step(const pst_coll_run *r, uint32_t turns, uint64_t s, uint64_t at,
                      pst_coll_step *step) {
    uint32_t half = UINT32_C(1) << turns, beyond = r->me >= half;
    uint64_t block = 3 * turns + UINT64_C(3), begin = s * block, use = s * (turns + UINT64_C(1));
    int before = at < 2;
    step->peer = beyond ? r->me - half : r->me + half;
    step->seq = (uint32_t)(s * (turns + UINT64_C(2)) + (before ? 0 : turns + UINT64_C(1)));
    pst_coll_op op = (at == 0) == beyond ? PST_COLL_SEND : PST_COLL_RECV;
    if (at == 1) op = PST_COLL_ADD;
    pst_coll_cover_all(r, step, op, s);
    if (!beyond && before) pst_coll_use_slot(r, step, use);
    if (!before) step->after[0] = beyond ? begin : begin + block - 2;
    else if (at == 1) step->after[0] = begin;
    if ((at == 1 && beyond) || (!beyond && r->me + half >= r->n)) step->op = PST_COLL_SKIP;
}

/* The step that took the use-th message out of its slot. */
static uint64_t taken(uint32_t turns, uint64_t use) {
    uint64_t s = use / (turns + UINT64_C(1)), turn = use % (turns + UINT64_C(1));
    return s * (3 * turns + UINT64_C(3)) + (turn ? 3 * turn + 1 : 1);
}

/* Steps of a segment: fold in (2), [SEND, RECV, ADD] * turns, fold out. */
static void reduce_step(const pst_coll_run *r, uint64_t i, pst_coll_step *step) {
    uint32_t turns = turns_of(r->n);
    uint64_t block = 3 * turns + UINT64_C(3), s = i / block, at = i % block, turn = (at - 2) / 3,
             what = (at - 2) % 3;
    uint64_t use = s * (turns + UINT64_C(1)) + (at < 2 ? 0 : 1 + turn);
    if (at < 2 || at == block - 1) {
        fold_step(r, turns, s, at, step);
    } else {
        step->peer = r->me ^ UINT32_C(1) << turn;
        step->seq = (uint32_t)(s * (turns + UINT64_C(2)) + 1 + turn);
        static const pst_coll_op ops[] = {PST_COLL_SEND, PST_COLL_RECV, PST_COLL_ADD};
        pst_coll_cover_all(r, step, ops[what], s);
        if (what) pst_coll_use_slot(r, step, use);
        if (what == 0) step->after[0] = i - 1; /* the addition before */
        if (what == 2) {
            step->after[0] = i - 1;
            step->after[1] = i - 2;
        }
        if (r->me >= UINT32_C(1) << turns) step->op = PST_COLL_SKIP;
    }
    int takes_slot = at == 0 || (at < block - 1 && what == 1); /* also where there is nothing to
                                                                  receive: others follow */
    if (takes_slot && use >= r->n_slot) step->after[1] = taken(turns, use - r->n_slot);
}

static void barrier_step(const pst_coll_run *r, uint64_t i, pst_coll_step *step) {
    uint64_t far = UINT64_C(1) << (i / 2);
    step->seq = (uint32_t)(i / 2);
    step->op = i % 2 ? PST_COLL_RECV : PST_COLL_SEND;
    step->peer = (uint32_t)(i % 2 ? (r->me + r->n - far % r->n) % r->n : (r->me + far) % r->n);
    step->after_all = step->op == PST_COLL_SEND;
}

/* Before turn k, a member has the 2^k parts from its number with the last k bits cleared. */
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
    if (s->kind == PST_COLL_ALL_GATHER && s->n & (s->n - 1)) return "the group is no power of two";
    return NULL;
}

static void doubling_cost(const pst_coll_shape *s, pst_coll_cost *c) {
    double log = pst_coll_log2(s->n), far = pst_coll_log2(s->n_host), bytes = (double)s->bytes;
    double fold = s->kind == PST_COLL_ALL_REDUCE && s->n & (s->n - 1) ? 1 : 0; /* log has counted
                                                                                  one of two */
    if (s->kind == PST_COLL_BARRIER && far > 0) far = log;
    c->near_turns = log + fold - far;
    c->far_turns = far;
    c->messages = 2 * (log + fold) * (1 + bytes / PST_COLL_SEGMENT);
    if (s->kind == PST_COLL_BARRIER) return;
    int gathers = s->kind == PST_COLL_ALL_GATHER;
    c->near_bytes = gathers ? bytes * s->most / s->n : (log + fold - far) * bytes;
    if (far > 0) c->far_bytes = (gathers ? bytes : far * bytes) * s->most;
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

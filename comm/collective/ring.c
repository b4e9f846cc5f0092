/* Algorithm `ring`: each member exchanges with its two neighbours only, so between hosts every link
 * carries the data once. Reduce-scatter: part p starts at p + 1 and is added to at p + 2 ... p.
 * All-gather: the parts go round once more. A broadcast goes along a chain from the root. All work
 * in segments: the first segment of a round is sent on while the last one arrives.
 *
 * Per round and segment: SEND, RECV, ADD while adding, then SEND, RECV. */
#include "comm/collective/algorithm.h"

static int adds(const pst_coll_run *r) { return pst_coll_adds(r->kind); }

static int gathers(const pst_coll_run *r) {
    return r->kind == PST_COLL_ALL_GATHER || r->kind == PST_COLL_ALL_REDUCE;
}

static uint32_t minus(const pst_coll_run *r, uint64_t k) {
    return (uint32_t)((r->me + 2 * (uint64_t)r->n - k) % r->n);
}

static void ring_plan(pst_coll_run *r) {
    uint64_t rounds = r->n - 1;
    if (r->kind == PST_COLL_BROADCAST) {
        pst_coll_split(r, pst_coll_total(r), 0);
        r->n_step = 2 * r->n_segment;
        r->n_seq = (uint32_t)r->n_segment;
        return;
    }
    pst_coll_split(r, pst_coll_largest(r), 4);
    r->n_step = rounds * r->n_segment * (3 * (uint64_t)adds(r) + 2 * (uint64_t)gathers(r));
    r->n_seq = (uint32_t)(rounds * r->n_segment * (UINT64_C(0) + !!adds(r) + !!gathers(r)));
}

/* RECV from the previous member, SEND to the next; the chain ends before the root. */
static void chain_step(const pst_coll_run *r, uint64_t i, pst_coll_step *step) {
    uint32_t node = (r->me + r->n - r->root) % r->n;
    int is_send = i % 2 != 0;
    step->seq = (uint32_t)(i / 2);
    step->peer = is_send ? (r->me + 1) % r->n : minus(r, 1);
    pst_coll_cover_all(r, step, is_send ? PST_COLL_SEND : PST_COLL_RECV, i / 2);
    if (is_send) step->after[0] = i - 1;
    if (is_send ? node + 1 == r->n : !node) step->op = PST_COLL_SKIP;
}

static void adding_step(const pst_coll_run *r, uint64_t i, pst_coll_step *step) {
    uint64_t use = i / 3, round = use / r->n_segment, s = use % r->n_segment;
    step->seq = (uint32_t)use;
    if (i % 3 == 0) {
        step->peer = (r->me + 1) % r->n;
        pst_coll_cover_part(r, step, PST_COLL_SEND, minus(r, round + 1), s);
        if (round) step->after[0] = 3 * (use - r->n_segment) + 2;
        return;
    }
    step->peer = minus(r, 1);
    pst_coll_cover_part(r, step, i % 3 == 1 ? PST_COLL_RECV : PST_COLL_ADD, minus(r, round + 2), s);
    pst_coll_use_slot(r, step, use);
    if (i % 3 == 2) step->after[0] = i - 1;
    else if (use >= r->n_slot) step->after[0] = 3 * (use - r->n_slot) + 2;
}

/* `begin`: the first step of this phase. Each part received here was sent in the adding round of
 * the same number. */
static void gathering_step(const pst_coll_run *r, uint64_t begin, uint64_t i, pst_coll_step *step) {
    uint64_t use = i / 2, round = use / r->n_segment, s = use % r->n_segment;
    int is_send = i % 2 == 0;
    step->seq = (uint32_t)(begin / 3 + use);
    step->peer = is_send ? (r->me + 1) % r->n : minus(r, 1);
    pst_coll_cover_part(r, step, is_send ? PST_COLL_SEND : PST_COLL_RECV,
                        minus(r, round + !is_send), s);
    if (is_send && round) step->after[0] = begin + 2 * (use - r->n_segment) + 1;
    else if (is_send && begin) step->after[0] = begin - 3 * (r->n_segment - s) + 2;
    else if (!is_send && begin) step->after[0] = 3 * use;
}

static void ring_step(const pst_coll_run *r, uint64_t i, pst_coll_step *step) {
    uint64_t begin = adds(r) ? 3 * (r->n - UINT64_C(1)) * r->n_segment : 0;
    if (r->kind == PST_COLL_BROADCAST) chain_step(r, i, step);
    else if (i < begin) adding_step(r, i, step);
    else gathering_step(r, begin, i - begin, step);
}

static void ring_cost(const pst_coll_shape *s, pst_coll_cost *c) {
    double n = s->n, bytes = (double)s->bytes, phases = s->kind == PST_COLL_ALL_REDUCE ? 2 : 1,
           each = bytes / n;
    double rounds = phases * (n - 1);
    if (s->kind == PST_COLL_BROADCAST) each = bytes < PST_COLL_SEGMENT ? bytes : PST_COLL_SEGMENT;
    double volume = s->kind == PST_COLL_BROADCAST ? bytes + (n - 2) * each : rounds * each;
    int remote = s->n_host > 1;
    c->local_rounds = remote ? 0 : rounds;
    c->remote_rounds = remote ? rounds : 0;
    c->messages = 2 * volume / (each < PST_COLL_SEGMENT ? each + 1 : PST_COLL_SEGMENT) + 2 * rounds;
    c->local_bytes = volume;
    c->remote_bytes = remote ? volume : 0;
    c->added = pst_coll_adds(s->kind) ? bytes * (n - 1) / n : 0;
}

const pst_coll_algorithm pst_coll_ring = {
    .name = "ring",
    .kinds = PST_COLL_BIT(PST_COLL_ALL_REDUCE) | PST_COLL_BIT(PST_COLL_REDUCE_SCATTER) |
             PST_COLL_BIT(PST_COLL_ALL_GATHER) | PST_COLL_BIT(PST_COLL_BROADCAST),
    .cost = ring_cost,
    .plan = ring_plan,
    .step = ring_step,
};

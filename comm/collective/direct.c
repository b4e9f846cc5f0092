/* Algorithm `direct`: every member sends to every other, and the owner of a part adds. A
 * reduce-scatter, an all-gather or an all-to-all takes one round. An all-reduce takes two: the
 * owner sends the sum of one segment while the next segment arrives. The sum of member p's part is
 * p's own + p+1's + p+2's ... (mod n).
 *
 * Per segment, with m = n - 1: SEND * m of the parts of other owners, [RECV, ADD] * m; one segment
 * later SEND * m of the sum, RECV * m of the others' sums. */
#include "comm/collective/algorithm.h"

static uint32_t above(const pst_coll_run *r, uint64_t k) { return (uint32_t)((r->me + k) % r->n); }

static uint32_t below(const pst_coll_run *r, uint64_t k) {
    return (uint32_t)((r->me + r->n - k) % r->n);
}

/* Steps per segment: inwards (to the owners), outwards (from them). */
static uint64_t inwards(const pst_coll_run *r) {
    return r->kind == PST_COLL_ALL_GATHER ? 0 : 3 * (r->n - UINT64_C(1));
}

static uint64_t outwards(const pst_coll_run *r) {
    return r->kind == PST_COLL_ALL_GATHER || r->kind == PST_COLL_ALL_REDUCE
               ? 2 * (r->n - UINT64_C(1))
               : 0;
}

static void direct_plan(pst_coll_run *r) {
    uint64_t m = r->n - 1, in = inwards(r), out = outwards(r), largest = pst_coll_largest(r);
    uint64_t fair = m ? PST_COLL_SCRATCH / m / 64 * 64 : PST_COLL_SEGMENT;
    if (r->kind == PST_COLL_ALL_TO_ALL && r->segment > fair)
        r->segment = fair < PST_COLL_MIN_SEGMENT ? PST_COLL_MIN_SEGMENT : fair;
    pst_coll_split(r, largest, 2 * m);
    if (r->kind == PST_COLL_ALL_TO_ALL && r->n_slot < m)
        r->n_slot = m; /* the collective segment must have arrived, or ranks could wait for each
                          other in a circle */
    r->n_step = (r->n_segment + (in && out)) * (in + out);
    r->n_seq = (uint32_t)(r->n_segment * (UINT64_C(0) + !!in + !!out));
}

/* SEND to below(k), then [RECV, ADD] from above(k); in an all-to-all COPY instead of ADD, once the
 * old content was sent. */
static void step_inwards(const pst_coll_run *r, uint64_t s, uint64_t at, pst_coll_step *step) {
    uint64_t m = r->n - 1, block = inwards(r) + outwards(r), begin = s * block;
    uint64_t k = at < m ? at + 1 : (at - m) / 2 + 1, use = s * m + k - 1;
    int exchange = r->kind == PST_COLL_ALL_TO_ALL, is_recv = (at - m) % 2 == 0;
    step->seq = (uint32_t)s;
    step->peer = at < m ? below(r, k) : above(r, k);
    if (at < m) {
        pst_coll_cover_part(r, step, PST_COLL_SEND, step->peer, s);
        return;
    }
    pst_coll_op op = exchange ? PST_COLL_COPY : PST_COLL_ADD;
    if (is_recv) op = PST_COLL_RECV;
    pst_coll_cover_part(r, step, op, exchange ? step->peer : r->me, s);
    pst_coll_use_slot(r, step, use);
    if (is_recv && use >= r->n_slot) {
        uint64_t before = use - r->n_slot;
        step->after[0] = before / m * block + m + before % m * 2 + 1;
    } else if (!is_recv) {
        step->after[0] = begin + at - 1;
        if (exchange) step->after[1] = begin + (r->n - k) - 1;
        else if (k > 1) step->after[1] = begin + at - 2;
    }
}

/* A part that is received here was sent inwards before. */
static void step_outwards(const pst_coll_run *r, uint64_t s, uint64_t at, pst_coll_step *step) {
    uint64_t m = r->n - 1, block = inwards(r) + outwards(r), k = at < m ? at + 1 : at - m + 1;
    int added = inwards(r) != 0;
    step->seq = (uint32_t)(s + (added ? r->n_segment : 0));
    step->peer = at < m ? below(r, k) : above(r, k);
    pst_coll_cover_part(r, step, at < m ? PST_COLL_SEND : PST_COLL_RECV,
                        at < m ? r->me : step->peer, s);
    if (added) step->after[0] = s * block + (at < m ? 3 * m - 1 : r->n - k - 1);
}

static void direct_step(const pst_coll_run *r, uint64_t i, pst_coll_step *step) {
    uint64_t in = inwards(r), block = in + outwards(r), round = i / block, at = i % block;
    if (at < in) step_inwards(r, round, at, step);
    else if (in && !round) step->op = PST_COLL_SKIP;
    else step_outwards(r, in ? round - 1 : round, at - in, step);
}

static void direct_cost(const pst_coll_shape *s, pst_coll_cost *c) {
    double halves = s->kind == PST_COLL_ALL_REDUCE ? 2 : 1, n = s->n, bytes = (double)s->bytes;
    double segments = 1 + bytes / n / PST_COLL_SEGMENT;
    int remote = s->n_host > 1;
    c->local_rounds = remote ? 0 : halves;
    c->remote_rounds = remote ? halves : 0;
    c->messages = 2 * halves * (n - 1) * segments;
    c->local_bytes = halves * bytes * (s->max_per_host - 1) / n;
    c->remote_bytes = halves * bytes * s->max_per_host * (n - s->max_per_host) / n;
    c->added = pst_coll_adds(s->kind) ? bytes * (n - 1) / n : 0;
}

const pst_coll_algorithm pst_coll_direct = {
    .name = "direct",
    .kinds = PST_COLL_BIT(PST_COLL_ALL_REDUCE) | PST_COLL_BIT(PST_COLL_REDUCE_SCATTER) |
             PST_COLL_BIT(PST_COLL_ALL_GATHER) | PST_COLL_BIT(PST_COLL_ALL_TO_ALL),
    .cost = direct_cost,
    .plan = direct_plan,
    .step = direct_step,
};

/* Algorithm `shared`: `direct` over shared memory (comm/collective/outbox.c). A member puts the
 * parts of other owners into its outbox, and the owners add them from there; the sums go back the
 * same way. An empty message announces each entry: it wakes a rank that sleeps, and shows in the
 * position that others read. The order of additions is that of `direct`.
 *
 * Per segment, with m = n - 1: [PUT, SEND] * m of the parts of other owners, [RECV, ADD] * m; one
 * segment later PUT, SEND * m, [RECV, COPY] * m of the sums. An outbox slot is reused ROUNDS
 * segments later: by then its reader has sent a message that it sends after reading. */
#include "comm/collective/algorithm.h"
#include "comm/collective/outbox.h"

enum { ROUNDS = PST_COLL_OUTBOX_ROUNDS };

static uint32_t above(const pst_coll_run *r, uint64_t k) { return (uint32_t)((r->me + k) % r->n); }

static uint32_t below(const pst_coll_run *r, uint64_t k) {
    return (uint32_t)((r->me + r->n - k) % r->n);
}

static uint64_t inwards(const pst_coll_run *r) { return 4 * (r->n - UINT64_C(1)); }

static uint64_t block(const pst_coll_run *r) { return inwards(r) + 3 * (r->n - UINT64_C(1)) + 1; }

static void shared_plan(pst_coll_run *r) {
    r->segment = pst_coll_outbox_segment(r->n);
    pst_coll_split(r, pst_coll_largest(r), 0);
    r->slot_bytes = r->segment;
    r->n_step = (r->n_segment + 1) * block(r);
    r->n_seq = (uint32_t)(2 * r->n_segment);
}

/* The slot with the data for the member k below; k 0: the slot of the sum. */
static uint64_t place(const pst_coll_run *r, uint64_t s, uint64_t k) {
    return s % ROUNDS * r->n + k;
}

static void token(pst_coll_step *step, uint64_t seq) {
    step->seq = (uint32_t)seq;
    step->bytes = step->at = 0;
    step->in_slot = 0;
}

/* The RECV from above(k) that announces its sum of segment s. */
static uint64_t added_by(const pst_coll_run *r, uint64_t s, uint64_t k) {
    return (s + 1) * block(r) + inwards(r) + r->n + 2 * (k - 1);
}

/* The member k below is also the member n - k above. */
static void step_inwards(const pst_coll_run *r, uint64_t s, uint64_t at, pst_coll_step *step) {
    uint64_t m = r->n - 1, begin = s * block(r), k = at < 2 * m ? at / 2 + 1 : (at - 2 * m) / 2 + 1;
    int second = at % 2;
    if (at < 2 * m) {
        step->peer = below(r, k);
        pst_coll_cover_part(r, step, second ? PST_COLL_SEND : PST_COLL_PUT, step->peer, s);
        step->slot = place(r, s, k);
        if (second) step->after[0] = begin + at - 1;
        /* The reader of the old segment has announced its sum, so it has read the slot. */
        if (s >= ROUNDS) step->after[1] = added_by(r, s - ROUNDS, r->n - k) + (uint64_t)second;
    } else {
        step->peer = above(r, k);
        pst_coll_cover_part(r, step, second ? PST_COLL_ADD : PST_COLL_RECV, r->me, s);
        step->in_slot = PST_COLL_OF_PEER;
        step->slot = place(r, s, k);
        if (second) step->after[0] = begin + at - 1;
        if (second && k > 1) step->after[1] = begin + at - 2;
    }
    if (step->op == PST_COLL_SEND || step->op == PST_COLL_RECV) token(step, s);
}

static void step_outwards(const pst_coll_run *r, uint64_t s, uint64_t at, pst_coll_step *step) {
    uint64_t m = r->n - 1, in = s * block(r), out = (s + 1) * block(r) + inwards(r);
    if (at <= m) {
        step->peer = at ? below(r, at) : r->me;
        pst_coll_cover_part(r, step, at ? PST_COLL_SEND : PST_COLL_PUT, r->me, s);
        step->slot = place(r, s, 0);
        step->after[0] = at ? out : in + inwards(r) - 1;
    } else {
        uint64_t k = (at - m - 1) / 2 + 1;
        int second = (at - m - 1) % 2;
        step->peer = above(r, k);
        pst_coll_cover_part(r, step, second ? PST_COLL_COPY : PST_COLL_RECV, step->peer, s);
        step->in_slot = PST_COLL_OF_PEER;
        step->slot = place(r, s, 0);
        if (second) step->after[0] = out + at - 1;
        if (second)
            step->after[1] = in + 2 * (r->n - k - 1); /* the old content at that place was put into
                                                         the outbox */
    }
    if (step->op == PST_COLL_SEND || step->op == PST_COLL_RECV) token(step, r->n_segment + s);
}

static void shared_step(const pst_coll_run *r, uint64_t i, pst_coll_step *step) {
    uint64_t round = i / block(r), at = i % block(r);
    if (at < inwards(r)) step_inwards(r, round, at, step);
    else if (!round) step->op = PST_COLL_SKIP;
    else step_outwards(r, round - 1, at - inwards(r), step);
}

static const char *shared_reject(const pst_coll_shape *s) {
    return s->shared ? NULL : "the ranks share no memory";
}

static void shared_cost(const pst_coll_shape *s, pst_coll_cost *c) {
    double n = s->n, part = (double)s->bytes / n,
           segments = 1 + part / (double)pst_coll_outbox_segment(s->n);
    c->local_rounds = 2;
    c->messages = 4 * (n - 1) * segments;
    c->added = 3 * (n - 1) * part + part;
}

const pst_coll_algorithm pst_coll_shared = {
    .name = "shared",
    .kinds = PST_COLL_BIT(PST_COLL_ALL_REDUCE),
    .reject = shared_reject,
    .cost = shared_cost,
    .plan = shared_plan,
    .step = shared_step,
};

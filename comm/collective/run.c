/* The state machine that runs the steps of a collective (comm/collective/algorithm.h). */
#include "comm/collective/run.h"
#include <string.h>

/* After an addition or copy of this many bytes, the transport is polled before the next step. */
enum { LONG_BYTES = 64 << 10 };

static pst_coll_window_step *at_step(pst_coll *c, uint64_t i) {
    return &c->window[i % PST_COLL_WINDOW((uint64_t)c->n)];
}

static int is_done(pst_coll *c, uint64_t i) {
    return i == PST_COLL_NO_STEP || i < c->first ||
           (i < c->end && at_step(c, i)->state == PST_COLL_DONE);
}

static int is_ready(pst_coll *c, uint64_t i, const pst_coll_step *s) {
    return (!s->after_all || c->first == i) && is_done(c, s->after[0]) && is_done(c, s->after[1]) &&
           is_done(c, s->after[2]);
}

static void *slot_of(const pst_coll *c, const pst_coll_step *s) {
    if (s->in_slot == PST_COLL_OF_PEER) return pst_coll_outbox_slot(c->outboxes, s->peer, s->slot);
    return c->scratch + s->slot * c->run[c->current].slot_bytes;
}

static pst_status post(pst_coll *c, pst_coll_window_step *w) {
    const pst_coll_step *s = &w->step;
    const pst_coll_run *run = &c->run[c->current];
    pst_transfer transfer = {.kind = s->op == PST_COLL_SEND ? PST_TRANSFER_SEND : PST_TRANSFER_RECV,
                             .peer = run->rank[s->peer],
                             .channel = c->channel,
                             .seq = c->seq + run->seq + s->seq,
                             .mem = s->in_slot ? slot_of(c, s) : c->mem + s->at,
                             .bytes = s->bytes};
    PST_TRY(c->t->ops->post(c->t, &transfer, &w->request));
    w->state = PST_COLL_UNDER_WAY;
    w->message = pst_coll_publish_post(c, &transfer);
    c->n_open++;
    return PST_OK;
}

/* Starts a step whose dependencies are done. */
static pst_status begin(pst_coll *c, pst_coll_window_step *w) {
    const pst_coll_step *s = &w->step;
    w->state = PST_COLL_DONE;
    switch (s->op) {
    case PST_COLL_SKIP: break;
    case PST_COLL_SEND:
    case PST_COLL_RECV: return post(c, w);
    case PST_COLL_PUT:
        memcpy(pst_coll_outbox_slot(c->outboxes, c->me, s->slot), c->mem + s->at, s->bytes);
        break;
    case PST_COLL_ADD: pst_coll_add(c->dtype, c->mem + s->at, slot_of(c, s), s->bytes); break;
    case PST_COLL_COPY: memcpy(c->mem + s->at, slot_of(c, s), s->bytes); break;
    }
    return PST_OK;
}

/* Tests the transfers under way. *moved: the number that have completed. */
static pst_status test_transfers(pst_coll *c, uint32_t *moved) {
    uint64_t waits = 0;
    if (c->n_open) c->t->ops->progress(c->t);
    for (uint64_t i = c->first; i < c->end && c->n_open; i++) {
        pst_coll_window_step *w = at_step(c, i);
        uint64_t end_ns;
        if (w->state != PST_COLL_UNDER_WAY) continue;
        pst_status status = c->t->ops->test(c->t, w->request, &end_ns);
        if (status == PST_BUSY) {
            if (!waits) waits = w->message;
            continue;
        }
        if (status == PST_EINPUT) c->mismatch = w->message;
        w->state = PST_COLL_DONE;
        c->n_open--;
        ++*moved;
        pst_position_move(c->position);
        if (status != PST_OK) return status;
    }
    if (c->n_open) PST_POSITION_SET(c->position, coll_wait, waits);
    return PST_OK;
}

/* Starts every step that is ready, but returns after a long addition or copy, so that arrivals are
 * noticed and the next segment gets under way. */
static pst_status begin_ready(pst_coll *c, uint32_t *moved) {
    const pst_coll_run *run = &c->run[c->current];
    for (uint64_t i = c->first; i < run->n_step && i < c->first + PST_COLL_WINDOW((uint64_t)c->n);
         i++) {
        pst_coll_window_step *w = at_step(c, i);
        if (i == c->end) {
            *w = (pst_coll_window_step){
                .step.after = {PST_COLL_NO_STEP, PST_COLL_NO_STEP, PST_COLL_NO_STEP}};
            run->algorithm->step(run, i, &w->step);
            c->end++;
        }
        if (w->state == PST_COLL_WAITS && is_ready(c, i, &w->step)) {
            PST_TRY(begin(c, w));
            ++*moved;
            if (w->step.op >= PST_COLL_PUT && w->step.bytes >= LONG_BYTES) break;
        }
        if (i == c->first && w->state == PST_COLL_DONE) c->first++;
    }
    while (c->first < c->end && at_step(c, c->first)->state == PST_COLL_DONE) c->first++;
    return PST_OK;
}

/* OK: all runs are done. */
static pst_status advance(pst_coll *c) {
    pst_position_poll(c->position);
    for (;;) {
        uint32_t moved = 0;
        PST_TRY(test_transfers(c, &moved));
        PST_TRY(begin_ready(c, &moved));
        if (c->first == c->run[c->current].n_step) {
            c->first = c->end = 0;
            if (++c->current == c->n_run) return PST_OK;
        } else if (!moved) {
            return PST_BUSY;
        }
    }
}

pst_status pst_coll_test(pst_coll *c) {
    if (c->broken != PST_OK) return pst_fail(c->broken, "an earlier collective failed");
    while (c->current != c->n_run) {
        pst_status status = advance(c);
        if (status == PST_BUSY) return status;
        if (status != PST_OK) {
            c->broken = status; /* keep the position in the failed collective, for other ranks to
                                   read */
            return status;
        }
        pst_coll_publish(c, PST_AT_HOST);
        for (uint32_t i = 0; i < c->n_run; i++)
            c->seq += c->run[i].n_seq; /* message numbers are used once */
        if (c->outboxes && !c->shared) PST_TRY(pst_coll_share_next(c));
    }
    return PST_OK;
}

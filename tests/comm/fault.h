/* Fault injection: wraps a transport and drops, delays or fails chosen posts. Every request is
 * tracked here so that what was never handed to the inner transport can still be tested. */
#ifndef TESTS_COMM_FAULT_H
#define TESTS_COMM_FAULT_H
#include "base/wrapper.h"
#include <stdlib.h>

/* Wraps a transport (not owned); the n-th post, counted from 1, is dropped, delayed by polls of
 * progress, or fails. 0: never. */
typedef struct {
    uint64_t fail_post, drop_post, delay_polls;
} pst_fault_spec;

typedef enum { HELD, POSTED, DROPPED, BROKEN } fault_state;

typedef struct fault_request fault_request;
struct fault_request {
    fault_request *next;
    fault_state state;
    pst_transfer transfer;
    uint64_t polls_left; /* HELD */
    uint64_t inner;      /* POSTED */
    pst_status status;   /* BROKEN: what the inner post said when its time came */
};

typedef struct {
    pst_wrapper wrap; /* first */
    pst_fault_spec spec;
    uint64_t posts;
    fault_request *first, **last; /* all open requests in post order */
} fault_transport;

static const char *fault_reject(const pst_world *world) {
    (void)world;
    return "it only wraps another transport";
}

static pst_status fault_open(pst_world *world, const pst_clock *clock, pst_transport **transport) {
    (void)world;
    (void)clock;
    (void)transport;
    return pst_fail(PST_EINPUT, "transport fault: %s", fault_reject(NULL));
}

static void hand_over(fault_transport *f, fault_request *r) {
    r->status = f->wrap.inner->ops->post(f->wrap.inner, &r->transfer, &r->inner);
    r->state = r->status == PST_OK ? POSTED : BROKEN;
}

static pst_status fault_post(pst_transport *t, const pst_transfer *transfer, uint64_t *id) {
    fault_transport *f = (fault_transport *)t;
    uint64_t n = ++f->posts;
    if (n == f->spec.fail_post)
        return pst_fail(PST_EPEER, "injected: post %llu fails", (unsigned long long)n);
    fault_request *r = calloc(1, sizeof *r);
    if (!r) return pst_fail(PST_ENOMEM, "no memory for a transfer");
    r->transfer = *transfer;
    r->polls_left = f->spec.delay_polls;
    if (n == f->spec.drop_post) r->state = DROPPED;
    else if (!r->polls_left) hand_over(f, r);
    if (r->state == BROKEN) {
        pst_status status = r->status;
        free(r);
        return status;
    }
    *f->last = r;
    f->last = &r->next;
    *id = (uint64_t)(uintptr_t)r;
    return PST_OK;
}

/* Every poll of the transport brings the held posts nearer; they leave in post order. */
static uint32_t release_held(fault_transport *f) {
    uint32_t moved = 0;
    for (fault_request *r = f->first; r; r = r->next)
        if (r->state == HELD && --r->polls_left == 0) {
            hand_over(f, r);
            moved++;
        }
    return moved;
}

static uint32_t held(const fault_transport *f) {
    uint32_t n = 0;
    for (const fault_request *r = f->first; r; r = r->next) n += r->state == HELD;
    return n;
}

static void forget(fault_transport *f, fault_request *r) {
    fault_request **link = &f->first;
    while (*link != r) link = &(*link)->next;
    *link = r->next;
    if (!r->next) f->last = link;
    free(r);
}

static pst_status fault_test(pst_transport *t, uint64_t id, uint64_t *end_ns) {
    fault_transport *f = (fault_transport *)t;
    fault_request *r = (fault_request *)(uintptr_t)id;
    pst_status status = PST_BUSY;
    if (r->state == POSTED) status = f->wrap.inner->ops->test(f->wrap.inner, r->inner, end_ns);
    else if (r->state == BROKEN) status = pst_fail(r->status, "a delayed post failed");
    if (status != PST_BUSY) forget(f, r);
    return status;
}

static uint32_t fault_progress(pst_transport *t) {
    fault_transport *f = (fault_transport *)t;
    /* a countdown is something that moves: no deadlock, no sleep */
    uint32_t moved = release_held(f) + held(f);
    return moved + pst_wrapper_progress(t);
}

static pst_status fault_arm(pst_transport *t, int *fd) {
    fault_transport *f = (fault_transport *)t;
    return held(f) ? PST_BUSY : pst_wrapper_arm(t, fd);
}

/* The inner transport is not ours and stays open. */
static void fault_close(pst_transport *t) {
    fault_transport *f = (fault_transport *)t;
    while (f->first) forget(f, f->first);
    free(f);
}

static const pst_transport_ops fault_ops = {
    .name = "fault",
    .reject = fault_reject,
    .open = fault_open,
    .post = fault_post,
    .test = fault_test,
    .progress = fault_progress,
    .next_ns = pst_wrapper_next_ns,
    .arm = fault_arm,
    .abort = pst_wrapper_abort,
    .close = fault_close,
};

static inline pst_status pst_transport_fault_open(pst_transport *inner, const pst_fault_spec *spec,
                                                  pst_transport **t) {
    fault_transport *f = calloc(1, sizeof *f);
    if (!f) return pst_fail(PST_ENOMEM, "no memory for a transport");
    f->wrap = pst_wrapper_of(inner, &fault_ops);
    f->spec = *spec;
    f->last = &f->first;
    *t = &f->wrap.base;
    return PST_OK;
}
#endif

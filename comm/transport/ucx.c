/* Transport `ucx`: processes with one rank each, over UCX's tag-matched messages (shared memory and
 * CMA on one host, RDMA or TCP between hosts). UCX does not report a dead peer (error mode none,
 * the only one that allows shared memory): the heartbeat finds it, and `abort` leaves without
 * flushing. One thread per transport. */
#include "comm/transport/ucx_guard.h"
#include "comm/transport/ucx_parts.h"
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum { TIMER_SLACK_NS = 1000, CLOSE_MS = 500, PROGRESS_ROUNDS = 64 };

static uint64_t message_tag(const pst_ucx *u, uint32_t source, uint32_t channel, uint32_t seq) {
    return ((uint64_t)source << 48 | (uint64_t)channel << 32 | seq) ^ u->mask;
}

/* --- open ------------------------------------------------------------------------------------- */

static const char *ucx_reject(const pst_world *world) {
    if (world->size == 1) return "the job has only one process, which needs no transport";
    return world->size > 65536 ? "more than 65536 ranks do not fit into a message tag" : NULL;
}

static pst_status ucx_open(pst_world *world, const pst_clock *clock, pst_transport **transport) {
    pst_ucx *u = calloc(1, sizeof *u);
    if (!u) return pst_fail(PST_ENOMEM, "no memory for a transport");
    u->base = (pst_transport){
        .ops = &pst_transport_ucx, .clock = clock, .rank = world->rank, .size = world->size};
    pst_ucx_undo_defaults();
    pst_ucx_guard_open();
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0); /* so that a sleep with a deadline ends on
                                                          time */
    u->ep = calloc(world->size, sizeof *u->ep);
    pst_status status =
        u->ep ? PST_OK : pst_fail(PST_ENOMEM, "no memory for %u peers", world->size);
    status = pst_ucx_connect(u, world, status);
    if (status != PST_OK) {
        pst_ucx_release(u);
        pst_ucx_guard_close();
    } else {
        *transport = &u->base;
    }
    return status;
}

/* --- calls that may move data ----------------------------------------------------------------- */

static pst_status fail_aborted(const pst_ucx *u) {
    if (u->lost)
        return pst_fail(PST_EPEER, "rank %u has lost a peer: %s", u->base.rank,
                        pst_ucx_guard_error());
    return pst_fail(PST_EPEER, "rank %u has closed its transport after a failure", u->base.rank);
}

__attribute__((noinline)) static uint32_t progress_worker(pst_ucx *u) {
    if (u->aborted) return 0;
    if (PST_UCX_GUARD()) {
        u->aborted = u->lost = 1; /* UCX was interrupted in the middle of a call, so it must not be
                                     called again */
        return 1;
    }
    uint32_t moved = ucp_worker_progress(u->worker);
    pst_ucx_guard_end();
    return moved;
}

/* --- requests --------------------------------------------------------------------------------- */

static pst_ucx_request *request_take(pst_ucx *u) {
    pst_ucx_request *r = u->free_list;
    if (r) {
        u->free_list = r->next;
        *r = (pst_ucx_request){.all = r->all};
    } else if ((r = calloc(1, sizeof *r))) {
        r->all = u->all;
        u->all = r;
    }
    if (r) r->owner = u;
    return r;
}

static void request_drop(pst_ucx *u, pst_ucx_request *r) {
    r->posted = 0;
    r->next = u->free_list;
    u->free_list = r;
}

static void complete(pst_ucx_request *r, ucs_status_t rc, uint64_t bytes) {
    r->done = 1;
    r->ucp = NULL;
    r->status = rc;
    r->bytes = bytes;
    r->end_ns = pst_clock_now(r->owner->base.clock);
    r->owner->untested++;
    r->owner->of_device -= r->transfer.of_device != 0;
}

static void on_sent(void *ucp, ucs_status_t rc, void *arg) {
    pst_ucx_request *r = arg;
    complete(r, rc, r->transfer.bytes);
    ucp_request_free(ucp);
}

static void on_received(void *ucp, ucs_status_t rc, const ucp_tag_recv_info_t *info, void *arg) {
    complete(arg, rc, rc == UCS_OK ? info->length : 0);
    ucp_request_free(ucp);
}

/* Completion always comes through the callback, even when it happens within the call. */
static ucs_status_ptr_t post_to_ucp(pst_ucx *u, pst_ucx_request *r) {
    const pst_transfer *x = &r->transfer;
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .user_data = r,
    };
    if (x->kind == PST_TRANSFER_SEND) {
        param.cb.send = on_sent;
        return ucp_tag_send_nbx(u->ep[x->peer], x->mem, x->bytes,
                                message_tag(u, u->base.rank, x->channel, x->seq), &param);
    }
    param.cb.recv = on_received;
    return ucp_tag_recv_nbx(u->worker, x->mem, x->bytes,
                            message_tag(u, x->peer, x->channel, x->seq), UINT64_MAX, &param);
}

/* Not inlined: after the jump back, variables of the caller could have wrong values. */
__attribute__((noinline)) static ucs_status_ptr_t post_guarded(pst_ucx *u, pst_ucx_request *r) {
    if (PST_UCX_GUARD()) {
        u->aborted = u->lost = 1;
        return NULL;
    }
    ucs_status_ptr_t ucp = post_to_ucp(u, r);
    pst_ucx_guard_end();
    return ucp;
}

static pst_status ucx_post(pst_transport *t, const pst_transfer *transfer, uint64_t *id) {
    pst_ucx *u = (pst_ucx *)t;
    if (transfer->peer >= t->size || transfer->channel > 0xffff)
        return pst_fail(
            PST_EINTERNAL,
            "cannot send to or receive from rank %u on channel %u: no such rank or channel",
            transfer->peer, transfer->channel);
    if (u->aborted) return fail_aborted(u);
    pst_ucx_request *r = request_take(u);
    if (!r) return pst_fail(PST_ENOMEM, "no memory for a transfer");
    r->transfer = *transfer;
    r->posted = 1;
    u->of_device += transfer->of_device != 0;
    ucs_status_ptr_t ucp = post_guarded(u, r);
    if (u->aborted) return fail_aborted(u);
    if (UCS_PTR_IS_ERR(ucp)) {
        u->of_device -= transfer->of_device != 0;
        request_drop(u, r);
        return pst_ucx_fail(PST_EPEER, transfer->kind == PST_TRANSFER_SEND ? "send" : "receive",
                            UCS_PTR_STATUS(ucp));
    }
    if (!r->done) r->ucp = ucp;
    *id = (uint64_t)(uintptr_t)r;
    return PST_OK;
}

static pst_status verdict(const pst_ucx *u, const pst_ucx_request *r) {
    const pst_transfer *x = &r->transfer;
    if (r->status == UCS_ERR_MESSAGE_TRUNCATED)
        return pst_fail(
            PST_EINPUT,
            "rank %u sent more than the %llu bytes that rank %u expects (message %u on channel %u)",
            x->peer, (unsigned long long)x->bytes, u->base.rank, x->seq, x->channel);
    if (r->status == UCS_OK && r->bytes != x->bytes)
        return pst_fail(PST_EINPUT,
                        "rank %u sent %llu bytes, rank %u expects %llu (message %u on channel %u)",
                        x->peer, (unsigned long long)r->bytes, u->base.rank,
                        (unsigned long long)x->bytes, x->seq, x->channel);
    if (r->status != UCS_OK)
        return pst_fail(PST_EPEER, "the link to rank %u failed: %s", x->peer,
                        ucs_status_string(r->status));
    return PST_OK;
}

static pst_status ucx_test(pst_transport *t, uint64_t id, uint64_t *end_ns) {
    pst_ucx *u = (pst_ucx *)t;
    pst_ucx_request *r = (pst_ucx_request *)(uintptr_t)id;
    if (u->aborted) return fail_aborted(u);
    if (!r->done) return PST_BUSY;
    pst_status status = verdict(u, r);
    if (status == PST_OK && end_ns) *end_ns = r->end_ns;
    u->untested--;
    request_drop(u, r);
    return status;
}

/* One call of UCX advances each message by one step, half a megabyte of a large one, but a rank
 * that computes polls only once per millisecond. So it is called until nothing moves, or
 * PROGRESS_ROUNDS times. */
static uint32_t ucx_progress(pst_transport *t) {
    pst_ucx *u = (pst_ucx *)t;
    uint32_t moved = 0, now = 1;
    for (int i = 0; now && i < PROGRESS_ROUNDS; i++) moved += now = progress_worker(u);
    return moved + u->untested;
}

static uint64_t ucx_next_ns(pst_transport *t) {
    (void)t;
    return PST_NEVER;
}

/* Does not sleep while copies on a GPU are under way: they wake the host only if UCX (cuda_copy
 * since version 1.10, cuda_ipc since 1.9) enqueues a host callback for each arm, which takes longer
 * than the next poll; older versions have no wake-up for them. The caller polls again soon. */
static pst_status ucx_arm(pst_transport *t, int *fd) {
    pst_ucx *u = (pst_ucx *)t;
    if (u->aborted) return fail_aborted(u);
    if (u->untested) return PST_BUSY;
    if (u->of_device)
        return pst_fail(PST_EINPUT, "cannot sleep while copies on a GPU are under way");
    ucs_status_t rc = ucp_worker_arm(u->worker);
    if (rc == UCS_ERR_BUSY) return PST_BUSY;
    if (rc != UCS_OK) return pst_ucx_fail(PST_EINTERNAL, "wait", rc);
    *fd = u->fd;
    return PST_OK;
}

/* --- leaving ---------------------------------------------------------------------------------- */

static void ucx_abort(pst_transport *t) {
    pst_ucx *u = (pst_ucx *)t;
    u->aborted = 1;
}

__attribute__((noinline)) static ucs_status_ptr_t begin_flush(pst_ucx *u) {
    if (PST_UCX_GUARD()) {
        u->aborted = u->lost = 1;
        return UCS_STATUS_PTR(UCS_ERR_CONNECTION_RESET);
    }
    ucs_status_ptr_t ucp = ucp_worker_flush_nbx(u->worker, &(ucp_request_param_t){0});
    pst_ucx_guard_end();
    return ucp;
}

/* Waits, for a limited time, until all sent messages have left: UCX may hold back an
 * acknowledgement that a peer needs. */
static int flush(pst_ucx *u) {
    ucs_status_ptr_t ucp = begin_flush(u);
    uint64_t until = pst_monotonic_ns() + CLOSE_MS * UINT64_C(1000000);
    if (!UCS_PTR_IS_PTR(ucp)) return ucp == NULL;
    ucs_status_t rc;
    while ((rc = ucp_request_check_status(ucp)) == UCS_INPROGRESS && pst_monotonic_ns() < until)
        if (!progress_worker(u)) sched_yield();
        else if (u->aborted) return 0;
    if (rc != UCS_INPROGRESS) ucp_request_free(ucp);
    return rc == UCS_OK;
}

__attribute__((noinline)) static void cancel(pst_ucx *u, pst_ucx_request *r) {
    if (PST_UCX_GUARD()) {
        u->aborted = u->lost = 1;
        return;
    }
    ucp_request_cancel(u->worker, r->ucp);
    pst_ucx_guard_end();
}

static uint32_t cancel_all(pst_ucx *u) {
    uint32_t left = 0;
    for (pst_ucx_request *r = u->all; r && !u->aborted; r = r->all)
        if (r->posted && !r->done && r->ucp) cancel(u, r);
    for (int i = 0; i < 100; i++) progress_worker(u);
    for (pst_ucx_request *r = u->all; r; r = r->all) left += r->posted && !r->done;
    return left;
}

static void ucx_close(pst_transport *t) {
    pst_ucx *u = (pst_ucx *)t;
    if (u->aborted || cancel_all(u) || u->aborted || !flush(u)) u->aborted = 1;
    pst_ucx_release(u);
    pst_ucx_guard_close();
}

const pst_transport_ops pst_transport_ucx = {
    .name = "ucx",
    .flags = PST_TRANSPORT_RENDEZVOUS,
    .reject = ucx_reject,
    .open = ucx_open,
    .post = ucx_post,
    .test = ucx_test,
    .progress = ucx_progress,
    .next_ns = ucx_next_ns,
    .arm = ucx_arm,
    .abort = ucx_abort,
    .close = ucx_close,
};

/* Transport `ucx`: processes with one rank each, over UCX's tag-matched messages (shared memory and CMA on one host,
 * TCP between hosts). Peers do not fail here: UCX tells nothing of a dead one (error mode none, the only one that
 * keeps shared memory), so the heartbeat finds it and `abort` leaves without flushing. One thread per transport. */
#include "comm/transport.h"
#include "comm/secret.h"
#include "comm/ucx_guard.h"
#include "comm/world.h"
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

typedef struct request request;
struct request {
    request *all, *next; /* every request there is; the spare list */
    struct ucx *owner;
    pst_transfer transfer;
    void *ucp; /* UCX's request while under way and not completed in the call, for cancelling */
    int posted, done;
    ucs_status_t status;    /* once done */
    uint64_t bytes, end_ns; /* received size; when it completed */
};

typedef struct ucx {
    pst_transport base;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h *ep;         /* [size] */
    int fd;               /* readable when the worker has something, once armed */
    request *all, *spare; /* requests are reused, freed with the transport */
    uint64_t mask;        /* the job's own, in every tag: who does not know it reaches no receive of ours */
    uint32_t unseen;      /* completed and not tested yet: no sleeping before they have been */
    int aborted, lost;    /* lost: because UCX wanted to end the process */
    struct ucx *left_behind;
} ucx;

enum { TIMER_SLACK_NS = 1000, CLOSE_MS = 500, PROGRESS_ROUNDS = 64 };

static uint64_t message_tag(const ucx *u, uint32_t source, uint32_t channel, uint32_t seq) {
    return ((uint64_t)source << 48 | (uint64_t)channel << 32 | seq) ^ u->mask;
}

/* --- open -------------------------------------------------------------------------------------------------------- */

static const char *ucx_reject(const pst_world *world) {
    if (world->size == 1) return "there is no other process";
    return world->size > 65536 ? "more than 65536 ranks do not fit into a tag" : NULL;
}

/* UCX has read its variables when it was loaded; what it does by default to its host program is undone here. */
static void calm_down(void) {
    static const int handled[] = {SIGSEGV, SIGILL, SIGBUS, SIGFPE, SIGABRT};
    if (!getenv("UCX_LOG_LEVEL")) ucs_global_opts_set_value("LOG_LEVEL", "error");
    if (!getenv("UCX_WARN_UNUSED_ENV_VARS")) ucs_global_opts_set_value("WARN_UNUSED_ENV_VARS", "n");
    if (getenv("UCX_HANDLE_ERRORS") || getenv("UCX_ERROR_SIGNALS")) return;
    ucs_global_opts_set_value("HANDLE_ERRORS", "none");
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) ucs_debug_disable_signal(handled[i]);
}

static pst_status fail_ucs(pst_status status, const char *what, ucs_status_t rc) {
    return pst_fail(rc == UCS_ERR_NO_MEMORY ? PST_ENOMEM : status, "UCX cannot %s: %s", what, ucs_status_string(rc));
}

/* Shared memory with CMA on one host: large messages move in one poll, small ones without a system call. */
static pst_status open_context(ucx *u, const pst_world *world) {
    ucp_config_t *config;
    ucs_status_t rc = ucp_config_read(NULL, NULL, &config);
    if (rc != UCS_OK) return fail_ucs(PST_EINPUT, "read its variables", rc);
    const char *transports = world->local_size == world->size ? "posix,self,cma" : "tcp,self,posix,cma";
    if (!getenv("UCX_TLS")) rc = ucp_config_modify(config, "TLS", transports);
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_ESTIMATED_NUM_PPN,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = world->size,
        .estimated_num_ppn = world->local_size,
    };
    if (rc == UCS_OK) rc = ucp_init(&params, config, &u->context);
    ucp_config_release(config);
    return rc == UCS_OK ? PST_OK : fail_ucs(PST_ENOMEM, "start", rc);
}

static pst_status open_worker(ucx *u) {
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucs_status_t rc = ucp_worker_create(u->context, &params, &u->worker);
    if (rc != UCS_OK) return fail_ucs(PST_ENOMEM, "open a worker", rc);
    rc = ucp_worker_get_efd(u->worker, &u->fd);
    return rc == UCS_OK ? PST_OK : fail_ucs(PST_ENOMEM, "open a wake-up descriptor", rc);
}

/* An empty one says that this rank has none. */
static pst_status publish_address(ucx *u, pst_world *world, pst_status mine) {
    ucp_address_t *address;
    size_t bytes;
    if (mine != PST_OK) return world->ops->put(world, "penstock.ucx", "", 0);
    ucs_status_t rc = ucp_worker_get_address(u->worker, &address, &bytes);
    if (rc != UCS_OK) return fail_ucs(PST_ENOMEM, "name its address", rc);
    pst_status status = world->ops->put(world, "penstock.ucx", address, bytes);
    ucp_worker_release_address(u->worker, address);
    return status;
}

/* Rank 0 draws it, and only ranks of this job can ask the world for it. */
static pst_status publish_mask(pst_world *world) {
    uint64_t mask;
    if (world->rank) return PST_OK;
    PST_TRY(pst_secret_random(&mask, sizeof mask));
    return world->ops->put(world, "penstock.ucx.mask", &mask, sizeof mask);
}

static pst_status fetch_mask(ucx *u, pst_world *world) {
    void *mask;
    size_t bytes;
    PST_TRY(world->ops->get(world, 0, "penstock.ucx.mask", &mask, &bytes));
    if (bytes == sizeof u->mask) memcpy(&u->mask, mask, bytes);
    free(mask);
    return bytes == sizeof u->mask ? PST_OK : pst_fail(PST_EPEER, "rank 0 could not open transport ucx");
}

static pst_status connect_rank(ucx *u, pst_world *world, uint32_t rank) {
    void *address;
    size_t bytes;
    PST_TRY(world->ops->get(world, rank, "penstock.ucx", &address, &bytes));
    if (!bytes) {
        free(address);
        return pst_fail(PST_EPEER, "rank %u could not open transport ucx", rank);
    }
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .address = address,
                              .err_mode = UCP_ERR_HANDLING_MODE_NONE};
    ucs_status_t rc = ucp_ep_create(u->worker, &params, &u->ep[rank]);
    free(address);
    if (rc == UCS_OK) return PST_OK;
    u->ep[rank] = NULL;
    char what[64];
    snprintf(what, sizeof what, "reach rank %u", rank);
    return fail_ucs(PST_EPEER, what, rc);
}

/* All peers are connected here, between two fences: a rank that leaves early cannot be missed by one that only now
 * wants to map its memory. Whoever has failed before (mine) or fails between takes part in both. */
static pst_status connect_all(ucx *u, pst_world *world, pst_status mine) {
    pst_status common = publish_mask(world);
    if (common == PST_OK) common = publish_address(u, world, mine);
    if (common == PST_OK) common = world->ops->fence(world);
    if (common != PST_OK) return mine != PST_OK ? mine : common;
    if (mine == PST_OK) mine = fetch_mask(u, world);
    for (uint32_t i = 0; mine == PST_OK && i < world->size; i++) mine = connect_rank(u, world, i);
    return pst_world_agree(world, "penstock.ucx.open", mine);
}

static void release(ucx *u) {
    if (u->worker) ucp_worker_destroy(u->worker); /* takes its endpoints along, without asking a peer */
    if (u->context) ucp_cleanup(u->context);
    for (request *r = u->all, *next; r; r = next) {
        next = r->all;
        free(r);
    }
    free(u->ep);
    free(u);
}

static pst_status ucx_open(pst_world *world, const pst_clock *clock, pst_transport **transport) {
    ucx *u = calloc(1, sizeof *u);
    if (!u) return pst_fail(PST_ENOMEM, "no memory for a transport");
    u->base = (pst_transport){.ops = &pst_transport_ucx, .clock = clock, .rank = world->rank, .size = world->size};
    calm_down();
    pst_ucx_guard_open();
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0); /* a sleep with a deadline ends when it shall */
    u->ep = calloc(world->size, sizeof *u->ep);
    pst_status status = u->ep ? PST_OK : pst_fail(PST_ENOMEM, "no memory for %u peers", world->size);
    if (status == PST_OK) status = open_context(u, world);
    if (status == PST_OK) status = open_worker(u);
    status = connect_all(u, world, status);
    if (status != PST_OK) {
        release(u);
        pst_ucx_guard_close();
    } else {
        *transport = &u->base;
    }
    return status;
}

/* --- calls that may move data -------------------------------------------------------------------------------------- */

static pst_status fail_aborted(const ucx *u) {
    if (u->lost) return pst_fail(PST_EPEER, "rank %u has lost a peer: %s", u->base.rank, pst_ucx_guard_said());
    return pst_fail(PST_EPEER, "rank %u has given up its transport", u->base.rank);
}

__attribute__((noinline)) static uint32_t progress_worker(ucx *u) {
    if (u->aborted) return 0;
    if (PST_UCX_GUARD()) {
        u->aborted = u->lost = 1; /* UCX is in the midst of something, and is not called again */
        return 1;
    }
    uint32_t moved = ucp_worker_progress(u->worker);
    pst_ucx_guard_end();
    return moved;
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static request *request_take(ucx *u) {
    request *r = u->spare;
    if (r) {
        u->spare = r->next;
        *r = (request){.all = r->all};
    } else if ((r = calloc(1, sizeof *r))) {
        r->all = u->all;
        u->all = r;
    }
    if (r) r->owner = u;
    return r;
}

static void request_drop(ucx *u, request *r) {
    r->posted = 0;
    r->next = u->spare;
    u->spare = r;
}

static void complete(request *r, ucs_status_t rc, uint64_t bytes) {
    r->done = 1;
    r->ucp = NULL;
    r->status = rc;
    r->bytes = bytes;
    r->end_ns = pst_clock_now(r->owner->base.clock);
    r->owner->unseen++;
}

static void on_sent(void *ucp, ucs_status_t rc, void *arg) {
    request *r = arg;
    complete(r, rc, r->transfer.bytes);
    ucp_request_free(ucp);
}

static void on_received(void *ucp, ucs_status_t rc, const ucp_tag_recv_info_t *info, void *arg) {
    complete(arg, rc, rc == UCS_OK ? info->length : 0);
    ucp_request_free(ucp);
}

/* Completion always comes through the callback, also inside the call. */
static ucs_status_ptr_t post_to_ucp(ucx *u, request *r) {
    const pst_transfer *x = &r->transfer;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .user_data = r,
    };
    if (x->kind == PST_TRANSFER_SEND) {
        param.cb.send = on_sent;
        return ucp_tag_send_nbx(u->ep[x->peer], x->mem, x->bytes, message_tag(u, u->base.rank, x->channel, x->seq),
                                &param);
    }
    param.cb.recv = on_received;
    return ucp_tag_recv_nbx(u->worker, x->mem, x->bytes, message_tag(u, x->peer, x->channel, x->seq), UINT64_MAX, &param);
}

/* Not inlined: a jump back would not find the caller's variables. */
__attribute__((noinline)) static ucs_status_ptr_t post_guarded(ucx *u, request *r) {
    if (PST_UCX_GUARD()) {
        u->aborted = u->lost = 1;
        return NULL;
    }
    ucs_status_ptr_t ucp = post_to_ucp(u, r);
    pst_ucx_guard_end();
    return ucp;
}

static pst_status ucx_post(pst_transport *t, const pst_transfer *transfer, uint64_t *id) {
    ucx *u = (ucx *)t;
    if (transfer->peer >= t->size || transfer->channel > 0xffff)
        return pst_fail(PST_EINTERNAL, "rank %u, channel %u: no such peer", transfer->peer, transfer->channel);
    if (u->aborted) return fail_aborted(u);
    request *r = request_take(u);
    if (!r) return pst_fail(PST_ENOMEM, "no memory for a transfer");
    r->transfer = *transfer;
    r->posted = 1;
    ucs_status_ptr_t ucp = post_guarded(u, r);
    if (u->aborted) return fail_aborted(u);
    if (UCS_PTR_IS_ERR(ucp)) {
        request_drop(u, r);
        return fail_ucs(PST_EPEER, transfer->kind == PST_TRANSFER_SEND ? "send" : "receive", UCS_PTR_STATUS(ucp));
    }
    if (!r->done) r->ucp = ucp;
    *id = (uint64_t)(uintptr_t)r;
    return PST_OK;
}

static pst_status verdict(const ucx *u, const request *r) {
    const pst_transfer *x = &r->transfer;
    if (r->status == UCS_ERR_MESSAGE_TRUNCATED || (r->status == UCS_OK && r->bytes != x->bytes))
        return pst_fail(PST_EINPUT,
                        "ranks %u and %u disagree about the size of message %u on channel %u (here %llu bytes)",
                        u->base.rank, x->peer, x->seq, x->channel, (unsigned long long)x->bytes);
    if (r->status != UCS_OK)
        return pst_fail(PST_EPEER, "the link to rank %u failed: %s", x->peer, ucs_status_string(r->status));
    return PST_OK;
}

static pst_status ucx_test(pst_transport *t, uint64_t id, uint64_t *end_ns) {
    ucx *u = (ucx *)t;
    request *r = (request *)(uintptr_t)id;
    if (u->aborted) return fail_aborted(u);
    if (!r->done) return PST_BUSY;
    pst_status status = verdict(u, r);
    if (status == PST_OK && end_ns) *end_ns = r->end_ns;
    u->unseen--;
    request_drop(u, r);
    return status;
}

/* A call of UCX takes one step of each message, which for a large one is half a megabyte; whoever computes comes by once
 * a millisecond only. So: until nothing moves, or until a lot has. */
static uint32_t ucx_progress(pst_transport *t) {
    ucx *u = (ucx *)t;
    uint32_t moved = 0, now = 1;
    for (int i = 0; now && i < PROGRESS_ROUNDS; i++) moved += now = progress_worker(u);
    return moved + u->unseen;
}

static uint64_t ucx_next_ns(pst_transport *t) {
    (void)t;
    return PST_NEVER;
}

static pst_status ucx_arm(pst_transport *t, int *fd) {
    ucx *u = (ucx *)t;
    if (u->aborted) return fail_aborted(u);
    if (u->unseen) return PST_BUSY;
    ucs_status_t rc = ucp_worker_arm(u->worker);
    if (rc == UCS_ERR_BUSY) return PST_BUSY;
    if (rc != UCS_OK) return fail_ucs(PST_EINTERNAL, "wait", rc);
    *fd = u->fd;
    return PST_OK;
}

/* --- leaving ----------------------------------------------------------------------------------------------------- */

static void ucx_abort(pst_transport *t) {
    ucx *u = (ucx *)t;
    u->aborted = 1;
}

/* Waits, bounded, until what was sent has left: UCX may hold an acknowledgement back that a peer still needs. */
static int flush(ucx *u) {
    ucp_request_param_t param = {0};
    ucs_status_ptr_t ucp = ucp_worker_flush_nbx(u->worker, &param);
    uint64_t until = pst_monotonic_ns() + CLOSE_MS * UINT64_C(1000000);
    if (!UCS_PTR_IS_PTR(ucp)) return ucp == NULL;
    ucs_status_t rc;
    while ((rc = ucp_request_check_status(ucp)) == UCS_INPROGRESS && pst_monotonic_ns() < until)
        if (!progress_worker(u)) sched_yield();
        else if (u->aborted) return 0;
    if (rc != UCS_INPROGRESS) ucp_request_free(ucp);
    return rc == UCS_OK;
}

static uint32_t cancel_all(ucx *u) {
    uint32_t left = 0;
    for (request *r = u->all; r; r = r->all)
        if (r->posted && !r->done && r->ucp) ucp_request_cancel(u->worker, r->ucp);
    for (int i = 0; i < 100; i++) progress_worker(u);
    for (request *r = u->all; r; r = r->all) left += r->posted && !r->done;
    return left;
}

/* A worker that still waits for a dead peer is left to the end of the process: UCX has no way to give it back that is
 * sure not to hang. Nobody progresses it any more, so it touches no memory of ours. */
static void ucx_close(pst_transport *t) {
    static ucx *left_behind;
    ucx *u = (ucx *)t;
    if (!u->aborted && !cancel_all(u) && !u->aborted && flush(u)) {
        release(u);
        pst_ucx_guard_close();
        return;
    }
    u->left_behind = left_behind;
    left_behind = u;
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

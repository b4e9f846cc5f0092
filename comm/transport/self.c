/* Transport `self`: all ranks of a job in one process. Read this one first: it is the whole
 * contract of a transport in one file, needs no hardware, and serves as test double. One hub joins
 * n endpoints. A transfer whose counterpart is already posted is copied at once, and both complete;
 * else it waits in the destination's list. Single-threaded. */
#include "comm/transport/transport.h"
#include <stdlib.h>
#include <string.h>

typedef struct request request;
struct request {
    request *next; /* in the destination's waiting list, or in the free list */
    request *all;  /* all requests of the hub, for closing */
    pst_transfer transfer;
    uint32_t owner; /* the rank that posted it */
    int done;
    pst_status status;               /* valid when done */
    uint64_t end_ns, sent, expected; /* valid when done; in bytes */
};

typedef struct {
    pst_transport base; /* first: a pst_transport points here */
    pst_self_hub *hub;
    /* unmatched transfers to this rank in the order of posts: receives of this rank, sends of
     * others */
    request *first, **last;
    /* number of requests of this endpoint that have completed and were not tested yet */
    uint32_t untested;
    int aborted;
} self_endpoint;

struct pst_self_hub {
    uint32_t n;
    self_endpoint *end;       /* [n] */
    request *free_list, *all; /* requests are reused, and freed with the hub */
};

/* --- requests --------------------------------------------------------------------------------- */

static request *request_take(pst_self_hub *hub) {
    request *r = hub->free_list;
    if (r) {
        hub->free_list = r->next;
        *r = (request){.all = r->all};
    } else if ((r = calloc(1, sizeof *r))) {
        r->all = hub->all;
        hub->all = r;
    }
    return r;
}

static void request_drop(pst_self_hub *hub, request *r) {
    r->next = hub->free_list;
    hub->free_list = r;
}

static void request_complete(pst_self_hub *hub, request *r, pst_status status, uint64_t now) {
    r->done = 1;
    r->status = status;
    r->end_ns = now;
    hub->end[r->owner].untested++;
}

static uint32_t source(const request *r) {
    return r->transfer.kind == PST_TRANSFER_SEND ? r->owner : r->transfer.peer;
}

static uint32_t destination(const request *r) {
    return r->transfer.kind == PST_TRANSFER_SEND ? r->transfer.peer : r->owner;
}

/* Whether two transfers are the send and the receive of one message. They are in the same list, so
 * they have the same destination. */
static int matches(const request *a, const request *b) {
    return a->transfer.kind != b->transfer.kind && a->transfer.channel == b->transfer.channel &&
           a->transfer.seq == b->transfer.seq && source(a) == source(b);
}

static void waiting_append(self_endpoint *e, request *r) {
    r->next = NULL;
    *e->last = r;
    e->last = &r->next;
}

/* Removes the waiting request that `link` points to from the list. */
static void waiting_remove(self_endpoint *e, request **link) {
    request *r = *link;
    *link = r->next;
    if (!r->next) e->last = link;
}

/* --- the table -------------------------------------------------------------------------------- */

static const char *self_reject(const pst_world *world) {
    (void)world;
    return "it connects ranks of one process only";
}

static pst_status self_open(pst_world *world, const pst_clock *clock, pst_transport **transport) {
    (void)world;
    (void)clock;
    (void)transport;
    return pst_fail(PST_EINPUT,
                    "transport self cannot be opened for a world (%s); use pst_self_hub_open",
                    self_reject(NULL));
}

static void message_move(pst_self_hub *hub, request *a, request *b, uint64_t now) {
    pst_status status = a->transfer.bytes == b->transfer.bytes ? PST_OK : PST_EINPUT;
    request *from = a->transfer.kind == PST_TRANSFER_SEND ? a : b, *to = from == a ? b : a;
    if (status == PST_OK && from->transfer.bytes)
        memmove(to->transfer.mem, from->transfer.mem, from->transfer.bytes);
    a->sent = b->sent = from->transfer.bytes;
    a->expected = b->expected = to->transfer.bytes;
    request_complete(hub, a, status, now);
    request_complete(hub, b, status, now);
}

static pst_status self_post(pst_transport *t, const pst_transfer *transfer, uint64_t *id) {
    self_endpoint *e = (self_endpoint *)t;
    pst_self_hub *hub = e->hub;
    if (transfer->peer >= hub->n || transfer->channel > 0xffff)
        return pst_fail(
            PST_EINTERNAL,
            "cannot send to or receive from rank %u on channel %u: no such rank or channel",
            transfer->peer, transfer->channel);
    if (e->aborted || hub->end[transfer->peer].aborted)
        return pst_fail(PST_EPEER, "rank %u has left the job",
                        e->aborted ? t->rank : transfer->peer);
    request *r = request_take(hub);
    if (!r) return pst_fail(PST_ENOMEM, "no memory for a transfer");
    r->transfer = *transfer;
    r->owner = t->rank;
    *id = (uint64_t)(uintptr_t)r;
    self_endpoint *at = &hub->end[destination(r)];
    for (request **link = &at->first; *link; link = &(*link)->next)
        if (matches(r, *link)) {
            request *other = *link;
            waiting_remove(at, link);
            message_move(hub, r, other, pst_clock_now(t->clock));
            return PST_OK;
        }
    waiting_append(at, r);
    return PST_OK;
}

static pst_status self_test(pst_transport *t, uint64_t id, uint64_t *end_ns) {
    self_endpoint *e = (self_endpoint *)t;
    request *r = (request *)(uintptr_t)id;
    if (!r->done) return PST_BUSY;
    pst_status status = r->status;
    if (status == PST_OK && end_ns) *end_ns = r->end_ns;
    if (status == PST_EINPUT)
        pst_fail(status, "rank %u sent %llu bytes, rank %u expects %llu (message %u on channel %u)",
                 source(r), (unsigned long long)r->sent, destination(r),
                 (unsigned long long)r->expected, r->transfer.seq, r->transfer.channel);
    if (status == PST_EPEER) pst_fail(status, "rank %u has left the job", r->transfer.peer);
    e->untested--;
    request_drop(e->hub, r);
    return status;
}

static uint32_t self_progress(pst_transport *t) { return ((self_endpoint *)t)->untested; }

static uint64_t self_next_ns(pst_transport *t) {
    (void)t;
    return PST_NEVER;
}

static pst_status self_arm(pst_transport *t, int *fd) {
    (void)t;
    (void)fd;
    return pst_fail(
        PST_EINPUT,
        "transport self has no file descriptor to wait for: all ranks run in this thread");
}

/* Every transfer that involves this rank fails. */
static void self_abort(pst_transport *t) {
    self_endpoint *e = (self_endpoint *)t;
    pst_self_hub *hub = e->hub;
    if (e->aborted) return;
    e->aborted = 1;
    uint64_t now = pst_clock_now(t->clock);
    for (uint32_t i = 0; i < hub->n; i++)
        for (request **link = &hub->end[i].first; *link;) {
            request *r = *link;
            if (r->owner != t->rank && r->transfer.peer != t->rank) {
                link = &r->next;
                continue;
            }
            waiting_remove(&hub->end[i], link);
            request_complete(hub, r, PST_EPEER, now);
        }
}

static void self_close(pst_transport *t) { (void)t; /* the hub owns its endpoints */ }

static const pst_transport_ops self_ops = {
    .name = "self",
    .flags = PST_TRANSPORT_RENDEZVOUS,
    .reject = self_reject,
    .open = self_open,
    .post = self_post,
    .test = self_test,
    .progress = self_progress,
    .next_ns = self_next_ns,
    .arm = self_arm,
    .abort = self_abort,
    .close = self_close,
};

/* --- the hub ---------------------------------------------------------------------------------- */

pst_status pst_self_hub_open(uint32_t n_rank, const pst_clock *clock, pst_self_hub **out) {
    if (!n_rank) return pst_fail(PST_EINPUT, "pst_self_hub_open: 0 ranks; expected 1 or more");
    pst_self_hub *hub = calloc(1, sizeof *hub);
    self_endpoint *end = calloc(n_rank, sizeof *end);
    if (!hub || !end) {
        free(hub);
        free(end);
        return pst_fail(PST_ENOMEM, "no memory to connect %u ranks of one process", n_rank);
    }
    hub->n = n_rank;
    hub->end = end;
    for (uint32_t i = 0; i < n_rank; i++) {
        end[i].base = (pst_transport){.ops = &self_ops, .clock = clock, .rank = i, .size = n_rank};
        end[i].hub = hub;
        end[i].last = &end[i].first;
    }
    *out = hub;
    return PST_OK;
}

pst_transport *pst_self_hub_endpoint(pst_self_hub *hub, uint32_t rank) {
    return rank < hub->n ? &hub->end[rank].base : NULL;
}

void pst_self_hub_close(pst_self_hub *hub) {
    if (!hub) return;
    for (request *r = hub->all, *next; r; r = next) {
        next = r->all;
        free(r);
    }
    free(hub->end);
    free(hub);
}

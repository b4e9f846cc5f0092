/* The timed transport: all ranks in one process. A transfer starts when both ends are posted and
 * the link is free, and takes the predicted time of its SEND; on the virtual clock it completes
 * exactly then. No data moves. Single-threaded. */
#include "pipeline/execute/timed.h"
#include "pipeline/simulate/links.h"
#include "base/grow.h"
#include <stdlib.h>
#include <string.h>

enum { NOBODY = UINT32_MAX };

typedef struct {
    enum { FREE, POSTED, MATCHED, BROKEN, WRONG_SIZE } state;
    pst_transfer transfer;
    uint64_t post_ns, end_ns;
    uint32_t partner; /* request of the other end, once MATCHED */
    uint32_t next;    /* FREE: next free one; POSTED: next one with the same destination */
    uint32_t generation;
} request;

typedef struct {
    pst_transport base;
    pst_timed_hub *hub;
    /* requests, of any rank, for messages to this rank whose other end is missing */
    uint32_t waiting;
    int aborted;
} hub_end;

/* Requests of all ends are in one array. A handle has the index in its low half and the generation
 * in its high half. */
struct pst_timed_hub {
    uint32_t n_rank, n_request, free;
    request *request;
    uint32_t *owner; /* [n_request] rank */
    hub_end *end;    /* [n_rank] */
    /* messages matched at matched_ns wait there to be ordered until time advances */
    pst_links links;
    uint64_t matched_ns;
};

static const pst_transport_ops hub_ops;

pst_status pst_timed_hub_open(uint32_t n_rank, const pst_clock *clock, pst_timed_hub **hub) {
    pst_timed_hub *h = calloc(1, sizeof *h);
    if (h) h->end = calloc(n_rank ? n_rank : 1, sizeof *h->end);
    if (!h || !h->end || pst_links_open(n_rank, NULL, NULL, &h->links) != PST_OK) {
        if (h) free(h->end);
        free(h);
        return pst_fail(PST_ENOMEM, "no memory to connect %u ranks of one process", n_rank);
    }
    h->n_rank = n_rank;
    h->free = NOBODY;
    for (uint32_t r = 0; r < n_rank; r++) {
        h->end[r].base =
            (pst_transport){.ops = &hub_ops, .clock = clock, .rank = r, .size = n_rank};
        h->end[r].hub = h;
        h->end[r].waiting = NOBODY;
    }
    *hub = h;
    return PST_OK;
}

void pst_timed_hub_share(pst_timed_hub *hub, const uint32_t *host, const double *host_bytes_per_s) {
    hub->links.host = host;
    hub->links.host_bytes_per_s = host_bytes_per_s;
}

pst_transport *pst_timed_hub_end(pst_timed_hub *hub, uint32_t rank) { return &hub->end[rank].base; }

void pst_timed_hub_close(pst_timed_hub *hub) {
    if (!hub) return;
    pst_links_close(&hub->links);
    free(hub->request);
    free(hub->owner);
    free(hub->end);
    free(hub);
}

/* --- requests --------------------------------------------------------------------------------- */

static pst_status take_request(pst_timed_hub *h, uint32_t *index) {
    if (h->free == NOBODY) {
        uint32_t more = h->n_request ? 2 * h->n_request : 64;
        PST_TRY(pst_grow_to(&h->request, sizeof *h->request, more, "for transfers"));
        PST_TRY(pst_grow_to(&h->owner, sizeof *h->owner, more, "for transfers"));
        for (uint32_t i = more; i-- > h->n_request;) {
            h->request[i] = (request){.state = FREE, .next = h->free};
            h->free = i;
        }
        h->n_request = more;
    }
    *index = h->free;
    h->free = h->request[*index].next;
    return PST_OK;
}

static void release_request(pst_timed_hub *h, uint32_t index) {
    request *q = &h->request[index];
    q->state = FREE;
    q->generation++;
    q->next = h->free;
    h->free = index;
}

static uint32_t destination(uint32_t rank, const pst_transfer *t) {
    return t->kind == PST_TRANSFER_SEND ? t->peer : rank;
}

/* Finds the first waiting other end of a message and removes it from its list. */
static uint32_t take_partner(pst_timed_hub *h, uint32_t rank, const pst_transfer *t) {
    uint32_t *link = &h->end[destination(rank, t)].waiting;
    for (; *link != NOBODY; link = &h->request[*link].next) {
        const pst_transfer *other = &h->request[*link].transfer;
        if (other->kind == t->kind || other->peer != rank || h->owner[*link] != t->peer) continue;
        if (other->channel != t->channel || other->seq != t->seq) continue;
        uint32_t found = *link;
        *link = h->request[found].next;
        return found;
    }
    return NOBODY;
}

static void append_waiting(pst_timed_hub *h, uint32_t rank, uint32_t index) {
    uint32_t *link = &h->end[destination(rank, &h->request[index].transfer)].waiting;
    while (*link != NOBODY) link = &h->request[*link].next;
    *link = index;
}

/* Starts the messages that were matched before `now`, in their order. */
static void start_matched(pst_timed_hub *h, uint64_t now) {
    if (!h->links.n_waiting || now <= h->matched_ns) return;
    uint32_t n = pst_links_settle(&h->links);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t mine = (uint32_t)h->links.waiting[i].id, theirs = h->request[mine].partner;
        h->request[mine].end_ns = h->request[theirs].end_ns = h->links.waiting[i].end_ns;
    }
}

static pst_status match(pst_timed_hub *h, uint32_t mine, uint32_t theirs) {
    request *a = &h->request[mine], *b = &h->request[theirs];
    int sends = a->transfer.kind == PST_TRANSFER_SEND;
    const pst_transfer *send = sends ? &a->transfer : &b->transfer;
    uint64_t start = a->post_ns > b->post_ns ? a->post_ns : b->post_ns;
    a->state = b->state = a->transfer.bytes == b->transfer.bytes ? MATCHED : WRONG_SIZE;
    a->partner = theirs;
    b->partner = mine;
    a->end_ns = b->end_ns = send->wire_ns ? PST_NEVER : start + send->ns;
    if (!send->wire_ns || a->state == WRONG_SIZE) return PST_OK;
    pst_link_message m = {h->owner[sends ? mine : theirs],
                          send->peer,
                          send->channel,
                          send->seq,
                          start,
                          send->ns,
                          send->wire_ns,
                          send->bytes,
                          0,
                          mine};
    h->matched_ns = start;
    return pst_links_add(&h->links, &m);
}

static pst_status post(pst_transport *t, const pst_transfer *transfer, uint64_t *handle) {
    hub_end *end = (hub_end *)t;
    pst_timed_hub *h = end->hub;
    if (transfer->peer >= h->n_rank) return pst_fail(PST_EINPUT, "unknown rank %u", transfer->peer);
    if (end->aborted || h->end[transfer->peer].aborted) {
        return pst_fail(PST_EPEER, "rank %u has aborted", end->aborted ? t->rank : transfer->peer);
    }
    uint32_t index = 0;
    start_matched(h, pst_clock_now(t->clock));
    PST_TRY(take_request(h, &index));
    request *q = &h->request[index];
    *q = (request){.state = POSTED,
                   .transfer = *transfer,
                   .post_ns = pst_clock_now(t->clock),
                   .partner = NOBODY,
                   .next = NOBODY,
                   .generation = q->generation};
    h->owner[index] = t->rank;
    uint32_t other = take_partner(h, t->rank, transfer);
    if (other == NOBODY) append_waiting(h, t->rank, index);
    else PST_TRY(match(h, index, other));
    *handle = (uint64_t)q->generation << 32 | index;
    return PST_OK;
}

static pst_status test(pst_transport *t, uint64_t handle, uint64_t *end_ns) {
    hub_end *end = (hub_end *)t;
    uint32_t index = (uint32_t)handle;
    if (index >= end->hub->n_request || end->hub->request[index].generation != handle >> 32 ||
        end->hub->request[index].state == FREE) {
        return pst_fail(PST_EINTERNAL, "rank %u: unknown transfer", t->rank);
    }
    request *q = &end->hub->request[index];
    pst_status status = PST_OK;
    start_matched(end->hub, pst_clock_now(t->clock));
    if (q->state == BROKEN) {
        status = pst_fail(PST_EPEER, "rank %u has aborted", q->transfer.peer);
    } else if (q->state == WRONG_SIZE) {
        status = pst_fail(PST_EINPUT,
                          "the two ends of a message differ in size: rank %u, whose peer is rank "
                          "%u, expects %llu bytes",
                          t->rank, q->transfer.peer, (unsigned long long)q->transfer.bytes);
    } else if (q->state == POSTED || pst_clock_now(t->clock) < q->end_ns) {
        return PST_BUSY;
    } else {
        *end_ns = q->end_ns;
    }
    release_request(end->hub, index);
    return status;
}

/* --- the other functions of the table --------------------------------------------------------- */

static uint32_t progress(pst_transport *t) {
    pst_timed_hub *h = ((hub_end *)t)->hub;
    uint64_t now = pst_clock_now(t->clock);
    uint32_t moved = 0;
    start_matched(h, now);
    for (uint32_t i = 0; i < h->n_request; i++) {
        const request *q = &h->request[i];
        moved += q->state == MATCHED && h->owner[i] == t->rank && now >= q->end_ns;
    }
    return moved;
}

static uint64_t next_ns(pst_transport *t) {
    pst_timed_hub *h = ((hub_end *)t)->hub;
    uint64_t next = PST_NEVER;
    start_matched(h, PST_NEVER); /* time is about to advance */
    for (uint32_t i = 0; i < h->n_request; i++) {
        const request *q = &h->request[i];
        if (q->state == MATCHED && h->owner[i] == t->rank && q->end_ns < next) next = q->end_ns;
    }
    return next;
}

/* Drops this end's requests; the next test of a transfer with it fails. */
static void abort_end(pst_transport *t) {
    hub_end *end = (hub_end *)t;
    pst_timed_hub *h = end->hub;
    end->aborted = 1;
    start_matched(h, PST_NEVER);
    for (uint32_t r = 0; r < h->n_rank; r++) {
        for (uint32_t *link = &h->end[r].waiting; *link != NOBODY;) {
            request *q = &h->request[*link];
            if (h->owner[*link] != t->rank && q->transfer.peer != t->rank) {
                link = &q->next;
                continue;
            }
            *link = q->next;
            q->state = BROKEN;
        }
    }
    for (uint32_t i = 0; i < h->n_request; i++) {
        if (h->request[i].state != FREE && h->owner[i] == t->rank) release_request(h, i);
    }
}

static const char *reject(const pst_world *world) {
    (void)world;
    return "only connects ranks of one process";
}

static pst_status open_alone(pst_world *world, const pst_clock *clock, pst_transport **transport) {
    (void)world;
    (void)clock;
    (void)transport;
    return pst_fail(
        PST_EINPUT,
        "the timed transport needs pst_timed_hub_open; it cannot be opened for one rank");
}

static pst_status arm(pst_transport *t, int *fd) {
    (void)t;
    (void)fd;
    return pst_fail(PST_EINPUT, "the timed transport has no file descriptor to wait for");
}

static void close_end(pst_transport *t) { (void)t; /* the hub owns its ends */ }

static const pst_transport_ops hub_ops = {
    .name = "timed",
    .flags = PST_TRANSPORT_RENDEZVOUS,
    .reject = reject,
    .open = open_alone,
    .post = post,
    .test = test,
    .progress = progress,
    .next_ns = next_ns,
    .arm = arm,
    .abort = abort_end,
    .close = close_end,
};

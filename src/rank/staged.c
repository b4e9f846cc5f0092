/* See staged.h. */
#include "rank/staged.h"
#include "base/wrapper.h"
#include <stdio.h>
#include <stdlib.h>

/* Sequence numbers of the inner transport: messages from the sender, and the receiver's
 * announcement back. */
enum { FORWARD = 0, BACK = 1 };
enum { BUFFERS = 2 };

typedef enum { FREE, COPYING, MOVING } buffer_state; /* MOVING: in the inner transport */

typedef struct {
    uint8_t *mem;
    buffer_state state;
    uint64_t id;        /* event of the copy, or request of the inner transport */
    uint64_t at, bytes; /* offset in the message, and size */
} buffer;

typedef struct pair pair;
struct pair {
    pair *next; /* in the list of free pairs */
    buffer buffer[BUFFERS];
};

typedef enum { WAITS_FOR_PEER, WAITS_FOR_PAIR, RUNS, DONE } phase;

typedef struct request request;
struct request {
    request *next; /* in the order of posts, or in the free list */
    pst_transfer transfer;
    phase phase;
    pair *pair;
    uint64_t mine, theirs;    /* bytes, as each end gave them */
    uint64_t hello, answer;   /* inner requests of these two numbers: the one sent, the one received
                               */
    int announced, heard;     /* 1: completed; announced -1: not sent yet */
    uint64_t begun, ended;    /* bytes whose transfer has begun, and has ended */
    uint32_t first, next_one; /* chunk numbers: the oldest under way, and the next to begin */
    uint64_t end_ns;
};

typedef struct {
    pst_wrapper wrap; /* first */
    pst_device *device;
    uint64_t chunk;
    pair pairs[2][PST_STAGED_PAIRS], *idle[2]; /* of sends, of receives */
    request *active, **last, *free_list;
    uint32_t untested, copying; /* done and not tested; copies under way */
    pst_status failed;          /* status of all requests after a failure; `why` is its message */
    char why[512];
} staged;

static int sends(const request *r) { return r->transfer.kind == PST_TRANSFER_SEND; }

/* --- the inner transport --------------------------------------------------------------------- */

/* t: kind, memory and size; the rest comes from the request. */
static pst_status post_inner(staged *s, const request *r, int direction, pst_transfer t,
                             uint64_t *id) {
    t.peer = r->transfer.peer;
    t.channel = r->transfer.channel;
    t.seq = r->transfer.seq << 1 | (uint32_t)direction;
    return s->wrap.inner->ops->post(s->wrap.inner, &t, id);
}

static pst_status announce(staged *s, request *r) {
    r->announced = 0;
    const pst_transfer t = {.kind = PST_TRANSFER_SEND, .mem = &r->mine, .bytes = sizeof r->mine};
    return post_inner(s, r, sends(r) ? FORWARD : BACK, t, &r->hello);
}

static pst_status test_inner(staged *s, uint64_t id) {
    return s->wrap.inner->ops->test(s->wrap.inner, id, NULL);
}

/* BUSY is not a failure: *done stays 0. */
static pst_status check(pst_status status, int *done) {
    *done = status == PST_OK;
    return status == PST_BUSY ? PST_OK : status;
}

/* --- chunks ----------------------------------------------------------------------------------- */

static buffer *buffer_of(const request *r, uint32_t chunk) {
    return &r->pair->buffer[chunk % BUFFERS];
}

static pst_status copy(staged *s, request *r, buffer *b) {
    uint8_t *device = (uint8_t *)r->transfer.mem + b->at;
    pst_queue queue = sends(r) ? PST_Q_SEND : PST_Q_RECV;
    void *to = sends(r) ? b->mem : device;
    const void *from = sends(r) ? device : b->mem;
    PST_TRY(s->device->ops->copy(s->device, queue, to, from, b->bytes, &b->id));
    b->state = COPYING;
    s->copying++;
    return PST_OK;
}

static pst_status move(staged *s, request *r, buffer *b) {
    if (sends(r) && r->announced < 0)
        PST_TRY(announce(s, r)); /* the sender announces its post with the first chunk */
    const pst_transfer t = {.kind = r->transfer.kind, .mem = b->mem, .bytes = b->bytes};
    PST_TRY(post_inner(s, r, FORWARD, t, &b->id));
    b->state = MOVING;
    return PST_OK;
}

static pst_status begin_chunks(staged *s, request *r, uint32_t *moved) {
    while (r->begun < r->mine && buffer_of(r, r->next_one)->state == FREE) {
        buffer *b = buffer_of(r, r->next_one);
        uint64_t left = r->mine - r->begun;
        b->at = r->begun;
        b->bytes = left < s->chunk ? left : s->chunk;
        r->begun += b->bytes;
        r->next_one++;
        PST_TRY(sends(r) ? copy(s, r, b) : move(s, r, b));
        ++*moved;
    }
    return PST_OK;
}

/* Starts the second half of a chunk's transfer, or ends it. */
static pst_status advance_chunk(staged *s, request *r, buffer *b, int *done) {
    uint64_t start, end;
    int was_copying = b->state == COPYING;
    if (was_copying) PST_TRY(check(s->device->ops->test(s->device, b->id, &start, &end), done));
    else PST_TRY(check(test_inner(s, b->id), done));
    if (!*done) return PST_OK;
    s->copying -= was_copying;
    if (was_copying == sends(r)) return was_copying ? move(s, r, b) : copy(s, r, b);
    b->state = FREE;
    r->ended += b->bytes;
    return PST_OK;
}

/* Oldest first, so that chunks are sent in order. */
static pst_status run_chunks(staged *s, request *r, uint32_t *moved) {
    for (uint32_t k = r->first; k < r->next_one; k++) {
        buffer *b = buffer_of(r, k);
        int done = 0;
        if (b->state != FREE) PST_TRY(advance_chunk(s, r, b, &done));
        *moved += (uint32_t)done;
        if (sends(r) && b->state == COPYING) break;
    }
    while (r->first < r->next_one && buffer_of(r, r->first)->state == FREE) r->first++;
    return begin_chunks(s, r, moved);
}

/* --- a message -------------------------------------------------------------------------------- */

static pst_status differ(const staged *s, const request *r) {
    uint64_t sent = sends(r) ? r->mine : r->theirs, expected = sends(r) ? r->theirs : r->mine;
    return pst_fail(PST_EINPUT,
                    "rank %u sent %llu bytes, rank %u expects %llu (message %u on channel %u)",
                    sends(r) ? s->wrap.base.rank : r->transfer.peer, (unsigned long long)sent,
                    sends(r) ? r->transfer.peer : s->wrap.base.rank, (unsigned long long)expected,
                    r->transfer.seq, r->transfer.channel);
}

/* Receives the other end's announcement. */
static pst_status receive_announcement(staged *s, request *r, uint32_t *moved) {
    PST_TRY(check(test_inner(s, r->answer), &r->heard));
    if (!r->heard) return PST_OK;
    r->phase = WAITS_FOR_PAIR;
    ++*moved;
    if (r->theirs == r->mine) return PST_OK;
    if (sends(r)) PST_TRY(announce(s, r)); /* so that the other end sees the difference too */
    return differ(s, r);
}

static pst_status take_pair(staged *s, request *r, uint32_t *moved) {
    pair **idle = &s->idle[sends(r) ? 0 : 1];
    if (!*idle) return PST_OK;
    r->pair = *idle;
    *idle = r->pair->next;
    r->phase = RUNS;
    ++*moved;
    return sends(r) && !r->mine ? announce(s, r) : PST_OK; /* an empty message has no chunk to
                                                         announce it */
}

static pst_status finish(staged *s, request *r, uint32_t *moved) {
    if (r->announced == 0) PST_TRY(check(test_inner(s, r->hello), &r->announced));
    if (r->announced != 1 || r->ended < r->mine) return PST_OK;
    pair **idle = &s->idle[sends(r) ? 0 : 1];
    r->pair->next = *idle;
    *idle = r->pair;
    r->phase = DONE;
    r->end_ns = pst_clock_now(s->wrap.base.clock);
    s->untested++;
    ++*moved;
    return PST_OK;
}

static pst_status advance(staged *s, request *r, uint32_t *moved) {
    if (r->phase == WAITS_FOR_PEER) PST_TRY(receive_announcement(s, r, moved));
    if (r->phase == WAITS_FOR_PAIR) PST_TRY(take_pair(s, r, moved));
    if (r->phase != RUNS) return PST_OK;
    PST_TRY(run_chunks(s, r, moved));
    return finish(s, r, moved);
}

/* --- the table -------------------------------------------------------------------------------- */

static pst_status fail(staged *s, pst_status status) {
    if (s->failed == PST_OK) {
        s->failed = status;
        snprintf(s->why, sizeof s->why, "%s", pst_error());
    }
    return status;
}

static request *take_request(staged *s) {
    request *r = s->free_list;
    if (r) s->free_list = r->next;
    else r = malloc(sizeof *r);
    return r;
}

static pst_status staged_post(pst_transport *t, const pst_transfer *transfer, uint64_t *id) {
    staged *s = (staged *)t;
    request *r = take_request(s);
    if (!r) return pst_fail(PST_ENOMEM, "no memory for a transfer");
    *r = (request){.transfer = *transfer, .mine = transfer->bytes, .announced = -1};
    *s->last = r;
    s->last = &r->next;
    *id = (uint64_t)(uintptr_t)r;
    if (!sends(r)) PST_TRY(announce(s, r));
    const pst_transfer answer = {
        .kind = PST_TRANSFER_RECV, .mem = &r->theirs, .bytes = sizeof r->theirs};
    return post_inner(s, r, sends(r) ? BACK : FORWARD, answer, &r->answer);
}

static void forget(staged *s, request *r) {
    for (request **link = &s->active; *link; link = &(*link)->next)
        if (*link == r) {
            if (s->last == &r->next) s->last = link;
            *link = r->next;
            break;
        }
    r->next = s->free_list;
    s->free_list = r;
    s->untested--;
}

static pst_status staged_test(pst_transport *t, uint64_t id, uint64_t *end_ns) {
    staged *s = (staged *)t;
    request *r = (request *)(uintptr_t)id;
    if (r->phase != DONE) return s->failed == PST_OK ? PST_BUSY : pst_fail(s->failed, "%s", s->why);
    if (end_ns) *end_ns = r->end_ns;
    forget(s, r);
    return PST_OK;
}

static uint32_t staged_progress(pst_transport *t) {
    staged *s = (staged *)t;
    uint32_t moved = pst_wrapper_progress(t);
    for (request *r = s->active; r && s->failed == PST_OK; r = r->next) {
        pst_status status = advance(s, r, &moved);
        if (status != PST_OK) fail(s, status);
    }
    return moved + s->untested + s->copying + (s->failed != PST_OK);
}

static pst_status staged_arm(pst_transport *t, int *fd) {
    staged *s = (staged *)t;
    if (s->copying || s->untested || s->failed != PST_OK)
        return PST_BUSY; /* no file descriptor reports the end of a copy */
    return pst_wrapper_arm(t, fd);
}

static void free_requests(request *r) {
    for (request *next; r; r = next) {
        next = r->next;
        free(r);
    }
}

static void staged_close(pst_transport *t) {
    staged *s = (staged *)t;
    free_requests(s->active);
    free_requests(s->free_list);
    free(s);
}

static const pst_transport_ops staged_ops = {.name = "staged",
                                             .flags = PST_TRANSPORT_DEVICE_MEMORY,
                                             .post = staged_post,
                                             .test = staged_test,
                                             .progress = staged_progress,
                                             .next_ns = pst_wrapper_next_ns,
                                             .arm = staged_arm,
                                             .abort = pst_wrapper_abort,
                                             .close = staged_close};

pst_status pst_staged_open(pst_transport *inner, pst_device *device, uint64_t largest,
                           uint64_t chunk, pst_transport **out) {
    uint64_t room = ((largest < chunk ? largest : chunk) + 63) & ~UINT64_C(63);
    void *mem = NULL;
    PST_TRY(device->ops->staging(device, 2 * PST_STAGED_PAIRS * BUFFERS * room + 64, &mem));
    staged *s = calloc(1, sizeof *s);
    if (!s) return pst_fail(PST_ENOMEM, "no memory for transfers");
    s->wrap = pst_wrapper_of(inner, &staged_ops);
    s->device = device;
    s->chunk = chunk;
    s->last = &s->active;
    for (int direction = 0; direction < 2; direction++)
        for (int k = 0; k < PST_STAGED_PAIRS; k++) {
            pair *l = &s->pairs[direction][k];
            for (int b = 0; b < BUFFERS; b++, mem = (uint8_t *)mem + room) l->buffer[b].mem = mem;
            l->next = s->idle[direction];
            s->idle[direction] = l;
        }
    *out = &s->wrap.base;
    return PST_OK;
}

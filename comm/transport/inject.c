/* See inject.h. A wrapper that passes on every message except the one with the fault; requests keep
 * the inner transport's ids. */
#include "comm/transport/inject.h"
#include "base/wrapper.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum { DROP, SIZE, DELAY, STOP, STALL, SPIN, KILL, REPEAT, SKIP, KINDS } inject_kind;
static const char *const kinds[] = {"drop", "size", "delay",  "stop", "stall",
                                    "spin", "kill", "repeat", "skip"};

/* Ids of our own requests: ids of transports are never odd. */
enum { DROPPED = 1, DELAYED = 3 };

enum { SENT = 64 };

struct pst_inject {
    pst_wrapper wrap; /* first: a pst_transport points here */
    inject_kind kind;
    /* number of the message or collective with the fault; number of messages or collectives so
     * far */
    uint64_t at, count;
    uint64_t delay_ns;
    /* DELAY: */
    pst_transfer transfer;
    int is_held;
    uint64_t until_ns, request;
    /* REPEAT: the latest message of each channel, until it has happened */
    struct {
        void *copy;
        uint64_t bytes;
        uint32_t channel;
    } sent[SENT];
    uint32_t n_sent;
    int repeated;
};

/* --- parsing PENSTOCK_FAULT ------------------------------------------------------------------- */

static pst_status fail_parse(const char *text) {
    return pst_fail(
        PST_EINPUT,
        "PENSTOCK_FAULT='%s': expected drop|size|stop|stall|spin|kill|repeat:rank=R,message=N, "
        "delay:rank=R,message=N,ms=M or "
        "skip:rank=R,collective=N",
        text);
}

static pst_status fail_rank(const char *text, uint64_t rank, uint32_t n_rank) {
    char there[48] = "rank 0 only";
    if (n_rank > 1) snprintf(there, sizeof there, "ranks 0 to %u", n_rank - 1);
    return pst_fail(PST_EINPUT,
                    "PENSTOCK_FAULT='%s': there is no rank %" PRIu64 "; this job has %s", text,
                    rank, there);
}

static int read_number(const char **at, const char *key, uint64_t *value) {
    size_t n = strlen(key);
    char *end;
    if (strncmp(*at, key, n) || (*at)[n] < '0' || (*at)[n] > '9') return 0;
    errno = 0;
    *value = strtoull(*at + n, &end, 10);
    *at = end;
    return !errno;
}

static pst_status parse(const char *text, inject_kind *kind, uint64_t *rank, uint64_t *at,
                        uint64_t *ms) {
    uint32_t k = 0;
    while (k < KINDS &&
           (strncmp(text, kinds[k], strlen(kinds[k])) || text[strlen(kinds[k])] != ':'))
        k++;
    if (k == KINDS) return fail_parse(text);
    const char *rest = text + strlen(kinds[k]);
    *kind = (inject_kind)k;
    if (!read_number(&rest, ":rank=", rank)) return fail_parse(text);
    if (!read_number(&rest, k == SKIP ? ",collective=" : ",message=", at) || !*at)
        return fail_parse(text);
    if (k == DELAY && !read_number(&rest, ",ms=", ms)) return fail_parse(text);
    return *rest ? fail_parse(text) : PST_OK;
}

pst_status pst_inject_open(uint32_t rank, uint32_t n_rank, pst_inject **fault) {
    const char *text = getenv("PENSTOCK_FAULT");
    inject_kind kind = DROP;
    uint64_t at, of_rank, ms = 0;
    *fault = NULL;
    if (!text || !*text) return PST_OK;
    PST_TRY(parse(text, &kind, &of_rank, &at, &ms));
    if (of_rank >= n_rank) return fail_rank(text, of_rank, n_rank);
    if (of_rank != rank) return PST_OK;
    pst_inject *f = calloc(1, sizeof *f);
    if (!f) return pst_fail(PST_ENOMEM, "no memory for PENSTOCK_FAULT");
    f->kind = kind;
    f->at = at;
    f->delay_ns = ms * 1000000;
    *fault = f;
    return PST_OK;
}

/* Prints the time too, so that tests can measure how soon the fault is found. */
static void announce(const pst_inject *f, uint32_t rank, const char *what, uint32_t peer) {
    uint64_t now = pst_monotonic_ns();
    fprintf(stderr, "penstock: PENSTOCK_FAULT: rank %u, %s", rank, what);
    if (f->kind != SKIP) fprintf(stderr, " %" PRIu64 " to rank %u", f->at, peer);
    fprintf(stderr, " at %" PRIu64 ".%06" PRIu64 " s\n", now / 1000000000, now % 1000000000 / 1000);
}

int pst_inject_skips(pst_inject *f) {
    if (!f || f->kind != SKIP || ++f->count != f->at) return 0;
    char what[64];
    snprintf(what, sizeof what, "skip collective %" PRIu64, f->at);
    announce(f, f->wrap.base.rank, what, 0);
    return 1;
}

/* --- the transport ---------------------------------------------------------------------------- */

static pst_status inject_open(pst_world *world, const pst_clock *clock, pst_transport **transport) {
    (void)world;
    (void)clock;
    (void)transport;
    return pst_fail(PST_EINPUT,
                    "transport inject cannot be opened; it only wraps another transport");
}

static pst_status misbehave(pst_inject *f, const pst_transfer *transfer, uint64_t *request) {
    pst_transfer changed = *transfer;
    char what[32];
    snprintf(what, sizeof what, "%s message", kinds[f->kind]);
    announce(f, f->wrap.base.rank, what, transfer->peer);
    switch (f->kind) {
    case DROP: *request = DROPPED; return PST_OK;
    case DELAY:
        f->transfer = *transfer;
        f->is_held = 1;
        f->until_ns = pst_monotonic_ns() + f->delay_ns;
        *request = DELAYED;
        return PST_OK;
    case SIZE: changed.bytes /= 2; break;
    case STOP: kill(getpid(), SIGSTOP); break;
    case KILL: kill(getpid(), SIGKILL); break;
    case SPIN:
        for (volatile uint32_t i = 0;; i++) continue;
    default:
        for (;;) pause();
    }
    return f->wrap.inner->ops->post(f->wrap.inner, &changed, request);
}

/* Stores a copy of the message, per channel. Messages on channels for which there is no room are
 * not repeated. */
static pst_status remember(pst_inject *f, uint32_t i, const pst_transfer *transfer) {
    if (i == SENT) return PST_OK;
    void *copy = realloc(f->sent[i].copy, transfer->bytes + 1);
    if (!copy) return pst_fail(PST_ENOMEM, "no memory to repeat a message");
    memcpy(copy, transfer->mem, transfer->bytes);
    f->sent[i].copy = copy;
    f->sent[i].bytes = transfer->bytes;
    f->sent[i].channel = transfer->channel;
    if (i == f->n_sent) f->n_sent++;
    return PST_OK;
}

/* REPEAT: sends the first message, from the given one on, whose contents differ from the previous
 * message on the same channel with the previous contents. */
static pst_status repeat(pst_inject *f, const pst_transfer *transfer, uint64_t *request) {
    pst_transfer changed = *transfer;
    uint32_t i = 0;
    int counts = transfer->kind == PST_TRANSFER_SEND && !transfer->of_device && !f->repeated &&
                 transfer->channel < PST_CHANNEL_COLLECTIVE;
    while (counts && i < f->n_sent && f->sent[i].channel != transfer->channel) i++;
    int known = counts && i < f->n_sent && f->sent[i].bytes == transfer->bytes &&
                memcmp(f->sent[i].copy, transfer->mem, transfer->bytes) != 0;
    if (counts && ++f->count >= f->at && known) {
        f->repeated = 1;
        changed.mem = f->sent[i].copy;
        announce(f, f->wrap.base.rank, "repeat message", transfer->peer);
    } else if (counts) PST_TRY(remember(f, i, transfer));
    return f->wrap.inner->ops->post(f->wrap.inner, &changed, request);
}

/* An empty message cannot be halved: the fault occurs at the next message. */
static pst_status inject_post(pst_transport *t, const pst_transfer *transfer, uint64_t *request) {
    pst_inject *f = (pst_inject *)t;
    if (f->kind == REPEAT) return repeat(f, transfer, request);
    int counts = transfer->kind == PST_TRANSFER_SEND && f->kind != SKIP &&
                 (f->kind != SIZE || transfer->bytes);
    if (counts && ++f->count == f->at) return misbehave(f, transfer, request);
    return f->wrap.inner->ops->post(f->wrap.inner, transfer, request);
}

static pst_status release(pst_inject *f) {
    if (!f->is_held || pst_monotonic_ns() < f->until_ns) return PST_OK;
    f->is_held = 0;
    return f->wrap.inner->ops->post(f->wrap.inner, &f->transfer, &f->request);
}

static pst_status inject_test(pst_transport *t, uint64_t request, uint64_t *end_ns) {
    pst_inject *f = (pst_inject *)t;
    if (request == DROPPED) {
        if (end_ns) *end_ns = pst_clock_now(t->clock);
        return PST_OK;
    }
    if (request != DELAYED) return f->wrap.inner->ops->test(f->wrap.inner, request, end_ns);
    PST_TRY(release(f));
    return f->is_held ? PST_BUSY : f->wrap.inner->ops->test(f->wrap.inner, f->request, end_ns);
}

static uint64_t inject_next_ns(pst_transport *t) {
    pst_inject *f = (pst_inject *)t;
    return f->is_held ? f->until_ns : pst_wrapper_next_ns(t);
}

static void inject_close(pst_transport *t) {
    pst_inject *f = (pst_inject *)t;
    f->wrap.inner->ops->close(f->wrap.inner);
    f->wrap.inner = NULL;
}

static const pst_transport_ops inject_ops = {
    .name = "inject",
    .flags = PST_TRANSPORT_RENDEZVOUS,
    .open = inject_open,
    .post = inject_post,
    .test = inject_test,
    .progress = pst_wrapper_progress,
    .next_ns = inject_next_ns,
    .arm = pst_wrapper_arm,
    .abort = pst_wrapper_abort,
    .close = inject_close,
};

pst_transport *pst_inject_wrap(pst_inject *f, pst_transport *inner) {
    if (!f) return inner;
    f->wrap = pst_wrapper_of(inner, &inject_ops);
    f->wrap.base.reaches_cuda = inner->reaches_cuda;
    return &f->wrap.base;
}

void pst_inject_close(pst_inject *f) {
    for (uint32_t i = 0; f && i < f->n_sent; i++) free(f->sent[i].copy);
    free(f);
}

/* Collectives over any transport: barrier, broadcast, all-gather, all-reduce as non-blocking state machines on one
 * binomial tree. In the tree of n ranks, rank v hangs below v with its lowest bit cleared and the ranks below v are
 * contiguous: [v, v + lowbit(v)). Sums are added in the order own, child 1, child 2, child 4 ..., which depends on n
 * only; never on what arrived first. */
#include "comm/collective.h"
#include <stdlib.h>

enum { MAX_CHILD = 32, SEGMENT_BYTES = 1 << 20 }; /* an all-reduce climbs in segments, to bound its scratch */

typedef enum { IDLE, UP_RECV, UP_ADD, UP_SEND, DOWN_RECV, DOWN_SEND } coll_phase;

struct pst_coll {
    pst_transport *t;
    uint32_t seq; /* the same on every rank: all start the same collectives in the same order */
    coll_phase phase;
    pst_coll_kind kind;
    uint8_t *mem;
    uint64_t bytes; /* ALL_GATHER: of one rank; else in total */
    pst_dtype dtype;
    uint32_t root, node;     /* tree position of this rank: (rank - root) mod size */
    uint32_t n_child, child; /* UP_ADD: the one whose segment is in scratch */
    uint64_t offset;         /* all-reduce: start of the segment that climbs */
    uint32_t n_open;
    uint64_t open[MAX_CHILD];    /* requests under way */
    uint64_t message[MAX_CHILD]; /* the same as others read it, see base/position.h */
    uint64_t mismatch;
    const char *file, *function; /* see pst_coll_place */
    uint32_t line;
    pst_position *at, unwatched; /* what it says; where to say it when nobody asks */
    uint8_t nothing[1];          /* what a barrier sends none of */
    uint8_t *scratch;            /* one segment */
    uint64_t scratch_bytes;
    pst_status broken; /* a failure stays: peers are in an unknown state */
};

pst_status pst_coll_open(pst_transport *t, pst_coll **coll) {
    pst_coll *c = calloc(1, sizeof *c);
    if (!c) return pst_fail(PST_ENOMEM, "no memory for collectives");
    c->t = t;
    c->at = &c->unwatched;
    *coll = c;
    return PST_OK;
}

void pst_coll_watch(pst_coll *c, pst_position *position) { c->at = position; }

void pst_coll_place(pst_coll *c, const char *file, const char *function, uint32_t line) {
    c->file = file;
    c->function = function;
    c->line = line;
}

uint64_t pst_coll_mismatch(const pst_coll *c) { return c->mismatch; }

const char *pst_coll_name(pst_coll_kind kind) {
    static const char *const names[] = {"barrier", "broadcast", "all-gather", "all-reduce"};
    return kind <= PST_COLL_ALL_REDUCE ? names[kind] : "collective";
}

void pst_coll_close(pst_coll *c) {
    if (!c) return;
    free(c->scratch);
    free(c);
}

/* --- the tree --------------------------------------------------------------------------------------------------- */

/* Nodes in the subtree of `node`, itself included. */
static uint32_t subtree(const pst_coll *c, uint32_t node) {
    uint32_t left = c->t->size - node, span = node & (0u - node);
    return node && span < left ? span : left;
}

static uint32_t child_node(const pst_coll *c, uint32_t i) { return c->node + (UINT32_C(1) << i); }

static uint32_t count_children(const pst_coll *c) {
    uint32_t n = 0;
    while (n < 31 && (UINT32_C(1) << n) < subtree(c, c->node)) n++;
    return n;
}

static uint32_t rank_of(const pst_coll *c, uint32_t node) {
    return (uint32_t)(((uint64_t)node + c->root) % c->t->size);
}

/* --- what others see -------------------------------------------------------------------------------------------- */

static void say(pst_coll *c, pst_activity activity) {
    PST_POSITION_SET(c->at, coll_wait, 0);
    PST_POSITION_SET(c->at, activity, (uint32_t)activity);
    PST_POSITION_SET(c->at, since_ns, pst_monotonic_ns());
    pst_position_move(c->at);
}

static void say_start(pst_coll *c) {
    PST_POSITION_SET(c->at, coll_kind, (uint32_t)c->kind);
    PST_POSITION_SET(c->at, coll_root, c->root);
    PST_POSITION_SET(c->at, coll_bytes, c->bytes);
    PST_POSITION_SET(c->at, n_coll, PST_POSITION_GET(c->at, n_coll) + 1);
    uint64_t site = pst_position_site(c->at, c->file, c->function, c->line);
    pst_position_op(c->at,
                    site ? site : UINT64_C(1) << 63 | (uint64_t)c->kind << 40 | (c->bytes & 0xffffffff) << 3 | 7);
    say(c, PST_AT_COLLECTIVE);
}

static uint64_t say_post(pst_coll *c, const pst_transfer *t) {
    uint64_t message = pst_position_message(t->kind == PST_TRANSFER_RECV, t->peer, t->seq);
    uint64_t n = PST_POSITION_GET(c->at, n_coll_post);
    PST_POSITION_SET(c->at, coll_post[n % PST_POSITION_POSTS], message);
    PST_POSITION_SET(c->at, n_coll_post, n + 1);
    pst_position_move(c->at);
    return message;
}

static pst_status post(pst_coll *c, pst_transfer_kind kind, uint32_t node, uint32_t seq, void *mem, uint64_t bytes) {
    pst_transfer transfer = {.kind = kind,
                             .peer = rank_of(c, node),
                             .channel = PST_CHANNEL_COLLECTIVE,
                             .seq = seq,
                             .mem = mem,
                             .bytes = bytes};
    PST_TRY(c->t->ops->post(c->t, &transfer, &c->open[c->n_open]));
    c->message[c->n_open++] = say_post(c, &transfer);
    return PST_OK;
}

/* OK when nothing is under way any more. */
static pst_status settle(pst_coll *c) {
    pst_position_poll(c->at);
    if (c->n_open) c->t->ops->progress(c->t);
    for (uint32_t i = 0; i < c->n_open;) {
        uint64_t end_ns;
        pst_status status = c->t->ops->test(c->t, c->open[i], &end_ns);
        if (status == PST_BUSY) {
            i++;
            continue;
        }
        if (status == PST_EINPUT) c->mismatch = c->message[i];
        c->open[i] = c->open[--c->n_open];
        c->message[i] = c->message[c->n_open];
        pst_position_move(c->at);
        if (status != PST_OK) return status;
    }
    if (c->n_open) PST_POSITION_SET(c->at, coll_wait, c->message[0]);
    return c->n_open ? PST_BUSY : PST_OK;
}

/* --- sums ------------------------------------------------------------------------------------------------------- */

static uint64_t segment_bytes(const pst_coll *c) {
    return c->bytes - c->offset < SEGMENT_BYTES ? c->bytes - c->offset : SEGMENT_BYTES;
}

static uint32_t segment_count(const pst_coll *c) { return (uint32_t)((c->bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES); }

static void add_scratch(pst_coll *c) {
    uint64_t bytes = segment_bytes(c);
    if (c->dtype == PST_F32) {
        float *sum = (float *)(c->mem + c->offset);
        const float *more = (const float *)c->scratch;
        for (uint64_t i = 0; i < bytes / sizeof *sum; i++) sum[i] += more[i];
    } else {
        double *sum = (double *)(c->mem + c->offset);
        const double *more = (const double *)c->scratch;
        for (uint64_t i = 0; i < bytes / sizeof *sum; i++) sum[i] += more[i];
    }
}

static pst_status scratch_reserve(pst_coll *c) {
    uint64_t want = c->bytes < SEGMENT_BYTES ? c->bytes : SEGMENT_BYTES;
    if (want <= c->scratch_bytes) return PST_OK;
    void *scratch = realloc(c->scratch, want);
    if (!scratch)
        return pst_fail(PST_ENOMEM, "no memory for an all-reduce of %llu bytes", (unsigned long long)c->bytes);
    c->scratch = scratch;
    c->scratch_bytes = want;
    return PST_OK;
}

/* --- the state machine ------------------------------------------------------------------------------------------ */

static uint64_t down_bytes(const pst_coll *c) {
    return c->kind == PST_COLL_ALL_GATHER ? c->bytes * c->t->size : c->bytes;
}

/* Messages of one direction between two ranks need different numbers; every rank counts all of them. */
static uint32_t up_count(const pst_coll *c) {
    if (c->kind == PST_COLL_BROADCAST) return 0;
    return c->kind == PST_COLL_ALL_REDUCE ? segment_count(c) : 1;
}

static uint32_t segment_seq(const pst_coll *c) { return c->seq + (uint32_t)(c->offset / SEGMENT_BYTES); }

/* Barrier and all-gather: the whole subtrees of all children at once. All-reduce: one child's segment after another. */
static pst_status up_recv(pst_coll *c) {
    if (c->kind == PST_COLL_ALL_REDUCE) {
        c->phase = c->child < c->n_child ? UP_ADD : UP_SEND;
        if (c->phase == UP_SEND) return PST_OK;
        return post(c, PST_TRANSFER_RECV, child_node(c, c->child), segment_seq(c), c->scratch, segment_bytes(c));
    }
    for (uint32_t i = 0; i < c->n_child; i++) {
        uint32_t node = child_node(c, i);
        PST_TRY(post(c, PST_TRANSFER_RECV, node, c->seq, c->mem + node * c->bytes, subtree(c, node) * c->bytes));
    }
    c->phase = UP_SEND;
    return PST_OK;
}

static pst_status up_send(pst_coll *c) {
    uint32_t parent = c->node & (c->node - 1);
    if (c->kind != PST_COLL_ALL_REDUCE) {
        c->phase = DOWN_RECV;
        if (!c->node) return PST_OK;
        return post(c, PST_TRANSFER_SEND, parent, c->seq, c->mem + c->node * c->bytes, subtree(c, c->node) * c->bytes);
    }
    void *mem = c->mem + c->offset;
    uint64_t bytes = segment_bytes(c);
    uint32_t seq = segment_seq(c);
    c->offset += bytes;
    c->child = 0;
    c->phase = c->offset < c->bytes ? UP_RECV : DOWN_RECV;
    return c->node && bytes ? post(c, PST_TRANSFER_SEND, parent, seq, mem, bytes) : PST_OK;
}

static pst_status down_recv(pst_coll *c) {
    c->phase = DOWN_SEND;
    if (!c->node) return PST_OK;
    return post(c, PST_TRANSFER_RECV, c->node & (c->node - 1), c->seq + up_count(c), c->mem, down_bytes(c));
}

/* The largest subtree first: it has the longest way to go. */
static pst_status down_send(pst_coll *c) {
    uint32_t seq = c->seq + up_count(c);
    for (uint32_t i = c->n_child; i-- > 0;)
        PST_TRY(post(c, PST_TRANSFER_SEND, child_node(c, i), seq, c->mem, down_bytes(c)));
    c->phase = IDLE;
    return PST_OK;
}

static pst_status advance(pst_coll *c) {
    for (;;) {
        PST_TRY(settle(c));
        switch (c->phase) {
        case IDLE: return PST_OK;
        case UP_RECV: PST_TRY(up_recv(c)); break;
        case UP_ADD:
            add_scratch(c);
            c->child++;
            c->phase = UP_RECV;
            break;
        case UP_SEND: PST_TRY(up_send(c)); break;
        case DOWN_RECV: PST_TRY(down_recv(c)); break;
        case DOWN_SEND: PST_TRY(down_send(c)); break;
        }
    }
}

static pst_status check_arguments(const pst_coll *c, pst_coll_kind kind, uint64_t bytes, pst_dtype dtype,
                                  uint32_t root) {
    if (c->broken != PST_OK) return pst_fail(c->broken, "an earlier collective failed");
    if (c->phase != IDLE || c->n_open) return pst_fail(PST_EINTERNAL, "a collective is still under way");
    if (kind == PST_COLL_BROADCAST && root >= c->t->size)
        return pst_fail(PST_EINTERNAL, "no rank %u to broadcast from", root);
    if (kind != PST_COLL_ALL_REDUCE) return PST_OK;
    if ((dtype != PST_F32 && dtype != PST_F64) || bytes % pst_dtype_bytes(dtype))
        return pst_fail(PST_EINTERNAL, "an all-reduce adds F32 or F64, not %llu bytes of %s", (unsigned long long)bytes,
                        pst_dtype_name(dtype));
    return PST_OK;
}

pst_status pst_coll_start(pst_coll *c, pst_coll_kind kind, void *mem, uint64_t bytes, pst_dtype dtype, uint32_t root) {
    PST_TRY(check_arguments(c, kind, bytes, dtype, root));
    c->kind = kind;
    c->mem = kind == PST_COLL_BARRIER ? c->nothing : mem;
    c->bytes = kind == PST_COLL_BARRIER ? 0 : bytes;
    c->dtype = dtype;
    c->root = kind == PST_COLL_BROADCAST ? root : 0;
    c->node = (c->t->rank + c->t->size - c->root) % c->t->size;
    c->n_child = count_children(c);
    c->mismatch = 0;
    c->child = 0;
    c->offset = 0;
    if (c->t->size == 1 || (kind != PST_COLL_BARRIER && !bytes)) return PST_OK;
    if (kind == PST_COLL_ALL_REDUCE) PST_TRY(scratch_reserve(c));
    say_start(c);
    c->phase = kind == PST_COLL_BROADCAST ? DOWN_RECV : UP_RECV;
    return PST_OK;
}

pst_status pst_coll_test(pst_coll *c) {
    if (c->broken != PST_OK) return pst_fail(c->broken, "an earlier collective failed");
    if (c->phase == IDLE && !c->n_open) return PST_OK;
    pst_status status = advance(c);
    if (status == PST_OK) say(c, PST_AT_HOST);       /* who fails in one stays there, for others to see */
    if (status == PST_OK) c->seq += up_count(c) + 1; /* its messages' numbers are not used again */
    else if (status != PST_BUSY) c->broken = status;
    return status;
}

void pst_coll_break(pst_coll *c, pst_status status) {
    if (c->broken == PST_OK) c->broken = status;
}

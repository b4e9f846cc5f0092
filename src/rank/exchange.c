/* See exchange.h. Along the sequence, the positions of one rank are not contiguous in a tensor of
 * several samples, so they are packed before the collective and unpacked after it. */
#include "rank/exchange.h"
#include <stdlib.h>
#include <string.h>

enum { CHANNEL = PST_CHANNEL_COLLECTIVE + 1 };

struct pst_exchanger {
    pst_coll *coll;
    /* position of the collective for other ranks to read; the rank's own position shows only that
     * it is in an exchange */
    pst_position at;
    uint32_t n;
    uint64_t *bytes; /* [n] bytes of each rank's part */
    /* The pass under way. */
    const pst_graph *g;
    const pst_node *node;
    pst_exchange kind;
    pst_exchange_dtypes dtype;
    int ordered; /* adds as a tree over the ranks (graph/blocks.h) */
    uint8_t *from, *to, *scratch;
};

pst_status pst_exchanger_open(pst_transport *t, const uint32_t *members, uint32_t n,
                              pst_exchanger **out) {
    pst_exchanger *x = calloc(1, sizeof *x);
    if (x) {
        x->n = n;
        x->bytes = calloc(n, sizeof *x->bytes);
    }
    pst_status status = x && x->bytes
                            ? pst_coll_open(t, members, n, CHANNEL, &x->coll)
                            : pst_fail(PST_ENOMEM, "no memory for a group of %u tensor ranks", n);
    if (status == PST_OK) pst_coll_watch(x->coll, &x->at);
    if (status == PST_OK) *out = x;
    else pst_exchanger_close(x);
    return status;
}

void pst_exchanger_close(pst_exchanger *x) {
    if (!x) return;
    if (x->coll) pst_coll_close(x->coll);
    free(x->bytes);
    free(x);
}

/* --- conversion between types ----------------------------------------------------------------- */

static void widen(const void *from, pst_dtype dtype, float *to, uint64_t n) {
    const uint16_t *narrow = from;
    if (dtype == PST_F32) memcpy(to, from, n * sizeof *to);
    else
        for (uint64_t i = 0; i < n; i++) to[i] = pst_f32_from_half(dtype, narrow[i]);
}

static void narrow(const float *from, void *to, pst_dtype dtype, uint64_t n) {
    uint16_t *out = to;
    if (dtype == PST_F32) memcpy(to, from, n * sizeof *from);
    else
        for (uint64_t i = 0; i < n; i++) out[i] = pst_half_from_f32(dtype, from[i]);
}

/* --- along the sequence ----------------------------------------------------------------------- */

/* Sizes of a pass along the sequence: samples b, positions t, elements c per position; bytes of an
 * element read and written. */
typedef struct {
    uint64_t b, t, c, from, to;
} sizes;

static sizes sizes_of(const pst_exchanger *x) {
    const pst_tensor *t = pst_exchange_longer(x->g, x->node);
    return (sizes){t->dim[0], t->dim[1], t->dim[2], pst_dtype_bytes(x->dtype.from),
                   pst_dtype_bytes(x->dtype.to)};
}

/* size: bytes of an element in the message. */
static pst_part part_of(pst_exchanger *x, uint32_t part, const sizes *s, uint64_t size) {
    pst_part p = pst_part_of(s->t, x->n, part);
    x->bytes[part] = s->b * p.count * s->c * size;
    return p;
}

/* Starts a sum. In order: `doubling` adds a binary tree over the ranks; a sum of two has only one
 * order. There is no reduce-scatter of that kind, so each rank gets all parts. */
static pst_status start_adding(pst_exchanger *x, void *sum, uint64_t n, int scatters) {
    const int tree = x->ordered && x->n > 2;
    if (scatters && !tree)
        return pst_coll_start_parts(x->coll, PST_COLL_REDUCE_SCATTER, sum, x->bytes, PST_F32);
    if (tree) PST_TRY(pst_coll_force(x->coll, "doubling"));
    pst_status status =
        pst_coll_start(x->coll, PST_COLL_ALL_REDUCE, sum, n * sizeof(float), PST_F32, 0);
    if (tree) PST_TRY(pst_coll_force(x->coll, NULL));
    return status;
}

/* scratch: [rank][b, T of the rank, C] in fp32. */
static pst_status start_scatter(pst_exchanger *x) {
    sizes s = sizes_of(x);
    float *packed = (float *)x->scratch;
    for (uint32_t k = 0; k < x->n; k++) {
        pst_part p = part_of(x, k, &s, sizeof *packed);
        for (uint64_t r = 0; r < s.b; r++, packed += p.count * s.c)
            widen(x->from + (r * s.t + p.first) * s.c * s.from, x->dtype.from, packed,
                  p.count * s.c);
    }
    return start_adding(x, x->scratch, s.b * s.t * s.c, 1);
}

static void finish_scatter(pst_exchanger *x) {
    sizes s = sizes_of(x);
    pst_part own = pst_part_of(s.t, x->n, x->node->attr.part);
    const float *sum = (const float *)x->scratch + s.b * own.first * s.c;
    narrow(sum, x->to, x->dtype.to, s.b * own.count * s.c);
}

/* With one sample, the ranks' parts follow one another in the tensor; with several, they are in
 * scratch as above. */
static pst_status start_gather(pst_exchanger *x) {
    sizes s = sizes_of(x);
    uint8_t *mem = s.b == 1 ? x->to : x->scratch, *own = mem;
    uint32_t part = x->node->attr.part;
    for (uint32_t k = 0; k < x->n; k++) {
        part_of(x, k, &s, s.to);
        if (k < part) own += x->bytes[k];
    }
    memcpy(own, x->from, x->bytes[part]);
    return pst_coll_start_parts(x->coll, PST_COLL_ALL_GATHER, mem, x->bytes, PST_F32);
}

static void finish_gather(pst_exchanger *x) {
    sizes s = sizes_of(x);
    const uint8_t *packed = x->scratch;
    for (uint32_t k = 0; s.b > 1 && k < x->n; k++) {
        pst_part p = pst_part_of(s.t, x->n, k);
        uint64_t bytes = p.count * s.c * s.to;
        for (uint64_t r = 0; r < s.b; r++, packed += bytes)
            memcpy(x->to + (r * s.t + p.first) * s.c * s.to, packed, bytes);
    }
}

/* --- sums and copies -------------------------------------------------------------------------- */

static pst_status start_sum(pst_exchanger *x) {
    const pst_tensor *t = x->g->tensor + x->node->in[0];
    uint64_t n = pst_tensor_elements(t);
    if (x->dtype.to == PST_F32) return start_adding(x, x->to, n, 0);
    widen(x->from, x->dtype.from, (float *)x->scratch, n);
    return start_adding(x, x->scratch, n, 0);
}

static void finish_sum(pst_exchanger *x) {
    const pst_tensor *t = x->g->tensor + x->node->in[0];
    if (x->dtype.to != PST_F32)
        narrow((const float *)x->scratch, x->to, x->dtype.to, pst_tensor_elements(t));
}

static pst_status start_stack(pst_exchanger *x) {
    uint64_t bytes = pst_tensor_bytes(x->g->tensor + x->node->in[0]);
    memcpy(x->to + x->node->attr.part * bytes, x->from, bytes);
    return pst_coll_start(x->coll, PST_COLL_ALL_GATHER, x->to, bytes, PST_F32, 0);
}

pst_status pst_exchange_start(pst_exchanger *x, const pst_graph *g, const pst_node *node,
                              pst_pass pass, const pst_exchange_memory *memory) {
    x->g = g;
    x->node = node;
    x->kind = (pst_exchange)node->op->exchange[pass];
    x->dtype = pst_exchange_dtypes_of(g, node, pass);
    x->ordered = node->attr.blocks.n != 0;
    x->from = memory->from;
    x->to = memory->to;
    x->scratch = memory->scratch;
    switch (x->kind) {
    case PST_EXCHANGE_SUM: return start_sum(x);
    case PST_EXCHANGE_GATHER: return start_gather(x);
    case PST_EXCHANGE_SCATTER: return start_scatter(x);
    case PST_EXCHANGE_STACK: return start_stack(x);
    case PST_EXCHANGE_COPY:
        if (x->to != x->from) memcpy(x->to, x->from, pst_tensor_bytes(g->tensor + node->in[0]));
        return PST_OK;
    case PST_EXCHANGE_NONE: break;
    }
    return pst_fail(PST_EINTERNAL, "operator %s does not communicate between tensor ranks",
                    node->name);
}

pst_status pst_exchange_share(pst_exchanger *x, const uint32_t *host) {
    x->kind = PST_EXCHANGE_NONE;
    PST_TRY(pst_coll_hosts(x->coll, host));
    return pst_coll_share(x->coll);
}

pst_status pst_exchange_sum(pst_exchanger *x, float *sum, uint64_t n) {
    x->kind = PST_EXCHANGE_NONE;
    /* The stages determine which numbers are in one buffer; with a tree, the order of additions
     * does not depend on the place in the buffer. */
    PST_TRY(pst_coll_force(x->coll, "tree"));
    pst_status status =
        pst_coll_start(x->coll, PST_COLL_ALL_REDUCE, sum, n * sizeof *sum, PST_F32, 0);
    PST_TRY(pst_coll_force(x->coll, NULL));
    return status;
}

pst_status pst_exchange_parts(pst_exchanger *x, pst_coll_kind kind, void *mem, uint64_t bytes) {
    x->kind = PST_EXCHANGE_NONE;
    return pst_coll_start(x->coll, kind, mem, bytes, PST_F32, 0);
}

pst_status pst_exchange_nothing(pst_exchanger *x) {
    x->kind = PST_EXCHANGE_COPY;
    return PST_OK;
}

pst_status pst_exchange_test(pst_exchanger *x) {
    if (x->kind == PST_EXCHANGE_COPY) return PST_OK;
    PST_TRY(pst_coll_test(x->coll));
    if (x->kind == PST_EXCHANGE_SUM) finish_sum(x);
    if (x->kind == PST_EXCHANGE_GATHER) finish_gather(x);
    if (x->kind == PST_EXCHANGE_SCATTER) finish_scatter(x);
    return PST_OK;
}

uint64_t pst_exchange_moves(const pst_exchanger *x) { return PST_POSITION_GET(&x->at, moves); }
uint64_t pst_exchange_mismatch(const pst_exchanger *x) { return pst_coll_mismatch(x->coll); }
void pst_exchange_break(pst_exchanger *x, pst_status status) { pst_coll_break(x->coll, status); }

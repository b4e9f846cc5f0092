/* Sizes and masks of attention that kernels read from the graph. Queries, keys and values are
 * blocks of one operand, or three operands with fewer heads of keys and values. */
#ifndef PST_KERNELS_ATTENTION_H
#define PST_KERNELS_ATTENTION_H
#include "graph/split.h"
#include "kernels/shape.h"
#include <math.h>

typedef struct {
    uint64_t b, t, d; /* d: channels of a head */
    uint64_t heads, kv_heads;
    uint64_t c, kv_c;      /* channels of all heads of queries (and of the output), of keys */
    uint64_t q_ld, kv_ld;  /* elements from a position to the next in queries; keys and values */
    uint64_t group, first; /* heads that share keys; first head of this rank among these */
    uint64_t window;       /* 0: none */
    int packed;            /* 1: one operand */
    float rate;            /* probability with which a probability is dropped in training */
    uint64_t drop_first;   /* with a rate: first head of this rank among all */
    int bidirectional;
    float scale;
} pst_attention_shape;

static inline pst_attention_shape pst_attention_shape_of(const pst_graph *g, const pst_node *node) {
    const pst_tensor *x = &g->tensor[node->in[0]];
    const pst_attr *a = &node->attr;
    pst_attention_shape s = {.b = x->dim[0],
                             .t = x->dim[1],
                             .heads = a->heads,
                             .kv_heads = a->kv_heads ? a->kv_heads : a->heads,
                             .packed = !a->kv_heads,
                             .window = a->window,
                             .first = a->kv_heads ? a->first : 0,
                             .rate = a->rate,
                             .drop_first = a->first,
                             .bidirectional = a->bidirectional != 0};
    const uint64_t all = a->kv_heads && a->total ? a->total : a->heads;
    s.c = s.packed ? x->dim[2] / 3 : x->dim[2];
    s.d = s.c / s.heads;
    s.kv_c = s.d * s.kv_heads;
    s.q_ld = s.packed ? 3 * s.c : s.c;
    s.kv_ld = s.packed ? 3 * s.c : s.kv_c;
    s.group = all / s.kv_heads;
    s.scale = (float)(1 / sqrt((double)s.d));
    return s;
}

/* The head of keys and values of head h of the queries; the heads [first, end) of the queries that
 * share head `kv`. */
static inline uint64_t pst_attention_kv_of(const pst_attention_shape *s, uint64_t h) {
    return (s->first + h) / s->group;
}
static inline pst_part pst_attention_heads_of(const pst_attention_shape *s, uint64_t kv) {
    const uint64_t from = kv * s->group, to = from + s->group, end = s->first + s->heads;
    const uint64_t first = from > s->first ? from : s->first, last = pst_min_u64(to, end);
    return (pst_part){first - s->first, last > first ? last - first : 0};
}

/* The probability of key j for query i of a head is kept if word j % 4 at this position of the
 * sample's random stream (base/rng.h), as a uniform number, is >= rate. */
static inline uint64_t pst_attention_draw(const pst_attention_shape *s, uint64_t head, uint64_t i,
                                          uint64_t j) {
    return ((s->drop_first + head) << 32) + i * pst_div_up(s->t, 4) + j / 4;
}

/* The first position that position t attends to. */
static inline uint64_t pst_attention_first(const pst_attention_shape *s, const int32_t *starts,
                                           uint64_t sample, uint64_t t) {
    const uint64_t start = pst_start_of(starts, sample, s->t, t);
    if (!s->window || t < s->window) return start;
    return t + 1 - s->window > start ? t + 1 - s->window : start;
}
#endif

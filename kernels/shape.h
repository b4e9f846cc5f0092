/* Sizes that kernels read from the graph, and functions that run the tiles of a launch on the
 * device's threads. */
#ifndef PST_KERNELS_SHAPE_H
#define PST_KERNELS_SHAPE_H
#include "kernels/convolution.h"
#include "kernels/kernel.h"

static inline const pst_tensor *pst_call_in(const pst_call *call, uint32_t i) {
    return &call->graph->tensor[call->node->in[i]];
}

static inline uint64_t pst_tensor_last(const pst_tensor *t) { return t->dim[t->n_dim - 1]; }

/* Product of all dimensions but the last. */
static inline uint64_t pst_tensor_rows(const pst_tensor *t) {
    uint64_t rows = 1;
    for (uint32_t i = 0; i + 1 < t->n_dim; i++) rows *= t->dim[i];
    return rows;
}

/* Elements from the start of a row to the start of the next. */
static inline uint64_t pst_tensor_pitch(const pst_tensor *t) {
    return t->pitch ? t->pitch : pst_tensor_last(t);
}

static inline uint64_t pst_tensor_count(const pst_tensor *t) {
    return pst_tensor_rows(t) * pst_tensor_last(t);
}

static inline void pst_device_run(pst_device *device, pst_tile_fn fn, void *arg, uint64_t tiles) {
    if (device && device->pool) {
        pst_pool_run(device->pool, fn, arg, tiles);
        return;
    }
    for (uint64_t i = 0; i < tiles; i++) fn(arg, i, 0);
}

/* To be called repeatedly within a long tile, which `thread` runs: polls transfers if it is time
 * to. */
static inline void pst_device_poll(pst_device *device, uint32_t thread) {
    if (device && device->pool) pst_pool_poll(device->pool, thread);
}

static inline uint64_t pst_div_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
static inline uint64_t pst_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

static inline pst_convolution_shape pst_convolution_shape_of(const pst_graph *g,
                                                             const pst_node *node) {
    const pst_tensor *x = &g->tensor[node->in[0]], *y = &g->tensor[node->out[0]];
    const uint64_t *weight = g->param[node->param[0]].dim;
    return (pst_convolution_shape){.images = x->dim[0],
                                   .height = x->dim[1],
                                   .width = x->dim[2],
                                   .in = x->dim[3],
                                   .rows = y->dim[1],
                                   .columns = y->dim[2],
                                   .out = y->dim[3],
                                   .h = weight[1],
                                   .w = weight[2],
                                   .stride = node->attr.stride,
                                   .padding = node->attr.padding};
}

/* For attention, embedding and rotary: the start of each position [b,T], NULL: none. */
static inline const int32_t *pst_call_starts(const pst_call *call) {
    const pst_node *node = call->node;
    return pst_node_has_starts(call->graph, node) ? call->arg[pst_node_mask(node)] : NULL;
}
/* For embedding and rotary: the number of earlier positions of each sample [b], NULL: none. */
static inline const int32_t *pst_call_past(const pst_call *call) {
    return pst_node_has_past(call->graph, call->node) ? call->arg[1] : NULL;
}
/* For embedding: the type of each token [b,t], NULL: none. */
static inline const int32_t *pst_call_types(const pst_call *call) {
    return call->node->n_param > 2 ? call->arg[1] : NULL;
}
/* The start of position t of a sample. */
static inline uint64_t pst_start_of(const int32_t *starts, uint64_t sample, uint64_t positions,
                                    uint64_t t) {
    if (!starts || starts[sample * positions + t] < 0) return 0;
    return pst_min_u64((uint64_t)starts[sample * positions + t], t);
}
/* The position of row r of a tensor with so many positions per sample: counted from its start or
 * from the first position of the sample, of which `past` (may be NULL) are earlier than the
 * tensor's; clamped to `limit` - 1. */
static inline uint64_t pst_position_of(const int32_t *starts, const int32_t *past, uint64_t r,
                                       uint64_t positions, uint64_t limit) {
    uint64_t sample = r / positions, t = r % positions;
    if (!past) return t - pst_start_of(starts, sample, positions, t);
    return pst_min_u64(t + (past[sample] < 0 ? 0 : (uint64_t)past[sample]), limit - 1);
}
/* For attention. Return the lengths of the samples (NULL: none), the number of positions of a
 * sample that are not padding, and the operands after the inputs. */
static inline const int32_t *pst_call_lengths(const pst_call *call) {
    const uint32_t mask = pst_node_mask(call->node);
    return call->node->n_in > mask && !pst_call_starts(call) ? call->arg[mask] : NULL;
}
static inline uint64_t pst_length_of(const int32_t *lengths, uint64_t sample, uint64_t positions) {
    if (!lengths) return positions;
    return lengths[sample] < 0 ? 0 : pst_min_u64((uint64_t)lengths[sample], positions);
}
static inline void *const *pst_call_behind(const pst_call *call) {
    return call->arg + call->node->n_in;
}

/* For embedding and vocabulary_* operators: returns the size of the whole vocabulary, over all
 * tensor ranks; here: the size of this rank's part. */
static inline uint64_t pst_call_tokens(const pst_call *call, uint64_t here) {
    return call->node->attr.total ? call->node->attr.total : here;
}

/* gather_rows: b samples of t positions of c channels, of which p rows are gathered; this rank has
 * `t` of `total` positions, from `first` on. positions: number of inputs with positions, 0 or 1. */
typedef struct {
    uint64_t b, t, c, p, first, total;
    uint32_t positions;
} pst_gather_shape;
static inline pst_gather_shape pst_gather_shape_of(const pst_call *call) {
    const pst_tensor *x = pst_call_in(call, 0);
    const pst_attr *attr = &call->node->attr;
    return (pst_gather_shape){.b = x->dim[0],
                              .t = x->dim[1],
                              .c = x->dim[2],
                              .p = call->graph->tensor[call->node->out[0]].dim[1],
                              .first = attr->first,
                              .total = attr->total ? attr->total : x->dim[1],
                              .positions = call->node->n_in - 1};
}
/* The row of x [b*t] for row i of the output [b*p]; UINT64_MAX: none on this rank. */
static inline uint64_t pst_gather_row(const pst_gather_shape *s, const int32_t *position,
                                      uint64_t i) {
    const int64_t at = position ? position[i] : 0;
    const uint64_t here = (uint64_t)at - s->first; /* a large number if at is before the first */
    return at >= 0 && here < s->t ? i / s->p * s->t + here : UINT64_MAX;
}

/* Checks n indices. EINPUT: an index is outside of [0, limit); ignore 1: negative indices are
 * allowed. */
pst_status pst_call_check_index(const pst_call *call, const int32_t *index, uint64_t n,
                                uint64_t limit, int ignore);
/* Checks the positions of gather_rows; NULL: there are none. EINPUT as above. */
static inline pst_status pst_gather_check(const pst_call *call, const pst_gather_shape *s,
                                          const int32_t *position) {
    return position ? pst_call_check_index(call, position, s->b * s->p, s->total, 1) : PST_OK;
}
#endif

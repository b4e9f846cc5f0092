/* For the op_*.c files only: the rows, and helpers for operand lists and infer functions. Other
 * files include graph/op.h. */
#ifndef PST_GRAPH_OP_LIST_H
#define PST_GRAPH_OP_LIST_H
#include "graph/op.h"

extern const pst_op_row pst_op_embedding, pst_op_layer_norm, pst_op_rms_norm, pst_op_rotary,
    pst_op_gated, pst_op_linear, pst_op_attention, pst_op_dropout, pst_op_add, pst_op_narrow,
    pst_op_cross_entropy, pst_op_tensor_copy, pst_op_tensor_sum, pst_op_tensor_gather,
    pst_op_tensor_scatter, pst_op_tensor_stack, pst_op_vocabulary_part, pst_op_vocabulary_loss,
    pst_op_convolution, pst_op_batch_norm, pst_op_pixels, pst_op_max_pool, pst_op_average_pool,
    pst_op_cached_attention, pst_op_pick, pst_op_gather_rows, pst_op_activation, pst_op_scale;

static inline pst_arg pst_op_read(pst_arg_kind kind, uint8_t index) {
    return (pst_arg){.kind = (uint8_t)kind, .index = index, .access = PST_READ, .share = -1};
}
static inline pst_arg pst_op_write(pst_arg_kind kind, uint8_t index) {
    return (pst_arg){.kind = (uint8_t)kind, .index = index, .access = PST_WRITE, .share = -1};
}
/* A written operand that may reuse the memory of operand number `share` of the same list. */
static inline pst_arg pst_op_reuse(pst_arg_kind kind, uint8_t index, uint32_t share) {
    return (pst_arg){
        .kind = (uint8_t)kind, .index = index, .access = PST_WRITE, .share = (int8_t)share};
}
static inline pst_arg pst_op_accumulate(uint8_t index) {
    return (pst_arg){
        .kind = PST_ARG_DPARAM, .index = index, .access = PST_READ | PST_WRITE, .share = -1};
}

/* Input i and parameter i of a node; number of rows (all dimensions but the last) and columns (the
 * last dimension) of a tensor. */
static inline const pst_tensor *pst_node_in(const pst_graph *g, const pst_node *node, uint32_t i) {
    return &g->tensor[node->in[i]];
}
static inline const pst_param *pst_node_param(const pst_graph *g, const pst_node *node,
                                              uint32_t i) {
    return &g->param[node->param[i]];
}
static inline uint64_t pst_tensor_columns(const pst_tensor *t) { return t->dim[t->n_dim - 1]; }
static inline uint64_t pst_tensor_rows(const pst_tensor *t) {
    return pst_tensor_elements(t) / pst_tensor_columns(t);
}

/* EINPUT unless input i is of the graph's floating point type, with n_dim dimensions (0: 2 or more
 * dimensions). */
pst_status pst_node_expect_float(const pst_graph *g, const pst_node *node, uint32_t i,
                                 uint32_t n_dim);
/* Like pst_node_expect_float, but also accepts F32 in a graph with a 16-bit dtype. */
pst_status pst_node_expect_stream(const pst_graph *g, const pst_node *node, uint32_t i,
                                  uint32_t n_dim);
/* For infer: makes the first output F32 in a graph of any dtype. */
static inline void pst_node_out_wide(pst_graph *g, const pst_node *node) {
    g->tensor[node->out[0]].dtype = PST_F32;
}
/* EINPUT unless input i is int32 with n_dim dimensions. */
pst_status pst_node_expect_i32(const pst_graph *g, const pst_node *node, uint32_t i,
                               uint32_t n_dim);
/* For convolution and max_pool with windows of this size: creates the output [b,..,..,channels].
 * EINPUT if a window does not fit into the image. */
pst_status pst_node_image_out(pst_graph *g, pst_node *node, uint64_t height, uint64_t width,
                              uint64_t channels);
/* EINPUT unless parameter i has exactly these dimensions (d1 = 0: one dimension). */
pst_status pst_node_expect_param(const pst_graph *g, const pst_node *node, uint32_t i, uint64_t d0,
                                 uint64_t d1);
#endif

/* For split.c and split_choose.c only: a split under construction. */
#ifndef PST_GRAPH_SPLIT_PARTS_H
#define PST_GRAPH_SPLIT_PARTS_H
#include "graph/adapt.h"
#include "graph/op_list.h"
#include "graph/split.h"
#include <string.h>

/* How an operator is split. */
typedef enum {
    PST_SPLIT_PLAIN,
    PST_SPLIT_COLUMN,
    PST_SPLIT_ROW,
    PST_SPLIT_HEADS,
    /* linear of keys or values that all ranks need whole, because there are fewer of these heads
     * than ranks: repeated, but its gradient is a sum over the ranks */
    PST_SPLIT_SHARED,
    PST_SPLIT_VOCABULARY
} pst_split;

typedef struct {
    const pst_graph *whole;
    pst_split_options o;
    pst_graph *g;
    pst_split *split; /* [n_node] of the whole */
    /* [n_tensor] the only operator that reads it, PST_NONE: there are none or several */
    uint32_t *reader;
    uint32_t *producer; /* [n_tensor] the operator that makes it, PST_NONE: data */
    pst_slice *slice;   /* [n_param] */
    uint32_t *mapped;   /* [n_tensor] the tensor of the rank's graph that stands for it */
    /* [n_tensor] its tensor_copy or tensor_gather, which column-split operators read; PST_NONE: not
     * added yet */
    uint32_t *column_input;
    uint32_t *column_reader; /* [n_tensor] the operator for which that was added */
} pst_splitter;

static inline const pst_node *pst_split_node_of(const pst_splitter *b, uint32_t i) {
    return b->whole->node + i;
}
static inline int pst_split_is_op(const pst_node *d, const char *name) {
    return strcmp(d->op->name, name) == 0;
}
/* Attention to the sample's own positions, or to those in a cache. */
static inline int pst_split_attends(const pst_node *d) {
    return pst_split_is_op(d, "attention") || pst_split_is_op(d, "cached_attention");
}
static inline uint32_t pst_split_index_of(const pst_splitter *b, const pst_node *d) {
    return (uint32_t)(d - b->whole->node);
}

/* Over how many ranks an operator is split, and which part is this rank's. */
static inline uint32_t pst_split_parts_of(const pst_splitter *b, const pst_node *d) {
    return b->o.parts_of_node ? b->o.parts_of_node[pst_split_index_of(b, d)] : b->o.parts;
}
static inline uint32_t pst_split_part_of(const pst_splitter *b, const pst_node *d) {
    return b->o.part % pst_split_parts_of(b, d);
}
/* The number of ranks or blocks, each of which needs something to add. */
static inline uint32_t pst_split_pieces_of(const pst_splitter *b, const pst_node *d) {
    return b->o.blocks ? b->o.blocks : pst_split_parts_of(b, d);
}

/* Whether a part of a tensor can be passed from operator d to a later one: all from d on are split
 * over the same number of ranks. */
static inline int pst_split_is_together(const pst_splitter *b, const pst_node *d,
                                        const pst_node *with) {
    uint32_t i = pst_split_index_of(b, d), end = pst_split_index_of(b, with);
    if (b->o.parts_of_node && pst_split_parts_of(b, d) < 2) return 0;
    for (; i < end && b->o.parts_of_node; i++)
        if (b->o.parts_of_node[i] != b->o.parts_of_node[end]) return 0;
    return 1;
}
/* Whether the operator works element by element on what a linear computes: it adds what the adapter
 * computes, or applies the activation after that. */
static inline int pst_split_is_tail(const pst_splitter *b, const pst_node *d) {
    return pst_split_is_op(d, "activation") || pst_adapt_role_of(b->whole, d) == PST_ADAPT_ADD;
}
/* The tensor that stands for an operator's output, after its tail. */
static inline uint32_t pst_split_result(const pst_splitter *b, const pst_node *d) {
    uint32_t tensor = d->out[0];
    while (b->reader[tensor] != PST_NONE &&
           pst_split_is_tail(b, pst_split_node_of(b, b->reader[tensor])))
        tensor = pst_split_node_of(b, b->reader[tensor])->out[0];
    return tensor;
}
/* The only operator that reads an operator's result; NULL: there are none or several. Adapters of
 * the reader do not count. */
static inline const pst_node *pst_split_only_reader(const pst_splitter *b, const pst_node *d) {
    uint32_t reader = b->reader[pst_split_result(b, d)];
    return reader == PST_NONE ? NULL : pst_split_node_of(b, reader);
}

/* The operator that works on the columns of several linears, whether `linear` is one of these:
 * attention with inputs for queries, keys and values (after rotary positions), or gated. NULL:
 * none. */
static inline const pst_node *pst_split_join_behind(const pst_splitter *b, const pst_node *linear) {
    const pst_node *reader = pst_split_only_reader(b, linear);
    while (reader && pst_split_is_op(reader, "rotary")) reader = pst_split_only_reader(b, reader);
    if (!reader) return NULL;
    return pst_split_is_op(reader, "gated") || reader->attr.kv_heads ? reader : NULL;
}
/* The linear that computes a tensor, before its tail and rotary positions; NULL: another operator
 * does. */
static inline const pst_node *pst_split_linear_before(const pst_splitter *b, uint32_t tensor) {
    while (b->producer[tensor] != PST_NONE) {
        const pst_node *d = pst_split_node_of(b, b->producer[tensor]);
        if (pst_split_is_op(d, "linear")) return d;
        if (!pst_split_is_op(d, "rotary") && !pst_split_is_tail(b, d)) break;
        tensor = d->in[0];
    }
    return NULL;
}
/* attention: 1: each rank has all keys and values; they have fewer heads than there are ranks. */
static inline int pst_split_shares_kv(const pst_splitter *b, const pst_node *attention) {
    return attention->attr.kv_heads && !b->o.blocks &&
           attention->attr.kv_heads < pst_split_parts_of(b, attention);
}
/* attention: number of groups of heads that ranks split. */
static inline uint64_t pst_split_units(const pst_splitter *b, const pst_node *attention) {
    const pst_attr *a = &attention->attr;
    return a->kv_heads && !pst_split_shares_kv(b, attention) ? a->kv_heads : a->heads;
}
/* One row per sample, that of its first position (gather_rows), or computed from it: with
 * o.sequence, each rank has all of it. */
static inline int pst_split_is_pooled(const pst_splitter *b, uint32_t tensor) {
    while (b->whole->tensor[tensor].dim[1] == 1 && b->producer[tensor] != PST_NONE) {
        const pst_node *d = pst_split_node_of(b, b->producer[tensor]);
        if (pst_split_is_op(d, "gather_rows")) return d->n_in == 1;
        tensor = d->in[0];
    }
    return 0;
}
/* Whether the ranks have parts of the positions of a tensor. */
static inline int pst_split_is_along_sequence(const pst_splitter *b, uint32_t tensor) {
    return b->o.sequence && !pst_split_is_pooled(b, tensor);
}

/* split_choose.c: decides how each operator and parameter is split. EINPUT: more parts or blocks
 * than heads, features or tokens, or a graph whose sequence cannot be split. */
pst_status pst_split_choose(pst_splitter *b);
/* EINPUT unless something with n items has at least one for each of `pieces` parts or blocks. */
pst_status pst_split_check_parts(const pst_splitter *b, uint32_t pieces, uint64_t n,
                                 const char *what, const char *name);
#endif

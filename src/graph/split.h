/* Tensor parallelism as a rewrite of the graph: each of `parts` ranks gets a graph of its own, with
 * its part of the large parameters, and with exchanges (tensor_*) where it needs other ranks'
 * results. All ranks have the same operators in the same order; only sizes differ, where a
 * dimension is not a multiple of `parts`.
 *
 *   linear + attention + linear, linear + linear   first by columns (attention and its cache by
 *                                                  heads), second by rows
 *   embedding, output layer and cross_entropy      by tokens of the vocabulary
 *   adapters (adapt.h)                             B as the rows of the weight, A as its columns
 *   everything else                                repeated on every rank; with options.sequence
 *                                                  each rank has a part of its positions, and the
 *                                                  gradients of parameters are summed
 *
 * The bias of a row-split layer and the positions of a split embedding are added by part 0
 * alone. */
#ifndef PST_GRAPH_SPLIT_H
#define PST_GRAPH_SPLIT_H
#include "graph/graph.h"

typedef struct {
    uint64_t first, count;
} pst_part;

/* Part `part` of n items in order, split as evenly as possible. */
static inline pst_part pst_part_of(uint64_t n, uint32_t parts, uint32_t part) {
    uint64_t first = n / parts * part + n % parts * part / parts;
    uint64_t next = n / parts * (part + 1) + n % parts * (part + 1) / parts;
    return (pst_part){first, next - first};
}

typedef struct {
    uint32_t parts, part;
    /* Number of blocks in which sums are added that ranks split, a power of two that `parts`
     * divides (graph/blocks.h); 0: in any order. With blocks, even a graph of one part has these.
     * Not with parts_of_node. */
    uint32_t blocks;
    int sequence; /* 1: each rank has a part of the positions; not with parts_of_node */
    /* [n_node of the whole graph] the number of ranks over which each operator is split; this rank
     * has part `part` modulo that number, and `parts` is the largest number. Operators that are
     * split in pairs are not split if the two numbers differ, nor is a parameter that operators
     * with different numbers use. NULL: `parts` for all. */
    const uint32_t *parts_of_node;
    /* Result: for each operator of the part, the operator of the whole graph that it computes or,
     * for an exchange, that needs the exchange. Space for PST_SPLIT_NODES * n_node of the whole
     * graph; may be NULL. */
    uint32_t *origin;
} pst_split_options;
/* A part has at most PST_SPLIT_NODES times the operators of the whole graph. */
enum { PST_SPLIT_NODES = 4 };

/* Parameters keep their indices and names, operators their names. EINPUT: more parts than heads,
 * hidden features, tokens or, along the sequence, positions; or a graph whose sequence cannot be
 * split. The caller closes *part. */
pst_status pst_graph_split(const pst_graph *whole, const pst_split_options *options,
                           pst_graph **part);
#endif

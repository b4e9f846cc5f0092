/* Tensor parallelism as a rewrite of the graph: each of `parts` ranks gets a graph of its own, with
 * its part of the big parameters and with exchanges (tensor_*) where the ranks need each other. All
 * of them have the same operators in the same order; only sizes differ, where something does not
 * divide.
 *
 *   linear + attention + linear, linear + linear   first by columns (attention by heads), second by
 *                                                  rows
 *   embedding, output layer and cross_entropy      by tokens of the vocabulary
 *   everything else                                on every rank alike; with options.sequence each
 *                                                  rank has a part of the positions of it, and the
 *                                                  gradients of parameters are sums
 *
 * The bias of a row-split layer and the positions of a split embedding are added by part 0
 * alone. */
#ifndef PST_GRAPH_SPLIT_H
#define PST_GRAPH_SPLIT_H
#include "graph/graph.h"

typedef struct {
    uint64_t first, count;
} pst_part;

/* Part `part` of n things in order, the parts as equal as can be. */
static inline pst_part pst_part_of(uint64_t n, uint32_t parts, uint32_t part) {
    uint64_t first = n / parts * part + n % parts * part / parts;
    uint64_t next = n / parts * (part + 1) + n % parts * (part + 1) / parts;
    return (pst_part){first, next - first};
}

typedef struct {
    uint32_t parts, part;
    int sequence; /* see above; not with parts_of_node */
    /* [n_node of the whole] where operators are split among different numbers of ranks: into how
     * many parts each is, of which this is `part` modulo that number; `parts` is the most. What
     * would be split together with an operator across such a change is not split, nor is a
     * parameter that two numbers of ranks use. NULL: all into `parts`. */
    const uint32_t *parts_of_node;
    /* of each operator of the part, the operator of the whole that it stands for or, an exchange,
     * that needs it. Room for PST_SPLIT_NODES of the whole; NULL */
    uint32_t *origin;
} pst_split_options;
/* A part has no more operators than so many times those of the whole. */
enum { PST_SPLIT_NODES = 4 };

/* Parameters keep their indices and names, operators their names. EINPUT: more parts than heads,
 * hidden features, tokens or, along the sequence, positions; or a graph whose sequence cannot be
 * split. *part is the caller's. */
pst_status pst_graph_split(const pst_graph *whole, const pst_split_options *options,
                           pst_graph **part);
#endif

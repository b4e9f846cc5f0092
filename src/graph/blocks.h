/* Sums that do not depend on the number of tensor ranks (parallel.reproducible.tensor; compare
 * TBIK, arXiv 2511.17826). Each sum that tensor ranks split has a fixed number of blocks: of heads,
 * features, tokens or positions. The terms of a block are added in order; the sums of blocks are
 * added as a binary tree over the blocks. A rank of d has an aligned, contiguous part of the
 * blocks, so it adds a subtree, and the ranks' collective adds the upper part of the tree. */
#ifndef PST_GRAPH_BLOCKS_H
#define PST_GRAPH_BLOCKS_H
#include "graph/split.h"

/* Block i of this rank's blocks, in one of the ranges (or all positions): which of the `size`
 * elements that this rank has. */
static inline pst_part pst_block_of(const pst_blocks *b, uint64_t size, uint32_t i) {
    uint64_t from = pst_part_of(b->total, b->n, b->first).first;
    pst_part end = pst_part_of(b->total, b->n, b->first + b->own - 1),
             at = pst_part_of(b->total, b->n, b->first + i);
    uint64_t unit = size / (end.first + end.count - from);
    return (pst_part){(at.first - from) * unit, at.count * unit};
}
#endif

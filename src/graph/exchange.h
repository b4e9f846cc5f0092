/* Sizes of what tensor ranks exchange (graph/op.h, pst_exchange): parts of tensors, messages and
 * scratch memory. They depend on the graph alone, so memory is planned before a rank runs. */
#ifndef PST_GRAPH_EXCHANGE_H
#define PST_GRAPH_EXCHANGE_H
#include "graph/graph.h"
#include "graph/op.h"

/* The larger of a node's input and output: the tensor of all positions, or of all ranks. */
const pst_tensor *pst_exchange_longer(const pst_graph *g, const pst_node *node);
/* Types of what a pass reads and of what it writes. They differ where a sum in blocks is complete
 * only after the exchange. */
typedef struct {
    pst_dtype from, to;
} pst_exchange_dtypes;
pst_exchange_dtypes pst_exchange_dtypes_of(const pst_graph *g, const pst_node *node, pst_pass pass);
/* Bytes of scratch memory that a pass needs and overwrites completely; 0: none, or the pass is not
 * an exchange. */
uint64_t pst_exchange_scratch(const pst_graph *g, const pst_node *node, pst_pass pass);

/* --- where the host cannot reach the device's memory ------------------------------------------ */
/* One rank's part of the tensor, in bytes; along the sequence, its positions of one sample. */
typedef struct {
    uint64_t first, bytes;
} pst_far_part;

/* Along the sequence, each part occurs `samples` times at a distance of `whole` bytes; otherwise
 * samples is 1. */
typedef struct {
    uint64_t samples, whole;
} pst_far_samples;

pst_far_samples pst_far_samples_of(const pst_graph *g, const pst_node *node, pst_exchange kind);
/* Part `k` of `n` of the tensor. */
pst_far_part pst_far_part_of(const pst_graph *g, const pst_node *node, pst_exchange kind,
                             uint32_t n, uint32_t k);
/* Bytes of device scratch memory that a pass needs and overwrites completely; bytes of the largest
 * message of the pass. */
uint64_t pst_far_exchange_scratch(const pst_graph *g, const pst_node *node, pst_pass pass);
uint64_t pst_far_exchange_message(const pst_graph *g, const pst_node *node, pst_pass pass);
#endif

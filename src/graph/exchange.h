/* Sizes of what tensor ranks exchange (graph/op.h, pst_exchange): parts of tensors, messages and
 * scratch memory. They follow from the graph alone, so that memory can be laid out before a rank
 * exists. */
#ifndef PST_GRAPH_EXCHANGE_H
#define PST_GRAPH_EXCHANGE_H
#include "graph/graph.h"
#include "graph/op.h"

/* Of a node's input and output the larger: the tensor of all positions, or of all ranks. */
const pst_tensor *pst_exchange_longer(const pst_graph *g, const pst_node *node);
/* Bytes of scratch that a pass needs; 0: none, also when it is no exchange. All of it is
 * written. */
uint64_t pst_exchange_scratch(const pst_graph *g, const pst_node *node, pst_pass pass);

/* --- where the host cannot reach the device's memory ------------------------------------------ */
/* What a rank adds up, or has of the positions of a sample; bytes, where of one sample. */
typedef struct {
    uint64_t first, bytes;
} pst_far_part;

/* samples: that many times, `whole` bytes apart. */
typedef struct {
    uint64_t samples, whole;
} pst_far_samples;

pst_far_samples pst_far_samples_of(const pst_graph *g, const pst_node *node, pst_exchange kind);
/* Part k of n. */
pst_far_part pst_far_part_of(const pst_graph *g, const pst_node *node, pst_exchange kind,
                             uint32_t n, uint32_t k);
/* Bytes of the device's scratch that a pass needs, all of it written; and of its largest
 * message. */
uint64_t pst_far_exchange_scratch(const pst_graph *g, const pst_node *node, pst_pass pass);
uint64_t pst_far_exchange_message(const pst_graph *g, const pst_node *node, pst_pass pass);
#endif

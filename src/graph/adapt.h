/* Adapters of low rank (LoRA, Hu et al. 2021) as a rewrite of the graph: a linear x W^T of the
 * chosen ones becomes x W^T + (alpha/rank) (x A^T) B^T, of operators that exist anyway, so that
 * differentiation, tensor ranks and all devices follow. */
#ifndef PST_GRAPH_ADAPT_H
#define PST_GRAPH_ADAPT_H
#include "graph/graph.h"

typedef struct {
    uint32_t rank;
    float alpha;
    /* which linears: groups (pst_adapt_groups) or patterns of the names of their weights, as
     * fnmatch matches them */
    char *const *on;
    uint32_t n_on;
} pst_adapt;

/* *adapted: a copy of the unsplit graph with adapters, which the caller closes. The operators of
 * linear L (weight N.weight [n,k]) are L, L.lora_A with parameter N.lora_A.weight [rank,k] of
 * normal numbers with the variance 1/(3k), L.lora_scale unless alpha is rank, L.lora_B with
 * N.lora_B.weight [n,rank] of zeros, L.lora_add, and L.act if L has an activation, which then
 * follows the sum. EINPUT: a pattern names no linear, or the rank exceeds k or n; the message says
 * what there is. */
pst_status pst_graph_adapt(const pst_graph *graph, const pst_adapt *adapt, pst_graph **adapted);

/* pst_param.adapter: which matrix of an adapter. */
enum { PST_ADAPTER_DOWN = 1, PST_ADAPTER_UP = 2 };
/* The name of a matrix of the adapter of the linear whose weight has this name. EINPUT: it would be
 * too long. */
pst_status pst_adapter_name(const char *weight, int which, char out[PST_NAME_MAX]);
/* weight += scale * up down, in the order of the rank's products. weight: the n elements of a
 * matrix from element `at` on; up: [rows,rank], down: [rank,columns], whole. */
typedef struct {
    const float *up, *down;
    uint32_t rank;
    uint64_t columns;
    float scale;
} pst_adapter;
void pst_adapter_merge(const pst_adapter *adapter, uint64_t at, uint64_t n, float *weight);

/* Which part of an adapter an operator is. */
typedef enum {
    PST_ADAPT_NONE,
    PST_ADAPT_DOWN, /* the operator before it is the linear that is adapted */
    PST_ADAPT_SCALE,
    PST_ADAPT_UP,
    PST_ADAPT_ADD
} pst_adapt_role;
pst_adapt_role pst_adapt_role_of(const pst_graph *g, const pst_node *node);
/* The linear to which an operator with a role belongs. */
const pst_node *pst_adapt_base(const pst_graph *g, const pst_node *node);
#endif

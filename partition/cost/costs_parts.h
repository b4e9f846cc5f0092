/* Private to costs*.c. */
#ifndef PST_PARTITION_COST_COSTS_PARTS_H
#define PST_PARTITION_COST_COSTS_PARTS_H
#include "partition/cost/costs.h"
#include <math.h>

/* Rounded ns, at most 1e18. */
static inline uint64_t pst_costs_round(double ns) {
    return ns < 1e18 ? (uint64_t)llround(ns) : UINT64_C(1000000000000000000);
}

/* costs_product.c */
/* `count` products of m x k times k x n, whose sums may be split into up to `parts` parts. */
typedef struct {
    double count, m, n, k, parts;
} pst_costs_product;
double pst_costs_product_s(const pst_costs *costs, pst_dtype factors,
                           const pst_costs_product *product);
/* Seconds, without the launch of a kernel. */
double pst_costs_move_s(const pst_costs *costs, double bytes);
/* ns from the end of a kernel to the start of the next. */
double pst_costs_launch_ns(const pst_costs *costs);

/* costs_device.c: devices that run one kernel after the other. */
uint64_t pst_costs_device_ns(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                             const pst_costs_work *work);
uint64_t pst_costs_move_ns(const pst_costs *costs, double bytes);
/* Bytes that the optimizer moves per parameter. */
double pst_costs_optimizer_bytes(const pst_costs *costs);
uint64_t pst_costs_ring_ns(pst_exchange kind, uint32_t parts, const pst_cluster_link *link,
                           uint64_t bytes);
uint64_t pst_costs_added_ns(const pst_costs *costs, pst_exchange exchange, uint32_t parts,
                            uint64_t bytes);

/* costs_attention.c: seconds of a pass of attention; flops: its useful operations. */
double pst_costs_attention_s(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                             pst_pass pass, double flops);
#endif

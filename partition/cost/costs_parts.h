/* Private to costs*.c. */
#ifndef PST_PARTITION_COST_COSTS_PARTS_H
#define PST_PARTITION_COST_COSTS_PARTS_H
#include "partition/cost/costs.h"
#include <math.h>

/* Rounded ns, at most 1e18. */
static inline uint64_t pst_costs_round(double ns) {
    return ns < 1e18 ? (uint64_t)llround(ns) : UINT64_C(1000000000000000000);
}

/* costs_device.c: devices that run one kernel after the other. */
uint64_t pst_costs_device_ns(const pst_device_kind *kind, const pst_graph *g, const pst_node *node,
                             const pst_costs_work *work);
uint64_t pst_costs_move_ns(const pst_device_kind *kind, double bytes);
uint64_t pst_costs_ring_ns(pst_exchange kind, uint32_t parts, const pst_cluster_link *link,
                           uint64_t bytes);
uint64_t pst_costs_added_ns(const pst_device_kind *kind, pst_exchange exchange, uint32_t parts,
                            uint64_t bytes);
#endif

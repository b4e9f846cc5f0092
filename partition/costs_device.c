/* Efficiency curves: what part of its datasheet's rates a device reaches, by kind of operator and by size. */
#include "partition/costs_parts.h"
#include <string.h>

#define LAUNCH_NS 3000.0 /* from the end of a kernel to the start of the next */
#define MOVE_SHARE 0.85  /* of memory bandwidth that kernels reach which only move data */
#define LINK_SHARE 0.8   /* of a link's rate that collectives reach */

static double peak(const pst_device_kind *kind, const pst_graph *g) {
    double flops = kind->flops[g->dtype];
    return flops > 0 ? flops : kind->flops[PST_F32];
}

uint64_t pst_costs_move_ns(const pst_device_kind *kind, double bytes) {
    return pst_costs_round(LAUNCH_NS + bytes / (kind->bytes_per_s * MOVE_SHARE) * 1e9);
}

/* The part of the peak that products reach. */
static double share(const pst_node *node, int extra) {
    if (extra) return 0;
    if (!strcmp(node->op->name, "linear")) return 0.8;
    return !strcmp(node->op->name, "attention") ? 0.5 : 0;
}

uint64_t pst_costs_device_ns(const pst_device_kind *kind, const pst_graph *g, const pst_node *node, int extra,
                             pst_pass pass, uint64_t flops, uint64_t bytes) {
    (void)pass;
    double part = share(node, extra), compute = part > 0 ? (double)flops / (peak(kind, g) * part) * 1e9 : 0;
    double move = (double)bytes / (kind->bytes_per_s * MOVE_SHARE) * 1e9;
    return pst_costs_round(LAUNCH_NS + (compute > move ? compute : move));
}

uint64_t pst_costs_ring_ns(pst_exchange kind, uint32_t parts, const pst_cluster_link *link, uint64_t bytes) {
    double turns = (double)(parts - 1) * (kind == PST_EXCHANGE_SUM ? 2 : 1);
    return pst_costs_round(LAUNCH_NS + turns * (double)link->latency_ns +
                           (double)bytes / (link->bytes_per_s * LINK_SHARE) * 1e9);
}

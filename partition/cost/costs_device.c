/* Efficiency curves: which part of its datasheet's rates a device reaches, by kind and size of
 * operator. From public measurements of kernels, none of them of a training step:
 *
 *   products    the output is computed in tiles, in waves of one tile per core; the last wave may
 *               be almost empty (NVIDIA, Matrix Multiplication Background User's Guide). Best rate
 *               of a wave: the maximum achievable matmul FLOPS of github.com/stas00/ml-engineering,
 *               compute/accelerator (A100 86.9%, H100 80.3%, B200 77.6%, MI300X 60.1%; others are
 *               taken as their nearest relative). The start and end of a
 *               tile cost as much as DEPTH of its inner dimension, about what tables of H100
 *               products in github.com/openxla/xla show.
 *   convolution the equivalent product, without writing out the windows; no measurement was taken
 *   attention   FlashAttention-2 and 3 (Dao 2023, figures 4 to 6; Shah et al. 2024, figures 5 and
 *               6): backward passes reach less, and so do short sequences.
 *   others      move bytes at the share of the memory bandwidth that STREAM reaches.
 *   exchanges   rings, with the rates and latencies of github.com/NVIDIA/nccl, src/graph/tuning.cc
 *               (version 2.8 to 2.12, protocol Simple): 8.4 us, 3.4 us per ring step over NVLink,
 *               235 of an A100's 300 GB/s. */
#include "partition/cost/costs_parts.h"
#include <math.h>
#include <string.h>
#include <strings.h>

#define LAUNCH_NS 3000.0 /* from the end of a kernel to the start of the next */
#define DEPTH 160.0
#define MOST_PARTS 64.0 /* parts that cuDNN splits a weight gradient's sums into, at most */
#define MOVE_SHARE 0.85
#define ATTENTION_F 0.65
#define ATTENTION_B 0.53
#define ATTENTION_HALF 400.0 /* positions at which attention reaches half of that rate */
#define RING_NS 8400.0
#define TURN_SHARE 0.68 /* of a message's latency, 5 us over NVLink: it is launched once */
#define RING_SHARE 0.783

/* By name prefix; "": all others. */
static const struct {
    const char *name;
    double cores, share; /* share: of the peak rate, for the best products */
} devices[] = {{"V100", 80, 0.85},     {"A100", 108, 0.869}, {"H100", 132, 0.803},
               {"H200", 132, 0.803},   {"B200", 148, 0.776}, {"GB200", 152, 0.776},
               {"B300", 148, 0.776},   {"L40S", 142, 0.8},   {"RTX-4090", 128, 0.8},
               {"MI300X", 304, 0.601}, {"", 108, 0.8}};

static double peak(const pst_device_kind *kind, pst_dtype factors) {
    double flops = kind->flops[factors];
    /* types that the device does not support are computed in fp32 */
    return flops > 0 ? flops : kind->flops[PST_F32];
}

/* Seconds of an m x k times k x n product with the best tile size and the best number of parts (up
 * to `parts`) that a tile's sums are split into. */
static double product_s(const pst_device_kind *kind, double flops_per_s, double m, double n,
                        double k, double parts) {
    static const struct {
        double m, n, share;
    } tile[] = {{256, 128, 1},  {128, 256, 1},  {128, 128, 0.95}, {256, 64, 0.9},
                {64, 256, 0.9}, {128, 64, 0.8}, {64, 64, 0.6}};
    size_t d = 0;
    while (strncasecmp(kind->name, devices[d].name, strlen(devices[d].name)) != 0) d++;
    double best = INFINITY;
    for (size_t i = 0; i < sizeof tile / sizeof *tile; i++)
        for (double part = 1; part <= parts; part *= 2) {
            double waves =
                ceil(ceil(m / tile[i].m) * ceil(n / tile[i].n) * part / devices[d].cores);
            double wave = 2 * tile[i].m * tile[i].n * (k / part + DEPTH) * devices[d].cores;
            best = fmin(best, waves * wave / (flops_per_s * devices[d].share * tile[i].share));
        }
    return best;
}

static double linear_s(const pst_device_kind *kind, const pst_graph *g, const pst_node *node,
                       pst_pass pass) {
    const pst_tensor *x = g->tensor + node->in[0], *y = g->tensor + node->out[0];
    double k = (double)x->dim[x->n_dim - 1], n = (double)y->dim[y->n_dim - 1],
           m = (double)pst_tensor_elements(x) / k;
    double flops_per_s = peak(kind, pst_node_factors(g, node));
    if (pass == PST_PASS_F) return product_s(kind, flops_per_s, m, n, k, 1);
    return pass == PST_PASS_B ? product_s(kind, flops_per_s, m, k, n, 1)
                              : product_s(kind, flops_per_s, n, k, m, 1);
}

/* A convolution as a matrix product: F is [windows, hwC] x [hwC, O]; B has the same number of
 * operations, per pixel of x; W is a small matrix of long sums. Channels are rounded up to a
 * multiple of 8. */
static double convolution_s(const pst_device_kind *kind, const pst_graph *g, const pst_node *node,
                            pst_pass pass) {
    const uint64_t *weight = g->param[node->param[0]].dim;
    double in = 8 * ceil((double)weight[3] / 8), out = 8 * ceil((double)weight[0] / 8);
    double window = (double)(weight[1] * weight[2]);
    double pixels = (double)pst_tensor_elements(g->tensor + node->in[0]) / (double)weight[3];
    double windows = (double)pst_tensor_elements(g->tensor + node->out[0]) / (double)weight[0];
    double flops_per_s =
        peak(kind, pst_graph_factors(g) == PST_F8 ? g->dtype : pst_graph_factors(g));
    if (pass == PST_PASS_F) return product_s(kind, flops_per_s, windows, out, window * in, 1);
    if (pass == PST_PASS_B)
        return product_s(kind, flops_per_s, pixels, in, window * out * windows / pixels, 1);
    return product_s(kind, flops_per_s, out, window * in, windows, MOST_PARTS);
}

static double attention_s(const pst_device_kind *kind, const pst_graph *g, const pst_node *node,
                          pst_pass pass, double flops) {
    double length = (double)g->tensor[node->in[0]].dim[1];
    double share =
        (pass == PST_PASS_F ? ATTENTION_F : ATTENTION_B) * length / (length + ATTENTION_HALF);
    return flops / (peak(kind, g->dtype) * share);
}

/* Additional time of FP8 products: one kernel per factor, which reads the stored values and writes
 * 8-bit values. */
static double rounding_s(const pst_device_kind *kind, const pst_graph *g, const pst_node *node,
                         pst_pass pass) {
    if (pst_node_factors(g, node) != PST_F8) return 0;
    uint64_t x = pst_tensor_elements(g->tensor + node->in[0]),
             y = pst_tensor_elements(g->tensor + node->out[0]);
    uint64_t weight = pst_param_elements(g->param + node->param[0]);
    uint64_t both = x + y;
    if (pass != PST_PASS_W) both = weight + (pass == PST_PASS_F ? x : y);
    return 2 * LAUNCH_NS * 1e-9 +
           (double)both * (double)(pst_dtype_bytes(g->dtype) + pst_dtype_bytes(PST_F8)) /
               (kind->bytes_per_s * MOVE_SHARE);
}

uint64_t pst_costs_move_ns(const pst_device_kind *kind, double bytes) {
    return pst_costs_round(LAUNCH_NS + bytes / (kind->bytes_per_s * MOVE_SHARE) * 1e9);
}

uint64_t pst_costs_device_ns(const pst_device_kind *kind, const pst_graph *g, const pst_node *node,
                             const pst_costs_work *work) {
    const pst_pass pass = work->pass;
    double compute = 0, move = (double)work->bytes / (kind->bytes_per_s * MOVE_SHARE);
    if (!work->extra && !strcmp(node->op->name, "linear"))
        compute = linear_s(kind, g, node, pass) + rounding_s(kind, g, node, pass);
    if (!work->extra && !strcmp(node->op->name, "convolution"))
        compute = convolution_s(kind, g, node, pass);
    if (!work->extra && !strcmp(node->op->name, "attention"))
        compute = attention_s(kind, g, node, pass, (double)work->flops);
    return pst_costs_round(LAUNCH_NS + fmax(compute, move) * 1e9);
}

uint64_t pst_costs_ring_ns(pst_exchange kind, uint32_t parts, const pst_cluster_link *link,
                           uint64_t bytes) {
    double turns = (double)(parts - 1) * (kind == PST_EXCHANGE_SUM ? 2 : 1);
    return pst_costs_round(RING_NS + turns * TURN_SHARE * (double)link->latency_ns +
                           (double)bytes / (link->bytes_per_s * RING_SHARE) * 1e9);
}

/* Another kernel adds all ranks' parts, and another operation distributes the sums. */
uint64_t pst_costs_added_ns(const pst_device_kind *kind, pst_exchange exchange, uint32_t parts,
                            uint64_t bytes) {
    int all = exchange == PST_EXCHANGE_SUM;
    if ((!all && exchange != PST_EXCHANGE_SCATTER) || parts < 2) return 0;
    double part = (double)bytes / (parts - 1) / (all ? 2 : 1);
    return pst_costs_move_ns(kind, part * (parts + 1)) + (all ? pst_costs_round(RING_NS) : 0);
}

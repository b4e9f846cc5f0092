/* Efficiency curves: which part of its datasheet's rates a device reaches, by kind and size of
 * operator. From public measurements of kernels, none of them of a training step:
 *
 *   products    costs_product.c
 *   convolution the equivalent product, without writing out the windows; no measurement was taken
 *   attention   costs_attention.c
 *   others      move bytes (costs_product.c)
 *   exchanges   rings, with the rates and latencies of github.com/NVIDIA/nccl, src/graph/tuning.cc
 *               (version 2.8 to 2.12, protocol Simple): 8.4 us, 3.4 us per ring step over NVLink,
 *               235 of an A100's 300 GB/s. */
#include "partition/cost/costs_parts.h"
#include <math.h>
#include <string.h>

#define MOST_PARTS 64.0      /* parts that cuDNN splits a weight gradient's sums into, at most */
#define OPTIMIZER_BYTES 28.0 /* per parameter: weights, gradients and states of AdamW */
#define RING_NS 8400.0
#define TURN_SHARE 0.68 /* of a message's latency, 5 us over NVLink: it is launched once */
#define RING_SHARE 0.783

static double linear_s(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                       pst_pass pass) {
    const pst_tensor *x = g->tensor + node->in[0], *y = g->tensor + node->out[0];
    double k = (double)x->dim[x->n_dim - 1], n = (double)y->dim[y->n_dim - 1],
           m = (double)pst_tensor_elements(x) / k;
    const pst_costs_product of[PST_PASS_COUNT] = {[PST_PASS_F] = {1, m, n, k, 1},
                                                  [PST_PASS_B] = {1, m, k, n, 1},
                                                  [PST_PASS_W] = {1, n, k, m, 1}};
    return pst_costs_product_s(costs, pst_node_factors(g, node), &of[pass]);
}

/* Kernels of their own beside the product: activation, and sum of the gradient for the bias. */
static double unfused_s(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                        pst_pass pass) {
    const pst_costs_program *p =
        costs->program ? costs->program : pst_costs_programs(&(uint32_t){0});
    const int activates = node->attr.activation != PST_ACT_NONE;
    double passes = 0;
    if (activates && pass == PST_PASS_F) passes = p->activation_f;
    if (activates && pass == PST_PASS_B) passes = p->activation_b;
    if (node->n_param > 1 && pass == PST_PASS_W) passes = p->bias;
    if (!(passes > 0)) return 0;
    return pst_costs_launch_ns(costs) * 1e-9 +
           pst_costs_move_s(costs, passes * (double)pst_tensor_bytes(g->tensor + node->out[0]));
}

/* A convolution as a matrix product: F is [windows, hwC] x [hwC, O]; B has the same number of
 * operations, per pixel of x; W is a small matrix of long sums. Channels are rounded up to a
 * multiple of 8. */
static double convolution_s(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                            pst_pass pass) {
    const uint64_t *weight = g->param[node->param[0]].dim;
    double in = 8 * ceil((double)weight[3] / 8), out = 8 * ceil((double)weight[0] / 8);
    double window = (double)(weight[1] * weight[2]);
    double pixels = (double)pst_tensor_elements(g->tensor + node->in[0]) / (double)weight[3];
    double windows = (double)pst_tensor_elements(g->tensor + node->out[0]) / (double)weight[0];
    const pst_dtype factors = pst_graph_factors(g) == PST_F8 ? g->dtype : pst_graph_factors(g);
    const pst_costs_product of[PST_PASS_COUNT] = {
        [PST_PASS_F] = {1, windows, out, window * in, 1},
        [PST_PASS_B] = {1, pixels, in, window * out * windows / pixels, 1},
        [PST_PASS_W] = {1, out, window * in, windows, MOST_PARTS}};
    return pst_costs_product_s(costs, factors, &of[pass]);
}

/* Additional time of FP8 products: one kernel per factor, which reads the stored values and writes
 * 8-bit values. */
static double rounding_s(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                         pst_pass pass) {
    if (pst_node_factors(g, node) != PST_F8) return 0;
    uint64_t x = pst_tensor_elements(g->tensor + node->in[0]),
             y = pst_tensor_elements(g->tensor + node->out[0]);
    uint64_t weight = pst_param_elements(g->param + node->param[0]);
    uint64_t both = x + y;
    if (pass != PST_PASS_W) both = weight + (pass == PST_PASS_F ? x : y);
    const uint64_t bytes = pst_dtype_bytes(g->dtype) + pst_dtype_bytes(PST_F8);
    return 2 * pst_costs_launch_ns(costs) * 1e-9 + pst_costs_move_s(costs, (double)(both * bytes));
}

static int is_named(const pst_node *node, const char *name) {
    return !strcmp(node->op->name, name);
}

/* Bytes that an operator moves in the program: the loss, and gradients of a residual that are added
 * by kernels of their own. */
static double moved(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                    const pst_costs_work *work) {
    const pst_costs_program *p = costs->program;
    const pst_tensor *x = node->n_in ? g->tensor + node->in[0] : NULL;
    const double bytes = (double)work->bytes;
    if (!p || !x || work->extra) return bytes;
    const int norm = is_named(node, "layer_norm") || is_named(node, "rms_norm");
    if (norm && work->pass == PST_PASS_B) return bytes + p->residual * (double)pst_tensor_bytes(x);
    const int first = is_named(node, "cross_entropy") || is_named(node, "vocabulary_part");
    const int last = is_named(node, "cross_entropy") || is_named(node, "vocabulary_loss");
    double each = 0;
    if (first && work->pass == PST_PASS_F) each = p->loss_f;
    if (last && work->pass == PST_PASS_B) each = p->loss_b;
    return each > 0 ? each * (double)pst_tensor_elements(x) : bytes;
}

uint64_t pst_costs_move_ns(const pst_costs *costs, double bytes) {
    return pst_costs_round(pst_costs_launch_ns(costs) + pst_costs_move_s(costs, bytes) * 1e9);
}

/* Two states of 16 bits take 8 bytes less to read and write. */
double pst_costs_optimizer_bytes(const pst_costs *costs) {
    double bytes = costs->program ? costs->program->optimizer : OPTIMIZER_BYTES;
    return costs->narrow_state ? bytes - 8 : bytes;
}

uint64_t pst_costs_device_ns(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                             const pst_costs_work *work) {
    const pst_pass pass = work->pass;
    double compute = 0, beside = 0, move = pst_costs_move_s(costs, moved(costs, g, node, work));
    if (!work->extra && is_named(node, "linear")) {
        compute = linear_s(costs, g, node, pass);
        beside = unfused_s(costs, g, node, pass) + rounding_s(costs, g, node, pass);
    }
    if (!work->extra && is_named(node, "convolution"))
        compute = convolution_s(costs, g, node, pass);
    if (!work->extra && is_named(node, "attention"))
        compute = pst_costs_attention_s(costs, g, node, pass, (double)work->flops);
    return pst_costs_round(pst_costs_launch_ns(costs) + (fmax(compute, move) + beside) * 1e9);
}

uint64_t pst_costs_ring_ns(pst_exchange kind, uint32_t parts, const pst_cluster_link *link,
                           uint64_t bytes) {
    double turns = (double)(parts - 1) * (kind == PST_EXCHANGE_SUM ? 2 : 1);
    return pst_costs_round(RING_NS + turns * TURN_SHARE * (double)link->latency_ns +
                           (double)bytes / (link->bytes_per_s * RING_SHARE) * 1e9);
}

/* Another kernel adds all ranks' parts, and another operation distributes the sums. */
uint64_t pst_costs_added_ns(const pst_costs *costs, pst_exchange exchange, uint32_t parts,
                            uint64_t bytes) {
    int all = exchange == PST_EXCHANGE_SUM;
    if ((!all && exchange != PST_EXCHANGE_SCATTER) || parts < 2) return 0;
    double part = (double)bytes / (parts - 1) / (all ? 2 : 1);
    return pst_costs_move_ns(costs, part * (parts + 1)) + (all ? pst_costs_round(RING_NS) : 0);
}

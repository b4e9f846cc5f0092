/* Durations of attention. Kernels that keep scores on the chip reach, at T positions, the rate
 * `most` x T / (T + half): fits to figures of FlashAttention-2 (Dao 2023, figures 4 to 7, causal,
 * forward and backward together; within 5 % of each of the 48 bars) and FlashAttention-3 (Shah et
 * al. 2024, figures 5 and 6, forward; backward: 1.6 times FlashAttention-2), which also show
 * FlashAttention 1 and cuDNN. FlashAttention-2 is 1.1 times as fast forward as both together, and
 * 0.965 times backward. Without a mask, half is a third. Backward without atomic additions:
 * docs/measurements.md, "On a GPU", 165 TFLOP/s at 1,024 positions.
 *
 * Stored scores: products of a head's depth, and the scores' way through memory. Forward: written,
 * scaled and masked with softmax, dropped from, multiplied; backward: two products that write,
 * dropout and softmax, three that read. A mask of dropout, which such programs use, has a byte each
 * (Korthikanti et al. 2022, section 4). */
#include "partition/cost/costs_parts.h"
#include <math.h>
#include <string.h>
#include <strings.h>

typedef struct {
    double most, half; /* TFLOP/s; positions */
} rate;

/* For heads of 64 and of 128 channels. */
typedef struct {
    rate f[2], b[2];
} kernel;

static const kernel ampere[PST_ATTENTION_COUNT] = {
    [PST_ATTENTION_FLASH1] = {{{107, 350}, {91, 300}}, {{94, 350}, {80, 300}}},
    [PST_ATTENTION_TRITON] = {{{88, 120}, {89, 280}}, {{77, 120}, {78, 280}}},
    [PST_ATTENTION_FLASH2] = {{{194, 512}, {216, 500}}, {{170, 512}, {189, 500}}},
    [PST_ATTENTION_FLASH3] = {{{194, 512}, {216, 500}}, {{170, 512}, {189, 500}}},
    [PST_ATTENTION_CUDNN] = {{{194, 512}, {216, 500}}, {{170, 512}, {189, 500}}},
    [PST_ATTENTION_FIXED] = {{{194, 512}, {216, 500}}, {{150, 512}, {167, 500}}}};
static const kernel hopper[PST_ATTENTION_COUNT] = {
    [PST_ATTENTION_FLASH1] = {{{172, 290}, {151, 250}}, {{151, 290}, {132, 250}}},
    [PST_ATTENTION_TRITON] = {{{172, 290}, {151, 250}}, {{151, 290}, {132, 250}}},
    [PST_ATTENTION_FLASH2] = {{{319, 520}, {369, 540}}, {{280, 520}, {323, 540}}},
    [PST_ATTENTION_FLASH3] = {{{500, 800}, {650, 560}}, {{448, 800}, {517, 700}}},
    [PST_ATTENTION_CUDNN] = {{{400, 400}, {560, 400}}, {{403, 700}, {465, 600}}},
    [PST_ATTENTION_FIXED] = {{{400, 400}, {560, 400}}, {{277, 700}, {320, 600}}}};

/* Other devices: as Ampere or Hopper, in proportion to the peak. */
static const kernel *kernels_of(const pst_device_kind *kind, double *of_peak) {
    static const char *const older[] = {"V100", "A100"};
    for (size_t i = 0; i < sizeof older / sizeof *older; i++)
        if (!strncasecmp(kind->name, older[i], strlen(older[i]))) {
            *of_peak = 312e12;
            return ampere;
        }
    *of_peak = 989.5e12;
    return hopper;
}

/* Between heads of 64 and 128 channels in proportion to the logarithm; smaller ones waste a part of
 * 64. */
static double rate_of(const rate of[2], double head, double length) {
    const double at = fmin(fmax(log2(head / 64), 0), 1);
    const double narrow = of[0].most * length / (length + of[0].half),
                 wide = of[1].most * length / (length + of[1].half);
    return (narrow + at * (wide - narrow)) * fmin(head / 64, 1);
}

static pst_attention_way way_of(const pst_costs *costs) {
    uint32_t n;
    const pst_costs_program *p = costs->program ? costs->program : pst_costs_programs(&n);
    return (pst_attention_way)p->attention;
}

/* many: samples x heads of the rank. */
static double stored_s(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                       pst_pass pass, double many) {
    const pst_tensor *out = g->tensor + node->out[0];
    const double length = (double)out->dim[1],
                 head = (double)pst_tensor_elements(out) / length / many,
                 scores = many * length * length;
    const pst_costs_product deep = {many, length, head, length, 1},
                            shallow = {many, length, length, head, 1};
    const int forward = pass == PST_PASS_F;
    /* arrays of scores that are written or read, and a mask */
    const double each = (forward ? 6 : 9) * (double)pst_dtype_bytes(g->dtype) + 1;
    const double products = (forward ? 1 : 3) * pst_costs_product_s(costs, g->dtype, &deep) +
                            pst_costs_product_s(costs, g->dtype, &shallow);
    return products + pst_costs_move_s(costs, each * scores);
}

double pst_costs_attention_s(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                             pst_pass pass, double flops) {
    const pst_tensor *out = g->tensor + node->out[0];
    const double length = (double)out->dim[1],
                 heads = (double)(node->attr.heads ? node->attr.heads : 1),
                 head = (double)out->dim[2] / heads;
    const pst_attention_way way = way_of(costs);
    if (way == PST_ATTENTION_STORED)
        return stored_s(costs, g, node, pass, (double)out->dim[0] * heads);
    double of_peak;
    const kernel *k = &kernels_of(costs->kind, &of_peak)[way];
    const double wide = node->attr.bidirectional ? 3 * length : length;
    const double reached = rate_of(pass == PST_PASS_F ? k->f : k->b, head, wide) * 1e12 / of_peak;
    const double peak = costs->kind->flops[g->dtype] > 0 ? costs->kind->flops[g->dtype]
                                                         : costs->kind->flops[PST_F32];
    return flops / (peak * reached);
}

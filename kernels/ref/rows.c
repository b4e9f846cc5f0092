/* The list of reference kernels: one for every operator and pass, for any machine, on one thread;
 * 16-bit graphs need scratch. */
#include "kernels/ref/ref.h"

enum { TAKES_HALF = PST_TAKES_BF16 | PST_TAKES_F16 };
#define ROWS(op, pass, launch)                                                                     \
    {op, pass, "ref/" op, 0, NULL, NULL, pst_ref_##launch, PST_TAKES_F32, NULL, NULL}, {           \
        op, pass, "ref/" op, 0, NULL, pst_ref_##launch##_half_scratch, pst_ref_##launch##_half,    \
            TAKES_HALF, NULL, NULL                                                                 \
    }
static const pst_kernel_row rows[] = {
    ROWS("embedding", PST_PASS_F, embedding_f),
    ROWS("embedding", PST_PASS_W, embedding_w),
    ROWS("gather_rows", PST_PASS_F, gather_rows_f),
    ROWS("gather_rows", PST_PASS_B, gather_rows_b),
    ROWS("layer_norm", PST_PASS_F, layer_norm_f),
    ROWS("layer_norm", PST_PASS_B, layer_norm_b),
    ROWS("layer_norm", PST_PASS_W, layer_norm_w),
    ROWS("rms_norm", PST_PASS_F, rms_norm_f),
    ROWS("rms_norm", PST_PASS_B, rms_norm_b),
    ROWS("rms_norm", PST_PASS_W, rms_norm_w),
    ROWS("rotary", PST_PASS_F, rotary_f),
    ROWS("rotary", PST_PASS_B, rotary_b),
    ROWS("gated", PST_PASS_F, gated_f),
    ROWS("gated", PST_PASS_B, gated_b),
    ROWS("linear", PST_PASS_F, linear_f),
    ROWS("linear", PST_PASS_B, linear_b),
    ROWS("linear", PST_PASS_W, linear_w),
    ROWS("activation", PST_PASS_F, activation),
    ROWS("activation", PST_PASS_B, activation_b),
    ROWS("scale", PST_PASS_F, scale_f),
    ROWS("scale", PST_PASS_B, scale_b),
    ROWS("attention", PST_PASS_F, attention_f),
    ROWS("attention", PST_PASS_B, attention_b),
    ROWS("dropout", PST_PASS_F, dropout_f),
    ROWS("dropout", PST_PASS_B, dropout_b),
    ROWS("add", PST_PASS_F, add_f),
    ROWS("add", PST_PASS_B, add_b),
    ROWS("narrow", PST_PASS_F, narrow_f),
    ROWS("narrow", PST_PASS_B, add_b),
    ROWS("sum", PST_PASS_F, sum),
    ROWS("sum", PST_PASS_B, sum),
    ROWS("cross_entropy", PST_PASS_F, cross_entropy_f),
    ROWS("cross_entropy", PST_PASS_B, cross_entropy_b),
    ROWS("vocabulary_part", PST_PASS_F, vocabulary_part_f),
    ROWS("vocabulary_loss", PST_PASS_F, vocabulary_loss_f),
    ROWS("vocabulary_loss", PST_PASS_B, cross_entropy_b),
    ROWS("convolution", PST_PASS_F, convolution_f),
    ROWS("convolution", PST_PASS_B, convolution_b),
    ROWS("convolution", PST_PASS_W, convolution_w),
    ROWS("batch_norm", PST_PASS_F, batch_norm_f),
    ROWS("batch_norm", PST_PASS_B, batch_norm_b),
    ROWS("batch_norm", PST_PASS_W, batch_norm_w),
    ROWS("pixels", PST_PASS_F, pixels_f),
    ROWS("max_pool", PST_PASS_F, max_pool_f),
    ROWS("max_pool", PST_PASS_B, max_pool_b),
    ROWS("average_pool", PST_PASS_F, average_pool_f),
    ROWS("average_pool", PST_PASS_B, average_pool_b),
    {"cached_attention", PST_PASS_F, "ref/cached_attention", 0, NULL, NULL,
     pst_ref_cached_attention_f, PST_TAKES_F32, NULL, NULL},
    {"pick", PST_PASS_F, "ref/pick", 0, NULL, NULL, pst_ref_pick_f, PST_TAKES_F32, NULL, NULL},
};
#undef ROWS

const pst_kernel_row *pst_kernels_ref(uint32_t *n) {
    *n = sizeof rows / sizeof rows[0];
    return rows;
}

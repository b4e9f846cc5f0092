/* The kernel rows of one instruction set. VEC_NAME is the name of the instruction set as a string,
 * VEC_ISA its bits; VEC_BF16 and VEC_F16 select the type of loads and stores. */

static const char *needs_isa(const pst_graph *g, const pst_node *node, const pst_device *device) {
    (void)g;
    (void)node;
    return (device->isa & VEC_ISA) == VEC_ISA ? NULL : "the device lacks " VEC_NAME;
}

#if defined(VEC_BF16)
enum { VEC_DTYPES = PST_TAKES_BF16 };
#elif defined(VEC_F16)
enum { VEC_DTYPES = PST_TAKES_F16 };
#else
enum { VEC_DTYPES = PST_TAKES_F32 };
#endif

/* Random numbers are drawn four at a time. */
static const char *needs_aligned_part(const pst_graph *g, const pst_node *node,
                                      const pst_device *device) {
    return node->attr.first % 4 ? "the rank's part does not begin at a multiple of four elements"
                                : needs_isa(g, node, device);
}

static const char *needs_rows(const pst_graph *g, const pst_node *node, const pst_device *device) {
    return node->attr.sum_parts ? "W gets sums over rows from B" : needs_isa(g, node, device);
}

#define ROW(op, pass, scratch, launch)                                                             \
    {                                                                                              \
        op, pass, "cpu/" VEC_NAME "/" op, VEC_ISA, needs_isa, scratch, launch, VEC_DTYPES, NULL,   \
            NULL                                                                                   \
    }
static const pst_kernel_row vec_rows[] = {
    ROW("embedding", PST_PASS_F, NULL, embedding_f),
    ROW("embedding", PST_PASS_W, NULL, embedding_w),
    ROW("gather_rows", PST_PASS_F, NULL, gather_rows_f),
    ROW("gather_rows", PST_PASS_B, NULL, gather_rows_b),
    ROW("layer_norm", PST_PASS_F, NULL, layer_norm_f),
    {"layer_norm", PST_PASS_B, "cpu/" VEC_NAME "/layer_norm", VEC_ISA, needs_rows, NULL,
     layer_norm_b, VEC_DTYPES, NULL, NULL},
    {"layer_norm", PST_PASS_W, "cpu/" VEC_NAME "/layer_norm", VEC_ISA, needs_rows, NULL,
     layer_norm_w, VEC_DTYPES, NULL, NULL},
    ROW("rms_norm", PST_PASS_F, NULL, layer_norm_f),
    ROW("rms_norm", PST_PASS_B, NULL, layer_norm_b),
    ROW("rms_norm", PST_PASS_W, NULL, layer_norm_w),
    ROW("rotary", PST_PASS_F, NULL, rotary_f),
    ROW("rotary", PST_PASS_B, NULL, rotary_b),
    ROW("gated", PST_PASS_F, NULL, gated_f),
    ROW("gated", PST_PASS_B, NULL, gated_b),
    ROW("linear", PST_PASS_F, pst_linear_forward_scratch, linear_f),
    ROW("linear", PST_PASS_B, pst_linear_backward_scratch, linear_b),
    ROW("linear", PST_PASS_W, pst_linear_weight_scratch, linear_w),
    ROW("activation", PST_PASS_F, NULL, activation),
    ROW("activation", PST_PASS_B, NULL, activation_b),
    ROW("scale", PST_PASS_F, NULL, scale),
    ROW("scale", PST_PASS_B, NULL, scale),
    ROW("attention", PST_PASS_F, attention_f_scratch, attention_f),
    ROW("attention", PST_PASS_B, attention_b_scratch, attention_b),
    {"dropout", PST_PASS_F, "cpu/" VEC_NAME "/dropout", VEC_ISA, needs_aligned_part, NULL, dropout,
     VEC_DTYPES, NULL, NULL},
    {"dropout", PST_PASS_B, "cpu/" VEC_NAME "/dropout", VEC_ISA, needs_aligned_part, NULL, dropout,
     VEC_DTYPES, NULL, NULL},
    ROW("add", PST_PASS_F, NULL, add_f),
    ROW("add", PST_PASS_B, NULL, add_b),
    ROW("narrow", PST_PASS_F, NULL, narrow_f),
    ROW("narrow", PST_PASS_B, NULL, narrow_b),
    ROW("sum", PST_PASS_F, NULL, add_same),
    ROW("sum", PST_PASS_B, NULL, add_same),
    ROW("cross_entropy", PST_PASS_F, NULL, cross_entropy_f),
    ROW("cross_entropy", PST_PASS_B, NULL, cross_entropy_b),
    ROW("vocabulary_part", PST_PASS_F, NULL, vocabulary_part_f),
    ROW("vocabulary_loss", PST_PASS_B, NULL, cross_entropy_b),
    ROW("pixels", PST_PASS_F, NULL, pixels_f),
    ROW("convolution", PST_PASS_F, pst_convolution_direct_forward_scratch, convolution_f),
    ROW("convolution", PST_PASS_B, pst_convolution_direct_backward_scratch, convolution_b),
    ROW("convolution", PST_PASS_W, pst_convolution_direct_weight_scratch, convolution_w),
    ROW("batch_norm", PST_PASS_F, batch_norm_scratch, batch_norm_f),
    ROW("batch_norm", PST_PASS_B, batch_norm_scratch, batch_norm_b),
    ROW("max_pool", PST_PASS_F, NULL, max_pool_f),
    ROW("max_pool", PST_PASS_B, max_pool_b_scratch, max_pool_b),
    ROW("average_pool", PST_PASS_F, NULL, average_pool_f),
    ROW("average_pool", PST_PASS_B, NULL, average_pool_b),
#ifndef VEC_HALF
    ROW("cached_attention", PST_PASS_F, cached_scratch, cached_attention_f),
#endif
};
#undef ROW

static const pst_flat vec_flat = {"cpu/" VEC_NAME,   VEC_ISA,         flat_update, flat_update_to,
                                  flat_sum_squares,  flat_accumulate, flat_narrow, flat_squares,
                                  flat_lamb_squares, flat_pack,       flat_unpack};
static const pst_cpu_table vec_table = {VEC_ISA,   vec_rows, sizeof vec_rows / sizeof vec_rows[0],
                                        &vec_flat, fma_loop, &product_ops};

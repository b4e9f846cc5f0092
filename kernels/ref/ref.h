/* The launches of the reference backend, one file per operator. Read these first: they define what
 * an operator computes. */
#ifndef PST_KERNELS_REF_H
#define PST_KERNELS_REF_H
#include "graph/blocks.h"
#include "kernels/kernel.h"

/* Declares a launch for fp32, one for bf16 and fp16 (half.c), and the bytes of scratch of the
 * latter. */
#define PST_REF_LAUNCH(name)                                                                       \
    pst_status pst_ref_##name(pst_device *device, const pst_call *call);                           \
    pst_status pst_ref_##name##_half(pst_device *device, const pst_call *call);                    \
    uint64_t pst_ref_##name##_half_scratch(const pst_graph *g, const pst_node *node,               \
                                           uint32_t threads)
/* W of an operator whose accumulators have several sums (PST_BLOCKS_ROWS): the rows of sum `block`
 * are positions `at` of every sample, at a distance of `step` rows. Otherwise one sum has all
 * rows. */
typedef struct {
    pst_part at;
    uint64_t step;
} pst_ref_rows;
static inline uint32_t pst_ref_sums(const pst_call *call) {
    return call->node->attr.blocks.of == PST_BLOCKS_ROWS ? call->node->attr.blocks.own : 1;
}
static inline pst_ref_rows pst_ref_rows_of(const pst_call *call, uint32_t block, uint64_t rows) {
    const pst_blocks *b = &call->node->attr.blocks;
    uint64_t positions = call->graph->tensor[call->node->in[0]].dim[1];
    if (b->of != PST_BLOCKS_ROWS) return (pst_ref_rows){{0, rows}, rows};
    return (pst_ref_rows){pst_block_of(b, positions, block), positions};
}
PST_REF_LAUNCH(embedding_f);
PST_REF_LAUNCH(embedding_w);
PST_REF_LAUNCH(gather_rows_f);
PST_REF_LAUNCH(gather_rows_b);
PST_REF_LAUNCH(layer_norm_f);
PST_REF_LAUNCH(layer_norm_b);
PST_REF_LAUNCH(layer_norm_w);
PST_REF_LAUNCH(rms_norm_f);
PST_REF_LAUNCH(rms_norm_b);
PST_REF_LAUNCH(rms_norm_w);
PST_REF_LAUNCH(rotary_f);
PST_REF_LAUNCH(rotary_b);
PST_REF_LAUNCH(gated_f);
PST_REF_LAUNCH(gated_b);
PST_REF_LAUNCH(linear_f);
PST_REF_LAUNCH(linear_b);
PST_REF_LAUNCH(linear_w);
PST_REF_LAUNCH(activation);
PST_REF_LAUNCH(activation_b);
PST_REF_LAUNCH(scale_f);
PST_REF_LAUNCH(scale_b);
PST_REF_LAUNCH(attention_f);
PST_REF_LAUNCH(attention_b);
PST_REF_LAUNCH(dropout_f);
PST_REF_LAUNCH(dropout_b);
PST_REF_LAUNCH(add_f);
PST_REF_LAUNCH(add_b);
PST_REF_LAUNCH(narrow_f);
PST_REF_LAUNCH(sum);
PST_REF_LAUNCH(cross_entropy_f);
PST_REF_LAUNCH(cross_entropy_b);
PST_REF_LAUNCH(vocabulary_part_f);
PST_REF_LAUNCH(vocabulary_loss_f);
PST_REF_LAUNCH(convolution_f);
PST_REF_LAUNCH(convolution_b);
PST_REF_LAUNCH(convolution_w);
PST_REF_LAUNCH(batch_norm_f);
PST_REF_LAUNCH(batch_norm_b);
PST_REF_LAUNCH(batch_norm_w);
PST_REF_LAUNCH(pixels_f);
PST_REF_LAUNCH(max_pool_f);
PST_REF_LAUNCH(max_pool_b);
PST_REF_LAUNCH(average_pool_f);
PST_REF_LAUNCH(average_pool_b);
/* fp32 only: for graphs for generation */
pst_status pst_ref_cached_attention_f(pst_device *device, const pst_call *call);
pst_status pst_ref_pick_f(pst_device *device, const pst_call *call);
#endif

/* The list of reference kernels: an answer for every operator and pass, one thread, no scratch, any machine. */
#include "kernels/ref/ref.h"

static const pst_kernel_row rows[] = {
    {"embedding", PST_PASS_F, "ref/embedding", 0, NULL, NULL, pst_ref_embedding_f},
    {"embedding", PST_PASS_W, "ref/embedding", 0, NULL, NULL, pst_ref_embedding_w},
    {"layer_norm", PST_PASS_F, "ref/layer_norm", 0, NULL, NULL, pst_ref_layer_norm_f},
    {"layer_norm", PST_PASS_B, "ref/layer_norm", 0, NULL, NULL, pst_ref_layer_norm_b},
    {"layer_norm", PST_PASS_W, "ref/layer_norm", 0, NULL, NULL, pst_ref_layer_norm_w},
    {"linear", PST_PASS_F, "ref/linear", 0, NULL, NULL, pst_ref_linear_f},
    {"linear", PST_PASS_B, "ref/linear", 0, NULL, NULL, pst_ref_linear_b},
    {"linear", PST_PASS_W, "ref/linear", 0, NULL, NULL, pst_ref_linear_w},
    {"attention", PST_PASS_F, "ref/attention", 0, NULL, NULL, pst_ref_attention_f},
    {"attention", PST_PASS_B, "ref/attention", 0, NULL, NULL, pst_ref_attention_b},
    {"dropout", PST_PASS_F, "ref/dropout", 0, NULL, NULL, pst_ref_dropout_f},
    {"dropout", PST_PASS_B, "ref/dropout", 0, NULL, NULL, pst_ref_dropout_b},
    {"add", PST_PASS_F, "ref/add", 0, NULL, NULL, pst_ref_add_f},
    {"sum", PST_PASS_F, "ref/sum", 0, NULL, NULL, pst_ref_sum},
    {"sum", PST_PASS_B, "ref/sum", 0, NULL, NULL, pst_ref_sum},
    {"cross_entropy", PST_PASS_F, "ref/cross_entropy", 0, NULL, NULL, pst_ref_cross_entropy_f},
    {"cross_entropy", PST_PASS_B, "ref/cross_entropy", 0, NULL, NULL, pst_ref_cross_entropy_b},
};

const pst_kernel_row *pst_kernels_ref(uint32_t *n) {
    *n = sizeof rows / sizeof rows[0];
    return rows;
}

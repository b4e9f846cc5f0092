/* The ordered list of operators. A new operator is a file op_NAME.c with its row and one line in
 * this list. */
#include "graph/op_list.h"
#include <string.h>

static const pst_op_row *const rows[] = {
    &pst_op_embedding,    &pst_op_layer_norm,      &pst_op_linear,
    &pst_op_attention,    &pst_op_dropout,         &pst_op_add,
    &pst_op_narrow,       &pst_op_cross_entropy,   &pst_op_tensor_copy,
    &pst_op_tensor_sum,   &pst_op_tensor_gather,   &pst_op_tensor_scatter,
    &pst_op_tensor_stack, &pst_op_vocabulary_part, &pst_op_vocabulary_loss,
    &pst_op_convolution,  &pst_op_batch_norm,      &pst_op_pixels,
    &pst_op_max_pool,     &pst_op_average_pool,    &pst_op_rms_norm,
    &pst_op_rotary,       &pst_op_gated,           &pst_op_cached_attention,
    &pst_op_pick,         &pst_op_gather_rows,     &pst_op_activation,
    &pst_op_scale,
};

const pst_op_row *const *pst_op_rows(uint32_t *n) {
    *n = sizeof(rows) / sizeof(rows[0]);
    return rows;
}

const pst_op_row *pst_op_find(const char *name) {
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i]->name, name) == 0) return rows[i];
    return NULL;
}

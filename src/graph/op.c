/* The ordered list of operators, and the checks that several rows share. A new operator is a file
 * op_NAME.c with its row and one line in this list. */
#include "graph/op_list.h"
#include <string.h>

static const pst_op_row *const rows[] = {
    &pst_op_embedding,       &pst_op_layer_norm,      &pst_op_linear,
    &pst_op_attention,       &pst_op_dropout,         &pst_op_add,
    &pst_op_cross_entropy,   &pst_op_tensor_copy,     &pst_op_tensor_sum,
    &pst_op_tensor_gather,   &pst_op_tensor_scatter,  &pst_op_tensor_stack,
    &pst_op_vocabulary_part, &pst_op_vocabulary_loss, &pst_op_convolution,
    &pst_op_batch_norm,      &pst_op_pixels,          &pst_op_max_pool,
    &pst_op_average_pool,
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

pst_status pst_node_expect_float(const pst_graph *g, const pst_node *node, uint32_t i,
                                 uint32_t n_dim) {
    const pst_tensor *t = pst_node_in(g, node, i);
    if (t->dtype != g->dtype)
        return pst_fail(PST_EINPUT, "%s needs floating point (%s), but input %s is %s",
                        node->op->name, pst_dtype_name(g->dtype), t->name,
                        pst_dtype_name(t->dtype));
    if (n_dim ? t->n_dim != n_dim : t->n_dim < 2)
        return pst_fail(PST_EINPUT, "%s needs %s%u dimensions, but input %s has %u", node->op->name,
                        n_dim ? "" : "at least ", n_dim ? n_dim : 2, t->name, t->n_dim);
    return PST_OK;
}

pst_status pst_node_expect_i32(const pst_graph *g, const pst_node *node, uint32_t i,
                               uint32_t n_dim) {
    const pst_tensor *t = pst_node_in(g, node, i);
    if (t->dtype != PST_I32 || t->n_dim != n_dim)
        return pst_fail(PST_EINPUT, "%s needs %u dimensions of I32, but input %s is %u of %s",
                        node->op->name, n_dim, t->name, t->n_dim, pst_dtype_name(t->dtype));
    return PST_OK;
}

pst_status pst_node_expect_param(const pst_graph *g, const pst_node *node, uint32_t i, uint64_t d0,
                                 uint64_t d1) {
    const pst_param *p = pst_node_param(g, node, i);
    if (d1 == 0 && (p->n_dim != 1 || p->dim[0] != d0))
        return pst_fail(PST_EINPUT, "%s needs %s to be [%lu]", node->op->name, p->name,
                        (unsigned long)d0);
    if (d1 != 0 && (p->n_dim != 2 || p->dim[0] != d0 || p->dim[1] != d1))
        return pst_fail(PST_EINPUT, "%s needs %s to be [%lu,%lu]", node->op->name, p->name,
                        (unsigned long)d0, (unsigned long)d1);
    return PST_OK;
}

/* The checks of inputs and parameters that several operators share. */
#include "graph/op_list.h"

pst_status pst_node_expect_stream(const pst_graph *g, const pst_node *node, uint32_t i,
                                  uint32_t n_dim) {
    const pst_tensor *t = pst_node_in(g, node, i);
    if (t->dtype != g->dtype && t->dtype != PST_F32)
        return pst_fail(PST_EINPUT, "%s needs floating point (%s), but input %s is %s",
                        node->op->name, pst_dtype_name(g->dtype), t->name,
                        pst_dtype_name(t->dtype));
    if (n_dim ? t->n_dim != n_dim : t->n_dim < 2)
        return pst_fail(PST_EINPUT, "%s needs %s%u dimensions, but input %s has %u", node->op->name,
                        n_dim ? "" : "at least ", n_dim ? n_dim : 2, t->name, t->n_dim);
    return PST_OK;
}

pst_status pst_node_expect_float(const pst_graph *g, const pst_node *node, uint32_t i,
                                 uint32_t n_dim) {
    const pst_tensor *t = pst_node_in(g, node, i);
    if (t->dtype == PST_F32 && g->dtype != PST_F32)
        return pst_fail(
            PST_EINPUT, "%s needs %s, but input %s is %s; convert it with a narrow operator",
            node->op->name, pst_dtype_name(g->dtype), t->name, pst_dtype_name(t->dtype));
    return pst_node_expect_stream(g, node, i, n_dim);
}

pst_status pst_node_expect_i32(const pst_graph *g, const pst_node *node, uint32_t i,
                               uint32_t n_dim) {
    const pst_tensor *t = pst_node_in(g, node, i);
    if (t->dtype != PST_I32 || t->n_dim != n_dim)
        return pst_fail(PST_EINPUT,
                        "%s needs I32 with %u dimensions, but input %s has %u dimensions of %s",
                        node->op->name, n_dim, t->name, t->n_dim, pst_dtype_name(t->dtype));
    return PST_OK;
}

pst_status pst_node_expect_param(const pst_graph *g, const pst_node *node, uint32_t i, uint64_t d0,
                                 uint64_t d1) {
    const pst_param *p = pst_node_param(g, node, i);
    if (d1 == 0 && (p->n_dim != 1 || p->dim[0] != d0))
        return pst_fail(PST_EINPUT, "%s needs parameter %s of shape [%lu]", node->op->name, p->name,
                        (unsigned long)d0);
    if (d1 != 0 && (p->n_dim != 2 || p->dim[0] != d0 || p->dim[1] != d1))
        return pst_fail(PST_EINPUT, "%s needs parameter %s of shape [%lu,%lu]", node->op->name,
                        p->name, (unsigned long)d0, (unsigned long)d1);
    return PST_OK;
}

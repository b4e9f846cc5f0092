/* See extent.h. */
#include "rank/extent.h"

pst_extent pst_extent_of(const pst_graph *g, const pst_cut *cut, uint32_t chunk,
                         const pst_operand *o) {
    if (o->kind == PST_OPERAND_NULL) return (pst_extent){.dtype = PST_I32};
    if (o->kind != PST_OPERAND_VALUE)
        return (pst_extent){.dtype = o->kind == PST_OPERAND_PARAM ? g->dtype : PST_F32,
                            .n = pst_param_elements(g->param + o->index)};
    const pst_value *v = cut->tape->value + cut->chunk[chunk].local[o->index].value;
    pst_extent e = {.value = v, .dtype = v->dtype, .n = v->bytes / pst_dtype_bytes(v->dtype)};
    const pst_tensor *t = v->kind == PST_VALUE_SAVED ? NULL : g->tensor + v->tensor;
    if (!t || !t->pitch) return e;
    e.n = pst_tensor_elements(t);
    e.row = t->dim[t->n_dim - 1];
    e.pitch = t->pitch;
    return e;
}

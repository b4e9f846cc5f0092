/* What both kinds of convolution kernels, cuDNN's (convolution.c) and our own (image.c), take from
 * a call. */
#include "kernels/cuda/own.h"
#include "kernels/shape.h"

/* F: IN0 PARAM0 [PARAM1] OUT0    B: PARAM0 DOUT0 DIN0    W: IN0 DOUT0 DPARAM0 [DPARAM1] */
pst_cuda_convolution pst_cuda_convolution_of(const pst_call *call, pst_pass pass) {
    const int bias = call->node->n_param > 1;
    void *const *arg = call->arg;
    pst_cuda_convolution c = {.of = pst_convolution_shape_of(call->graph, call->node),
                              .first = call->first};
    if (pass == PST_PASS_F) {
        c.x = arg[0];
        c.weight = arg[1];
        c.bias = bias ? arg[2] : NULL;
        c.y = arg[2 + bias];
    } else if (pass == PST_PASS_B) {
        c.weight = arg[0];
        c.dy = arg[1];
        c.dx = arg[2];
    } else {
        c.x = arg[0];
        c.dy = arg[1];
        c.dweight = arg[2];
        c.dbias = bias ? arg[3] : NULL;
    }
    return c;
}

pst_cuda_columns pst_cuda_convolution_bias(const pst_cuda_convolution *c, float *scratch) {
    return (pst_cuda_columns){.dy = c->dy,
                              .sum = {c->dbias},
                              .rows = c->of.images * c->of.rows * c->of.columns,
                              .columns = c->of.out,
                              .first = c->first,
                              .scratch = scratch};
}

/* Kernel rows of our own kernels for images: batch norm, pools, pixels, and convolution without
 * cuDNN. Like own.c. */
#include "kernels/cuda/image.h"
#include "kernels/cuda/own.h"
#include "kernels/shape.h"

static pst_dtype dtype_of(const pst_call *call) { return call->graph->dtype; }

/* --- batch norm ------------------------------------------------------------------------------- */

static uint64_t batch_norm_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    const pst_tensor *in = &g->tensor[node->in[0]];
    (void)threads;
    return pst_cuda_batch_norm_scratch(g->dtype, pst_tensor_rows(in), pst_tensor_last(in));
}

static pst_cuda_batch batch_of(const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    return (pst_cuda_batch){.x = call->arg[0],
                            .rows = pst_tensor_rows(in),
                            .columns = pst_tensor_last(in),
                            .eps = call->node->attr.eps,
                            .relu = call->node->attr.activation == PST_ACT_RELU,
                            .scratch = call->scratch};
}

/* IN0 [IN1] PARAM0 PARAM1 PARAM2 PARAM3 OUT0 SAVED0 */
static pst_status batch_norm_f(pst_device *device, const pst_call *call) {
    pst_cuda_batch batch = batch_of(call);
    void *const *arg = call->arg + call->node->n_in;
    batch.z = call->node->n_in > 1 ? call->arg[1] : NULL;
    batch.weight = arg[0];
    batch.bias = arg[1];
    batch.y = arg[4];
    batch.saved = arg[5];
    if (!call->train) {
        batch.running_mean = arg[2];
        batch.running_variance = arg[3];
    }
    pst_cuda_batch_norm_f(pst_cuda_queue_of(device), dtype_of(call), &batch);
    return pst_cuda_launched("batch norm");
}

/* IN0 PARAM0 SAVED0 [OUT0] DOUT0 SAVED1 DIN0, or .. DIN0 DIN1 */
static pst_status batch_norm_b(pst_device *device, const pst_call *call) {
    pst_cuda_batch batch = batch_of(call);
    void *const *arg = call->arg + 3 + batch.relu;
    batch.weight = call->arg[1];
    batch.saved = call->arg[2];
    batch.out = batch.relu ? call->arg[3] : NULL;
    batch.dy = arg[0];
    batch.sums = arg[1];
    batch.y = arg[2];
    batch.dz = call->node->n_in > 1 ? arg[3] : NULL;
    pst_cuda_batch_norm_b(pst_cuda_queue_of(device), dtype_of(call), &batch);
    return pst_cuda_launched("batch norm's input gradient");
}

/* SAVED0 SAVED1 DPARAM0 DPARAM1 DPARAM2 DPARAM3 */
static pst_status batch_norm_w(pst_device *device, const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    pst_cuda_batch_sums sums = {.saved = call->arg[0],
                                .sums = call->arg[1],
                                .to = {call->arg[2], call->arg[3], call->arg[4], call->arg[5]},
                                .rows = pst_tensor_rows(in),
                                .columns = pst_tensor_last(in),
                                .eps = call->node->attr.eps,
                                .first = call->first};
    pst_cuda_batch_norm_w(pst_cuda_queue_of(device), &sums);
    return pst_cuda_launched("batch norm's weight gradient");
}

/* --- pixels and pools ------------------------------------------------------------------------- */

/* IN0 OUT0 */
static pst_status pixels(pst_device *device, const pst_call *call) {
    pst_cuda_index x = {.index = call->arg[0],
                        .rows = 256,
                        .limit = 256,
                        .node = call->node->name,
                        .fault = pst_cuda_fault_of(device),
                        .launch = pst_cuda_launch_of(device)};
    pst_cuda_pixels(pst_cuda_queue_of(device), dtype_of(call), &x, call->arg[1],
                    pst_tensor_count(pst_call_in(call, 0)));
    return pst_cuda_launched("pixels");
}

static pst_cuda_pool pool_of(const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0), *out = &call->graph->tensor[call->node->out[0]];
    const pst_attr *attr = &call->node->attr;
    return (pst_cuda_pool){.images = in->dim[0],
                           .height = in->dim[1],
                           .width = in->dim[2],
                           .channels = in->dim[3],
                           .rows = out->dim[1],
                           .columns = out->dim[2],
                           .window = attr->window,
                           .stride = attr->stride,
                           .padding = attr->padding};
}

/* IN0 OUT0 */
static pst_status max_pool_f(pst_device *device, const pst_call *call) {
    pst_cuda_pool pool = pool_of(call);
    pool.x = call->arg[0];
    pool.to = call->arg[1];
    pst_cuda_max_pool_f(pst_cuda_queue_of(device), dtype_of(call), &pool);
    return pst_cuda_launched("max pool");
}

/* IN0 DOUT0 DIN0 */
static pst_status max_pool_b(pst_device *device, const pst_call *call) {
    pst_cuda_pool pool = pool_of(call);
    pool.x = call->arg[0];
    pool.dy = call->arg[1];
    pool.to = call->arg[2];
    pst_cuda_max_pool_b(pst_cuda_queue_of(device), dtype_of(call), &pool);
    return pst_cuda_launched("max pool's gradient");
}

/* IN0 OUT0 */
static pst_status average_pool_f(pst_device *device, const pst_call *call) {
    pst_cuda_pool pool = pool_of(call);
    pool.x = call->arg[0];
    pool.to = call->arg[1];
    pst_cuda_average_pool_f(pst_cuda_queue_of(device), dtype_of(call), &pool);
    return pst_cuda_launched("average pool");
}

/* DOUT0 DIN0 */
static pst_status average_pool_b(pst_device *device, const pst_call *call) {
    pst_cuda_pool pool = pool_of(call);
    pool.dy = call->arg[0];
    pool.to = call->arg[1];
    pst_cuda_average_pool_b(pst_cuda_queue_of(device), dtype_of(call), &pool);
    return pst_cuda_launched("average pool's gradient");
}

/* --- convolution without the library ---------------------------------------------------------- */

static uint64_t convolution_w_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    const pst_tensor *out = &g->tensor[node->out[0]];
    (void)threads;
    return node->n_param > 1
               ? pst_cuda_column_sum_scratch(pst_tensor_rows(out), pst_tensor_last(out), 1)
               : 0;
}

/* IN0 PARAM0 [PARAM1] OUT0 */
static pst_status convolution_f(pst_device *device, const pst_call *call) {
    pst_cuda_convolution c = pst_cuda_convolution_of(call, PST_PASS_F);
    pst_cuda_convolution_f(pst_cuda_queue_of(device), dtype_of(call), &c);
    return pst_cuda_launched("convolution");
}

/* PARAM0 DOUT0 DIN0 */
static pst_status convolution_b(pst_device *device, const pst_call *call) {
    pst_cuda_convolution c = pst_cuda_convolution_of(call, PST_PASS_B);
    pst_cuda_convolution_b(pst_cuda_queue_of(device), dtype_of(call), &c);
    return pst_cuda_launched("convolution's input gradient");
}

/* IN0 DOUT0 DPARAM0 [DPARAM1] */
static pst_status convolution_w(pst_device *device, const pst_call *call) {
    pst_cuda_convolution c = pst_cuda_convolution_of(call, PST_PASS_W);
    if (c.dbias) {
        pst_cuda_columns columns = pst_cuda_convolution_bias(&c, call->scratch);
        pst_cuda_column_sum(pst_cuda_queue_of(device), dtype_of(call), &columns);
        PST_TRY(pst_cuda_launched("the gradient of convolution's bias"));
    }
    pst_cuda_convolution_w(pst_cuda_queue_of(device), dtype_of(call), &c);
    return pst_cuda_launched("convolution's weight gradient");
}

/* Pixels need the number of their launch, like all kernels that read indices, so they are never
 * captured. */
#define NAMED(operator, of, shown, bytes, function, when)                                          \
    {                                                                                              \
        .op = operator, .pass = PST_PASS_##of, .name = shown operator, .isa = PST_ISA_CUDA,        \
        .scratch = bytes, .launch = function,                                                      \
        .dtypes = PST_TAKES_F32 | PST_TAKES_BF16 | PST_TAKES_F16, .captures = when                 \
    }
#define ROW(operator, of, bytes, function)                                                         \
    NAMED(operator, of, "cuda/own/", bytes, function, pst_cuda_captures_always)
const pst_kernel_row pst_cuda_image_row[] = {
    ROW("batch_norm", F, batch_norm_scratch, batch_norm_f),
    ROW("batch_norm", B, batch_norm_scratch, batch_norm_b),
    ROW("batch_norm", W, NULL, batch_norm_w),
    NAMED("pixels", F, "cuda/own/", NULL, pixels, NULL),
    ROW("max_pool", F, NULL, max_pool_f),
    ROW("max_pool", B, NULL, max_pool_b),
    ROW("average_pool", F, NULL, average_pool_f),
    ROW("average_pool", B, NULL, average_pool_b),
    NAMED("convolution", F, "cuda/plain/", NULL, convolution_f, pst_cuda_captures_always),
    NAMED("convolution", B, "cuda/plain/", NULL, convolution_b, pst_cuda_captures_always),
    NAMED("convolution", W, "cuda/plain/", convolution_w_scratch, convolution_w,
          pst_cuda_captures_always),
};
#undef ROW
#undef NAMED
const uint32_t pst_cuda_image_count = sizeof pst_cuda_image_row / sizeof *pst_cuda_image_row;

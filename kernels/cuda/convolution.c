/* convolution: one plan of cuDNN's per shape and pass, made at set-up; if cuDNN has none, our own
 * kernels (convolution_plain.cu). cuDNN has engines only for weight gradients in the operands'
 * type; our own kernel adds them to the accumulator. Our own kernel also adds the bias, because
 * cuDNN would compile a kernel for that at run time. Its gradient is a column sum in a fixed
 * order. */
#include "kernels/cuda/convolution_graph.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/own.h"
#include "kernels/shape.h"
#include <stdio.h>

enum { ALIGNMENT = 256 }; /* alignment of workspace, as of the runtime's allocations */

static pst_cuda_convolution_shape shape_of(const pst_graph *g, const pst_node *node,
                                           pst_pass pass) {
    return (pst_cuda_convolution_shape){.of = pst_convolution_shape_of(g, node),
                                        .dtype = g->dtype,
                                        .tf32 = pst_graph_factors(g) == PST_TF32,
                                        .pass = pass};
}

/* --- plans ------------------------------------------------------------------------------------ */

/* why: the library's reason if it has no plan, else "". */
static void make_plan(pst_cuda_device *d, const pst_cuda_convolution_shape *s, pst_dnn_plan *plan,
                      char *why, size_t bytes) {
    pst_dnn_target target = {.handle = d->dnn};
    pst_dnn_graph g;
    pst_dnn_open(&g);
    pst_cuda_convolution_graph(&g, s);
    *why = 0;
    if (pst_dnn_plan_make(&g, &target, pst_cuda_convolution_workspace(s), plan) != PST_OK)
        snprintf(why, bytes,
                 "cuDNN has no convolution kernel for batch %llu, images of %llux%llux%llu, %llu "
                 "output channels, filters of %llux%llu: %s",
                 (unsigned long long)s->of.images, (unsigned long long)s->of.height,
                 (unsigned long long)s->of.width, (unsigned long long)s->of.in,
                 (unsigned long long)s->of.out, (unsigned long long)s->of.h,
                 (unsigned long long)s->of.w, *g.why ? g.why : cudnnGetErrorString(g.error));
    pst_dnn_close(&g);
}

/* Finds the plan, which was made at set-up if the shape was prepared. */
static pst_status find(pst_cuda_device *d, const pst_cuda_convolution_shape *shape,
                       pst_dnn_entry **found) {
    char why[512];
    int is_new;
    PST_TRY(pst_dnn_find(&d->convolutions, shape, sizeof *shape, found, &is_new));
    if (is_new) make_plan(d, shape, &(*found)->plan, why, sizeof why);
    return PST_OK;
}

static pst_status prepare(pst_device *device, const pst_graph *g, const pst_node *node,
                          pst_pass pass) {
    pst_cuda_device *d = (pst_cuda_device *)device;
    pst_cuda_convolution_shape s = shape_of(g, node, pass);
    pst_dnn_entry *e;
    char why[512];
    int is_new;
    PST_TRY(pst_cuda_status(cudaSetDevice(d->ordinal), "the GPU"));
    PST_TRY(pst_dnn_find(&d->convolutions, &s, sizeof s, &e, &is_new));
    if (!is_new) return PST_OK;
    make_plan(d, &s, &e->plan, why, sizeof why);
    if (*why) pst_cuda_warn_slower(device, g, node, pass, why);
    return PST_OK;
}

static pst_status prepare_f(pst_device *device, const pst_graph *g, const pst_node *node) {
    return prepare(device, g, node, PST_PASS_F);
}

static pst_status prepare_b(pst_device *device, const pst_graph *g, const pst_node *node) {
    return prepare(device, g, node, PST_PASS_B);
}

static pst_status prepare_w(pst_device *device, const pst_graph *g, const pst_node *node) {
    return prepare(device, g, node, PST_PASS_W);
}

/* --- scratch: W: the gradient as cuDNN writes it, then its workspace; the bias's column sum runs
 * first, in the same bytes */

static uint64_t round_up(uint64_t n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static uint64_t gradient_bytes(const pst_cuda_convolution_shape *s) {
    if (s->pass != PST_PASS_W) return 0;
    return round_up(s->of.out * s->of.h * s->of.w * s->of.in *
                    pst_dtype_bytes((pst_dtype)s->dtype));
}

static uint64_t scratch_of(const pst_graph *g, const pst_node *node, pst_pass pass) {
    pst_cuda_convolution_shape s = shape_of(g, node, pass);
    uint64_t bytes = gradient_bytes(&s) + pst_cuda_convolution_workspace(&s) + ALIGNMENT, parts = 0;
    if (pass == PST_PASS_W && node->n_param > 1)
        parts = pst_cuda_column_sum_scratch(s.of.images * s.of.rows * s.of.columns, s.of.out, 1);
    return parts > bytes ? parts : bytes;
}

static uint64_t scratch_f(const pst_graph *g, const pst_node *node, uint32_t threads) {
    (void)threads;
    return scratch_of(g, node, PST_PASS_F);
}

static uint64_t scratch_b(const pst_graph *g, const pst_node *node, uint32_t threads) {
    (void)threads;
    return scratch_of(g, node, PST_PASS_B);
}

static uint64_t scratch_w(const pst_graph *g, const pst_node *node, uint32_t threads) {
    (void)threads;
    return scratch_of(g, node, PST_PASS_W);
}

/* --- launches --------------------------------------------------------------------------------- */

/* The plan of a pass; NULL if the library has none. */
static pst_status begin(pst_device *device, const pst_call *call, pst_pass pass,
                        const pst_dnn_entry **found) {
    pst_cuda_convolution_shape s = shape_of(call->graph, call->node, pass);
    pst_dnn_entry *e;
    PST_TRY(find((pst_cuda_device *)device, &s, &e));
    *found = e;
    return PST_OK;
}

static uint8_t *scratch_at(const pst_call *call) {
    return (uint8_t *)(((uintptr_t)call->scratch + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
}

static pst_status run(pst_device *device, const pst_call *call, const pst_dnn_entry *e,
                      const void *x, const void *weight, const void *y) {
    static const int64_t number[] = {PST_CONV_X, PST_CONV_WEIGHT, PST_CONV_Y};
    void *const operand[] = {(void *)(uintptr_t)x, (void *)(uintptr_t)weight, (void *)(uintptr_t)y};
    uint8_t *workspace =
        scratch_at(call) + gradient_bytes((const pst_cuda_convolution_shape *)e->shape);
    PST_TRY(pst_dnn_run(((pst_cuda_device *)device)->dnn, &e->plan, 3, number, operand, workspace));
    return pst_cuda_launched("convolution (cuDNN)");
}

/* IN0 PARAM0 [PARAM1] OUT0 */
static pst_status forward(pst_device *device, const pst_call *call) {
    pst_cuda_convolution c = pst_cuda_convolution_of(call, PST_PASS_F);
    const pst_dtype dtype = call->graph->dtype;
    const pst_dnn_entry *e;
    PST_TRY(begin(device, call, PST_PASS_F, &e));
    if (!e->plan.plan) {
        pst_cuda_convolution_f(pst_cuda_stream(device), dtype, &c);
        return pst_cuda_launched("convolution");
    }
    PST_TRY(run(device, call, e, c.x, c.weight, c.y));
    if (!c.bias) return PST_OK;
    pst_cuda_add_columns(pst_cuda_stream(device), dtype, c.y, c.bias,
                         c.of.images * c.of.rows * c.of.columns, c.of.out);
    return pst_cuda_launched("convolution's bias");
}

/* PARAM0 DOUT0 DIN0 */
static pst_status backward(pst_device *device, const pst_call *call) {
    pst_cuda_convolution c = pst_cuda_convolution_of(call, PST_PASS_B);
    const pst_dnn_entry *e;
    PST_TRY(begin(device, call, PST_PASS_B, &e));
    if (e->plan.plan) return run(device, call, e, c.dx, c.weight, c.dy);
    pst_cuda_convolution_b(pst_cuda_stream(device), call->graph->dtype, &c);
    return pst_cuda_launched("convolution's input gradient");
}

/* IN0 DOUT0 DPARAM0 [DPARAM1] */
static pst_status weight(pst_device *device, const pst_call *call) {
    pst_cuda_convolution c = pst_cuda_convolution_of(call, PST_PASS_W);
    const pst_dtype dtype = call->graph->dtype;
    const pst_dnn_entry *e;
    PST_TRY(begin(device, call, PST_PASS_W, &e));
    if (c.dbias) {
        pst_cuda_columns columns = pst_cuda_convolution_bias(&c, call->scratch);
        pst_cuda_column_sum(pst_cuda_stream(device), dtype, &columns);
        PST_TRY(pst_cuda_launched("the gradient of convolution's bias"));
    }
    if (!e->plan.plan) {
        pst_cuda_convolution_w(pst_cuda_stream(device), dtype, &c);
        return pst_cuda_launched("convolution's weight gradient");
    }
    PST_TRY(run(device, call, e, c.x, scratch_at(call), c.dy));
    pst_cuda_accumulate(pst_cuda_stream(device), dtype, scratch_at(call), c.dweight,
                        c.of.out * c.of.h * c.of.w * c.of.in, c.first);
    return pst_cuda_launched("the sum of convolution's weight gradients");
}

/* --- rows ------------------------------------------------------------------------------------- */

static const char *refuses(const pst_graph *g, const pst_node *node, const pst_device *device) {
    (void)device;
    pst_cuda_convolution_shape s = shape_of(g, node, PST_PASS_F);
    return pst_cuda_convolution_refuses(&s);
}

enum { TAKES_ALL = PST_TAKES_F32 | PST_TAKES_BF16 | PST_TAKES_F16 };
static const pst_kernel_row rows[] = {
    {.op = "convolution",
     .pass = PST_PASS_F,
     .name = "cuda/cudnn/convolution",
     .isa = PST_ISA_CUDA,
     .reject = refuses,
     .scratch = scratch_f,
     .prepare = prepare_f,
     .launch = forward,
     .captures = pst_cuda_captures_always,
     .dtypes = TAKES_ALL},
    {.op = "convolution",
     .pass = PST_PASS_B,
     .name = "cuda/cudnn/convolution",
     .isa = PST_ISA_CUDA,
     .reject = refuses,
     .scratch = scratch_b,
     .prepare = prepare_b,
     .launch = backward,
     .captures = pst_cuda_captures_always,
     .dtypes = TAKES_ALL},
    {.op = "convolution",
     .pass = PST_PASS_W,
     .name = "cuda/cudnn/convolution",
     .isa = PST_ISA_CUDA,
     .reject = refuses,
     .scratch = scratch_w,
     .prepare = prepare_w,
     .launch = weight,
     .captures = pst_cuda_captures_always,
     .dtypes = TAKES_ALL},
};

pst_cuda_rows pst_cuda_convolution_rows(void) {
    return (pst_cuda_rows){rows, sizeof rows / sizeof *rows};
}

/* linear by cuBLASLt, row-major: y[rows,N] = x[rows,K] weight[N,K]^T, which is column-major y^T =
 * weight x^T.
 *
 * The bias is added in the product's epilogue. So is GELU (tanh), if the library has that and the
 * run recomputes nothing (pst_graph.final): the epilogue reads the sum before it is rounded to z,
 * so y differs from the y that `activation` recomputes from z, and one run must not mix the two. dz
 * is a separate kernel: fused, it would belong to the product of another operator, which may be in
 * another stage, so a run's bits would depend on the cut. The same holds for a residual addition.
 * The gradient of the bias is summed by W's product or by our own kernel. What is fused is chosen
 * like an algorithm (pst_cuda_product_fuses) and does not depend on the schedule. Rounded factors
 * (base/dtype.h) exist only inside the product: what is stored, added and summed keeps the graph's
 * type. */
#include "base/log.h"
#include "kernels/cuda/convolution_plain.h"
#include "kernels/cuda/fp8.h"
#include "kernels/cuda/launch.h"
#include "kernels/shape.h"

typedef struct {
    uint64_t rows, k, n;
    uint64_t pitch; /* elements from row to row of y: n, or more with gaps */
    pst_dtype dtype, factors;
    pst_activation act;
    int bias, final;
} sizes;

static sizes sizes_of(const pst_graph *g, const pst_node *node) {
    const pst_tensor *in = &g->tensor[node->in[0]];
    return (sizes){.rows = pst_tensor_rows(in),
                   .k = pst_tensor_last(in),
                   .n = g->param[node->param[0]].dim[0],
                   .pitch = pst_tensor_pitch(&g->tensor[node->out[0]]),
                   .dtype = g->dtype,
                   .factors = pst_node_factors(g, node),
                   .act = node->attr.activation,
                   .bias = node->n_param > 1,
                   .final = g->final};
}

/* W adds directly to the fp32 accumulator. Gaps between rows of y are computed like other columns,
 * so that all sizes suit the library: the weight is followed by zeros, and the loss sets the
 * gradient's gaps to zero. */
static pst_cuda_shape shape_of(const sizes *s, pst_pass pass) {
    pst_cuda_shape shape = {.in = s->factors, .out = pass == PST_PASS_W ? PST_F32 : s->dtype};
    shape.m = pass == PST_PASS_F ? s->pitch : s->k;
    shape.n = pass == PST_PASS_W ? s->n : s->rows;
    const uint64_t depth[] = {[PST_PASS_F] = s->k, [PST_PASS_B] = s->pitch, [PST_PASS_W] = s->rows};
    shape.k = depth[pass];
    shape.trans_a = pass == PST_PASS_F;
    shape.trans_b = pass == PST_PASS_W;
    shape.bias = pass == PST_PASS_F && s->bias;
    return s->factors == PST_F8 ? pst_cuda_fp8_shape(shape, pass) : shape;
}

/* The accumulator has no gaps, so W of a y with gaps is two products: the first one computes the
 * outputs up to the last multiple of 64, the second one the rest. Returns how many the first one
 * computes. */
enum { TILE = 64 };
static uint64_t split_w(const sizes *s, pst_cuda_shape shape[2]) {
    uint64_t even = s->pitch == s->n ? s->n : s->n / TILE * TILE;
    shape[0] = shape[1] = shape_of(s, PST_PASS_W);
    shape[0].n = even;
    shape[1].n = s->n - even;
    if (even < s->n) shape[0].pitch_b = shape[1].pitch_b = s->pitch;
    return even;
}

/* The pass as one product with its epilogue. *fused: there is something to fuse. cuBLASLt's GELU
 * needs rows of a multiple of 8 elements; 8-bit products cannot sum their factors. */
static pst_cuda_shape fused_of(const sizes *s, pst_pass pass, int *fused) {
    pst_cuda_shape shape = shape_of(s, pass);
    shape.gelu = pass == PST_PASS_F && s->act == PST_ACT_GELU_TANH && s->final && s->n % 8 == 0;
    shape.sums_b = pass == PST_PASS_W && s->bias && s->factors != PST_F8 && s->pitch == s->n;
    *fused = shape.gelu || shape.sums_b;
    return shape;
}

/* Whether the library can compute it as one product. */
static pst_status choose_form(pst_device *device, const sizes *s, pst_pass pass,
                              pst_cuda_shape *shape, int *fused) {
    *shape = fused_of(s, pass, fused);
    if (*fused) PST_TRY(pst_cuda_product_fuses(device, shape, fused));
    if (!*fused) *shape = shape_of(s, pass);
    return PST_OK;
}

static uint64_t product_bytes(const sizes *s, pst_pass pass) {
    pst_cuda_shape shape = shape_of(s, pass);
    return PST_CUDA_WORKSPACE + (s->factors == PST_F8 ? pst_cuda_fp8_bytes(&shape) : 0);
}

static uint64_t scratch_f(const pst_graph *g, const pst_node *node, uint32_t threads) {
    (void)threads;
    sizes s = sizes_of(g, node);
    return product_bytes(&s, PST_PASS_F);
}

static uint64_t scratch_b(const pst_graph *g, const pst_node *node, uint32_t threads) {
    (void)threads;
    sizes s = sizes_of(g, node);
    return product_bytes(&s, PST_PASS_B);
}

/* First the parts of the column sum; then, in the same bytes, the product's scratch and after it a
 * micro-batch's gradient of the bias. */
static uint64_t scratch_w(const pst_graph *g, const pst_node *node, uint32_t threads) {
    (void)threads;
    sizes s = sizes_of(g, node);
    uint64_t parts = s.bias ? pst_cuda_column_sum_scratch(s.rows, s.n, 1) : 0,
             product = product_bytes(&s, PST_PASS_W) + (s.bias ? s.n * sizeof(float) : 0);
    return parts > product ? parts : product;
}

static pst_status prepare(pst_device *device, const pst_graph *g, const pst_node *node,
                          pst_pass pass) {
    sizes s = sizes_of(g, node);
    int fused;
    pst_cuda_shape shape = fused_of(&s, pass, &fused);
    if (s.factors == PST_F8) PST_TRY(pst_cuda_fp8_prepare(device, node));
    return pst_cuda_product_prepare(device, &shape);
}

/* Kernels for tensor cores read and write 16 bytes at a time. pst_graph_pad pads the logits; other
 * layers keep the model's sizes. */
static void warn_of_width(const pst_graph *g, const pst_node *node) {
    const sizes s = sizes_of(g, node);
    const uint64_t pack = 16 / pst_dtype_bytes(s.dtype);
    if (s.factors != PST_F32 && s.pitch % pack)
        pst_log(PST_LOG_WARN,
                "%s has output size %llu, which is not a multiple of %llu: the matrix products "
                "may take several times as long as with size %llu",
                node->name, (unsigned long long)s.n, (unsigned long long)pack,
                (unsigned long long)((s.n + 63) / 64 * 64));
}

static pst_status prepare_f(pst_device *device, const pst_graph *g, const pst_node *node) {
    warn_of_width(g, node);
    return prepare(device, g, node, PST_PASS_F);
}

static pst_status prepare_b(pst_device *device, const pst_graph *g, const pst_node *node) {
    return prepare(device, g, node, PST_PASS_B);
}

static pst_status prepare_w(pst_device *device, const pst_graph *g, const pst_node *node) {
    sizes s = sizes_of(g, node);
    pst_cuda_shape shape[2];
    if (s.pitch == s.n) return prepare(device, g, node, PST_PASS_W);
    if (split_w(&s, shape)) PST_TRY(pst_cuda_product_prepare(device, &shape[0]));
    return pst_cuda_product_prepare(device, &shape[1]);
}

static int captures(pst_device *device, const pst_call *call, pst_pass pass) {
    return pst_node_factors(call->graph, call->node) != PST_F8 ||
           pst_cuda_fp8_captures(device, call, pass);
}
static int captures_f(pst_device *device, const pst_call *call) {
    return captures(device, call, PST_PASS_F);
}
static int captures_b(pst_device *device, const pst_call *call) {
    return captures(device, call, PST_PASS_B);
}
static int captures_w(pst_device *device, const pst_call *call) {
    return captures(device, call, PST_PASS_W);
}

static pst_status multiply(pst_device *device, const pst_call *call, pst_pass pass,
                           const pst_cuda_shape *shape, pst_cuda_operands of) {
    of.workspace = call->scratch;
    if (shape->in == PST_F8) return pst_cuda_fp8_product(device, call, pass, shape, &of);
    return pst_cuda_product(device, shape, &of);
}

/* IN0 PARAM0 [PARAM1] OUT0 [SAVED0] */
static pst_status forward(pst_device *device, const pst_call *call) {
    sizes s = sizes_of(call->graph, call->node);
    const void *bias = s.bias ? call->arg[2] : NULL;
    void *y = call->arg[2 + s.bias], *z = s.act ? call->arg[3 + s.bias] : y;
    pst_cuda_shape shape;
    int fused;
    PST_TRY(choose_form(device, &s, PST_PASS_F, &shape, &fused));
    const pst_cuda_operands operands = {
        .a = call->arg[1], .b = call->arg[0], .bias = bias, .d = fused ? y : z, .aux = z};
    PST_TRY(multiply(device, call, PST_PASS_F, &shape, operands));
    if (!s.act || fused) return PST_OK;
    pst_cuda_activation(pst_cuda_stream(device), s.dtype, s.act, z, y, s.rows * s.n);
    return pst_cuda_launched("linear's activation");
}

/* PARAM0 DOUT0 DIN0, with an activation PARAM0 SAVED0 DOUT0 SAVED1 DIN0 */
static pst_status backward(pst_device *device, const pst_call *call) {
    sizes s = sizes_of(call->graph, call->node);
    const void *dz = call->arg[1];
    if (s.act) {
        dz = call->arg[3];
        pst_cuda_slope(pst_cuda_stream(device), s.dtype, s.act, call->arg[1], call->arg[2],
                       call->arg[3], s.rows * s.n);
        PST_TRY(pst_cuda_launched("the derivative of linear's activation"));
    }
    pst_cuda_shape shape = shape_of(&s, PST_PASS_B);
    return multiply(device, call, PST_PASS_B, &shape,
                    (pst_cuda_operands){.a = call->arg[0], .b = dz, .d = call->arg[s.act ? 4 : 2]});
}

/* W for a y with gaps between rows. */
static pst_status multiply_split(pst_device *device, const pst_call *call, const sizes *s,
                                 pst_cuda_operands of) {
    pst_cuda_shape shape[2];
    uint64_t even = split_w(s, shape);
    of.workspace = call->scratch;
    if (even) PST_TRY(pst_cuda_product(device, &shape[0], &of));
    of.b = (const uint8_t *)of.b + even * pst_dtype_bytes(s->dtype);
    of.d = (float *)of.d + even * s->k;
    return pst_cuda_product(device, &shape[1], &of);
}

/* The gradient of the bias, by our own kernel. */
static pst_status sum_columns(pst_device *device, const pst_call *call, const sizes *s) {
    pst_cuda_columns columns = {.dy = call->arg[1],
                                .sum = {call->arg[3]},
                                .rows = s->rows,
                                .columns = s->n,
                                .pitch = s->pitch,
                                .first = call->first,
                                .scratch = call->scratch};
    pst_cuda_column_sum(pst_cuda_stream(device), s->dtype, &columns);
    return pst_cuda_launched("the gradient of linear's bias");
}

/* Adds the product's sums to the accumulated gradient of the bias. */
static pst_status add_sums(pst_device *device, const pst_call *call, const sizes *s,
                           const float *sums) {
    if (call->first) return PST_OK;
    pst_cuda_accumulate(pst_cuda_stream(device), PST_F32, sums, call->arg[3], s->n, 0);
    return pst_cuda_launched("the gradient of linear's bias");
}

/* IN0 DOUT0|SAVED1 DPARAM0 [DPARAM1] */
static pst_status weight(pst_device *device, const pst_call *call) {
    sizes s = sizes_of(call->graph, call->node);
    pst_cuda_shape shape;
    int fused;
    PST_TRY(choose_form(device, &s, PST_PASS_W, &shape, &fused));
    pst_cuda_operands of = {
        .a = call->arg[0], .b = call->arg[1], .beta = call->first ? 0 : 1, .d = call->arg[2]};
    if (s.bias && !fused) PST_TRY(sum_columns(device, call, &s));
    if (s.pitch != s.n) return multiply_split(device, call, &s, of);
    if (!fused) return multiply(device, call, PST_PASS_W, &shape, of);
    of.sums = call->first ? call->arg[3]
                          : (float *)(void *)((uint8_t *)call->scratch + PST_CUDA_WORKSPACE);
    PST_TRY(multiply(device, call, PST_PASS_W, &shape, of));
    return add_sums(device, call, &s, of.sums);
}

enum { TAKES_ALL = PST_TAKES_F32 | PST_TAKES_BF16 | PST_TAKES_F16 };
static const pst_kernel_row rows[] = {
    {.op = "linear",
     .pass = PST_PASS_F,
     .name = "cuda/cublaslt/linear",
     .isa = PST_ISA_CUDA,
     .scratch = scratch_f,
     .prepare = prepare_f,
     .launch = forward,
     .captures = captures_f,
     .dtypes = TAKES_ALL},
    {.op = "linear",
     .pass = PST_PASS_B,
     .name = "cuda/cublaslt/linear",
     .isa = PST_ISA_CUDA,
     .scratch = scratch_b,
     .prepare = prepare_b,
     .launch = backward,
     .captures = captures_b,
     .dtypes = TAKES_ALL},
    {.op = "linear",
     .pass = PST_PASS_W,
     .name = "cuda/cublaslt/linear",
     .isa = PST_ISA_CUDA,
     .scratch = scratch_w,
     .prepare = prepare_w,
     .launch = weight,
     .captures = captures_w,
     .dtypes = TAKES_ALL},
};

pst_cuda_rows pst_cuda_linear_rows(void) {
    return (pst_cuda_rows){rows, sizeof rows / sizeof *rows};
}

/* Linear: three matrix products; element-wise operations run on tiles that are still in cache. In
 * bf16 and fp16 a product is summed in scratch and rounded once when it is stored. */
#include "graph/blocks.h"
#include "kernels/cpu/cpu.h"
#include "kernels/shape.h"

typedef struct {
    const pst_linear_ops *ops;
    pst_activation act;
    uint64_t rows, k, n; /* x[rows,k], weight[n,k], y[rows,n] */
    uint64_t count;      /* element by element: of y */
    int bias, active, first;
    const uint8_t *in, *dy; /* bias, z or dz, by pass; elements of ops->dtype */
    uint8_t *y, *z;
    float *out;
    uint64_t size, ld; /* bytes of an element; of y and z */
} job;

static job job_of(const pst_call *call, const pst_linear_ops *ops) {
    const pst_tensor *in = pst_call_in(call, 0);
    const pst_node *node = call->node;
    return (job){.ops = ops,
                 .act = node->attr.activation,
                 .rows = pst_tensor_rows(in),
                 .k = pst_tensor_last(in),
                 .n = call->graph->param[node->param[0]].dim[0],
                 .bias = node->n_param > 1,
                 .active = node->attr.activation != PST_ACT_NONE,
                 .first = call->first,
                 .size = pst_dtype_bytes(ops->dtype)};
}

static void finish(void *arg, const pst_gemm_tile *of) {
    const job *j = arg;
    uint64_t at = (of->row * j->ld + of->col) * j->size;
    pst_linear_tile tile = {.sum = of->sum,
                            .sum_ld = of->ld,
                            .z = j->z ? j->z + at : NULL,
                            .y = j->y + at,
                            .bias = j->in ? j->in + of->col * j->size : NULL,
                            .rows = of->rows,
                            .cols = of->cols,
                            .ld = j->ld};
    j->ops->finish(j->act, &tile);
}

static uint64_t rows_of(const pst_graph *g, const pst_node *node) {
    return pst_tensor_rows(&g->tensor[node->in[0]]);
}
static uint64_t inputs_of(const pst_graph *g, const pst_node *node) {
    return pst_tensor_last(&g->tensor[node->in[0]]);
}
static uint64_t outputs_of(const pst_graph *g, const pst_node *node) {
    return g->param[node->param[0]].dim[0];
}

static int in_place(const pst_graph *g) { return g->dtype == PST_F32; }

uint64_t pst_linear_forward_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    if (node->attr.blocks.of == PST_BLOCKS_IN)
        return pst_linear_blocks_scratch(g, node, PST_PASS_F, threads);
    return pst_gemm_scratch(g->dtype, rows_of(g, node), outputs_of(g, node), inputs_of(g, node),
                            in_place(g), threads);
}

uint64_t pst_linear_backward_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    if (node->attr.blocks.of == PST_BLOCKS_OUT)
        return pst_linear_blocks_scratch(g, node, PST_PASS_B, threads);
    return pst_gemm_scratch(g->dtype, rows_of(g, node), inputs_of(g, node), outputs_of(g, node),
                            in_place(g), threads);
}

uint64_t pst_linear_weight_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    const uint64_t out = outputs_of(g, node), in = inputs_of(g, node);
    const pst_blocks *blocks = &node->attr.blocks;
    if (blocks->of == PST_BLOCKS_ROWS)
        return pst_linear_block_scratch(g->dtype, out, in, blocks, g->tensor[node->in[0]].dim[1],
                                        threads);
    return pst_gemm_scratch(g->dtype, out, in, rows_of(g, node), 1, threads);
}

/* --- a few rows ------------------------------------------------------------------------------- */

enum { FEW_BYTES = 128 << 10 /* of the weight in a tile */ };

typedef struct {
    job *job;
    const float *x, *weight;
    uint64_t each; /* outputs of a tile */
} few_job;

static void few_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const few_job *f = arg;
    job *j = f->job;
    const uint64_t from = tile * f->each, n = pst_min_u64(f->each, j->n - from);
    float *y = (float *)(void *)(j->z ? j->z : j->y) + from;
    j->ops->few(&(pst_few_rows){f->x, f->weight + from * j->k, y, j->rows, n, j->k, j->n});
    if (!j->bias && !j->active) return;
    finish(j, &(pst_gemm_tile){
                  .sum = y, .ld = j->n, .row = 0, .col = from, .rows = j->rows, .cols = n});
}

static pst_status few_rows(pst_device *device, const pst_call *call, job *j) {
    few_job f = {.job = j, .x = call->arg[0], .weight = call->arg[1]};
    const uint64_t rows = FEW_BYTES / (j->k * sizeof(float));
    f.each = rows ? rows : 1;
    pst_device_run(device, few_tile, &f, pst_div_up(j->n, f.each));
    return PST_OK;
}

/* Only graphs for generation: in training, a row's bits do not depend on the number of rows. */
static int takes_few(const pst_call *call, const job *j) {
    return call->graph->generates && j->ops->few && j->rows <= PST_FEW_ROWS &&
           call->node->attr.blocks.of == PST_BLOCKS_NONE;
}

/* IN0 PARAM0 [PARAM1] OUT0 [SAVED0] */
pst_status pst_linear_forward(pst_device *device, const pst_call *call, const pst_linear_ops *ops) {
    job j = job_of(call, ops);
    j.in = j.bias ? call->arg[2] : NULL;
    j.y = call->arg[2 + j.bias];
    j.z = j.active ? call->arg[3 + j.bias] : NULL;
    j.ld = j.n;
    if (takes_few(call, &j)) return few_rows(device, call, &j);
    pst_gemm gemm = {.dtype = ops->dtype,
                     .trans_b = 1,
                     .m = j.rows,
                     .n = j.n,
                     .k = j.k,
                     .a = call->arg[0],
                     .lda = j.k,
                     .b = call->arg[1],
                     .ldb = j.k,
                     .ldc = j.n,
                     .finish = j.bias || j.active || ops->dtype != PST_F32 ? finish : NULL,
                     .finish_arg = &j,
                     .scratch = call->scratch,
                     .ops = ops->product};
    if (call->node->attr.blocks.of == PST_BLOCKS_IN)
        return pst_linear_blocks(device, call, &gemm, j.in, j.y, ops);
    if (ops->dtype == PST_F32) gemm.c = (float *)(void *)(j.z ? j.z : j.y);
    return pst_gemm_run(device, &gemm);
}

static void apply_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const job *j = arg;
    uint64_t from = tile * PST_FLAT_TILE, n = pst_min_u64(PST_FLAT_TILE, j->count - from),
             at = from * j->size;
    j->ops->apply(j->act, j->in + at, j->y + at, n);
}

/* For all elements of the output, of linear or of activation. */
static job job_of_elements(const pst_call *call, const pst_linear_ops *ops) {
    return (job){.ops = ops,
                 .act = call->node->attr.activation,
                 .count = pst_tensor_elements(&call->graph->tensor[call->node->out[0]]),
                 .size = pst_dtype_bytes(ops->dtype)};
}

/* IN0 OUT0, or SAVED0 OUT0 of linear */
pst_status pst_linear_activation(pst_device *device, const pst_call *call,
                                 const pst_linear_ops *ops) {
    job j = job_of_elements(call, ops);
    j.in = call->arg[0];
    j.y = call->arg[1];
    pst_device_run(device, apply_tile, &j, pst_div_up(j.count, PST_FLAT_TILE));
    return PST_OK;
}

static void slope_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const job *j = arg;
    uint64_t from = tile * PST_FLAT_TILE, n = pst_min_u64(PST_FLAT_TILE, j->count - from),
             at = from * j->size;
    j->ops->slope(j->act, j->in + at, j->dy + at, j->z + at, n);
}

/* IN0 DOUT0 DIN0 */
pst_status pst_linear_slope(pst_device *device, const pst_call *call, const pst_linear_ops *ops) {
    job j = job_of_elements(call, ops);
    j.in = call->arg[0];
    j.dy = call->arg[1];
    j.z = call->arg[2];
    pst_device_run(device, slope_tile, &j, pst_div_up(j.count, PST_FLAT_TILE));
    return PST_OK;
}

/* PARAM0 DOUT0 DIN0 or PARAM0 SAVED0 DOUT0 SAVED1 DIN0 */
pst_status pst_linear_backward(pst_device *device, const pst_call *call,
                               const pst_linear_ops *ops) {
    job j = job_of(call, ops);
    const void *dz = call->arg[1];
    if (j.active) {
        j.in = call->arg[1];
        j.dy = call->arg[2];
        j.z = call->arg[3];
        j.count = j.rows * j.n;
        pst_device_run(device, slope_tile, &j, pst_div_up(j.count, PST_FLAT_TILE));
        dz = j.z;
    }
    job to = {.ops = ops,
              .act = PST_ACT_NONE,
              .y = call->arg[j.active ? 4 : 2],
              .size = j.size,
              .ld = j.k};
    pst_gemm gemm = {.dtype = ops->dtype,
                     .m = j.rows,
                     .n = j.k,
                     .k = j.n,
                     .a = dz,
                     .lda = j.n,
                     .b = call->arg[0],
                     .ldb = j.k,
                     .ldc = j.k,
                     .finish = ops->dtype != PST_F32 ? finish : NULL,
                     .finish_arg = &to,
                     .scratch = call->scratch,
                     .ops = ops->product};
    if (call->node->attr.blocks.of == PST_BLOCKS_OUT)
        return pst_linear_blocks(device, call, &gemm, NULL, to.y, ops);
    if (ops->dtype == PST_F32) gemm.c = (float *)(void *)to.y;
    return pst_gemm_run(device, &gemm);
}

static void bias_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const job *j = arg;
    uint64_t col = tile * PST_SUM_COLS, cols = pst_min_u64(PST_SUM_COLS, j->n - col);
    j->ops->column_sum(j->dy + col * j->size, j->rows, cols, j->n, j->out + col, j->first);
}

/* Adds one block's products of the positions of each sample in order; the sums of block i follow
 * those of block i - 1. */
static pst_status weight_blocks(pst_device *device, const pst_call *call, const pst_gemm *whole,
                                const job *all) {
    const pst_tensor *x = pst_call_in(call, 0);
    const pst_blocks *b = &call->node->attr.blocks;
    for (uint32_t i = 0; i < b->own; i++) {
        pst_part at = pst_block_of(b, x->dim[1], i);
        for (uint64_t s = 0; s < x->dim[0]; s++) {
            uint64_t row = s * x->dim[1] + at.first;
            pst_gemm gemm = *whole;
            job j = *all;
            gemm.k = j.rows = at.count;
            gemm.a = j.dy = j.dy + row * j.n * j.size;
            gemm.b = (const uint8_t *)whole->b + row * j.k * j.size;
            gemm.c += i * j.n * j.k;
            j.first = call->first && !s;
            gemm.add = !j.first;
            if (j.bias) {
                j.out += i * j.n;
                pst_device_run(device, bias_tile, &j, pst_div_up(j.n, PST_SUM_COLS));
            }
            PST_TRY(pst_gemm_run(device, &gemm));
        }
    }
    return PST_OK;
}

/* IN0 DOUT0|SAVED1 DPARAM0 [DPARAM1] */
pst_status pst_linear_weight(pst_device *device, const pst_call *call, const pst_linear_ops *ops) {
    job j = job_of(call, ops);
    int blocks = call->node->attr.blocks.of == PST_BLOCKS_ROWS;
    j.dy = call->arg[1];
    if (j.bias) j.out = call->arg[3];
    if (j.bias && !blocks) pst_device_run(device, bias_tile, &j, pst_div_up(j.n, PST_SUM_COLS));
    pst_gemm gemm = {.dtype = ops->dtype,
                     .trans_a = 1,
                     .m = j.n,
                     .n = j.k,
                     .k = j.rows,
                     .a = j.dy,
                     .lda = j.n,
                     .b = call->arg[0],
                     .ldb = j.k,
                     .ldc = j.k,
                     .c = call->arg[2],
                     .add = !call->first,
                     .scratch = call->scratch,
                     .ops = ops->product};
    return blocks ? weight_blocks(device, call, &gemm, &j) : pst_gemm_run(device, &gemm);
}

/* Linear: three products, with the element-wise rest done on tiles that are still in cache. */
#include "kernels/cpu/cpu.h"
#include "kernels/shape.h"

typedef struct {
    const pst_linear_ops *ops;
    pst_activation act;
    uint64_t rows, k, n;      /* x[rows,k], weight[n,k], y[rows,n] */
    int bias, active, first;
    const float *in, *dy;     /* bias, z or dz, by pass */
    float *y, *z, *out;
} job;

static job job_of(const pst_call *call, const pst_linear_ops *ops) {
    const pst_tensor *in = pst_call_in(call, 0);
    const pst_node *node = call->node;
    return (job){.ops = ops, .act = node->attr.activation, .rows = pst_tensor_rows(in), .k = pst_tensor_last(in),
                 .n = call->graph->param[node->param[0]].dim[0], .bias = node->n_param > 1,
                 .active = node->attr.activation != PST_ACT_NONE, .first = call->first};
}

static void finish(void *arg, uint64_t row, uint64_t rows, uint64_t col, uint64_t cols) {
    const job *j = arg;
    uint64_t at = row * j->n + col;
    j->ops->finish(j->act, j->z ? j->z + at : NULL, j->y + at, j->in ? j->in + col : NULL, rows, cols, j->n);
}

/* IN0 PARAM0 [PARAM1] OUT0 [SAVED0] */
pst_status pst_linear_forward(pst_device *device, const pst_call *call, const pst_linear_ops *ops) {
    job j = job_of(call, ops);
    j.in = j.bias ? call->arg[2] : NULL;
    j.y = call->arg[2 + j.bias];
    j.z = j.active ? call->arg[3 + j.bias] : NULL;
    pst_gemm gemm = {.trans_b = 1, .m = j.rows, .n = j.n, .k = j.k, .a = call->arg[0], .lda = j.k, .b = call->arg[1],
                     .ldb = j.k, .c = j.z ? j.z : j.y, .ldc = j.n,
                     .finish = j.bias || j.active ? finish : NULL, .finish_arg = &j};
    return pst_gemm_run(device, &gemm);
}

static void slope_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const job *j = arg;
    uint64_t from = tile * PST_FLAT_TILE, n = pst_min_u64(PST_FLAT_TILE, j->rows * j->n - from);
    j->ops->slope(j->act, j->in + from, j->dy + from, j->out + from, n);
}

/* PARAM0 DOUT0 DIN0 or PARAM0 SAVED0 DOUT0 SAVED1 DIN0 */
pst_status pst_linear_backward(pst_device *device, const pst_call *call, const pst_linear_ops *ops) {
    job j = job_of(call, ops);
    const float *dz = call->arg[1];
    if (j.active) {
        j.in = call->arg[1], j.dy = call->arg[2], j.out = call->arg[3];
        pst_device_run(device, slope_tile, &j, pst_div_up(j.rows * j.n, PST_FLAT_TILE));
        dz = j.out;
    }
    pst_gemm gemm = {.m = j.rows, .n = j.k, .k = j.n, .a = dz, .lda = j.n, .b = call->arg[0], .ldb = j.k,
                     .c = call->arg[j.active ? 4 : 2], .ldc = j.k};
    return pst_gemm_run(device, &gemm);
}

static void bias_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const job *j = arg;
    uint64_t col = tile * PST_SUM_COLS, cols = pst_min_u64(PST_SUM_COLS, j->n - col);
    j->ops->column_sum(j->dy + col, j->rows, cols, j->n, j->out + col, j->first);
}

/* IN0 DOUT0|SAVED1 DPARAM0 [DPARAM1] */
pst_status pst_linear_weight(pst_device *device, const pst_call *call, const pst_linear_ops *ops) {
    job j = job_of(call, ops);
    j.dy = call->arg[1];
    if (j.bias) {
        j.out = call->arg[3];
        pst_device_run(device, bias_tile, &j, pst_div_up(j.n, PST_SUM_COLS));
    }
    pst_gemm gemm = {.trans_a = 1, .m = j.n, .n = j.k, .k = j.rows, .a = j.dy, .lda = j.n, .b = call->arg[0],
                     .ldb = j.k, .c = call->arg[2], .ldc = j.k, .add = !call->first};
    return pst_gemm_run(device, &gemm);
}

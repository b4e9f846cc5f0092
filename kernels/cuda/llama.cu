/* Kernels of Llama beside products and attention: RMS norm, rotary positions, and the gated
 * product. Simple kernels that read operands again rather than keep them. Sums have a fixed order.
 */
#include "kernels/cuda/vector.cuh"

namespace {

enum { ROW = 256 /* threads per row */, COLUMNS = 32, LINES = 8, FLAT = 256 };

struct rms_job {
    uint64_t rows;
    uint32_t n;
    float eps;
    float *saved;
};

/* The sum over the threads of a block, in one fixed order: lanes, then warps. */
__device__ inline float block_sum(float x) {
    __shared__ float part[ROW / WARP];
    x = warp_sum(x);
    __syncthreads(); /* all threads have read the previous sum */
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = x;
    __syncthreads();
    float sum = part[0];
    for (uint32_t w = 1; w < ROW / WARP; w++) sum += part[w];
    return sum;
}

template <typename T, typename X, typename Y>
__global__ void __launch_bounds__(ROW) rms_norm_f(rms_job j, const X *x, const T *weight, Y *y) {
    uint64_t at = (uint64_t)blockIdx.x * j.n;
    float square = 0;
    for (uint32_t i = threadIdx.x; i < j.n; i += ROW)
        square = fmaf(widen(x[at + i]), widen(x[at + i]), square);
    float rstd = 1.0f / sqrtf(block_sum(square) / j.n + j.eps);
    for (uint32_t i = threadIdx.x; i < j.n; i += ROW)
        y[at + i] = narrowed<Y>(widen(x[at + i]) * rstd * widen(weight[i]));
    if (threadIdx.x == 0) j.saved[blockIdx.x] = rstd;
}

/* With g = dy * weight and h = x * rstd: dx = rstd * (g - h * mean(g * h)) (+ add). */
template <typename T, typename X, typename Y>
__global__ void __launch_bounds__(ROW)
    rms_norm_b(rms_job j, const X *x, const T *weight, const Y *dy, const X *add, X *dx) {
    uint64_t at = (uint64_t)blockIdx.x * j.n;
    float rstd = j.saved[blockIdx.x], gh = 0;
    for (uint32_t i = threadIdx.x; i < j.n; i += ROW)
        gh = fmaf(widen(dy[at + i]) * widen(weight[i]), widen(x[at + i]) * rstd, gh);
    float mean = block_sum(gh) / j.n;
    for (uint32_t i = threadIdx.x; i < j.n; i += ROW) {
        float g = widen(dy[at + i]) * widen(weight[i]);
        float v = rstd * (g - widen(x[at + i]) * rstd * mean);
        dx[at + i] = narrowed<X>(add ? v + widen(add[at + i]) : v);
    }
}

/* A block has 32 columns; line y takes every 8th row, and the lines are added in order. */
template <typename X, typename Y>
__global__ void __launch_bounds__(COLUMNS *LINES)
    rms_norm_w(rms_job j, const X *x, const Y *dy, float *dweight, bool first) {
    __shared__ float line[LINES][COLUMNS];
    const uint32_t column = blockIdx.x * COLUMNS + threadIdx.x;
    float sum = 0;
    for (uint64_t r = threadIdx.y; r < j.rows && column < j.n; r += LINES)
        sum = fmaf(widen(dy[r * j.n + column]), widen(x[r * j.n + column]) * j.saved[r], sum);
    line[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || column >= j.n) return;
    for (int y = 1; y < LINES; y++) sum += line[y][threadIdx.x];
    dweight[column] = first ? sum : dweight[column] + sum;
}

/* A thread turns one pair of one head. */
template <typename T> __global__ void __launch_bounds__(FLAT) rotate(const pst_cuda_rotary r) {
    const uint64_t half = r.d / 2, n = r.rows * r.heads * half;
    const uint64_t i = (uint64_t)blockIdx.x * FLAT + threadIdx.x;
    if (i >= n) return;
    const uint64_t pair = i % half, head = i / half, at = head * r.d + pair;
    const float turn = (float)(head / r.heads % r.t) * r.angle[pair];
    const float c = cosf(turn) * r.cosine, s = sinf(turn) * r.sine;
    const float a = widen(((const T *)r.x)[at]), b = widen(((const T *)r.x)[at + half]);
    ((T *)r.y)[at] = narrowed<T>(a * c - b * s);
    ((T *)r.y)[at + half] = narrowed<T>(b * c + a * s);
}

template <typename T>
__global__ void __launch_bounds__(FLAT) gated_f(const T *gate, const T *up, T *out, uint64_t n) {
    const uint64_t i = (uint64_t)blockIdx.x * FLAT + threadIdx.x;
    if (i >= n) return;
    const float g = widen(gate[i]);
    out[i] = narrowed<T>(g / (1.0f + expf(-g)) * widen(up[i]));
}

template <typename T> __global__ void __launch_bounds__(FLAT) gated_b(const pst_cuda_gated c) {
    const uint64_t i = (uint64_t)blockIdx.x * FLAT + threadIdx.x;
    if (i >= c.n) return;
    const float g = widen(((const T *)c.gate)[i]), u = widen(((const T *)c.up)[i]),
                d = widen(((const T *)c.dout)[i]), s = 1.0f / (1.0f + expf(-g));
    ((T *)c.dgate)[i] = narrowed<T>(d * u * s * (1.0f + g * (1.0f - s)));
    ((T *)c.dup)[i] = narrowed<T>(d * g * s);
}

rms_job job_of(const pst_cuda_norm *c) {
    rms_job j = {c->rows, (uint32_t)c->n, c->eps, c->saved};
    return j;
}

} // namespace

extern "C" void pst_cuda_rms_norm_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_norm *c) {
    by_types(dtype, c->wide_x, c->wide_y, [&](auto type, auto type_x, auto type_y) {
        typedef decltype(type) T;
        typedef decltype(type_x) X;
        typedef decltype(type_y) Y;
        launch(q, rms_norm_f<T, X, Y>, dim3((uint32_t)c->rows), dim3(ROW), job_of(c),
               (const X *)c->x, (const T *)c->weight, (Y *)c->y);
    });
}

extern "C" void pst_cuda_rms_norm_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_norm *c) {
    by_types(dtype, c->wide_x, c->wide_y, [&](auto type, auto type_x, auto type_y) {
        typedef decltype(type) T;
        typedef decltype(type_x) X;
        typedef decltype(type_y) Y;
        launch(q, rms_norm_b<T, X, Y>, dim3((uint32_t)c->rows), dim3(ROW), job_of(c),
               (const X *)c->x, (const T *)c->weight, (const Y *)c->dy, (const X *)c->sum,
               (X *)c->dx);
    });
}

extern "C" void pst_cuda_rms_norm_w(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_norm *c,
                                    float *dweight, int first) {
    by_types(dtype, c->wide_x, c->wide_y, [&](auto type, auto type_x, auto type_y) {
        typedef decltype(type_x) X;
        typedef decltype(type_y) Y;
        (void)type;
        launch(q, rms_norm_w<X, Y>, dim3((uint32_t)div_up(c->n, COLUMNS)), dim3(COLUMNS, LINES),
               job_of(c), (const X *)c->x, (const Y *)c->dy, dweight, first != 0);
    });
}

extern "C" void pst_cuda_rotate(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_rotary *r) {
    const uint64_t n = r->rows * r->heads * (r->d / 2);
    by_type(dtype, [&](auto type) {
        launch(q, rotate<decltype(type)>, dim3(grid_of(n, FLAT)), dim3(FLAT), *r);
    });
}

extern "C" void pst_cuda_gated_f(pst_cuda_queue q, pst_dtype dtype, const void *gate,
                                 const void *up, void *out, uint64_t n) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        launch(q, gated_f<T>, dim3(grid_of(n, FLAT)), dim3(FLAT), (const T *)gate, (const T *)up,
               (T *)out, n);
    });
}

extern "C" void pst_cuda_gated_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_gated *g) {
    by_type(dtype, [&](auto type) {
        launch(q, gated_b<decltype(type)>, dim3(grid_of(g->n, FLAT)), dim3(FLAT), *g);
    });
}

/* Batch norm: in every kernel here a block has a few columns and a part of the rows; its results go
 * to scratch and are combined in the order of the parts, without atomics. Mean and variance need
 * one read of x: a block sums differences from its first row and their squares, which limits
 * cancellation, and parts are combined as by Chan, Golub and LeVeque (1979). Blocks, parts and
 * order depend on the shape and the type alone, not on addresses. */
#include "kernels/cuda/image.h"
#include "kernels/cuda/vector.cuh"

enum {
    THREADS = 256,
    MANY = 1024 /* parts */,
    LEAST = 64 /* rows of one */,
    SLICES = 16,
    DEEP = 4
};

struct batch_plan {
    uint32_t across, lines; /* threads of a block: for columns, for rows */
    uint64_t part_rows, parts;
};

/* Columns are taken in packs of `pack` if they are a multiple of that. */
static batch_plan plan_of(uint64_t rows, uint64_t columns, uint32_t pack) {
    uint64_t lanes = columns % pack ? columns : columns / pack;
    batch_plan plan = {1, 0, 0, 0};
    while (plan.across < WARP && plan.across < lanes) plan.across *= 2;
    plan.lines = THREADS / plan.across;
    uint64_t each = div_up(rows * div_up(lanes, plan.across), MANY), least_rows = plan.lines * DEEP;
    if (least_rows < LEAST) least_rows = LEAST;
    plan.part_rows = div_up(each > least_rows ? each : least_rows, plan.lines) * plan.lines;
    plan.parts = div_up(rows, plan.part_rows);
    return plan;
}

static uint32_t pack_of(pst_dtype dtype) {
    return dtype == PST_F32 ? pack<float>::N : pack<bf16>::N;
}

uint64_t pst_cuda_batch_norm_scratch(pst_dtype dtype, uint64_t rows, uint64_t columns) {
    return plan_of(rows, columns, pack_of(dtype)).parts * 2 * columns * sizeof(float);
}

struct batch_job {
    uint64_t rows, columns, part_rows;
    const float *saved, *sums;
    float *part; /* [parts][2][columns] */
};

/* What a thread works on: its first column, its first row and the end of its part. */
template <uint32_t N> struct batch_place {
    uint64_t column, row, end;
    __device__ batch_place(const batch_job &j) {
        column = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) * N;
        row = blockIdx.y * j.part_rows + threadIdx.y;
        end = least((blockIdx.y + 1) * j.part_rows, j.rows);
    }
};

/* Adds the sums of a block's lines (threadIdx.y) per column, in order: sum[i] becomes the total, in
 * all threads. */
template <uint32_t N> __device__ inline void line_sum(float (&sum)[N]) {
    __shared__ float line[N * THREADS];
    const uint32_t width = blockDim.x * N;
    __syncthreads(); /* all threads have read the previous values */
#pragma unroll
    for (uint32_t i = 0; i < N; i++)
        line[threadIdx.y * width + i * blockDim.x + threadIdx.x] = sum[i];
    __syncthreads();
    for (uint32_t c = threadIdx.y * blockDim.x + threadIdx.x; c < width; c += THREADS) {
        float total = 0;
        for (uint32_t l = 0; l < blockDim.y; l++) total += line[l * width + c];
        line[c] = total; /* no other thread reads column c */
    }
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < N; i++) sum[i] = line[i * blockDim.x + threadIdx.x];
}

template <uint32_t N>
__device__ inline void store_part(const batch_job &j, uint64_t column, const float (&first)[N],
                                  const float (&second)[N]) {
    if (threadIdx.y || column >= j.columns) return;
    float *to = j.part + (uint64_t)blockIdx.y * 2 * j.columns + column;
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        to[i] = first[i];
        to[j.columns + i] = second[i];
    }
}

/* A pack of columns, or one. */
template <uint32_t N, typename T> __device__ inline void load_lane(const T *from, float (&x)[N]) {
    lane<T, (N > 1)> raw;
    raw.load(from);
    raw.widened(x);
}

/* --- mean and variance ------------------------------------------------------------------------ */
/* f(x) for a thread's columns in each of its rows. */
template <typename T, bool PACKED, typename F>
__device__ inline void each_row(const batch_job &j, const T *x, F f) {
    constexpr uint32_t N = lane<T, PACKED>::N;
    batch_place<N> at(j);
    if (at.column >= j.columns) return;
    for (uint64_t row = at.row; row < at.end; row += blockDim.y * DEEP) {
        lane<T, PACKED> raw[DEEP];
        float v[N];
#pragma unroll
        for (uint32_t k = 0; k < DEEP; k++)
            if (row + k * blockDim.y < at.end)
                raw[k].load(x + (row + k * blockDim.y) * j.columns + at.column);
#pragma unroll
        for (uint32_t k = 0; k < DEEP; k++) {
            if (row + k * blockDim.y >= at.end) continue;
            raw[k].widened(v);
            f(v);
        }
    }
}

/* Per part: its mean, and the sum of squared deviations from it. */
template <typename T, bool PACKED>
__global__ void __launch_bounds__(THREADS) part_moments(batch_job j, const T *x) {
    constexpr uint32_t N = lane<T, PACKED>::N;
    batch_place<N> at(j);
    const uint64_t begin = blockIdx.y * j.part_rows;
    const float n = (float)(at.end - begin);
    float origin[N] = {}, sum[N] = {}, square[N] = {};
    if (at.column < j.columns) load_lane<N>(x + begin * j.columns + at.column, origin);
    each_row<T, PACKED>(j, x, [&](const float(&v)[N]) {
#pragma unroll
        for (uint32_t i = 0; i < N; i++) {
            float apart = v[i] - origin[i];
            sum[i] += apart, square[i] = fmaf(apart, apart, square[i]);
        }
    });
    line_sum<N>(sum), line_sum<N>(square);
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        float mean = sum[i] / n, about = fmaf(-mean, sum[i], square[i]);
        square[i] = about < 0 ? 0.0f : about; /* keeps NaN */
        sum[i] = origin[i] + mean;
    }
    store_part<N>(j, at.column, sum, square);
}

struct batch_end {
    uint64_t rows, columns, part_rows, parts;
    const float *part;
    float *to; /* [2][columns] */
    float eps;
};

/* The sum over a block's slices for a column, in order; in all threads. */
__device__ inline double slice_sum(double x) {
    __shared__ double slice[SLICES][WARP];
    __syncthreads();
    slice[threadIdx.y][threadIdx.x] = x;
    __syncthreads();
    double total = 0;
    for (uint32_t s = 0; s < SLICES; s++) total += slice[s][threadIdx.x];
    return total;
}

/* Block: 32 columns; line s takes every 16th part. */
__global__ void __launch_bounds__(WARP *SLICES) join_moments(batch_end j) {
    uint64_t column = (uint64_t)blockIdx.x * WARP + threadIdx.x,
             parts = column < j.columns ? j.parts : 0;
    const float *part = j.part + column;
    double sum = 0, square = 0;
    for (uint64_t p = threadIdx.y; p < parts; p += SLICES)
        sum += (double)part[p * 2 * j.columns] *
               (double)(least(j.rows - p * j.part_rows, j.part_rows));
    double mean = slice_sum(sum) / (double)j.rows;
    for (uint64_t p = threadIdx.y; p < parts; p += SLICES) {
        double apart = (double)part[p * 2 * j.columns] - mean;
        square += (double)part[(p * 2 + 1) * j.columns] +
                  apart * apart * (double)(least(j.rows - p * j.part_rows, j.part_rows));
    }
    double variance = slice_sum(square) / (double)j.rows;
    if (threadIdx.y || column >= j.columns) return;
    j.to[column] = (float)mean;
    j.to[j.columns + column] = (float)(1 / sqrt(variance + (double)j.eps));
}

/* Mean and 1/deviation for evaluation, from running statistics. */
template <typename T>
__global__ void __launch_bounds__(THREADS) running(batch_end j, const T *mean, const T *variance) {
    uint64_t column = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (column >= j.columns) return;
    j.to[column] = widen(mean[column]);
    j.to[j.columns + column] = (float)(1 / sqrt((double)widen(variance[column]) + (double)j.eps));
}

/* --- the normalised rows ---------------------------------------------------------------------- */
/* Keeps NaN. */
__device__ inline float relu_of(float x, int relu) { return relu && x < 0 ? 0.0f : x; }

template <typename T, bool PACKED>
__global__ void __launch_bounds__(THREADS)
    normalise(batch_job j, int relu, const T *x, const T *z, const T *weight, const T *bias, T *y) {
    constexpr uint32_t N = lane<T, PACKED>::N;
    batch_place<N> at(j);
    if (at.column >= j.columns) return;
    float mean[N], scale[N], w[N], b[N];
    load_lane<N>(weight + at.column, w), load_lane<N>(bias + at.column, b);
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        mean[i] = j.saved[at.column + i];
        scale[i] = j.saved[j.columns + at.column + i] * w[i];
    }
    for (uint64_t row = at.row; row < at.end; row += blockDim.y * DEEP) {
        lane<T, PACKED> raw[DEEP], more[DEEP];
#pragma unroll
        for (uint32_t k = 0; k < DEEP; k++) {
            uint64_t r = row + k * blockDim.y, from = r * j.columns + at.column;
            if (r >= at.end) continue;
            raw[k].load(x + from);
            if (z) more[k].load(z + from);
        }
#pragma unroll
        for (uint32_t k = 0; k < DEEP; k++) {
            uint64_t r = row + k * blockDim.y;
            float v[N], add[N] = {};
            if (r >= at.end) continue;
            raw[k].widened(v);
            if (z) more[k].widened(add);
#pragma unroll
            for (uint32_t i = 0; i < N; i++)
                v[i] = relu_of(fmaf(v[i] - mean[i], scale[i], b[i]) + add[i], relu);
            store_lane<T, N>(y + r * j.columns + at.column, v);
        }
    }
}

/* --- backward --------------------------------------------------------------------------------- */
/* f(row, g, h): the gradient of the activation's input, and (x - mean) * rstd, for a thread's
 * columns and rows. */
template <typename T, bool PACKED, typename F>
__device__ inline void each_gradient(const batch_job &j, const T *x, const T *y, const T *dy, F f) {
    constexpr uint32_t N = lane<T, PACKED>::N;
    batch_place<N> at(j);
    if (at.column >= j.columns) return;
    float mean[N], rstd[N];
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        mean[i] = j.saved[at.column + i];
        rstd[i] = j.saved[j.columns + at.column + i];
    }
    for (uint64_t row = at.row; row < at.end; row += blockDim.y * DEEP) {
        lane<T, PACKED> raw[DEEP], out[DEEP], grad[DEEP];
#pragma unroll
        for (uint32_t k = 0; k < DEEP; k++) {
            uint64_t r = row + k * blockDim.y, from = r * j.columns + at.column;
            if (r >= at.end) continue;
            raw[k].load(x + from);
            grad[k].load(dy + from);
            if (y) out[k].load(y + from);
        }
#pragma unroll
        for (uint32_t k = 0; k < DEEP; k++) {
            float h[N], g[N], v[N];
            if (row + k * blockDim.y >= at.end) continue;
            raw[k].widened(h);
            grad[k].widened(g);
            if (y) out[k].widened(v);
#pragma unroll
            for (uint32_t i = 0; i < N; i++) {
                h[i] = (h[i] - mean[i]) * rstd[i];
                if (y && !(v[i] > 0)) g[i] = 0;
            }
            f(row + k * blockDim.y, g, h);
        }
    }
}

template <typename T, bool PACKED>
__global__ void __launch_bounds__(THREADS)
    part_sums(batch_job j, const T *x, const T *y, const T *dy) {
    constexpr uint32_t N = lane<T, PACKED>::N;
    float gh_sum[N] = {}, g_sum[N] = {};
    each_gradient<T, PACKED>(j, x, y, dy, [&](uint64_t, const float(&g)[N], const float(&h)[N]) {
#pragma unroll
        for (uint32_t i = 0; i < N; i++) gh_sum[i] = fmaf(g[i], h[i], gh_sum[i]), g_sum[i] += g[i];
    });
    line_sum<N>(gh_sum), line_sum<N>(g_sum);
    store_part<N>(j, batch_place<N>(j).column, gh_sum, g_sum);
}

/* Block: 32 columns of one of the two sums. */
__global__ void __launch_bounds__(WARP *SLICES) join_sums(batch_end j) {
    uint64_t column = (uint64_t)blockIdx.x * WARP + threadIdx.x,
             parts = column < j.columns ? j.parts : 0;
    double sum = 0;
    for (uint64_t p = threadIdx.y; p < parts; p += SLICES)
        sum += (double)j.part[(p * 2 + blockIdx.y) * j.columns + column];
    sum = slice_sum(sum);
    if (threadIdx.y == 0 && column < j.columns) j.to[blockIdx.y * j.columns + column] = (float)sum;
}

/* dx = weight * rstd * (g - mean(g) - h * mean(g h)); dz = g. */
template <typename T, bool PACKED>
__global__ void __launch_bounds__(THREADS)
    input_gradient(batch_job j, const T *x, const T *y, const T *dy, const T *weight, T *dx,
                   T *dz) {
    constexpr uint32_t N = lane<T, PACKED>::N;
    uint64_t column = batch_place<N>(j).column;
    float gh_mean[N], g_mean[N], scale[N];
    if (column >= j.columns) return;
    load_lane<N>(weight + column, scale);
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        gh_mean[i] = j.sums[column + i] / (float)j.rows;
        g_mean[i] = j.sums[j.columns + column + i] / (float)j.rows;
        scale[i] *= j.saved[j.columns + column + i];
    }
    each_gradient<T, PACKED>(j, x, y, dy,
                             [&](uint64_t row, const float(&g)[N], const float(&h)[N]) {
                                 float v[N];
#pragma unroll
                                 for (uint32_t i = 0; i < N; i++)
                                     v[i] = fmaf(-h[i], gh_mean[i], g[i] - g_mean[i]) * scale[i];
                                 store_lane<T, N>(dx + row * j.columns + column, v);
                                 if (dz) store_lane<T, N>(dz + row * j.columns + column, g);
                             });
}

/* Recovers the variance from 1/deviation, and makes it unbiased. */
__global__ void __launch_bounds__(THREADS) add_sums(pst_cuda_batch_sums s) {
    uint64_t c = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (c >= s.columns) return;
    double rstd = (double)s.saved[s.columns + c], variance = 1 / (rstd * rstd) - (double)s.eps;
    if (variance < 0) variance = 0;
    const float add[4] = {s.sums[c], s.sums[s.columns + c], s.saved[c],
                          (float)(variance * ((double)s.rows / (double)(s.rows - 1)))};
#pragma unroll
    for (int i = 0; i < 4; i++) s.to[i][c] = s.first ? add[i] : s.to[i][c] + add[i];
}

/* --- launchers -------------------------------------------------------------------------------- */
/* f(T(), PACKED): PACKED if the operands' type and alignment allow it. */
template <typename F> static void by_place(pst_dtype dtype, const pst_cuda_batch *c, F f) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        bool packed = aligned(c->x) && aligned(c->z) && aligned(c->weight) && aligned(c->bias) &&
                      aligned(c->out) && aligned(c->dy) && aligned(c->y) && aligned(c->dz);
        if (packed && c->columns % pack<T>::N == 0) f(lane<T, true>(), type);
        else f(lane<T, false>(), type);
    });
}

static batch_job job_of(const pst_cuda_batch *c, const batch_plan &plan) {
    return {c->rows, c->columns, plan.part_rows, c->saved, c->sums, c->scratch};
}

static dim3 grid(const pst_cuda_batch *c, const batch_plan &plan, uint32_t n) {
    return dim3(grid_of(c->columns, plan.across * n), (uint32_t)plan.parts);
}

static void statistics(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_batch *c,
                       const batch_plan &plan) {
    batch_end end = {c->rows, c->columns, plan.part_rows, plan.parts, c->scratch, c->saved, c->eps};
    by_place(dtype, c, [&](auto place, auto type) {
        typedef decltype(type) T;
        constexpr bool PACKED = decltype(place)::N > 1;
        if (c->running_mean)
            launch(q, running<T>, dim3(grid_of(c->columns, THREADS)), dim3(THREADS), end,
                   (const T *)c->running_mean, (const T *)c->running_variance);
        else
            launch(q, part_moments<T, PACKED>, grid(c, plan, lane<T, PACKED>::N),
                   dim3(plan.across, plan.lines), job_of(c, plan), (const T *)c->x);
    });
    if (!c->running_mean)
        launch(q, join_moments, dim3(grid_of(c->columns, WARP)), dim3(WARP, SLICES), end);
}

void pst_cuda_batch_norm_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_batch *c) {
    batch_plan plan = plan_of(c->rows, c->columns, pack_of(dtype));
    statistics(q, dtype, c, plan);
    by_place(dtype, c, [&](auto place, auto type) {
        typedef decltype(type) T;
        constexpr bool PACKED = decltype(place)::N > 1;
        launch(q, normalise<T, PACKED>, grid(c, plan, lane<T, PACKED>::N),
               dim3(plan.across, plan.lines), job_of(c, plan), c->relu, (const T *)c->x,
               (const T *)c->z, (const T *)c->weight, (const T *)c->bias, (T *)c->y);
    });
}

void pst_cuda_batch_norm_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_batch *c) {
    batch_plan plan = plan_of(c->rows, c->columns, pack_of(dtype));
    batch_end end = {c->rows, c->columns, plan.part_rows, plan.parts, c->scratch, c->sums, c->eps};
    by_place(dtype, c, [&](auto place, auto type) {
        typedef decltype(type) T;
        constexpr bool PACKED = decltype(place)::N > 1;
        const T *out = c->relu ? (const T *)c->out : NULL;
        dim3 blocks = grid(c, plan, lane<T, PACKED>::N), block(plan.across, plan.lines);
        launch(q, part_sums<T, PACKED>, blocks, block, job_of(c, plan), (const T *)c->x, out,
               (const T *)c->dy);
        launch(q, join_sums, dim3(grid_of(c->columns, WARP), 2), dim3(WARP, SLICES), end);
        launch(q, input_gradient<T, PACKED>, blocks, block, job_of(c, plan), (const T *)c->x, out,
               (const T *)c->dy, (const T *)c->weight, (T *)c->y, (T *)c->dz);
    });
}

void pst_cuda_batch_norm_w(pst_cuda_queue q, const pst_cuda_batch_sums *sums) {
    launch(q, add_sums, dim3(grid_of(sums->columns, THREADS)), dim3(THREADS), *sums);
}

/* Layer norm, F and B: a row is held in the registers of the threads that share it, at most 4 packs
 * per thread, so that every operand is read once. Rows that are unaligned or too long for that are
 * read again from the cache. T is the type of the parameters, X of x and its gradient, Y of y and
 * its gradient: X and Y are T, or fp32 where the residual stream is fp32. A pack is as many numbers
 * as fit in 16 bytes in the largest of these types.
 *
 * Rows of up to 8192 numbers of 16 bits use blocks of at most 256 threads and separate kernels:
 * there F takes 40 registers, with the bound of 1024 threads 44 to 46. B takes the 64 that this
 * bound allows, and as many without it; so does the B that computes sums for W, where a thread has
 * one pack of each row in a part of the rows. No kernel spills registers
 * (tests/kernels/test_cuda_registers.sh). */
#include "kernels/cuda/vector.cuh"

enum {
    PACKS = 4,
    MOST = 1024 /* threads per row */,
    FEW = 256 /* of a short row */,
    SMALL = 128, /* threads of a block with several rows */
    WIDE = 512   /* of a block that processes a part of the rows, if a row needs fewer */
};

struct norm_job {
    uint64_t rows;
    uint32_t n;
    float eps;
    float *saved;
    uint64_t part_rows; /* rows per part, for layer_norm_bw */
    float *part;
};

/* Sums of x and y over the threads that share a row, in one fixed order: lanes, then warps.
 * blockDim.x is a multiple of a warp; all threads of the block make the same number of calls. */
__device__ inline float2 row_sum(float x, float y) {
    __shared__ float2 part[MOST / WARP];
    uint32_t warps = blockDim.x / WARP, at = threadIdx.y * warps;
#pragma unroll
    for (int lane = WARP / 2; lane; lane /= 2) {
        x += __shfl_xor_sync(0xffffffffu, x, lane);
        y += __shfl_xor_sync(0xffffffffu, y, lane);
    }
    if (warps == 1) return make_float2(x, y);
    __syncthreads(); /* all threads have read the previous sum */
    if (threadIdx.x % WARP == 0) part[at + threadIdx.x / WARP] = make_float2(x, y);
    __syncthreads();
    float2 sum = part[at];
    for (uint32_t w = 1; w < warps; w++) {
        sum.x += part[at + w].x;
        sum.y += part[at + w].y;
    }
    return sum;
}

/* --- rows in registers ------------------------------------------------------------------------ */
template <typename T, typename X, typename Y, int THREADS>
__global__ void __launch_bounds__(THREADS)
    layer_norm_f(norm_job j, const X *x, const T *weight, const T *bias, Y *y) {
    constexpr uint32_t N = pack_of_both<X, Y>::N;
    uint64_t row = (uint64_t)blockIdx.x * blockDim.y + threadIdx.y;
    uint32_t packs = row < j.rows ? j.n / N : 0;
    chunk<X, N> raw[PACKS];
    chunk<T, N> raw_w, raw_b;
    float sum = 0, square = 0, v[N], w[N], b[N];
    x += row * j.n;
    y += row * j.n;
#pragma unroll
    for (uint32_t k = 0; k < PACKS; k++)
        if (k * blockDim.x + threadIdx.x < packs)
            raw[k].load(x + (k * blockDim.x + threadIdx.x) * N);
#pragma unroll
    for (uint32_t k = 0; k < PACKS; k++) {
        if (k * blockDim.x + threadIdx.x >= packs) continue;
        raw[k].widened(v);
#pragma unroll
        for (uint32_t i = 0; i < N; i++) sum += v[i];
    }
    float mean = row_sum(sum, 0).x / j.n;
#pragma unroll
    for (uint32_t k = 0; k < PACKS; k++) {
        if (k * blockDim.x + threadIdx.x >= packs) continue;
        raw[k].widened(v);
#pragma unroll
        for (uint32_t i = 0; i < N; i++) square = fmaf(v[i] - mean, v[i] - mean, square);
    }
    float rstd = 1.0f / sqrtf(row_sum(square, 0).x / j.n + j.eps);
#pragma unroll
    for (uint32_t k = 0; k < PACKS; k++) {
        uint32_t p = k * blockDim.x + threadIdx.x;
        if (p >= packs) continue;
        raw[k].widened(v);
        raw_w.load(weight + p * N);
        raw_b.load(bias + p * N);
        raw_w.widened(w);
        raw_b.widened(b);
#pragma unroll
        for (uint32_t i = 0; i < N; i++) v[i] = fmaf((v[i] - mean) * rstd, w[i], b[i]);
        store_pack(y + p * N, v);
    }
    if (threadIdx.x == 0 && packs) {
        j.saved[2 * row] = mean;
        j.saved[2 * row + 1] = rstd;
    }
}

/* With g = dy * weight and h = (x - mean) * rstd: dx = rstd * (g - mean(g) - h * mean(g * h)) (+
 * sum). */
template <typename T, typename X, typename Y, int THREADS>
__global__ void __launch_bounds__(THREADS)
    layer_norm_b(norm_job j, const X *x, const T *weight, const Y *dy, const X *add, X *dx) {
    constexpr uint32_t N = pack_of_both<X, Y>::N;
    uint64_t row = (uint64_t)blockIdx.x * blockDim.y + threadIdx.y, at = row * j.n;
    uint32_t packs = row < j.rows ? j.n / N : 0;
    float mean = packs ? j.saved[2 * row] : 0, rstd = packs ? j.saved[2 * row + 1] : 0;
    chunk<X, N> raw_x[PACKS], raw_add;
    chunk<Y, N> raw_dy[PACKS];
    chunk<T, N> raw_w;
    float g_sum = 0, gh_sum = 0, v[N], g[N], w[N];
#pragma unroll
    for (uint32_t k = 0; k < PACKS; k++) {
        uint32_t p = k * blockDim.x + threadIdx.x;
        if (p < packs) {
            raw_x[k].load(x + at + p * N);
            raw_dy[k].load(dy + at + p * N);
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < PACKS; k++) {
        uint32_t p = k * blockDim.x + threadIdx.x;
        if (p >= packs) continue;
        raw_w.load(weight + p * N);
        raw_x[k].widened(v);
        raw_dy[k].widened(g);
        raw_w.widened(w);
#pragma unroll
        for (uint32_t i = 0; i < N; i++) {
            g_sum = fmaf(g[i], w[i], g_sum);
            gh_sum = fmaf(g[i] * w[i], (v[i] - mean) * rstd, gh_sum);
        }
    }
    float2 total = row_sum(g_sum, gh_sum);
    float g_mean = total.x / j.n, gh_mean = total.y / j.n;
#pragma unroll
    for (uint32_t k = 0; k < PACKS; k++) {
        uint32_t p = k * blockDim.x + threadIdx.x;
        if (p >= packs) continue;
        raw_w.load(weight + p * N);
        raw_x[k].widened(v);
        raw_dy[k].widened(g);
        raw_w.widened(w);
#pragma unroll
        for (uint32_t i = 0; i < N; i++)
            v[i] = rstd * (g[i] * w[i] - g_mean - (v[i] - mean) * rstd * gh_mean);
        if (add) {
            raw_add.load(add + at + p * N);
            raw_add.widened(g);
#pragma unroll
            for (uint32_t i = 0; i < N; i++) v[i] += g[i];
        }
        store_pack(dx + at + p * N, v);
    }
}

/* --- B that computes partial sums for W ------------------------------------------------------- */
/* Adds the sums of a block's lines (threadIdx.y), in order; the first line gets the result. */
template <uint32_t N> __device__ inline void add_lines(float (&x)[N]) {
    __shared__ float line[N][WIDE];
    if (blockDim.y == 1) return;
    __syncthreads(); /* the previous sums have been read */
#pragma unroll
    for (uint32_t i = 0; i < N; i++) line[i][threadIdx.y * blockDim.x + threadIdx.x] = x[i];
    __syncthreads();
    for (uint32_t y = 1; y < blockDim.y && !threadIdx.y; y++)
#pragma unroll
        for (uint32_t i = 0; i < N; i++) x[i] += line[i][y * blockDim.x + threadIdx.x];
}

/* As layer_norm_b, for a part of the rows: line y of the block takes every blockDim.y-th of them,
 * each thread one pack per row. It also sums what W needs of the rows. */
template <typename T, typename X, typename Y>
__global__ void __launch_bounds__(MOST)
    layer_norm_bw(norm_job j, const X *x, const T *weight, const Y *dy, const X *add, X *dx) {
    constexpr uint32_t N = pack_of_both<X, Y>::N;
    const uint32_t column = threadIdx.x * N;
    const bool mine = column < j.n;
    const uint64_t begin = blockIdx.x * j.part_rows;
    const uint32_t rows = (uint32_t)(least(begin + j.part_rows, j.rows) - begin);
    float plain[N] = {}, scaled[N] = {};
    for (uint32_t first = 0; first < rows; first += blockDim.y) {
        const uint64_t row = begin + first + threadIdx.y, at = row * j.n + column;
        const bool on = mine && first + threadIdx.y < rows;
        float g_sum = 0, gh_sum = 0, rstd = 0, g[N], h[N], w[N];
        chunk<X, N> raw_add = {};
        if (on) {
            chunk<X, N> raw_x;
            chunk<Y, N> raw_dy;
            chunk<T, N> raw_w;
            raw_x.load(x + at);
            raw_dy.load(dy + at);
            if (add) raw_add.load(add + at);
            float mean = j.saved[2 * row];
            rstd = j.saved[2 * row + 1];
            raw_w.load(weight + column);
            raw_x.widened(h);
            raw_dy.widened(g);
            raw_w.widened(w);
#pragma unroll
            for (uint32_t i = 0; i < N; i++) {
                h[i] = (h[i] - mean) * rstd;
                plain[i] += g[i];
                scaled[i] = fmaf(g[i], h[i], scaled[i]);
                g[i] *= w[i];
                g_sum += g[i];
                gh_sum = fmaf(g[i], h[i], gh_sum);
            }
        }
        float2 total = row_sum(g_sum, gh_sum);
        if (!on) continue;
        float g_mean = total.x / j.n, gh_mean = total.y / j.n;
        if (add) raw_add.widened(w);
#pragma unroll
        for (uint32_t i = 0; i < N; i++) {
            g[i] = rstd * (g[i] - g_mean - h[i] * gh_mean);
            if (add) g[i] += w[i];
        }
        store_pack(dx + at, g);
    }
    add_lines(plain);
    add_lines(scaled);
    if (threadIdx.y || !mine) return;
    store_floats(j.part + 2 * blockIdx.x * (uint64_t)j.n + column, plain);
    store_floats(j.part + (2 * blockIdx.x + 1) * (uint64_t)j.n + column, scaled);
}

/* --- rows of any length: one block each ------------------------------------------------------ */
template <typename T, typename X, typename Y>
__global__ void layer_norm_f_any(norm_job j, const X *x, const T *weight, const T *bias, Y *y) {
    uint64_t row = blockIdx.x;
    float sum = 0, square = 0;
    x += row * j.n;
    y += row * j.n;
    for (uint32_t i = threadIdx.x; i < j.n; i += blockDim.x) sum += widen(x[i]);
    float mean = row_sum(sum, 0).x / j.n;
    for (uint32_t i = threadIdx.x; i < j.n; i += blockDim.x) {
        float v = widen(x[i]) - mean;
        square = fmaf(v, v, square);
    }
    float rstd = 1.0f / sqrtf(row_sum(square, 0).x / j.n + j.eps);
    for (uint32_t i = threadIdx.x; i < j.n; i += blockDim.x)
        y[i] = narrowed<Y>(fmaf((widen(x[i]) - mean) * rstd, widen(weight[i]), widen(bias[i])));
    if (threadIdx.x == 0) {
        j.saved[2 * row] = mean;
        j.saved[2 * row + 1] = rstd;
    }
}

template <typename T, typename X, typename Y>
__global__ void layer_norm_b_any(norm_job j, const X *x, const T *weight, const Y *dy, const X *add,
                                 X *dx) {
    uint64_t at = (uint64_t)blockIdx.x * j.n;
    float mean = j.saved[2 * blockIdx.x], rstd = j.saved[2 * blockIdx.x + 1], g_sum = 0, gh_sum = 0;
    for (uint32_t i = threadIdx.x; i < j.n; i += blockDim.x) {
        float g = widen(dy[at + i]) * widen(weight[i]);
        g_sum += g;
        gh_sum = fmaf(g, (widen(x[at + i]) - mean) * rstd, gh_sum);
    }
    float2 total = row_sum(g_sum, gh_sum);
    float g_mean = total.x / j.n, gh_mean = total.y / j.n;
    for (uint32_t i = threadIdx.x; i < j.n; i += blockDim.x) {
        float g = widen(dy[at + i]) * widen(weight[i]), h = (widen(x[at + i]) - mean) * rstd;
        float v = rstd * (g - g_mean - h * gh_mean);
        dx[at + i] = narrowed<X>(add ? v + widen(add[at + i]) : v);
    }
}

/* --- launchers -------------------------------------------------------------------------------- */
/* Number of threads that share a row of that many packs; 0: it does not fit. */
static uint32_t row_threads(uint64_t n, uint32_t per_pack) {
    uint64_t threads = div_up(div_up(n / per_pack, PACKS), WARP) * WARP;
    return n % per_pack || threads > MOST ? 0 : (uint32_t)threads;
}

template <typename K, typename A, typename... P>
static void run(pst_cuda_queue q, uint32_t threads, const norm_job &j, K rows_kernel, A any_kernel,
                P... operands) {
    uint32_t rows = threads && threads < SMALL ? SMALL / threads : 1;
    if (threads)
        launch(q, rows_kernel, dim3(grid_of(j.rows, rows)), dim3(threads, rows), j, operands...);
    else launch(q, any_kernel, dim3((uint32_t)j.rows), dim3(j.n > 256 ? 512 : 128), j, operands...);
}

void pst_cuda_layer_norm_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_norm *c) {
    by_types(dtype, c->wide_x, c->wide_y, [&](auto type, auto type_x, auto type_y) {
        typedef decltype(type) T;
        typedef decltype(type_x) X;
        typedef decltype(type_y) Y;
        bool packed = aligned(c->x) && aligned(c->weight) && aligned(c->bias) && aligned(c->y);
        uint32_t threads = packed ? row_threads(c->n, pack_of_both<X, Y>::N) : 0;
        norm_job j = {c->rows, (uint32_t)c->n, c->eps, c->saved, 0, NULL};
        run(q, threads, j, threads > FEW ? layer_norm_f<T, X, Y, MOST> : layer_norm_f<T, X, Y, FEW>,
            layer_norm_f_any<T, X, Y>, (const X *)c->x, (const T *)c->weight, (const T *)c->bias,
            (Y *)c->y);
    });
}

/* For rows that layer_norm_bw does not support. The sums come first, because dx may be dy. */
static void part_sums(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_norm *c) {
    pst_cuda_columns columns = {};
    columns.x = c->x;
    columns.dy = c->dy;
    columns.wide_x = c->wide_x;
    columns.wide_dy = c->wide_y;
    columns.saved = c->saved;
    columns.rows = c->rows;
    columns.columns = c->n;
    columns.scratch = c->part;
    columns.parts = c->parts;
    pst_cuda_column_parts(q, dtype, &columns);
}

void pst_cuda_layer_norm_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_norm *c) {
    by_types(dtype, c->wide_x, c->wide_y, [&](auto type, auto type_x, auto type_y) {
        typedef decltype(type) T;
        typedef decltype(type_x) X;
        typedef decltype(type_y) Y;
        constexpr uint32_t N = pack_of_both<X, Y>::N;
        bool packed = aligned(c->x) && aligned(c->weight) && aligned(c->dy) && aligned(c->sum) &&
                      aligned(c->dx) && aligned(c->part);
        uint32_t threads = packed ? row_threads(c->n, N) : 0;
        uint64_t line = div_up(c->n / N, WARP) * WARP; /* threads, one pack each */
        norm_job j = {c->rows, (uint32_t)c->n, c->eps, c->saved, 0, c->part};
        const T *weight = (const T *)c->weight;
        const X *x = (const X *)c->x, *sum = (const X *)c->sum;
        const Y *dy = (const Y *)c->dy;
        if (c->part && threads && line <= MOST) {
            j.part_rows = div_up(c->rows, c->parts);
            dim3 block((uint32_t)line, line < WIDE ? WIDE / (uint32_t)line : 1);
            launch(q, layer_norm_bw<T, X, Y>, dim3((uint32_t)c->parts), block, j, x, weight, dy,
                   sum, (X *)c->dx);
            return;
        }
        if (c->part) part_sums(q, dtype, c);
        run(q, threads, j, threads > FEW ? layer_norm_b<T, X, Y, MOST> : layer_norm_b<T, X, Y, FEW>,
            layer_norm_b_any<T, X, Y>, x, weight, dy, sum, (X *)c->dx);
    });
}

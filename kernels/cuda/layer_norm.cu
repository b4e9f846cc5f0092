/* Layer norm, F and B: a row lies in the registers of the threads that share it, 4 packs at most in
 * each, so that every operand is read once. Rows that are not aligned or too long for that are read
 * again from the cache instead.
 *
 * Rows of up to 8192 numbers of 16 bits make blocks of at most 256 threads, which have kernels of
 * their own: there F takes 40 registers, with the bound of 1024 threads 44 to 46. B takes the 64
 * that this bound allows, and as many without it; no register of either is kept in memory
 * (tests/kernels/test_cuda_registers.sh). */
#include "kernels/cuda/vector.cuh"

enum {
    PACKS = 4,
    MOST = 1024 /* threads of a row */,
    FEW = 256 /* of a row that is not long */,
    SMALL = 128 /* threads of a block of several rows */
};

struct norm_job {
    uint64_t rows;
    uint32_t n;
    float eps;
    float *saved;
};

/* Sums of x and y over the threads that share a row, in one fixed order: lanes, then warps.
 * blockDim.x is a multiple of a warp; all threads of the block come here as often. */
__device__ inline float2 row_sum(float x, float y) {
    __shared__ float2 part[MOST / WARP];
    uint32_t warps = blockDim.x / WARP, at = threadIdx.y * warps;
#pragma unroll
    for (int lane = WARP / 2; lane; lane /= 2) {
        x += __shfl_xor_sync(0xffffffffu, x, lane);
        y += __shfl_xor_sync(0xffffffffu, y, lane);
    }
    if (warps == 1) return make_float2(x, y);
    __syncthreads(); /* the sum before this one has been read */
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
template <typename T, int THREADS>
__global__ void __launch_bounds__(THREADS)
    layer_norm_f(norm_job j, const T *x, const T *weight, const T *bias, T *y) {
    constexpr uint32_t N = pack<T>::N;
    uint64_t row = (uint64_t)blockIdx.x * blockDim.y + threadIdx.y;
    uint32_t packs = row < j.rows ? j.n / N : 0;
    uint4 raw[PACKS];
    float sum = 0, square = 0, v[N], w[N], b[N];
    x += row * j.n;
    y += row * j.n;
#pragma unroll
    for (uint32_t k = 0; k < PACKS; k++)
        if (k * blockDim.x + threadIdx.x < packs)
            raw[k] = load_pack(x + (k * blockDim.x + threadIdx.x) * N);
#pragma unroll
    for (uint32_t k = 0; k < PACKS; k++) {
        if (k * blockDim.x + threadIdx.x >= packs) continue;
        widen_pack<T>(raw[k], v);
#pragma unroll
        for (uint32_t i = 0; i < N; i++) sum += v[i];
    }
    float mean = row_sum(sum, 0).x / j.n;
#pragma unroll
    for (uint32_t k = 0; k < PACKS; k++) {
        if (k * blockDim.x + threadIdx.x >= packs) continue;
        widen_pack<T>(raw[k], v);
#pragma unroll
        for (uint32_t i = 0; i < N; i++) square = fmaf(v[i] - mean, v[i] - mean, square);
    }
    float rstd = 1.0f / sqrtf(row_sum(square, 0).x / j.n + j.eps);
#pragma unroll
    for (uint32_t k = 0; k < PACKS; k++) {
        uint32_t p = k * blockDim.x + threadIdx.x;
        if (p >= packs) continue;
        widen_pack<T>(raw[k], v);
        widen_pack<T>(load_pack(weight + p * N), w), widen_pack<T>(load_pack(bias + p * N), b);
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
template <typename T, int THREADS>
__global__ void __launch_bounds__(THREADS)
    layer_norm_b(norm_job j, const T *x, const T *weight, const T *dy, const T *add, T *dx) {
    constexpr uint32_t N = pack<T>::N;
    uint64_t row = (uint64_t)blockIdx.x * blockDim.y + threadIdx.y, at = row * j.n;
    uint32_t packs = row < j.rows ? j.n / N : 0;
    float mean = packs ? j.saved[2 * row] : 0, rstd = packs ? j.saved[2 * row + 1] : 0;
    uint4 raw_x[PACKS], raw_dy[PACKS];
    float g_sum = 0, gh_sum = 0, v[N], g[N], w[N];
#pragma unroll
    for (uint32_t k = 0; k < PACKS; k++) {
        uint32_t p = k * blockDim.x + threadIdx.x;
        if (p < packs) {
            raw_x[k] = load_pack(x + at + p * N);
            raw_dy[k] = load_pack(dy + at + p * N);
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < PACKS; k++) {
        uint32_t p = k * blockDim.x + threadIdx.x;
        if (p >= packs) continue;
        widen_pack<T>(raw_x[k], v), widen_pack<T>(raw_dy[k], g),
            widen_pack<T>(load_pack(weight + p * N), w);
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
        widen_pack<T>(raw_x[k], v), widen_pack<T>(raw_dy[k], g),
            widen_pack<T>(load_pack(weight + p * N), w);
#pragma unroll
        for (uint32_t i = 0; i < N; i++)
            v[i] = rstd * (g[i] * w[i] - g_mean - (v[i] - mean) * rstd * gh_mean);
        if (add) {
            widen_pack<T>(load_pack(add + at + p * N), g);
#pragma unroll
            for (uint32_t i = 0; i < N; i++) v[i] += g[i];
        }
        store_pack(dx + at + p * N, v);
    }
}

/* --- any rows: a block each ------------------------------------------------------------------- */
template <typename T>
__global__ void layer_norm_f_any(norm_job j, const T *x, const T *weight, const T *bias, T *y) {
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
        y[i] = narrowed<T>(fmaf((widen(x[i]) - mean) * rstd, widen(weight[i]), widen(bias[i])));
    if (threadIdx.x == 0) {
        j.saved[2 * row] = mean;
        j.saved[2 * row + 1] = rstd;
    }
}

template <typename T>
__global__ void layer_norm_b_any(norm_job j, const T *x, const T *weight, const T *dy, const T *add,
                                 T *dx) {
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
        dx[at + i] = narrowed<T>(add ? v + widen(add[at + i]) : v);
    }
}

/* --- launchers -------------------------------------------------------------------------------- */
/* Threads that share a row of so many packs: 0 when it does not fit. */
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
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        bool packed = aligned(c->x) && aligned(c->weight) && aligned(c->bias) && aligned(c->y);
        uint32_t threads = packed ? row_threads(c->n, pack<T>::N) : 0;
        norm_job j = {c->rows, (uint32_t)c->n, c->eps, c->saved};
        run(q, threads, j, threads > FEW ? layer_norm_f<T, MOST> : layer_norm_f<T, FEW>,
            layer_norm_f_any<T>, (const T *)c->x, (const T *)c->weight, (const T *)c->bias,
            (T *)c->y);
    });
}

void pst_cuda_layer_norm_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_norm *c) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        bool packed = aligned(c->x) && aligned(c->weight) && aligned(c->dy) && aligned(c->sum) &&
                      aligned(c->dx);
        uint32_t threads = packed ? row_threads(c->n, pack<T>::N) : 0;
        norm_job j = {c->rows, (uint32_t)c->n, c->eps, c->saved};
        run(q, threads, j, threads > FEW ? layer_norm_b<T, MOST> : layer_norm_b<T, FEW>,
            layer_norm_b_any<T>, (const T *)c->x, (const T *)c->weight, (const T *)c->dy,
            (const T *)c->sum, (T *)c->dx);
    });
}

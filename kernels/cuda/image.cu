/* Images without parameters: bytes to numbers, pools. A thread computes a pack of channels of a
 * pixel, or one channel if they are unaligned. */
#include "kernels/cuda/image.h"
#include "kernels/cuda/formula.cuh"

enum { THREADS = 256, DEEP = 4, SLICES = 8 };

/* --- pixels ----------------------------------------------------------------------------------- */
template <typename T>
__global__ void __launch_bounds__(THREADS) pixels(pst_cuda_index x, T *y, uint64_t n) {
    uint64_t from = (uint64_t)blockIdx.x * (THREADS * DEEP) + threadIdx.x;
#pragma unroll
    for (uint32_t k = 0; k < DEEP; k++) {
        uint64_t i = from + k * THREADS;
        if (i >= n) return;
        check_index(x, x.index[i], i);
        y[i] = narrowed<T>(plus(times((float)x.index[i], 2.0f / 255.0f), -1.0f));
    }
}

void pst_cuda_pixels(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_index *x, void *y,
                     uint64_t n) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        launch(q, pixels<T>, dim3(grid_of(n, THREADS * DEEP)), dim3(THREADS), *x, (T *)y, n);
    });
}

/* --- windows ---------------------------------------------------------------------------------- */
struct pool_job {
    uint64_t items; /* packs (or channels) of the whole output */
    uint32_t lanes, height, width, rows, columns, channels, window, stride, padding;
};
/* The pixel that a thread computes, of an image of `height` x `width`, and its first channel. */
struct pool_place {
    uint64_t image;
    uint32_t y, x, channel;
};
template <uint32_t N>
__device__ inline pool_place pool_at(const pool_job &j, uint64_t item, uint32_t height,
                                     uint32_t width) {
    uint64_t pixel = item / j.lanes, row = pixel / width;
    return {row / height, (uint32_t)(row % height), (uint32_t)(pixel % width),
            (uint32_t)(item % j.lanes) * N};
}

struct span {
    uint32_t from, end;
};
/* The pixels, of `size` along one side, that the window at this position covers. */
__device__ inline span covered(const pool_job &j, uint32_t place, uint32_t size) {
    uint32_t first = place * j.stride, last = first + j.window - j.padding;
    return {first < j.padding ? 0 : first - j.padding, last < size ? last : size};
}
/* The windows, of `places` along one side, that cover this pixel. */
__device__ inline span covering(const pool_job &j, uint32_t pixel, uint32_t places) {
    uint32_t behind = pixel + j.padding, last = behind / j.stride + 1;
    return {behind < j.window ? 0 : (behind - j.window) / j.stride + 1,
            last < places ? last : places};
}

template <typename T, bool PACKED>
__global__ void __launch_bounds__(THREADS) max_pool_f(pool_job j, const T *x, T *y) {
    constexpr uint32_t N = lane<T, PACKED>::N;
    uint64_t item = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (item >= j.items) return;
    pool_place at = pool_at<N>(j, item, j.rows, j.columns);
    span down = covered(j, at.y, j.height), across = covered(j, at.x, j.width);
    const T *image = x + at.image * j.height * j.width * j.channels + at.channel;
    float best[N] = {}, v[N];
    for (uint32_t r = down.from; r < down.end; r++)
        for (uint32_t c = across.from; c < across.end; c++) {
            lane<T, PACKED> raw;
            bool first = r == down.from && c == across.from;
            raw.load(image + ((uint64_t)r * j.width + c) * j.channels);
            raw.widened(v);
#pragma unroll
            for (uint32_t i = 0; i < N; i++) best[i] = first || v[i] > best[i] ? v[i] : best[i];
        }
    store_lane<T, N>(y + item / j.lanes * j.channels + at.channel, best);
}

/* Bit i: in channel i, pixel (y, x) is the maximum of the window at (r, q), the first one if
 * several are equal. */
template <typename T, bool PACKED>
__device__ inline uint32_t taken(const pool_job &j, const T *image, uint32_t r, uint32_t q,
                                 uint32_t y, uint32_t x) {
    constexpr uint32_t N = lane<T, PACKED>::N;
    span down = covered(j, r, j.height), across = covered(j, q, j.width);
    float best[N] = {}, v[N];
    uint32_t mine = 0;
    for (uint32_t a = down.from; a < down.end; a++)
        for (uint32_t b = across.from; b < across.end; b++) {
            lane<T, PACKED> raw;
            bool first = a == down.from && b == across.from;
            uint32_t own = a == y && b == x;
            raw.load(image + ((uint64_t)a * j.width + b) * j.channels);
            raw.widened(v);
#pragma unroll
            for (uint32_t i = 0; i < N; i++) {
                if (!first && !(v[i] > best[i])) continue;
                best[i] = v[i];
                mine = (mine & ~(1u << i)) | own << i;
            }
        }
    return mine;
}

/* Each pixel adds the gradients of the windows that cover it, in order: no atomics. */
template <typename T, bool PACKED>
__global__ void __launch_bounds__(THREADS, 2)
    max_pool_b(pool_job j, const T *x, const T *dy, T *dx) {
    constexpr uint32_t N = lane<T, PACKED>::N;
    uint64_t item = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (item >= j.items) return;
    pool_place at = pool_at<N>(j, item, j.height, j.width);
    span down = covering(j, at.y, j.rows), across = covering(j, at.x, j.columns);
    const T *image = x + at.image * j.height * j.width * j.channels + at.channel;
    const T *from = dy + at.image * j.rows * j.columns * j.channels + at.channel;
    float sum[N] = {}, g[N];
    for (uint32_t r = down.from; r < down.end; r++)
        for (uint32_t q = across.from; q < across.end; q++) {
            lane<T, PACKED> raw;
            uint32_t mine = taken<T, PACKED>(j, image, r, q, at.y, at.x);
            raw.load(from + ((uint64_t)r * j.columns + q) * j.channels);
            raw.widened(g);
#pragma unroll
            for (uint32_t i = 0; i < N; i++) sum[i] += mine >> i & 1 ? g[i] : 0.0f;
        }
    store_lane<T, N>(dx + item / j.lanes * j.channels + at.channel, sum);
}

/* --- averages --------------------------------------------------------------------------------- */
/* Block: a warp's width of channels of one image; line s takes every 8th pixel. */
template <typename T>
__global__ void __launch_bounds__(WARP *SLICES)
    average_pool_f(uint64_t pixels, uint64_t channels, const T *x, T *y) {
    __shared__ float slice[SLICES][WARP];
    uint64_t channel = (uint64_t)blockIdx.y * WARP + threadIdx.x;
    const T *image = x + blockIdx.x * pixels * channels + channel;
    float sum = 0;
    for (uint64_t p = threadIdx.y; p < pixels && channel < channels; p += SLICES)
        sum += widen(image[p * channels]);
    slice[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || channel >= channels) return;
    for (uint32_t s = 1; s < SLICES; s++) sum += slice[s][threadIdx.x];
    y[blockIdx.x * channels + channel] = narrowed<T>(sum / (float)pixels);
}

template <typename T, bool PACKED>
__global__ void __launch_bounds__(THREADS) average_pool_b(pool_job j, const T *dy, T *dx) {
    constexpr uint32_t N = lane<T, PACKED>::N;
    uint64_t item = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (item >= j.items) return;
    pool_place at = pool_at<N>(j, item, j.height, j.width);
    lane<T, PACKED> raw;
    float g[N];
    raw.load(dy + at.image * j.channels + at.channel);
    raw.widened(g);
#pragma unroll
    for (uint32_t i = 0; i < N; i++) g[i] /= (float)((uint64_t)j.height * j.width);
    store_lane<T, N>(dx + item / j.lanes * j.channels + at.channel, g);
}

/* --- launchers -------------------------------------------------------------------------------- */
/* `pixels`: of all outputs of the launch. */
static pool_job job_of(const pst_cuda_pool *p, uint64_t pixels, uint32_t n) {
    uint32_t lanes = (uint32_t)p->channels / n;
    return {pixels * lanes,
            lanes,
            (uint32_t)p->height,
            (uint32_t)p->width,
            (uint32_t)p->rows,
            (uint32_t)p->columns,
            (uint32_t)p->channels,
            p->window,
            p->stride,
            p->padding};
}

/* f(T(), lane of T): packs if the operands' type and alignment allow it. */
template <typename F> static void by_place(pst_dtype dtype, const pst_cuda_pool *p, F f) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        bool packed =
            aligned(p->x) && aligned(p->dy) && aligned(p->to) && p->channels % pack<T>::N == 0;
        if (packed) f(type, lane<T, true>());
        else f(type, lane<T, false>());
    });
}

void pst_cuda_max_pool_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_pool *p) {
    by_place(dtype, p, [&](auto type, auto place) {
        typedef decltype(type) T;
        pool_job j = job_of(p, p->images * p->rows * p->columns, decltype(place)::N);
        launch(q, max_pool_f<T, (decltype(place)::N > 1)>, dim3(grid_of(j.items, THREADS)),
               dim3(THREADS), j, (const T *)p->x, (T *)p->to);
    });
}

void pst_cuda_max_pool_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_pool *p) {
    by_place(dtype, p, [&](auto type, auto place) {
        typedef decltype(type) T;
        pool_job j = job_of(p, p->images * p->height * p->width, decltype(place)::N);
        launch(q, max_pool_b<T, (decltype(place)::N > 1)>, dim3(grid_of(j.items, THREADS)),
               dim3(THREADS), j, (const T *)p->x, (const T *)p->dy, (T *)p->to);
    });
}

void pst_cuda_average_pool_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_pool *p) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        dim3 blocks((uint32_t)p->images, grid_of(p->channels, WARP));
        launch(q, average_pool_f<T>, blocks, dim3(WARP, SLICES), p->height * p->width, p->channels,
               (const T *)p->x, (T *)p->to);
    });
}

void pst_cuda_average_pool_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_pool *p) {
    by_place(dtype, p, [&](auto type, auto place) {
        typedef decltype(type) T;
        pool_job j = job_of(p, p->images * p->height * p->width, decltype(place)::N);
        launch(q, average_pool_b<T, (decltype(place)::N > 1)>, dim3(grid_of(j.items, THREADS)),
               dim3(THREADS), j, (const T *)p->dy, (T *)p->to);
    });
}

/* Direct convolution: a thread computes one element of the result and sums its products in fp32,
 * those of a pixel (or a row of pixels) first. Correct for every shape rather than fast; no
 * atomics. */
#include "kernels/cuda/convolution_plain.h"
#include "kernels/cuda/vector.cuh"

enum { THREADS = 256, LINES = 8 };

/* The pixel, of `size` along one side, at position i of window r; `size` or more if outside. */
__device__ inline uint64_t under(const pst_cuda_convolution &c, uint64_t r, uint64_t i,
                                 uint64_t size) {
    uint64_t at = r * c.of.stride + i;
    return at < c.of.padding ? size : at - c.of.padding;
}

/* The window, of `places` along one side, whose position i is at this pixel; `places` or more if
 * there is none. */
__device__ inline uint64_t over(const pst_cuda_convolution &c, uint64_t pixel, uint64_t i,
                                uint64_t places) {
    uint64_t at = pixel + c.of.padding;
    return at < i || (at - i) % c.of.stride ? places : (at - i) / c.of.stride;
}

/* Thread: an output. */
template <typename T>
__global__ void __launch_bounds__(THREADS) forward(const pst_cuda_convolution c) {
    uint64_t index = (uint64_t)blockIdx.x * THREADS + threadIdx.x, window = index / c.of.out,
             o = index % c.of.out;
    uint64_t q = window % c.of.columns, r = window / c.of.columns % c.of.rows,
             image = window / c.of.columns / c.of.rows;
    if (image >= c.of.images) return;
    float total = 0;
    for (uint64_t i = 0; i < c.of.h; i++)
        for (uint64_t j = 0; j < c.of.w; j++) {
            uint64_t y = under(c, r, i, c.of.height), x = under(c, q, j, c.of.width);
            if (y >= c.of.height || x >= c.of.width) continue;
            const T *from = (const T *)c.x + ((image * c.of.height + y) * c.of.width + x) * c.of.in;
            const T *weight = (const T *)c.weight + ((o * c.of.h + i) * c.of.w + j) * c.of.in;
            float sum = 0;
            for (uint64_t k = 0; k < c.of.in; k++)
                sum = fmaf(widen(from[k]), widen(weight[k]), sum);
            total += sum;
        }
    if (c.bias) total += widen(((const T *)c.bias)[o]);
    ((T *)c.y)[index] = narrowed<T>(total);
}

/* Thread: an input. */
template <typename T>
__global__ void __launch_bounds__(THREADS) backward(const pst_cuda_convolution c) {
    uint64_t index = (uint64_t)blockIdx.x * THREADS + threadIdx.x, pixel = index / c.of.in,
             k = index % c.of.in;
    uint64_t x = pixel % c.of.width, y = pixel / c.of.width % c.of.height,
             image = pixel / c.of.width / c.of.height;
    if (image >= c.of.images) return;
    float total = 0;
    for (uint64_t i = 0; i < c.of.h; i++)
        for (uint64_t j = 0; j < c.of.w; j++) {
            uint64_t r = over(c, y, i, c.of.rows), q = over(c, x, j, c.of.columns);
            if (r >= c.of.rows || q >= c.of.columns) continue;
            const T *from =
                (const T *)c.dy + ((image * c.of.rows + r) * c.of.columns + q) * c.of.out;
            const T *weight = (const T *)c.weight + (i * c.of.w + j) * c.of.in + k;
            float sum = 0;
            for (uint64_t o = 0; o < c.of.out; o++)
                sum = fmaf(widen(from[o]), widen(weight[o * c.of.h * c.of.w * c.of.in]), sum);
            total += sum;
        }
    ((T *)c.dx)[index] = narrowed<T>(total);
}

/* The sum over a row of windows, for element (i, j, k) of output o's weight. */
template <typename T>
__device__ inline float row_sum(const pst_cuda_convolution &c, uint64_t row, uint64_t o, uint64_t i,
                                uint64_t j, uint64_t k) {
    uint64_t y = under(c, row % c.of.rows, i, c.of.height);
    float sum = 0;
    if (y >= c.of.height) return sum;
    const T *from = (const T *)c.x + (row / c.of.rows * c.of.height + y) * c.of.width * c.of.in + k;
    const T *dy = (const T *)c.dy + row * c.of.columns * c.of.out + o;
    for (uint64_t q = 0; q < c.of.columns; q++) {
        uint64_t x = under(c, q, j, c.of.width);
        if (x < c.of.width) sum = fmaf(widen(from[x * c.of.in]), widen(dy[q * c.of.out]), sum);
    }
    return sum;
}

/* Block: 32 input channels at (o, i, j) of the weight; line s takes every 8th row of windows. */
template <typename T>
__global__ void __launch_bounds__(WARP *LINES) weight_gradient(const pst_cuda_convolution c) {
    __shared__ float line[LINES][WARP];
    uint64_t k = (uint64_t)blockIdx.y * WARP + threadIdx.x, at = blockIdx.x;
    float total = 0;
    for (uint64_t row = threadIdx.y; row < c.of.images * c.of.rows && k < c.of.in; row += LINES)
        total += row_sum<T>(c, row, at / c.of.w / c.of.h, at / c.of.w % c.of.h, at % c.of.w, k);
    line[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y || k >= c.of.in) return;
    for (uint32_t s = 1; s < LINES; s++) total += line[s][threadIdx.x];
    float *to = c.dweight + at * c.of.in + k;
    *to = c.first ? total : *to + total;
}

void pst_cuda_convolution_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_convolution *c) {
    dim3 blocks(grid_of(c->of.images * c->of.rows * c->of.columns * c->of.out, THREADS));
    by_type(dtype,
            [&](auto type) { launch(q, forward<decltype(type)>, blocks, dim3(THREADS), *c); });
}

void pst_cuda_convolution_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_convolution *c) {
    dim3 blocks(grid_of(c->of.images * c->of.height * c->of.width * c->of.in, THREADS));
    by_type(dtype,
            [&](auto type) { launch(q, backward<decltype(type)>, blocks, dim3(THREADS), *c); });
}

void pst_cuda_convolution_w(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_convolution *c) {
    dim3 blocks((uint32_t)(c->of.out * c->of.h * c->of.w), grid_of(c->of.in, WARP));
    by_type(dtype, [&](auto type) {
        launch(q, weight_gradient<decltype(type)>, blocks, dim3(WARP, LINES), *c);
    });
}

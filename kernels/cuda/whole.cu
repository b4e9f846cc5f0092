/* Kernels of optimizers that update whole parameters: the sums of squares of LAMB's trust ratio,
 * with the bits of kernels/squares.h, and Muon beside its matrix products. */
#include "kernels/cuda/formula.cuh"
#include <math.h>

enum { THREADS = 256, BLOCK = 4096, EACH = BLOCK / THREADS };

/* --- LAMB ------------------------------------------------------------------------------------- */

struct largest {
    __device__ uint32_t operator()(uint32_t a, uint32_t b) const { return a > b ? a : b; }
};
struct sum {
    __device__ double operator()(double a, double b) const { return a + b; }
};

/* Of all threads of a block; for every thread. The order does not matter: sums are exact. */
template <typename T, typename F> __device__ inline T of_all(T x, F join) {
    __shared__ T part[THREADS / WARP];
#pragma unroll
    for (int lane = WARP / 2; lane; lane /= 2) x = join(x, __shfl_xor_sync(0xffffffffu, x, lane));
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = x;
    __syncthreads();
    x = part[0];
    for (uint32_t i = 1; i < THREADS / WARP; i++) x = join(x, part[i]);
    __syncthreads();
    return x;
}

enum { SQUARES_NONE = 99, FIRST_EXPONENT = 256, UNIT_BITS = 32, NOT_FINITE = 0x7f800000 };

/* As pst_squares_of_block. The square of a float is exact in fp64. */
__device__ inline pst_cuda_squares squares_of_block(const float (&x)[EACH]) {
    uint32_t most = 0;
#pragma unroll
    for (uint32_t k = 0; k < EACH; k++) most = largest()(most, __float_as_uint(x[k]) & 0x7fffffffu);
    most = of_all(most, largest());
    if (most == 0) return {SQUARES_NONE, {0, 0, 0}};
    if (most >= NOT_FINITE) return {0, {NAN, 0, 0}};
    const double high_square = (double)__uint_as_float(most) * (double)__uint_as_float(most);
    const int top = (286 - ilogb(high_square)) / UNIT_BITS, e = FIRST_EXPONENT - UNIT_BITS * top;
    double part[3] = {0, 0, 0};
#pragma unroll
    for (uint32_t k = 0; k < EACH; k++) {
        double v = (double)x[k] * (double)x[k];
#pragma unroll
        for (int i = 0; i < 3; i++) { /* rounds to a multiple of the unit */
            const double large = ldexp(1.5, e + 52 - UNIT_BITS * i), rounded = (v + large) - large;
            part[i] += rounded;
            v -= rounded;
        }
    }
    pst_cuda_squares out = {(double)top, {0, 0, 0}};
    for (int i = 0; i < 3; i++) out.sum[i] = of_all(part[i], sum());
    return out;
}

/* As pst_squares_add. */
__device__ inline pst_cuda_squares add(const pst_cuda_squares &a, const pst_cuda_squares &b) {
    const bool swap = b.top < a.top;
    pst_cuda_squares both = swap ? b : a;
    const pst_cuda_squares low = swap ? a : b;
    const int shift = (int)(low.top - both.top);
    for (int i = 0; shift + i < 3; i++) both.sum[shift + i] += low.sum[i];
    return both;
}

/* Block: 4096 elements. S: type of the states. */
template <typename S>
__global__ void __launch_bounds__(THREADS) lamb_blocks(const __grid_constant__ pst_cuda_lamb l) {
    const uint64_t from = (uint64_t)blockIdx.x * BLOCK;
    const uint32_t n = (uint32_t)least(l.n - from, BLOCK);
    const S *first = (const S *)l.state[0] + from, *second = (const S *)l.state[1] + from;
    float weight[EACH], step[EACH];
#pragma unroll
    for (uint32_t k = 0; k < EACH; k++) {
        const uint32_t i = threadIdx.x + k * THREADS;
        weight[k] = step[k] = 0;
        if (i >= n) continue;
        float m = widen(first[i]), v = widen(second[i]);
        weight[k] = l.weight[from + i];
        step[k] = lamb(l.rule, l.decay, l.grad[from + i], weight[k], m, v);
    }
    const pst_cuda_squares of_weight = squares_of_block(weight), of_step = squares_of_block(step);
    if (threadIdx.x) return;
    l.block[2 * blockIdx.x] = of_weight;
    l.block[2 * blockIdx.x + 1] = of_step;
}

/* Warp 0: of the weight; warp 1: of the step. */
__global__ void __launch_bounds__(WARP) lamb_total(const __grid_constant__ pst_cuda_lamb l) {
    const uint32_t blocks = (uint32_t)div_up(l.n, BLOCK);
    pst_cuda_squares own = {SQUARES_NONE, {0, 0, 0}};
    for (uint32_t b = threadIdx.x; b < blocks; b += WARP)
        own = add(own, l.block[2 * b + blockIdx.x]);
    for (int lane = WARP / 2; lane; lane /= 2) {
        pst_cuda_squares other;
        other.top = __shfl_xor_sync(0xffffffffu, own.top, lane);
        for (int i = 0; i < 3; i++) other.sum[i] = __shfl_xor_sync(0xffffffffu, own.sum[i], lane);
        own = add(own, other);
    }
    if (threadIdx.x) return;
    l.out[blockIdx.x] = l.begun ? add(l.out[blockIdx.x], own) : own;
}

void pst_cuda_lamb_squares(pst_cuda_queue q, const pst_cuda_lamb *lamb) {
    const dim3 grid(grid_of(lamb->n, BLOCK)), block(THREADS);
    if (lamb->rule.narrow_state) launch(q, lamb_blocks<bf16>, grid, block, *lamb);
    else launch(q, lamb_blocks<float>, grid, block, *lamb);
    launch(q, lamb_total, dim3(2), dim3(WARP), *lamb);
}

/* --- Muon ------------------------------------------------------------------------------------- */

__device__ inline uint64_t element() { return (uint64_t)blockIdx.x * THREADS + threadIdx.x; }

template <typename S>
__global__ void __launch_bounds__(THREADS) direction(const __grid_constant__ pst_cuda_momentum d) {
    const uint64_t i = element();
    if (i >= d.n) return;
    const pst_cuda_rule &h = d.rule;
    const float mu = h.momentum, rest = plus(1.0f, -mu), grad = d.grad[i];
    S *momentum = (S *)d.momentum + i;
    const float g = times(grad, h.grad_scale);
    float m = plus(times(mu, widen(*momentum)), times(rest, g));
    d.x[i] = plus(times(rest, g), times(mu, m));
    if (sizeof(S) == 2) m = rounded(m, element_noise(h.noise, d.weight[i], grad));
    *momentum = narrowed<S>(m);
}

void pst_cuda_muon_direction(pst_cuda_queue q, const pst_cuda_momentum *momentum) {
    const dim3 grid(grid_of(momentum->n, THREADS)), block(THREADS);
    if (momentum->rule.narrow_state) launch(q, direction<bf16>, grid, block, *momentum);
    else launch(q, direction<float>, grid, block, *momentum);
}

__global__ void __launch_bounds__(THREADS)
    scale(float *x, const double *squares, double least, uint64_t n) {
    const uint64_t i = element();
    const double norm = sqrt(*squares);
    if (i < n) x[i] = times(x[i], (float)(1 / (norm > least ? norm : least)));
}

void pst_cuda_muon_scale(pst_cuda_queue q, float *x, const double *squares, double least,
                         uint64_t n) {
    launch(q, scale, dim3(grid_of(n, THREADS)), dim3(THREADS), x, squares, least, n);
}

__global__ void __launch_bounds__(THREADS)
    mix(float *y, const float *x, float left, float right, uint64_t n) {
    const uint64_t i = element();
    if (i < n) y[i] = plus(times(left, x[i]), times(right, y[i]));
}

void pst_cuda_muon_mix(pst_cuda_queue q, float *y, const float *x, float left, float right,
                       uint64_t n) {
    launch(q, mix, dim3(grid_of(n, THREADS)), dim3(THREADS), y, x, left, right, n);
}

/* T: type of the rounded weights. */
template <typename T>
__global__ void __launch_bounds__(THREADS) apply(const __grid_constant__ pst_cuda_step s) {
    const uint64_t i = element();
    if (i >= s.n) return;
    const float w = plus(times(s.weight[i], s.keep), -times(s.rate, s.x[i]));
    s.weight[i] = w;
    if (s.narrow) reinterpret_cast<T *>(s.narrow)[i] = narrowed<T>(w);
}

void pst_cuda_muon_apply(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_step *step) {
    const dim3 grid(grid_of(step->n, THREADS)), block(THREADS);
    if (dtype == PST_F16) launch(q, apply<f16>, grid, block, *step);
    else launch(q, apply<bf16>, grid, block, *step);
}

/* Rounds operands of matrix products to FP8. Each tensor has a scale, a power of two, so that
 * scaling adds no rounding error, and the largest magnitude so far, an atomic maximum, which has
 * the same bits in any order. Tensors are bf16, their sizes multiples of 16. */
#include "kernels/cuda/formula.cuh"
#ifdef __CUDACC__
#include <cuda_fp8.h>
#endif

enum { THREADS = 256, EACH = 16 /* elements per thread */, TILE = 64, PITCH = TILE + 4 };

/* --- formulas --------------------------------------------------------------------------------- */

/* Bits of |x|: as integers they are ordered like the magnitudes, with infinity and NaN at the
 * top. */
__host__ __device__ inline uint32_t magnitude(uint32_t bits) { return bits & 0x7fffffffu; }

template <int WIDE> __host__ __device__ constexpr float largest() {
    return WIDE ? 57344.0f : 448.0f;
}

/* The largest power of two with which amax stays in the type's range; 1 if all are zero. */
__device__ inline float scale_for(uint32_t amax, float largest) {
    if (!amax) return 1.0f;
    float ratio = fminf(largest / __uint_as_float(amax), 0x1p100f);
    return __uint_as_float(__float_as_uint(ratio) & 0x7f800000u);
}

/* Saturates finite values; infinity becomes NaN, so that it is not lost. */
template <int WIDE> __device__ inline float fitted(float x, float scale) {
    float fit = fminf(fmaxf(x * scale, -largest<WIDE>()), largest<WIDE>());
    return magnitude(__float_as_uint(x)) < 0x7f800000u ? fit : __uint_as_float(0x7fc00000u);
}

/* Two numbers within the range, the first one in the lower half. */
template <int WIDE> __device__ inline uint32_t two_f8(float low, float high) {
#ifdef __CUDACC__
    return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE,
                                    WIDE ? __NV_E5M2 : __NV_E4M3);
#else
    return pst_f8_from_f32(WIDE, low) | (uint32_t)pst_f8_from_f32(WIDE, high) << 8;
#endif
}

/* 8 numbers in order. */
template <int WIDE> __device__ inline uint2 eight_f8(const float (&x)[8], float s) {
    uint32_t two[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        two[i] = two_f8<WIDE>(fitted<WIDE>(x[2 * i], s), fitted<WIDE>(x[2 * i + 1], s));
    return make_uint2(two[0] | two[1] << 16, two[2] | two[3] << 16);
}

__device__ inline uint32_t magnitude_of(const float (&x)[8], uint32_t most) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t m = magnitude(__float_as_uint(x[i]));
        most = m > most ? m : most;
    }
    return most;
}

/* The maximum over a warp, into *to. */
__device__ inline void note_largest(uint32_t most, uint32_t *to) {
#pragma unroll
    for (int lane = WARP / 2; lane; lane /= 2) {
        uint32_t other = __shfl_xor_sync(0xffffffffu, most, lane);
        most = other > most ? other : most;
    }
    if (threadIdx.x % WARP == 0 && most > *(volatile uint32_t *)to) atomicMax(to, most);
}

/* --- scales ----------------------------------------------------------------------------------- */

__global__ void __launch_bounds__(THREADS) measure(const bf16 *x, uint64_t n, uint32_t *to) {
    uint32_t most = 0;
    for (uint64_t i = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * 8; i < n;
         i += (uint64_t)gridDim.x * THREADS * 8) {
        float v[8];
        widen_pack<bf16>(load_pack(x + i), v);
        most = magnitude_of(v, most);
    }
    note_largest(most, to);
}

/* A maximum that is not finite does not tell the range of the other values: the scale is 1. */
__device__ inline void take_scale(pst_cuda_scaling *s, uint32_t amax, int wide) {
    s->scale = scale_for(amax < 0x7f800000u ? amax : 0, wide ? largest<1>() : largest<0>());
    s->inverse = 1.0f / s->scale;
}

__global__ void scale_by_own(pst_cuda_scaling *s, int wide) {
    if (threadIdx.x == 0) take_scale(s, s->own, wide);
}

/* Thread: a tensor. */
__global__ void scale_by_history(pst_cuda_scaling *list, uint32_t n, uint32_t wide) {
    if (threadIdx.x >= n) return;
    pst_cuda_scaling *s = list + threadIdx.x;
    uint32_t most = 0;
    s->history[s->steps++ % PST_CUDA_AMAX_STEPS] = s->amax < 0x7f800000u ? s->amax : 0;
    s->amax = 0;
    for (uint32_t i = 0; i < PST_CUDA_AMAX_STEPS; i++)
        most = s->history[i] > most ? s->history[i] : most;
    take_scale(s, most, (int)(wide >> threadIdx.x & 1));
}

void pst_cuda_scale_by_own(pst_cuda_queue q, const pst_cuda_round *r) {
    enum { MOST_BLOCKS = 1024 };
    uint64_t n = r->rows * r->columns;
    zero(q, &r->scaling->own, sizeof r->scaling->own);
    launch(q, measure, dim3((uint32_t)least(div_up(n, THREADS * 8), MOST_BLOCKS)), dim3(THREADS),
           (const bf16 *)r->x, n, &r->scaling->own);
    launch(q, scale_by_own, dim3(1), dim3(WARP), r->scaling, r->wide);
}

void pst_cuda_scale_by_history(pst_cuda_queue q, pst_cuda_scaling *list, uint32_t n,
                               uint32_t wide) {
    launch(q, scale_by_history, dim3(1), dim3(WARP), list, n, wide);
}

/* --- rounding --------------------------------------------------------------------------------- */

template <int WIDE>
__global__ void __launch_bounds__(THREADS)
    round_f8(const bf16 *x, uint8_t *y, uint64_t n, pst_cuda_scaling *s, bool note) {
    uint64_t i = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * EACH;
    uint32_t most = 0;
    if (i < n) {
        float a[8], b[8], scale = s->scale;
        uint4 low = load_pack(x + i), high = load_pack(x + i + 8);
        widen_pack<bf16>(low, a), widen_pack<bf16>(high, b);
        most = magnitude_of(b, magnitude_of(a, 0));
        uint2 first = eight_f8<WIDE>(a, scale), second = eight_f8<WIDE>(b, scale);
        *reinterpret_cast<uint4 *>(y + i) = make_uint4(first.x, first.y, second.x, second.y);
    }
    if (note) note_largest(most, &s->amax);
}

/* y[c][r] from x[r][c]. Block: a tile of both. */
template <int WIDE>
__global__ void __launch_bounds__(THREADS)
    turn_f8(const bf16 *x, uint8_t *y, uint64_t rows, uint64_t columns, pst_cuda_scaling *s,
            bool note) {
    __shared__ uint32_t tile[TILE * PITCH / 4];
    uint64_t across = div_up(columns, TILE), row0 = blockIdx.x / across * TILE,
             column0 = blockIdx.x % across * TILE;
    float scale = s->scale;
    uint32_t most = 0;
#pragma unroll
    for (uint32_t k = threadIdx.x; k < TILE * TILE / 8; k += THREADS) {
        uint32_t r = k / (TILE / 8), c = k % (TILE / 8) * 8;
        float v[8];
        if (row0 + r >= rows || column0 + c >= columns) continue;
        widen_pack<bf16>(load_pack(x + (row0 + r) * columns + column0 + c), v);
        most = magnitude_of(v, most);
        uint2 eight = eight_f8<WIDE>(v, scale);
        tile[(r * PITCH + c) / 4] = eight.x;
        tile[(r * PITCH + c) / 4 + 1] = eight.y;
    }
    __syncthreads();
    uint32_t c = threadIdx.x / (TILE / 16), r = threadIdx.x % (TILE / 16) * 16;
    if (row0 + r < rows && column0 + c < columns) {
        uint32_t word[4] = {};
#pragma unroll
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t at = (r + i) * PITCH + c;
            word[i / 4] |= (tile[at / 4] >> (at % 4 * 8) & 0xff) << (i % 4 * 8);
        }
        *reinterpret_cast<uint4 *>(y + (column0 + c) * rows + row0 + r) =
            make_uint4(word[0], word[1], word[2], word[3]);
    }
    if (note) note_largest(most, &s->amax);
}

template <int WIDE> static void round_as(pst_cuda_queue q, const pst_cuda_round *r) {
    uint64_t n = r->rows * r->columns;
    const bf16 *x = (const bf16 *)r->x;
    if (r->turned)
        launch(q, turn_f8<WIDE>, dim3((uint32_t)(div_up(r->rows, TILE) * div_up(r->columns, TILE))),
               dim3(THREADS), x, r->y, r->rows, r->columns, r->scaling, r->note != 0);
    else
        launch(q, round_f8<WIDE>, dim3(grid_of(n, THREADS * EACH)), dim3(THREADS), x, r->y, n,
               r->scaling, r->note != 0);
}

void pst_cuda_round_f8(pst_cuda_queue q, const pst_cuda_round *r) {
    if (r->wide) round_as<1>(q, r);
    else round_as<0>(q, r);
}

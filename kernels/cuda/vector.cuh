/* Helpers of all kernels: element types, packs of 16 bytes, sums over a warp in a fixed order, and
 * launching. Compiled by nvcc, or by a C++ compiler with tests/kernels/emulate.h, which runs the
 * threads one after another. */
#ifndef PST_KERNELS_CUDA_VECTOR_CUH
#define PST_KERNELS_CUDA_VECTOR_CUH
#include "kernels/cuda/launch.h"
#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

/* --- conversion: round to nearest even, as base/dtype.h --------------------------------------- */
__device__ inline float widen(float x) { return x; }
__device__ inline float low_half(bf16, uint32_t w) { return __uint_as_float(w << 16); }
__device__ inline float high_half(bf16, uint32_t w) { return __uint_as_float(w & 0xffff0000u); }
__device__ inline float widen(bf16 x) { return low_half(x, x.bits); }
#ifdef __CUDACC__
__device__ inline float low_half(f16, uint32_t w) {
    return __half2float(__ushort_as_half((unsigned short)w));
}
__device__ inline uint32_t join(bf16, float low, float high) {
    __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
    return (uint32_t)__bfloat16_as_ushort(two.x) | (uint32_t)__bfloat16_as_ushort(two.y) << 16;
}
__device__ inline uint32_t join(f16, float low, float high) {
    __half2 two = __floats2half2_rn(low, high);
    return (uint32_t)__half_as_ushort(__low2half(two)) |
           (uint32_t)__half_as_ushort(__high2half(two)) << 16;
}
#else
inline float low_half(f16, uint32_t w) { return pst_f32_from_f16((uint16_t)w); }
inline uint32_t join(bf16, float low, float high) {
    return pst_bf16_from_f32(low) | (uint32_t)pst_bf16_from_f32(high) << 16;
}
inline uint32_t join(f16, float low, float high) {
    return pst_f16_from_f32(low) | (uint32_t)pst_f16_from_f32(high) << 16;
}
#endif
__device__ inline float high_half(f16 type, uint32_t w) { return low_half(type, w >> 16); }
__device__ inline float widen(f16 x) { return low_half(x, x.bits); }
template <typename T> __device__ inline T narrowed(float x) {
    T out = {};
    out.bits = (uint16_t)join(out, x, 0.0f);
    return out;
}
template <> __device__ inline float narrowed<float>(float x) { return x; }

/* --- packs: 16 bytes -------------------------------------------------------------------------- */
template <typename T> struct pack { static constexpr uint32_t N = 16 / sizeof(T); };
template <typename T> __device__ inline uint4 load_pack(const T *x) {
    return *reinterpret_cast<const uint4 *>(x);
}

template <typename T> __device__ inline void widen_pack(uint4 raw, float (&x)[8]) {
    const uint32_t w[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = low_half(T(), w[i]);
        x[2 * i + 1] = high_half(T(), w[i]);
    }
}
template <typename T> __device__ inline void widen_pack(uint4 raw, float (&x)[4]) {
    x[0] = __uint_as_float(raw.x);
    x[1] = __uint_as_float(raw.y);
    x[2] = __uint_as_float(raw.z);
    x[3] = __uint_as_float(raw.w);
}

__device__ inline void store_pack(float *to, const float (&x)[4]) {
    *reinterpret_cast<uint4 *>(to) = make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]),
                                                __float_as_uint(x[2]), __float_as_uint(x[3]));
}
template <typename T> __device__ inline void store_pack(T *to, const float (&x)[8]) {
    T type = {};
    *reinterpret_cast<uint4 *>(to) = make_uint4(join(type, x[0], x[1]), join(type, x[2], x[3]),
                                                join(type, x[4], x[5]), join(type, x[6], x[7]));
}

/* Packs of four 16-bit elements, for kernels that also use four fp32 elements. */
template <typename T> __device__ inline void widen_pack(uint2 raw, float (&x)[4]) {
    x[0] = low_half(T(), raw.x);
    x[1] = high_half(T(), raw.x);
    x[2] = low_half(T(), raw.y);
    x[3] = high_half(T(), raw.y);
}
template <typename T> __device__ inline void store_pack(T *to, const float (&x)[4]) {
    T type = {};
    *reinterpret_cast<uint2 *>(to) = make_uint2(join(type, x[0], x[1]), join(type, x[2], x[3]));
}

/* N elements of type T: 16 or 8 bytes. */
template <uint32_t BYTES> struct raw_bytes { typedef uint4 type; };
template <> struct raw_bytes<8> { typedef uint2 type; };
template <typename T, uint32_t N> struct chunk {
    typename raw_bytes<N * sizeof(T)>::type raw;
    __device__ inline void load(const T *from) {
        raw = *reinterpret_cast<const decltype(raw) *>(from);
    }
    __device__ inline void widened(float (&x)[N]) const { widen_pack<T>(raw, x); }
};
/* The number of elements of the larger type that fit in 16 bytes. */
template <typename A, typename B> struct pack_of_both {
    static constexpr uint32_t N = sizeof(A) > sizeof(B) ? pack<A>::N : pack<B>::N;
};

/* N fp32 numbers; N is 1 or, if the address is aligned, a multiple of 4. */
template <uint32_t N> __device__ inline void load_floats(const float *from, float (&x)[N]) {
    if (N == 1) x[0] = from[0];
#pragma unroll
    for (uint32_t i = 0; i + 4 <= N; i += 4) {
        float four[4];
        widen_pack<float>(load_pack(from + i), four);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) x[i + j] = four[j];
    }
}
template <uint32_t N> __device__ inline void store_floats(float *to, const float (&x)[N]) {
    if (N == 1) to[0] = x[0];
#pragma unroll
    for (uint32_t i = 0; i + 4 <= N; i += 4) {
        const float four[4] = {x[i], x[i + 1], x[i + 2], x[i + 3]};
        store_pack(to + i, four);
    }
}

/* The elements that a thread loads at once: a pack of PACK elements or, if rows are unaligned, one
 * element. */
template <typename T, bool PACKED, uint32_t PACK = pack<T>::N> struct lane {
    static constexpr uint32_t N = PACKED ? PACK : 1;
    chunk<T, PACK> some;
    T one;
    __device__ inline void load(const T *from) {
        if (PACKED) some.load(from);
        else one = *from;
    }
    __device__ inline void widened(float (&x)[N]) const {
        if constexpr (PACKED) some.widened(x);
        else x[0] = widen(one);
    }
};
template <typename T, uint32_t N> __device__ inline void store_lane(T *to, const float (&x)[N]) {
    if constexpr (N == 1) *to = narrowed<T>(x[0]);
    else store_pack(to, x);
}

static inline bool aligned(const void *p) {
    return (uintptr_t)p % 16 == 0;
} /* NULL counts as aligned */

/* --- sums: every thread of the warp gets the same bits ---------------------------------------- */
enum { WARP = 32 };
__device__ inline float warp_sum(float x) {
#pragma unroll
    for (int lane = WARP / 2; lane; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
    return x;
}

/* --- indices: one outside its table is reported, once ----------------------------------------- */
__device__ inline void check_index(const pst_cuda_index &at, int32_t index, uint64_t position) {
    if ((index < 0 && at.ignore) || (uint64_t)(int64_t)index < at.limit || !at.fault) return;
    unsigned *state = (unsigned *)&at.fault->state;
    if (atomicCAS(state, PST_CUDA_FAULT_NONE, PST_CUDA_FAULT_TAKEN) != PST_CUDA_FAULT_NONE) return;
    at.fault->index = index;
    at.fault->position = position;
    at.fault->limit = at.limit;
    at.fault->node = at.node;
    at.fault->launch = at.launch;
    __threadfence_system();
    at.fault->state = PST_CUDA_FAULT_SAID;
}
/* The row of an index in this rank's part of the table; at least at.rows if another rank has the
 * row or the index is out of range. */
__device__ inline uint64_t index_row(const pst_cuda_index &at, int32_t index) {
    return (uint64_t)(int64_t)index < at.limit ? (uint64_t)index - at.first : at.rows;
}

/* --- launching -------------------------------------------------------------------------------- */
#ifdef __CUDACC__
template <typename... P, typename... A>
static inline void launch(pst_cuda_queue q, void (*kernel)(P...), dim3 grid, dim3 block,
                          A... args) {
    kernel<<<grid, block, 0, q>>>(args...);
}
static inline void zero(pst_cuda_queue q, void *to, uint64_t bytes) {
    cudaMemsetAsync(to, 0, bytes, q);
}
#endif

/* Calls f(T()), where T is the element type of dtype. */
template <typename F> static inline void by_type(pst_dtype dtype, F f) {
    if (dtype == PST_BF16) f(bf16());
    else if (dtype == PST_F16) f(f16());
    else f(0.0f);
}

/* Calls f(T(), X(), Y()): X is float if wide_x, else T; Y likewise. */
template <typename F> static inline void by_types(pst_dtype dtype, bool wide_x, bool wide_y, F f) {
    by_type(dtype, [&](auto type) {
        if constexpr (sizeof type == sizeof(float)) f(type, type, type);
        else if (wide_x && wide_y) f(type, 0.0f, 0.0f);
        else if (wide_x) f(type, 0.0f, type);
        else if (wide_y) f(type, type, 0.0f);
        else f(type, type, type);
    });
}

__host__ __device__ inline uint64_t div_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
__host__ __device__ inline uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint32_t grid_of(uint64_t n, uint64_t per_block) {
    return (uint32_t)div_up(n, per_block);
}
#endif

/* Packing and unpacking with a codec (base/codec.h), with the bits of kernels/ref/flat.c. A warp
 * packs a block: each element is read by the thread that writes it, so that `next` may be x. */
#include "kernels/cuda/formula.cuh"

enum { THREADS = 256, WARPS = THREADS / WARP, DEEP = 4 /* elements that a thread unpacks */ };
/* Elements of a block that a thread keeps in registers, of blocks of up to KEPT * WARP. */
enum { KEPT = 8 };

#define TINY 0x1p-100f /* as PST_CODEC_TINY */
#define INFINITE 0x7f800000u

/* Same as pst_codec_scale of kernels/codec.h. */
struct block_scale {
    float scale, inverse, limit;
};

__device__ inline float value_of(const pst_cuda_pack &p, uint64_t i) {
    return plus(p.x[i], times(p.scale, p.error[i]));
}

__device__ inline uint32_t magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }

__device__ inline uint32_t warp_max(uint32_t x) {
#pragma unroll
    for (int lane = WARP / 2; lane; lane /= 2) {
        uint32_t other = __shfl_xor_sync(0xffffffffu, x, lane);
        x = other > x ? other : x;
    }
    return x;
}

/* --- scales of blocks ------------------------------------------------------------------------- */

/* 16 sums, which the two halves of a warp have alike, added as pst_codec_tree adds them. */
template <typename T> __device__ inline T tree(T sum) {
#pragma unroll
    for (int half = 8; half; half /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, half);
    return sum;
}

/* The mean of the magnitudes of a block's elements above their mean magnitude. */
__device__ inline float mean_above(const pst_cuda_pack &p, uint64_t at, uint32_t count) {
    float sum = 0, above = 0;
    uint32_t found = 0;
    const uint32_t lane = threadIdx.x % 16;
    for (uint32_t i = lane; i < count; i += 16) sum = plus(sum, fabsf(value_of(p, at + i)));
    const float least = __fdiv_rn(tree(sum), (float)count);
    for (uint32_t i = lane; i < count; i += 16) {
        const float x = fabsf(value_of(p, at + i));
        above = plus(above, x > least ? x : 0.0f);
        found += x > least;
    }
    above = tree(above);
    found = tree(found);
    return found ? __fdiv_rn(above, (float)found) : least;
}

__device__ inline block_scale ternary_scale(const pst_cuda_pack &p, uint64_t at, uint32_t count,
                                            uint32_t top) {
    block_scale s = {0, 1, 0};
    if (p.threshold > 0) {
        s.scale = s.limit = times(p.threshold, p.scale);
    } else {
        s.scale = mean_above(p, at, count);
        s.limit = __fdiv_rn(s.scale, 2.0f);
    }
    if (top >= INFINITE || !(magnitude(s.scale) < INFINITE))
        return {__uint_as_float(0x7fc00000u), 0, 0};
    if (s.scale < TINY) return {};
    return s;
}

template <int BITS> __device__ inline block_scale whole_scale(uint32_t top) {
    const float most = BITS == 8 ? 127.0f : 7.0f, largest = __uint_as_float(top);
    if (top >= INFINITE) return {__uint_as_float(0x7fc00000u), 0, 0};
    if (largest < TINY) return {};
    return {__fdiv_rn(largest, most), __fdiv_rn(most, largest), 0};
}

template <int BITS> __device__ inline int number_of(const block_scale &s, float x) {
    if (!(s.inverse > 0)) return 0;
    if (BITS == 2) return (x >= s.limit) - (x <= -s.limit);
    return __float2int_rn(times(x, s.inverse));
}

/* --- packing ---------------------------------------------------------------------------------- */

/* Byte i of a block has elements i, i + part, i + 2 part, ... where `part` is the number of bytes;
 * a thread has bytes lane, lane + WARP, ... SMALL: no more than KEPT elements. */
template <int BITS, bool SMALL>
__global__ void __launch_bounds__(THREADS) pack_blocks(const __grid_constant__ pst_cuda_pack p) {
    constexpr uint32_t IN = 8 / BITS, FEW = KEPT / IN;
    const uint64_t block = (uint64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const uint64_t at = block * p.block;
    const uint32_t lane = threadIdx.x % WARP;
    if (at >= p.n) return;
    const uint32_t count = (uint32_t)least(p.n - at, p.block), part = (count + IN - 1) / IN;
    const uint32_t rounds = SMALL ? FEW : (part + WARP - 1) / WARP;
    float kept[KEPT] = {};
    uint32_t top = 0;
#pragma unroll(SMALL ? FEW : 1)
    for (uint32_t j = 0; j < rounds; j++)
#pragma unroll
        for (uint32_t k = 0; k < IN; k++) {
            const uint32_t byte = lane + j * WARP, i = k * part + byte;
            if (byte >= part || i >= count) continue;
            const float x = value_of(p, at + i);
            if (SMALL) kept[j * IN + k] = x;
            top = magnitude(x) > top ? magnitude(x) : top;
        }
    top = warp_max(top);
    const block_scale s = BITS == 2 ? ternary_scale(p, at, count, top) : whole_scale<BITS>(top);
    uint8_t *to = p.packed + block * (sizeof(float) + p.block / IN);
    if (lane == 0) *reinterpret_cast<float *>(to) = s.scale;
#pragma unroll(SMALL ? FEW : 1)
    for (uint32_t j = 0; j < rounds; j++) {
        const uint32_t byte = lane + j * WARP;
        uint32_t bits = 0;
#pragma unroll
        for (uint32_t k = 0; k < IN; k++) {
            const uint32_t i = k * part + byte;
            if (byte >= part || i >= count) continue;
            const float x = SMALL ? kept[j * IN + k] : value_of(p, at + i);
            const int number = number_of<BITS>(s, x);
            const float unpacked = times((float)number, s.scale);
            bits |= ((uint32_t)number & ((1u << BITS) - 1)) << BITS * k;
            if (p.next) p.next[at + i] = plus(x, -unpacked);
            if (p.decode) p.x[at + i] = unpacked;
        }
        if (byte < part) to[sizeof(float) + byte] = (uint8_t)bits;
    }
}

/* As pst_codec_to_bf16. */
__device__ inline uint32_t half_of(float x) {
    const uint32_t bits = __float_as_uint(x);
    if (magnitude(x) > INFINITE) return bits >> 16 | 0x40;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

__global__ void __launch_bounds__(THREADS) pack_halves(const __grid_constant__ pst_cuda_pack p) {
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.n) return;
    const float x = value_of(p, i);
    const uint32_t half = half_of(x);
    const float unpacked = __uint_as_float(half << 16);
    reinterpret_cast<uint16_t *>(p.packed)[i] = (uint16_t)half;
    if (p.next) p.next[i] = plus(x, -unpacked);
    if (p.decode) p.x[i] = unpacked;
}

template <int BITS> static void run_pack(pst_cuda_queue q, const pst_cuda_pack *p) {
    const dim3 grid(grid_of(div_up(p->n, p->block), WARPS)), block(THREADS);
    if (p->block <= KEPT * WARP) launch(q, pack_blocks<BITS, true>, grid, block, *p);
    else launch(q, pack_blocks<BITS, false>, grid, block, *p);
}

void pst_cuda_pack_numbers(pst_cuda_queue q, const pst_cuda_pack *p) {
    if (p->bits == 16) launch(q, pack_halves, dim3(grid_of(p->n, THREADS)), dim3(THREADS), *p);
    else if (p->bits == 8) run_pack<8>(q, p);
    else if (p->bits == 4) run_pack<4>(q, p);
    else run_pack<2>(q, p);
}

/* --- unpacking -------------------------------------------------------------------------------- */

template <int BITS> __device__ inline float unpacked_at(const pst_cuda_unpack &u, uint64_t i) {
    if (BITS == 16)
        return __uint_as_float((uint32_t) reinterpret_cast<const uint16_t *>(u.packed)[i] << 16);
    constexpr uint32_t IN = BITS < 16 ? 8 / BITS : 1, SIGN = 1u << (BITS - 1);
    const uint64_t block = i / u.block, at = block * u.block;
    const uint32_t count = (uint32_t)least(u.n - at, u.block), part = (count + IN - 1) / IN;
    const uint8_t *from = u.packed + block * (sizeof(float) + u.block / IN);
    uint32_t byte = (uint32_t)(i - at), shift = 0;
#pragma unroll
    for (uint32_t k = 1; k < IN; k++)
        if (byte >= part) {
            byte -= part;
            shift += BITS;
        }
    const uint32_t bits = (uint32_t)from[sizeof(float) + byte] >> shift & (2 * SIGN - 1);
    const int number = (int)(bits ^ SIGN) - (int)SIGN;
    return times((float)number, *reinterpret_cast<const float *>(from));
}

template <int BITS>
__global__ void __launch_bounds__(THREADS) unpack(const __grid_constant__ pst_cuda_unpack u) {
    const uint64_t from = (uint64_t)blockIdx.x * THREADS * DEEP + threadIdx.x;
#pragma unroll
    for (uint32_t k = 0; k < DEEP; k++) {
        const uint64_t i = from + k * THREADS;
        if (i >= u.n) return;
        const float x = unpacked_at<BITS>(u, i);
        u.y[i] = u.add ? plus(u.y[i], x) : x;
    }
}

void pst_cuda_unpack_numbers(pst_cuda_queue q, const pst_cuda_unpack *u) {
    const dim3 grid(grid_of(u->n, THREADS * DEEP)), block(THREADS);
    if (u->bits == 16) launch(q, unpack<16>, grid, block, *u);
    else if (u->bits == 8) launch(q, unpack<8>, grid, block, *u);
    else if (u->bits == 4) launch(q, unpack<4>, grid, block, *u);
    else launch(q, unpack<2>, grid, block, *u);
}

/* The formulas that kernels compute per element, independent of how elements are assigned to
 * threads. */
#ifndef PST_KERNELS_CUDA_FORMULA_CUH
#define PST_KERNELS_CUDA_FORMULA_CUH
#include "kernels/cuda/vector.cuh"

/* --- dropout: the stream of base/rng.h -------------------------------------------------------- */
/* Words 0..3 of stream `key` at position (hi, lo): Philox4x32-10. */
__device__ inline uint4 philox(uint64_t key, uint64_t hi, uint64_t lo) {
    uint32_t c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32), c2 = (uint32_t)hi,
             c3 = (uint32_t)(hi >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return make_uint4(c0, c1, c2, c3);
}

/* The word of element `element` of a stream, of which its position has four. */
__device__ inline uint32_t word_of(uint4 word, uint64_t element) {
    uint32_t low = element % 2 == 0 ? word.x : word.y;
    uint32_t high = element % 2 == 0 ? word.z : word.w;
    return element % 4 < 2 ? low : high;
}

/* Threshold for dropout: an element is kept if the upper 24 bits of its random word are not below
 * keep_from(rate), which equals rng_uniform(word) >= rate. */
static inline uint32_t keep_from(float rate) {
    double bound = (double)rate * 16777216.0;
    uint32_t whole = (uint32_t)bound;
    return whole + (whole < bound);
}

/* --- activations ------------------------------------------------------------------------------ */
enum {
    ACT_GELU_TANH = 1,
    ACT_GELU_ERF,
    ACT_RELU,
    ACT_TANH
}; /* same values as in graph.h; elementwise.cu asserts that */

/* sigmoid(2u), u = sqrt(2/pi) (z + 0.044715 z^3): GELU(z) = z sigmoid(2u) in its tanh form. */
__device__ inline float gelu_gate(float z) {
    float u = fmaf(z * z, 0.044715f, 1.0f) * z;
    return __fdividef(1.0f, 1.0f + __expf(u * -1.5957691216057308f));
}

template <int ACT> __device__ inline float act_of(float z) {
    if (ACT == ACT_GELU_TANH) return z * gelu_gate(z);
    if (ACT == ACT_GELU_ERF) return 0.5f * z * (1.0f + erff(z * 0.70710678118654752f));
    if (ACT == ACT_TANH) return tanhf(z);
    return fmaxf(0.0f, z);
}

template <int ACT> __device__ inline float slope_of(float z) {
    if (ACT == ACT_GELU_TANH) {
        float gate = gelu_gate(z), du = fmaf(z * z, 0.134145f, 1.0f) * 1.5957691216057308f;
        return fmaf(z * gate * (1.0f - gate), du, gate);
    }
    if (ACT == ACT_GELU_ERF) {
        float bell = __expf(z * z * -0.5f) * 0.39894228040143268f;
        return fmaf(z, bell, fmaf(0.5f, erff(z * 0.70710678118654752f), 0.5f));
    }
    if (ACT == ACT_TANH) {
        float t = tanhf(z);
        return fmaf(-t, t, 1.0f);
    }
    return z > 0.0f ? 1.0f : 0.0f;
}

/* --- softmax: the largest logit so far, and the sum of exp(logit - largest) ------------------- */
struct softmax {
    float max, sum;
};
__device__ inline softmax softmax_none() { return {-3.402823466e+38f, 0.0f}; }

/* Commutative: the same bits for (a, b) and (b, a). */
__device__ inline softmax softmax_join(softmax a, softmax b) {
    float max = fmaxf(a.max, b.max);
    return {max, a.sum * __expf(a.max - max) + b.sum * __expf(b.max - max)};
}

template <uint32_t N> __device__ inline void softmax_take(softmax &s, const float (&x)[N]) {
    float max = s.max;
#pragma unroll
    for (uint32_t i = 0; i < N; i++) max = fmaxf(max, x[i]);
    s.sum *= __expf(s.max - max);
    s.max = max;
#pragma unroll
    for (uint32_t i = 0; i < N; i++) s.sum += __expf(x[i] - max);
}

/* --- optimizers: products and sums rounded one by one, so that the bits are those of
 * kernels/ref/flat.c  */
__device__ inline float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ inline float times(float a, float b) { return __fmul_rn(a, b); }

/* As pst_optim_random. */
__device__ inline uint32_t element_noise(uint32_t noise, float weight, float grad) {
    uint32_t x = __float_as_uint(grad) ^ __float_as_uint(weight) << 9 ^ noise;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* The bits of an fp32 number that is rounded at random to bf16, as pst_optim_rounded. */
__device__ inline float rounded(float x, uint32_t random) {
    return __uint_as_float((__float_as_uint(x) + (random & 0xffffu)) & 0xffff0000u);
}

__device__ inline void adamw(const pst_cuda_rule &h, float keep, float g, float &w, float &m,
                             float &v) {
    float x = times(g, h.grad_scale);
    m = plus(times(h.beta1, m), times(h.rest1, x));
    v = plus(times(h.beta2, v), times(h.rest2, times(x, x)));
    float root = plus(__fdiv_rn(__fsqrt_rn(v), h.root2), h.eps);
    w = plus(times(w, keep), -__fdiv_rn(times(h.step, m), root));
}

__device__ inline void adam(const pst_cuda_rule &h, float decay, float g, float &w, float &m,
                            float &v) {
    float x = plus(times(g, h.grad_scale), times(decay, w));
    m = plus(times(h.beta1, m), times(h.rest1, x));
    v = plus(times(h.beta2, v), times(h.rest2, times(x, x)));
    float root = plus(__fdiv_rn(__fsqrt_rn(v), h.root2), h.eps);
    w = plus(w, -__fdiv_rn(times(h.step, m), root));
}

/* Returns the step before it is scaled. */
__device__ inline float lamb(const pst_cuda_rule &h, float decay, float g, float w, float &m,
                             float &v) {
    float x = times(g, h.grad_scale);
    m = plus(times(h.beta1, m), times(h.rest1, x));
    v = plus(times(h.beta2, v), times(h.rest2, times(x, x)));
    float root = plus(__fsqrt_rn(__fdiv_rn(v, h.correction2)), h.eps);
    return plus(__fdiv_rn(__fdiv_rn(m, h.correction1), root), times(decay, w));
}

__device__ inline void sgd(const pst_cuda_rule &h, float decay, float g, float &w, float &buf) {
    float x = plus(times(g, h.grad_scale), times(decay, w));
    buf = h.begins ? x : plus(times(h.momentum, buf), x);
    float change = h.nesterov ? plus(x, times(h.momentum, buf)) : buf;
    w = plus(w, -times(h.lr, change));
}
#endif

/* The vector of one instruction set: VEC_AVX512 (16 lanes) or VEC_AVX2 (8); VEC_BF16 with
 * VEC_AVX512 for bf16 storage, VEC_F16 with either for fp16 storage. Each file that compiles
 * kernels for one instruction set includes it once. vf holds floats, vi 32-bit integers; GCC's
 * operators (+ - *) work on vf and are never fused. The _n forms access only the first n lanes; the
 * other lanes read as 0. n == VEC_W costs nothing extra. */
#ifndef PST_KERNELS_CPU_VEC_H
#define PST_KERNELS_CPU_VEC_H
#include <immintrin.h>
#include <stdint.h>

#define VEC_INLINE static inline __attribute__((always_inline, unused))
/* Put before a loop with a small constant count over an array of vectors: if the loop is unrolled,
 * the array stays in registers. */
#define VEC_UNROLL _Pragma("GCC unroll 16")

#if defined(VEC_AVX512)
enum { VEC_W = 16 };
typedef __m512 vf;
typedef __m512i vi;
VEC_INLINE vf v_set(float x) { return _mm512_set1_ps(x); }
VEC_INLINE vf v_load(const float *p) { return _mm512_loadu_ps(p); }
VEC_INLINE void v_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
VEC_INLINE void v_stream(float *p, vf v) { _mm512_stream_ps(p, v); } /* p: aligned */
VEC_INLINE __mmask16 v_first(unsigned n) { return (__mmask16)((1u << n) - 1u); }
VEC_INLINE vf v_load_n(const float *p, unsigned n) {
    if (n == VEC_W) return v_load(p);
    return _mm512_maskz_loadu_ps(v_first(n), p);
}
VEC_INLINE void v_store_n(float *p, vf v, unsigned n) {
    if (n == VEC_W) v_store(p, v);
    else _mm512_mask_storeu_ps(p, v_first(n), v);
}
/* Sets lanes n and above to `other`. */
VEC_INLINE vf v_keep_n(vf v, float other, unsigned n) {
    if (n == VEC_W) return v;
    return _mm512_mask_blend_ps(v_first(n), v_set(other), v);
}
VEC_INLINE vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
VEC_INLINE vf v_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
/* Returns the second operand if either is NaN. */
VEC_INLINE vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
VEC_INLINE vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
VEC_INLINE vf v_sqrt(vf a) { return _mm512_sqrt_ps(a); }
VEC_INLINE vf v_abs(vf a) { return _mm512_abs_ps(a); }
VEC_INLINE vf v_round(vf a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
VEC_INLINE vf v_scale(vf a, vf n) { return _mm512_scalef_ps(a, n); } /* a * 2^n, n whole */
/* a >= b ? x : y, a > b ? x : y */
VEC_INLINE vf v_if_ge(vf a, vf b, vf x, vf y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GE_OQ), y, x);
}
VEC_INLINE vf v_if_gt(vf a, vf b, vf x, vf y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), y, x);
}
VEC_INLINE vf v_sign_of(vf magnitude, vf sign) {
    const __m512 bit = _mm512_set1_ps(-0.0f);
    return _mm512_or_ps(_mm512_andnot_ps(bit, magnitude), _mm512_and_ps(bit, sign));
}
VEC_INLINE double v_sum(vf v) {
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(v)),
            high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
    return _mm512_reduce_add_pd(_mm512_add_pd(low, high));
}
VEC_INLINE float v_max_of(vf v) { return _mm512_reduce_max_ps(v); }
VEC_INLINE vi vi_set(uint32_t x) { return _mm512_set1_epi32((int)x); }
VEC_INLINE vi vi_load(const uint32_t *p) { return _mm512_loadu_si512(p); }
VEC_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
VEC_INLINE vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
/* Computes the 64-bit products a*b of each lane, as high and low words. */
VEC_INLINE void vi_mul(vi a, vi b, vi *high, vi *low) {
    vi even = _mm512_mul_epu32(a, b), odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), b);
    *high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
    *low = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}
VEC_INLINE vf vi_uniform(vi word) {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_srli_epi32(word, 8)), v_set(0x1p-24f));
}
VEC_INLINE vi vi_low_product(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
VEC_INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
VEC_INLINE vi v_bits(vf a) { return _mm512_castps_si512(a); }
/* Numbers of the upper 16 of 32 bits, such as bf16; the lower bits are 0, or are dropped. */
VEC_INLINE vf v_load_upper_n(const uint16_t *p, unsigned n) {
    __m256i half = n == VEC_W ? _mm256_loadu_si256((const __m256i *)p)
                              : _mm256_maskz_loadu_epi16(v_first(n), p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
VEC_INLINE void v_store_upper_n(uint16_t *p, vi bits, unsigned n) {
    __m256i half = _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
    if (n == VEC_W) _mm256_storeu_si256((__m256i *)p, half);
    else _mm256_mask_storeu_epi16(p, v_first(n), half);
}
VEC_INLINE vi vi_low32(vi a, vi b) { return _mm512_unpacklo_epi32(a, b); }
VEC_INLINE vi vi_high32(vi a, vi b) { return _mm512_unpackhi_epi32(a, b); }
VEC_INLINE vi vi_low64(vi a, vi b) { return _mm512_unpacklo_epi64(a, b); }
VEC_INLINE vi vi_high64(vi a, vi b) { return _mm512_unpackhi_epi64(a, b); }
VEC_INLINE void v_store_halves(float *low, float *high, vf v) {
    _mm256_storeu_ps(low, _mm512_castps512_ps256(v));
    _mm256_storeu_ps(high, _mm512_extractf32x8_ps(v, 1));
}
/* Transposes: lane j of row[i] becomes lane i of row[j]. */
VEC_INLINE void v_transpose(vf row[VEC_W]) {
    vf t[VEC_W];
    VEC_UNROLL for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps(row[2 * i], row[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(row[2 * i], row[2 * i + 1]);
    }
    VEC_UNROLL for (int i = 0; i < 16; i += 4) {
        VEC_UNROLL for (int k = 0; k < 2; k++) {
            __m512d low = (__m512d)t[i + k], high = (__m512d)t[i + k + 2];
            row[i + 2 * k] = (vf)_mm512_unpacklo_pd(low, high);
            row[i + 2 * k + 1] = (vf)_mm512_unpackhi_pd(low, high);
        }
    }
    VEC_UNROLL for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(row[i], row[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(row[i], row[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(row[i + 8], row[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(row[i + 8], row[i + 12], 0xdd);
    }
    VEC_UNROLL for (int i = 0; i < 8; i++) {
        row[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        row[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    }
}

#elif defined(VEC_AVX2)
enum { VEC_W = 8 };
typedef __m256 vf;
typedef __m256i vi;
VEC_INLINE vf v_set(float x) { return _mm256_set1_ps(x); }
VEC_INLINE vf v_load(const float *p) { return _mm256_loadu_ps(p); }
VEC_INLINE void v_store(float *p, vf v) { _mm256_storeu_ps(p, v); }
VEC_INLINE void v_stream(float *p, vf v) { _mm256_stream_ps(p, v); } /* p: aligned */
VEC_INLINE __m256i v_first(unsigned n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
VEC_INLINE vf v_load_n(const float *p, unsigned n) {
    if (n == VEC_W) return v_load(p);
    return _mm256_maskload_ps(p, v_first(n));
}
VEC_INLINE void v_store_n(float *p, vf v, unsigned n) {
    if (n == VEC_W) v_store(p, v);
    else _mm256_maskstore_ps(p, v_first(n), v);
}
VEC_INLINE vf v_keep_n(vf v, float other, unsigned n) {
    if (n == VEC_W) return v;
    return _mm256_blendv_ps(v_set(other), v, _mm256_castsi256_ps(v_first(n)));
}
VEC_INLINE vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
VEC_INLINE vf v_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
VEC_INLINE vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
VEC_INLINE vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
VEC_INLINE vf v_sqrt(vf a) { return _mm256_sqrt_ps(a); }
VEC_INLINE vf v_abs(vf a) { return _mm256_andnot_ps(v_set(-0.0f), a); }
VEC_INLINE vf v_round(vf a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* 2^n is applied as two factors, so that the result may be subnormal or infinite; |n| <= 250. */
VEC_INLINE vf v_scale(vf a, vf n) {
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1),
            bias = _mm256_set1_epi32(127);
    __m256i rest = _mm256_sub_epi32(whole, half);
    vf x = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    vf y = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    return a * x * y;
}
VEC_INLINE vf v_if_ge(vf a, vf b, vf x, vf y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_GE_OQ));
}
VEC_INLINE vf v_if_gt(vf a, vf b, vf x, vf y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}
VEC_INLINE vf v_sign_of(vf magnitude, vf sign) {
    const vf bit = v_set(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(bit, magnitude), _mm256_and_ps(bit, sign));
}
VEC_INLINE double v_sum(vf v) {
    __m256d x = _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(v)),
                              _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
    __m128d y = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(y) + _mm_cvtsd_f64(_mm_unpackhi_pd(y, y));
}
VEC_INLINE float v_max_of(vf v) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}
VEC_INLINE vi vi_set(uint32_t x) { return _mm256_set1_epi32((int)x); }
VEC_INLINE vi vi_load(const uint32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
VEC_INLINE vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
VEC_INLINE vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
VEC_INLINE void vi_mul(vi a, vi b, vi *high, vi *low) {
    vi even = _mm256_mul_epu32(a, b), odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
VEC_INLINE vf vi_uniform(vi word) {
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(word, 8)), v_set(0x1p-24f));
}
VEC_INLINE vi vi_low_product(vi a, vi b) { return _mm256_mullo_epi32(a, b); }
VEC_INLINE vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
VEC_INLINE vi v_bits(vf a) { return _mm256_castps_si256(a); }
VEC_INLINE vf v_load_upper_n(const uint16_t *p, unsigned n) {
    uint16_t part[VEC_W] = {0};
    if (n != VEC_W) {
        __builtin_memcpy(part, p, n * sizeof *p);
        p = part;
    }
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
VEC_INLINE void v_store_upper_n(uint16_t *p, vi bits, unsigned n) {
    __m256i upper = _mm256_srli_epi32(bits, 16);
    __m128i half =
        _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
    uint16_t part[VEC_W];
    _mm_storeu_si128((__m128i *)(n == VEC_W ? p : part), half);
    if (n != VEC_W) __builtin_memcpy(p, part, n * sizeof *p);
}
VEC_INLINE vi vi_low32(vi a, vi b) { return _mm256_unpacklo_epi32(a, b); }
VEC_INLINE vi vi_high32(vi a, vi b) { return _mm256_unpackhi_epi32(a, b); }
VEC_INLINE vi vi_low64(vi a, vi b) { return _mm256_unpacklo_epi64(a, b); }
VEC_INLINE vi vi_high64(vi a, vi b) { return _mm256_unpackhi_epi64(a, b); }
VEC_INLINE void v_store_halves(float *low, float *high, vf v) {
    _mm_storeu_ps(low, _mm256_castps256_ps128(v));
    _mm_storeu_ps(high, _mm256_extractf128_ps(v, 1));
}
VEC_INLINE void v_transpose(vf row[VEC_W]) {
    vf t[VEC_W];
    VEC_UNROLL for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(row[2 * i], row[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(row[2 * i], row[2 * i + 1]);
    }
    VEC_UNROLL for (int i = 0; i < 8; i += 4) {
        VEC_UNROLL for (int k = 0; k < 2; k++) {
            row[i + 2 * k] = _mm256_shuffle_ps(t[i + k], t[i + k + 2], 0x44);
            row[i + 2 * k + 1] = _mm256_shuffle_ps(t[i + k], t[i + k + 2], 0xee);
        }
    }
    VEC_UNROLL for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(row[i], row[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(row[i], row[i + 4], 0x31);
    }
    VEC_UNROLL for (int i = 0; i < 8; i++) row[i] = t[i];
}
#else
#error "define VEC_AVX512 or VEC_AVX2"
#endif

typedef uint32_t vu __attribute__((vector_size(4 * VEC_W)));
VEC_INLINE vi vi_left(vi a, int n) { return (vi)((vu)a << n); }
VEC_INLINE vi vi_right(vi a, int n) { return (vi)((vu)a >> n); }
typedef int32_t vs __attribute__((vector_size(4 * VEC_W)));
/* Shifts in copies of the sign. */
VEC_INLINE vi vi_signed_right(vi a, int n) { return (vi)((vs)a >> n); }

/* vx: the element type of activations and parameters in this compilation; arithmetic is in float
 * always. Conversions round to nearest even; the conversion to bf16 treats subnormal numbers as 0.
 * x_round: the value after a store and a load. */
#if defined(VEC_BF16) || defined(VEC_F16)
#define VEC_HALF
typedef uint16_t vx;
#endif
#if defined(VEC_BF16)
VEC_INLINE vf x_widen(__m256i half) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
VEC_INLINE vf x_load(const vx *p) { return x_widen(_mm256_loadu_si256((const __m256i *)p)); }
VEC_INLINE vf x_load_n(const vx *p, unsigned n) {
    if (n == VEC_W) return x_load(p);
    return x_widen(_mm256_maskz_loadu_epi16(v_first(n), p));
}
VEC_INLINE void x_store_n(vx *p, vf v, unsigned n) {
    __m256i half = (__m256i)_mm512_cvtneps_pbh(v);
    if (n == VEC_W) _mm256_storeu_si256((__m256i *)p, half);
    else _mm256_mask_storeu_epi16(p, v_first(n), half);
}
VEC_INLINE float x_get(vx x) {
    union {
        uint32_t bits;
        float value;
    } u = {.bits = (uint32_t)x << 16};
    return u.value;
}
VEC_INLINE vf x_round(vf v) { return x_widen((__m256i)_mm512_cvtneps_pbh(v)); }
VEC_INLINE void x_put(vx *p, float value) { x_store_n(p, v_set(value), 1); }
#elif defined(VEC_F16) && defined(VEC_AVX512)
VEC_INLINE vf x_load(const vx *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
VEC_INLINE vf x_load_n(const vx *p, unsigned n) {
    if (n == VEC_W) return x_load(p);
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_first(n), p));
}
VEC_INLINE void x_store_n(vx *p, vf v, unsigned n) {
    __m256i half = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    if (n == VEC_W) _mm256_storeu_si256((__m256i *)p, half);
    else _mm256_mask_storeu_epi16(p, v_first(n), half);
}
VEC_INLINE vf x_round(vf v) {
    return _mm512_cvtph_ps(_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VEC_INLINE float x_get(vx x) {
    return _mm512_cvtss_f32(_mm512_cvtph_ps(_mm256_set1_epi16((short)x)));
}
VEC_INLINE void x_put(vx *p, float value) { x_store_n(p, v_set(value), 1); }
#elif defined(VEC_F16)
VEC_INLINE vf x_load(const vx *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
VEC_INLINE vf x_load_n(const vx *p, unsigned n) {
    if (n == VEC_W) return x_load(p);
    vx part[VEC_W] = {0};
    __builtin_memcpy(part, p, n * sizeof *p);
    return x_load(part);
}
VEC_INLINE void x_store_n(vx *p, vf v, unsigned n) {
    __m128i half = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    vx part[VEC_W];
    _mm_storeu_si128((__m128i *)(n == VEC_W ? p : part), half);
    if (n != VEC_W) __builtin_memcpy(p, part, n * sizeof *p);
}
VEC_INLINE vf x_round(vf v) {
    return _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VEC_INLINE float x_get(vx x) { return _cvtsh_ss(x); }
VEC_INLINE void x_put(vx *p, float value) {
    *p = _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#else
typedef float vx;
VEC_INLINE vf x_load(const vx *p) { return v_load(p); }
VEC_INLINE vf x_load_n(const vx *p, unsigned n) { return v_load_n(p, n); }
VEC_INLINE void x_store_n(vx *p, vf v, unsigned n) { v_store_n(p, v, n); }
VEC_INLINE vf x_round(vf v) { return v; }
VEC_INLINE float x_get(vx x) { return x; }
VEC_INLINE void x_put(vx *p, float value) { *p = value; }
#endif

/* Loads or stores elements i, i + 1, .. of an array that is fp32 if `wide`, else vx: the residual
 * stream of a 16-bit graph may be fp32 (train.residual). In hot loops `wide` is a constant. */
VEC_INLINE vf s_load_n(const void *x, uint64_t i, unsigned n, int wide) {
    return wide ? v_load_n((const float *)x + i, n) : x_load_n((const vx *)x + i, n);
}
VEC_INLINE void s_store_n(void *x, uint64_t i, vf v, unsigned n, int wide) {
    if (wide) v_store_n((float *)x + i, v, n);
    else x_store_n((vx *)x + i, v, n);
}
/* Calls f(.., a) or f(.., a, b) with a and b, which are 0 or 1, as compile-time constants. */
#ifdef VEC_HALF
#define VEC_FORM(f, a, ...)                                                                        \
    do {                                                                                           \
        if (a) f(__VA_ARGS__, 1);                                                                  \
        else f(__VA_ARGS__, 0);                                                                    \
    } while (0)
#define VEC_FORMS(f, a, b, ...)                                                                    \
    do {                                                                                           \
        if (a) VEC_FORM(f, b, __VA_ARGS__, 1);                                                     \
        else VEC_FORM(f, b, __VA_ARGS__, 0);                                                       \
    } while (0)
#else
#define VEC_FORM(f, a, ...) f(__VA_ARGS__, 0)
#define VEC_FORMS(f, a, b, ...) f(__VA_ARGS__, 0, 0)
#endif

/* for (i, n): i steps by one vector over `count` elements; n lanes are valid, fewer than VEC_W only
 * in the last iteration. The body is expanded twice, so that full vectors need no masks. */
#define VEC_EACH(i, n, count, ...)                                                                 \
    do {                                                                                           \
        uint64_t i = 0, vec_count_ = (count);                                                      \
        for (; i + VEC_W <= vec_count_; i += VEC_W) {                                              \
            enum { n = VEC_W };                                                                    \
            __VA_ARGS__                                                                            \
        }                                                                                          \
        if (i < vec_count_) {                                                                      \
            unsigned n = (unsigned)(vec_count_ - i);                                               \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)

/* exp with an error of about 1 ulp: x = n ln2 + r, |r| <= ln2/2 (Cephes' polynomial). NaN stays
 * NaN; below about -104 the result is 0. */
VEC_INLINE vf v_exp(vf x) {
    x = v_min(v_set(89.0f), v_max(v_set(-105.0f), x));
    vf n = v_round(x * v_set(1.44269504088896341f));
    vf r = v_fnma(n, v_set(0.693359375f), x);
    r = v_fnma(n, v_set(-2.12194440e-4f), r);
    vf p = v_fma(v_set(1.9875691500e-4f), r, v_set(1.3981999507e-3f));
    p = v_fma(p, r, v_set(8.3334519073e-3f));
    p = v_fma(p, r, v_set(4.1665795894e-2f));
    p = v_fma(p, r, v_set(1.6666665459e-1f));
    p = v_fma(p, r, v_set(5.0000001201e-1f));
    p = v_fma(p, r * r, r) + v_set(1.0f);
    return v_scale(p, n);
}

/* erf with an error of about 1 ulp (two polynomials, N. Juffa). */
VEC_INLINE vf v_erf(vf a) {
    vf t = v_abs(a), s = a * a;
    vf u = v_fma(v_set(-3.88396438e-3f), t, v_set(2.42546219e-2f));
    vf far = v_fma(v_set(-1.72853470e-5f), t, v_set(3.83197126e-4f));
    far = v_fma(far, s, u);
    far = v_fma(far, t, v_set(-1.06777877e-1f));
    far = v_fma(far, t, v_set(-6.34846687e-1f));
    far = v_fma(far, t, v_set(-1.28717512e-1f));
    far = v_fma(far, t, v_set(0.0f) - t);
    far = v_sign_of(v_set(1.0f) - v_exp(far), a);
    vf near = v_fma(v_set(-5.96761703e-4f), s, v_set(4.99119423e-3f));
    near = v_fma(near, s, v_set(-2.67681349e-2f));
    near = v_fma(near, s, v_set(1.12819925e-1f));
    near = v_fma(near, s, v_set(-3.76125336e-1f));
    near = v_fma(near, s, v_set(1.28379166e-1f));
    near = v_fma(near, a, a);
    return v_if_gt(t, v_set(0.927734375f), far, near);
}
#endif

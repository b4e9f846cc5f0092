/* One block of a codec (base/codec.h): what every instruction set computes alike. */
#ifndef PST_KERNELS_CODEC_H
#define PST_KERNELS_CODEC_H
#include "base/codec.h"
#include <stdint.h>
#include <string.h>

/* Below this a scale could be subnormal; such a block is sent as zeros, and all of it stays in the
 * residual. */
#define PST_CODEC_TINY 0x1p-100f

typedef struct {
    float scale, inverse; /* inverse 0: all whole numbers are 0 */
} pst_codec_scale;

/* top: the largest magnitude of the block as bits, of which a NaN is larger than infinity. Then the
 * scale is not finite, nor are the unpacked numbers. */
static inline pst_codec_scale pst_codec_scale_of(pst_codec_kind kind, uint32_t top) {
    const float most = (float)pst_codec_most(kind);
    pst_codec_scale s = {0, 0};
    float magnitude;
    memcpy(&magnitude, &top, sizeof magnitude);
    if (top >= 0x7f800000) {
        const uint32_t nan = 0x7fc00000;
        memcpy(&s.scale, &nan, sizeof nan);
    } else if (magnitude >= PST_CODEC_TINY) {
        s.scale = magnitude / most;
        s.inverse = most / magnitude;
    }
    return s;
}

/* fp32 to bf16 and back as pst_bf16_from_f32, but in line. */
static inline uint16_t pst_codec_to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}
static inline float pst_codec_from_bf16(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* A block of n numbers; next, out: as members of pst_flat_pack, NULL: not wanted. */
static inline void pst_codec_pack_bf16(const float *x, uint64_t n, uint8_t *to, float *next,
                                       float *out) {
    for (uint64_t i = 0; i < n; i++) {
        const uint16_t half = pst_codec_to_bf16(x[i]);
        const float unpacked = pst_codec_from_bf16(half);
        memcpy(to + 2 * i, &half, sizeof half);
        if (next) next[i] = x[i] - unpacked;
        if (out) out[i] = unpacked;
    }
}
static inline void pst_codec_unpack_bf16(const uint8_t *from, uint64_t n, float *y, int add) {
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, from + 2 * i, sizeof half);
        const float unpacked = pst_codec_from_bf16(half);
        y[i] = add ? y[i] + unpacked : unpacked;
    }
}

/* Whole numbers from -7 to 7 to half bytes, and back. */
static inline void pst_codec_put_nibbles(const int8_t *number, uint8_t *to, uint64_t n) {
    const uint64_t half = (n + 1) / 2;
    for (uint64_t i = 0; i < n / 2; i++)
        to[i] = (uint8_t)((number[i] & 15) | (number[half + i] & 15) << 4);
    if (n % 2) to[half - 1] = (uint8_t)(number[half - 1] & 15);
}
static inline void pst_codec_take_nibbles(const uint8_t *from, int8_t *number, uint64_t n) {
    const uint64_t half = (n + 1) / 2;
    for (uint64_t i = 0; i < half; i++) number[i] = (int8_t)(((from[i] & 15) ^ 8) - 8);
    for (uint64_t i = 0; i < n / 2; i++) number[half + i] = (int8_t)(((from[i] >> 4) ^ 8) - 8);
}
#endif

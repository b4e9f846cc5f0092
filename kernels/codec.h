/* One block of a codec (base/codec.h): what every instruction set computes alike. */
#ifndef PST_KERNELS_CODEC_H
#define PST_KERNELS_CODEC_H
#include "base/codec.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Below this a scale could be subnormal; such a block is sent as zeros, and all of it stays in the
 * residual. */
#define PST_CODEC_TINY 0x1p-100f

typedef struct {
    float scale, inverse; /* inverse 0: all whole numbers are 0 */
    float limit;          /* 2bit: the smallest magnitude that becomes `scale` */
} pst_codec_scale;

/* top: the largest magnitude of the block as bits, of which a NaN is larger than infinity. Then the
 * scale is not finite, nor are the unpacked numbers. */
static inline pst_codec_scale pst_codec_scale_of(pst_codec_kind kind, uint32_t top) {
    const float most = (float)pst_codec_most(kind);
    pst_codec_scale s = {0, 0, 0};
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

/* --- 2bit ------------------------------------------------------------------------------------- */

/* The magnitudes of a block are added in PST_CODEC_LANES sums, element i in sum i mod
 * PST_CODEC_LANES, which are then added in a tree. */
enum { PST_CODEC_LANES = 16 };
static inline float pst_codec_tree(float sum[PST_CODEC_LANES]) {
    for (int width = PST_CODEC_LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++) sum[i] += sum[i + width];
    return sum[0];
}

/* The scale of a block of 2bit; inverse 1, or 0: all numbers are 0. top: as above; value: what the
 * block's own threshold makes of large numbers; by: the scale of the numbers. */
static inline pst_codec_scale pst_codec_ternary_of(pst_codec codec, uint32_t top, float value,
                                                   float by) {
    pst_codec_scale s = {value, 1, value / 2};
    if (codec.threshold > 0) s.scale = s.limit = codec.threshold * by;
    if (top >= 0x7f800000 || !(s.scale < INFINITY)) s = (pst_codec_scale){NAN, 0, 0};
    else if (s.scale < PST_CODEC_TINY) s = (pst_codec_scale){0, 0, 0};
    return s;
}

/* --- topk ------------------------------------------------------------------------------------- */

/* A block sends the elements with magnitudes (as bits) above `at`, and the first `ties` that are
 * equal to it. */
typedef struct {
    uint32_t at;
    uint64_t ties;
} pst_codec_pick;
/* The number of magnitudes of at least `least`. */
typedef uint64_t (*pst_codec_count_fn)(const float *x, uint64_t n, uint32_t least);

/* Where the k-th magnitude is: at least k numbers have one of `low` or more, `above` < k numbers
 * one of `high` or more. */
typedef struct {
    uint32_t low, high;
    uint64_t above;
} pst_codec_bracket;

/* Picks k <= n of the numbers, by bisection, which ends when one threshold gives exactly k. Most
 * blocks have their k-th magnitude within a factor of 16 of the largest one. */
static inline pst_codec_pick pst_codec_choose(const float *x, uint64_t n, uint64_t k,
                                              pst_codec_bracket in, pst_codec_count_fn count) {
    uint32_t low = in.low, high = in.high;
    uint64_t above = in.above;
    uint32_t middle = low + (high - low) / 2;
    if (!low && high > 4u << 23) middle = high - (4u << 23);
    while (high - low > 1) {
        const uint64_t found = count(x, n, middle);
        if (found == k) return (pst_codec_pick){middle, n};
        if (found > k) {
            low = middle;
        } else {
            high = middle;
            above = found;
        }
        middle = low + (high - low) / 2;
    }
    return (pst_codec_pick){low, k - above};
}

static inline uint32_t pst_codec_magnitude(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffff;
}
/* Whether an element of this magnitude is sent; in the order of the elements. */
static inline int pst_codec_picks(pst_codec_pick *pick, uint32_t magnitude) {
    if (magnitude != pick->at) return magnitude > pick->at;
    return pick->ties && pick->ties--;
}
/* Element `index` of a block, x[index], is sent as number `nth` of k. next, out: as in
 * pst_codec_pack_bf16. */
typedef struct {
    const float *x; /* may be `next` */
    uint8_t *to;
    uint64_t k;
    float *next, *out;
} pst_codec_sending;
static inline void pst_codec_send(const pst_codec_sending *s, uint64_t nth, uint64_t index) {
    const uint16_t at = (uint16_t)index;
    memcpy(s->to + nth * sizeof at, &at, sizeof at);
    memcpy(s->to + s->k * sizeof at + nth * sizeof(float), s->x + index, sizeof(float));
    if (s->next) s->next[index] = s->x[index] - s->x[index];
    if (s->out) s->out[index] = s->x[index];
}
/* What is left of a block, and what the receiver unpacks, before anything is sent. */
static inline void pst_codec_send_none(const pst_codec_sending *s, uint64_t n) {
    if (s->next && s->next != s->x) memcpy(s->next, s->x, n * sizeof *s->x);
    if (s->out) memset(s->out, 0, n * sizeof *s->x);
}
static inline void pst_codec_unpack_topk(pst_codec codec, const uint8_t *from, uint64_t n, float *y,
                                         int add) {
    const uint64_t k = pst_codec_kept(codec, n);
    if (!add) memset(y, 0, n * sizeof *y);
    for (uint64_t nth = 0; nth < k; nth++) {
        uint16_t at;
        float value;
        memcpy(&at, from + nth * sizeof at, sizeof at);
        memcpy(&value, from + k * sizeof at + nth * sizeof value, sizeof value);
        if (at < n) y[at] = add ? y[at] + value : value;
    }
}

/* --- bf16 ------------------------------------------------------------------------------------- */

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

/* --- whole numbers ---------------------------------------------------------------------------- */

/* Whole numbers of `bits` bits (4: from -7 to 7; 2: from -1 to 1) to bytes, and back: byte i has
 * numbers i, i + part, i + 2 * part, ..., where `part` is the number of bytes. Eight bytes at a
 * time where whole words are there. */
static inline uint64_t pst_codec_word(const void *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}
static inline void pst_codec_put_bits(unsigned bits, const int8_t *number, uint8_t *to,
                                      uint64_t n) {
    const uint64_t in_byte = 8 / bits, part = (n + in_byte - 1) / in_byte;
    const uint64_t low = UINT64_C(0x0101010101010101) * ((1u << bits) - 1);
    uint64_t i = 0;
    for (; n == in_byte * part && i + 8 <= part; i += 8) {
        uint64_t word = 0;
        for (unsigned k = 0; k < in_byte; k++)
            word |= (pst_codec_word(number + k * part + i) & low) << bits * k;
        memcpy(to + i, &word, sizeof word);
    }
    for (; i < part; i++) {
        unsigned byte = 0;
        for (unsigned k = 0; k < in_byte && k * part + i < n; k++)
            byte |= ((unsigned)number[k * part + i] & ((1u << bits) - 1)) << bits * k;
        to[i] = (uint8_t)byte;
    }
}
static inline void pst_codec_take_bits(unsigned bits, const uint8_t *from, int8_t *number,
                                       uint64_t n) {
    const uint64_t in_byte = 8 / bits, part = (n + in_byte - 1) / in_byte;
    const uint64_t ones = UINT64_C(0x0101010101010101), low = ones * ((1u << bits) - 1);
    const unsigned sign = 1u << (bits - 1), high = 0x100 - 2 * sign;
    uint64_t i = 0;
    for (; n == in_byte * part && i + 8 <= part; i += 8) {
        const uint64_t word = pst_codec_word(from + i);
        for (unsigned k = 0; k < in_byte; k++) {
            uint64_t x = word >> bits * k & low;
            x |= (x >> (bits - 1) & ones) * high; /* negative: all higher bits */
            memcpy(number + k * part + i, &x, sizeof x);
        }
    }
    for (; i < part; i++)
        for (unsigned k = 0; k < in_byte && k * part + i < n; k++) {
            const unsigned x = (unsigned)from[i] >> bits * k & ((1u << bits) - 1);
            number[k * part + i] = (int8_t)((int)(x ^ sign) - (int)sign);
        }
}
/* The same for the codec's numbers, in a block of n; int8 has them as they are. */
static inline void pst_codec_put(pst_codec_kind kind, const int8_t *number, uint8_t *to,
                                 uint64_t n) {
    if (kind == PST_CODEC_INT4) pst_codec_put_bits(4, number, to, n);
    else if (kind == PST_CODEC_2BIT) pst_codec_put_bits(2, number, to, n);
    else memcpy(to, number, n);
}
static inline void pst_codec_take(pst_codec_kind kind, const uint8_t *from, int8_t *number,
                                  uint64_t n) {
    if (kind == PST_CODEC_INT4) pst_codec_take_bits(4, from, number, n);
    else if (kind == PST_CODEC_2BIT) pst_codec_take_bits(2, from, number, n);
    else memcpy(number, from, n);
}
#endif

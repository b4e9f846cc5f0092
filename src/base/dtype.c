/* Element types of tensors: sizes, names, and the conversions between bf16, fp16, fp8 and fp32. */
#include "base/dtype.h"
#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    uint64_t bytes;
    const char *precision; /* as a type of a graph; NULL: no graph computes in it */
} dtypes[PST_DTYPE_COUNT] = {
    [PST_F32] = {"F32", 4, "fp32"}, [PST_BF16] = {"BF16", 2, "bf16"},
    [PST_I32] = {"I32", 4, NULL},   [PST_F64] = {"F64", 8, NULL},
    [PST_F16] = {"F16", 2, "fp16"}, [PST_TF32] = {"TF32", 4, "tf32"},
    [PST_F8] = {"F8", 1, "fp8"},
};

uint64_t pst_dtype_bytes(pst_dtype dtype) {
    return (unsigned)dtype < PST_DTYPE_COUNT ? dtypes[dtype].bytes : 0;
}

const char *pst_dtype_name(pst_dtype dtype) {
    return (unsigned)dtype < PST_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

uint16_t pst_bf16_from_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); /* NaN: rounding could make it infinite */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float pst_f32_from_bf16(uint16_t value) {
    uint32_t bits = (uint32_t)value << 16;
    float out;
    memcpy(&out, &bits, 4);
    return out;
}

enum { BLOCK = 256 };

static void narrow_block(const float *from, uint16_t *to, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) to[i] = pst_bf16_from_f32(from[i]);
}

static void widen_block(const uint16_t *from, float *to, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) to[i] = pst_f32_from_bf16(from[i]);
}

/* Moves upwards in blocks: a block is read before anything is written over it, because 2 i <= 4 i,
 * and 4 i <= 2 n + 2 i. Source and destination of a block do not overlap, so compilers can
 * vectorize. */
void pst_bf16_pack(float *numbers, uint64_t n) {
    uint16_t narrow[BLOCK];
    for (uint64_t at = 0, m; at < n; at += m) {
        m = n - at < BLOCK ? n - at : BLOCK;
        narrow_block(numbers + at, narrow, m);
        memcpy((uint8_t *)numbers + 2 * at, narrow, m * sizeof *narrow);
    }
}

void pst_bf16_unpack(float *numbers, uint64_t n) {
    uint16_t narrow[BLOCK];
    for (uint64_t at = 0, m; at < n; at += m) {
        m = n - at < BLOCK ? n - at : BLOCK;
        memcpy(narrow, (const uint8_t *)numbers + 2 * (n + at), m * sizeof *narrow);
        widen_block(narrow, numbers + at, m);
    }
}

void pst_bf16_round(float *numbers, uint64_t n) {
    uint16_t narrow[BLOCK];
    for (uint64_t at = 0, m; at < n; at += m) {
        m = n - at < BLOCK ? n - at : BLOCK;
        narrow_block(numbers + at, narrow, m);
        widen_block(narrow, numbers + at, m);
    }
}

uint16_t pst_f16_from_f32(float value) {
    uint32_t bits, sign;
    memcpy(&bits, &value, 4);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x3ff));
    if (bits >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* from 65520 on */
    if (bits < 0x38800000) { /* below 2^-14: integer multiples of 2^-24 */
        float magnitude;
        memcpy(&magnitude, &bits, 4);
        magnitude += 0.5f; /* whose last place is 2^-24 */
        memcpy(&bits, &magnitude, 4);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

float pst_f32_from_f16(uint16_t value) {
    uint32_t sign = (uint32_t)(value & 0x8000) << 16, magnitude = value & 0x7fff, bits;
    float out;
    if (magnitude < 0x0400) {
        out = (float)magnitude * 0x1p-24f;
        memcpy(&bits, &out, 4);
    } else {
        bits = magnitude >= 0x7c00 ? 0x7f800000 | (magnitude & 0x3ff) << 13
                                   : (magnitude << 13) + 0x38000000;
        if (magnitude > 0x7c00) bits |= 0x400000; /* quiet */
    }
    bits |= sign;
    memcpy(&out, &bits, 4);
    return out;
}

/* Bits of fraction, exponent of the smallest normal number, code of the largest number. */
static const struct {
    int fraction, lowest;
    uint8_t largest, nan;
    float most;
} f8[] = {{3, -6, 0x7e, 0x7f, 448}, {2, -14, 0x7b, 0x7f, 57344}};

uint8_t pst_f8_from_f32(int wide, float value) {
    int exponent, w = wide != 0;
    uint8_t sign = signbit(value) ? 0x80 : 0;
    float x = fabsf(value);
    if (!isfinite(value)) return sign | f8[w].nan;
    if (x >= f8[w].most) return sign | f8[w].largest;
    if (x == 0) return sign;
    frexpf(x, &exponent); /* x < 2^exponent */
    int place = (exponent - 1 > f8[w].lowest ? exponent - 1 : f8[w].lowest) - f8[w].fraction;
    int units = (int)nearbyintf(ldexpf(x, -place)); /* in units of 2^place; exact except for the
                                                       rounding */
    return sign | (uint8_t)(units + ((place + f8[w].fraction - f8[w].lowest) << f8[w].fraction));
}

float pst_f32_from_f8(int wide, uint8_t value) {
    int w = wide != 0, magnitude = value & 0x7f, exponent = magnitude >> f8[w].fraction;
    int fraction = magnitude & ((1 << f8[w].fraction) - 1), normal = exponent > 0;
    float x = ldexpf((float)(fraction + (normal << f8[w].fraction)),
                     f8[w].lowest - f8[w].fraction + (normal ? exponent - 1 : 0));
    if (magnitude > f8[w].largest) x = w && magnitude == 0x7c ? INFINITY : NAN;
    return value & 0x80 ? -x : x;
}

const char *pst_dtype_precision(pst_dtype dtype) {
    return (unsigned)dtype < PST_DTYPE_COUNT && dtypes[dtype].precision ? dtypes[dtype].precision
                                                                        : "?";
}

pst_dtype pst_dtype_of_precision(const char *precision) {
    pst_dtype d = 0;
    while (d < PST_DTYPE_COUNT && (!dtypes[d].precision || strcmp(dtypes[d].precision, precision)))
        d++;
    return d;
}

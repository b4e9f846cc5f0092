/* Element types of tensors: sizes, names, and the conversion between bf16 and fp32. */
#include "base/dtype.h"
#include <string.h>

static const struct {
    const char *name;
    uint64_t bytes;
} dtypes[PST_DTYPE_COUNT] = {
    [PST_F32] = {"F32", 4},
    [PST_BF16] = {"BF16", 2},
    [PST_I32] = {"I32", 4},
    [PST_F64] = {"F64", 8},
};

uint64_t pst_dtype_bytes(pst_dtype dtype) { return (unsigned)dtype < PST_DTYPE_COUNT ? dtypes[dtype].bytes : 0; }

const char *pst_dtype_name(pst_dtype dtype) { return (unsigned)dtype < PST_DTYPE_COUNT ? dtypes[dtype].name : "?"; }

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

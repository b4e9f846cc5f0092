/* Element types of tensors. */
#ifndef PST_BASE_DTYPE_H
#define PST_BASE_DTYPE_H
#include <stdint.h>

typedef enum { PST_F32, PST_BF16, PST_I32, PST_F64, PST_DTYPE_COUNT } pst_dtype;

/* Bytes of one element. */
uint64_t pst_dtype_bytes(pst_dtype dtype);
/* "F32", "BF16", "I32", "F64": the names that safetensors uses. */
const char *pst_dtype_name(pst_dtype dtype);

/* bf16 <-> fp32, round to nearest even, NaN kept quiet. */
uint16_t pst_bf16_from_f32(float value);
float pst_f32_from_bf16(uint16_t value);
#endif

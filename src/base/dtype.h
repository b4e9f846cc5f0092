/* Element types of tensors, and types to which matrix products round their operands. */
#ifndef PST_BASE_DTYPE_H
#define PST_BASE_DTYPE_H
#include <stdint.h>

/* TF32 and F8 are types to which matrix products round their operands; the tensors in memory are
 * F32 and BF16, see pst_dtype_stored. TF32 has fp32's exponent and 10 bits of fraction. F8 has a
 * scale per tensor: E4M3, or E5M2 for gradients. */
typedef enum {
    PST_F32,
    PST_BF16,
    PST_I32,
    PST_F64,
    PST_F16,
    PST_TF32,
    PST_F8,
    PST_DTYPE_COUNT
} pst_dtype;

/* Bytes of one element. */
uint64_t pst_dtype_bytes(pst_dtype dtype);
/* "F32", "BF16", "I32", "F64", "F16": the names that safetensors uses. */
const char *pst_dtype_name(pst_dtype dtype);

/* bf16 <-> fp32, round to nearest even; NaN stays a quiet NaN. */
uint16_t pst_bf16_from_f32(float value);
float pst_f32_from_bf16(uint16_t value);
/* n numbers in place. pack: fp32 -> bf16 in the first half of the array's memory; unpack: bf16 in
 * the second half -> fp32 in the whole array; round: rounds each fp32 number to the nearest bf16
 * value. */
void pst_bf16_pack(float *numbers, uint64_t n);
void pst_bf16_unpack(float *numbers, uint64_t n);
void pst_bf16_round(float *numbers, uint64_t n);
/* fp16 <-> fp32, round to nearest even: values that round above 65504 become infinity; subnormal
 * numbers are kept. */
uint16_t pst_f16_from_f32(float value);
float pst_f32_from_f16(uint16_t value);
/* The same conversions for a dtype of PST_BF16 or PST_F16. */
static inline int pst_dtype_is_half(pst_dtype dtype) {
    return dtype == PST_BF16 || dtype == PST_F16;
}
static inline uint16_t pst_half_from_f32(pst_dtype dtype, float value) {
    return dtype == PST_F16 ? pst_f16_from_f32(value) : pst_bf16_from_f32(value);
}
static inline float pst_f32_from_half(pst_dtype dtype, uint16_t value) {
    return dtype == PST_F16 ? pst_f32_from_f16(value) : pst_f32_from_bf16(value);
}
/* OCP 8-bit floating point (Micikevicius et al. 2022); wide: E5M2, else E4M3. Rounds to nearest
 * even; magnitudes above the largest finite value (57344 or 448) become that value; infinity and
 * NaN become NaN. */
uint8_t pst_f8_from_f32(int wide, float value);
/* fp32 value of an F8 number. For tests. */
float pst_f32_from_f8(int wide, uint8_t value);
/* "fp32", "tf32", "bf16", "fp16", "fp8", as in train.precision; PST_DTYPE_COUNT: unknown name. */
const char *pst_dtype_precision(pst_dtype dtype);
pst_dtype pst_dtype_of_precision(const char *precision);
/* The type in which tensors are stored if matrix products round their operands to `dtype`. */
static inline pst_dtype pst_dtype_stored(pst_dtype dtype) {
    if (dtype == PST_TF32) return PST_F32;
    return dtype == PST_F8 ? PST_BF16 : dtype;
}
#endif

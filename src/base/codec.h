/* Codecs: how a gradient, or the change of a weight, is packed for a message between replicas.
 * int8 and int4 quantise numbers in blocks. A packed block is its scale (fp32), then a whole number
 * for each element: int8: one byte, from -127 to 127; int4: half a byte, from -7 to 7, the first
 * half of the block in the low halves of its bytes. The scale is the largest magnitude in the
 * block, divided by 127 or 7; a number is rounded to the nearest whole multiple of the scale (ties
 * to even). bf16 rounds each number to the nearest one of 16 bits (ties to even) and has no scales.
 */
#ifndef PST_BASE_CODEC_H
#define PST_BASE_CODEC_H
#include <stdint.h>

typedef enum {
    PST_CODEC_NONE,
    PST_CODEC_INT8,
    PST_CODEC_INT4,
    PST_CODEC_BF16,
    PST_CODEC_COUNT
} pst_codec_kind;
/* block: elements per block, a power of two from PST_CODEC_BLOCK_MIN to PST_CODEC_BLOCK_MAX. The
 * last block of an array may be shorter. */
typedef struct {
    pst_codec_kind kind;
    uint32_t block;
} pst_codec;
enum { PST_CODEC_BLOCK_MIN = 32, PST_CODEC_BLOCK_MAX = 4096 };

/* "fp32" (no codec), "int8", "int4", "bf16". */
const char *pst_codec_name(pst_codec_kind kind);
/* The codec with this name; PST_CODEC_COUNT: there is none. */
pst_codec_kind pst_codec_find(const char *name);
/* Elements per block if the run file gives none; 0 without a codec. */
uint32_t pst_codec_default_block(pst_codec_kind kind);
/* Bytes of n packed elements from the beginning of a block on; without a codec those of fp32. */
uint64_t pst_codec_bytes(pst_codec codec, uint64_t n);
/* Bytes of a block's scale, and of n elements of a block without it. */
static inline uint64_t pst_codec_scale_bytes(pst_codec_kind kind) {
    return kind == PST_CODEC_BF16 ? 0 : sizeof(float);
}
static inline uint64_t pst_codec_payload(pst_codec_kind kind, uint64_t n) {
    if (kind == PST_CODEC_BF16) return 2 * n;
    return kind == PST_CODEC_INT4 ? (n + 1) / 2 : n;
}
/* The largest whole number of a codec; of bf16, which has none: half the reciprocal of its largest
 * relative error. */
static inline int pst_codec_most(pst_codec_kind kind) {
    if (kind == PST_CODEC_BF16) return 256;
    return kind == PST_CODEC_INT4 ? 7 : 127;
}
#endif

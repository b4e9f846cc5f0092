/* Codecs: how a gradient, or the change of a weight, is packed for a message between replicas. A
 * message is a sequence of blocks:
 *
 * int8, int4: the scale (fp32), then a whole number for each element: int8: one byte, from -127 to
 *   127; int4: half a byte, from -7 to 7, the first half of the block in the low halves of its
 *   bytes. The scale is the largest magnitude in the block, divided by 127 or 7; a number is
 *   rounded to the nearest whole multiple of the scale (ties to even).
 * 2bit: a value v (fp32), then -1, 0 or 1 for each element in two bits, the first quarter of the
 *   block in the lowest bits of its bytes. With a threshold (MXNet's rule) v is the threshold; a
 *   number of at least v becomes v, one of at most -v becomes -v, the others become 0. Without one,
 *   v is the mean of the magnitudes above the block's mean magnitude, and a number becomes the
 *   nearest of -v, 0 and v.
 * topk: the elements with the largest magnitudes, of equal ones those with lower indices: their
 *   indices in the block (16 bits, ascending), then their values (fp32).
 * bf16: each number rounded to the nearest one of 16 bits (ties to even).
 * powersgd: the block as rows of a matrix M, which is about P Q^T with `rank` columns in P and Q:
 *   Q (fp32, column after column), then P (kernels/lowrank.h). With `warm` the Q of the last step,
 *   the basis, is where the next one begins. A block whose factors are less than
 *   `least` times smaller, such as one of a vector, is sent as it is. */
#ifndef PST_BASE_CODEC_H
#define PST_BASE_CODEC_H
#include <stdint.h>

typedef enum {
    PST_CODEC_NONE,
    PST_CODEC_INT8,
    PST_CODEC_INT4,
    PST_CODEC_2BIT,
    PST_CODEC_TOPK,
    PST_CODEC_BF16,
    PST_CODEC_POWERSGD,
    PST_CODEC_COUNT
} pst_codec_kind;
/* block: elements per block, a power of two from PST_CODEC_BLOCK_MIN to PST_CODEC_BLOCK_MAX; of
 * powersgd PST_CODEC_MATRIX. The last block of an array may be shorter. */
typedef struct {
    pst_codec_kind kind;
    uint32_t block;
    uint32_t keep;    /* topk: elements of a whole block that are sent, 1 to `block` */
    uint32_t moments; /* topk: 1: of steps instead of gradients (pst_flat_moments of kernel.h) */
    float threshold;  /* 2bit; 0: each block's own value */
    /* powersgd: rank of the product; columns of the matrix, and that of a message's first element
     * (pst_codec_of_rows); the least factor by which a block gets smaller */
    uint32_t rank, columns, phase;
    float least;
    uint32_t warm;       /* powersgd: 1: begins with the Q of the last step, the basis */
    uint32_t iterations; /* powersgd: power iterations, at least 1 */
} pst_codec;
enum { PST_CODEC_BLOCK_MIN = 32, PST_CODEC_BLOCK_MAX = 4096, PST_CODEC_MATRIX = 256 << 10 };

/* "fp32" (no codec), "int8", "int4", "2bit", "topk", "bf16", "powersgd". */
const char *pst_codec_name(pst_codec_kind kind);
/* The codec with this name; PST_CODEC_COUNT: there is none. */
pst_codec_kind pst_codec_find(const char *name);
/* Elements per block if the run file gives none; 0 without a codec. */
uint32_t pst_codec_default_block(pst_codec_kind kind);
/* Bytes of n packed elements from the beginning of a block on; without a codec those of fp32. */
uint64_t pst_codec_bytes(pst_codec codec, uint64_t n);
/* How many of the first n <= codec.block elements of a block topk sends. */
static inline uint64_t pst_codec_kept(pst_codec codec, uint64_t n) {
    const uint64_t kept = codec.keep * n / codec.block;
    return kept ? kept : 1;
}
/* The codec of a message that begins with element `from` of a parameter with `columns` elements per
 * row. */
static inline pst_codec pst_codec_of_rows(pst_codec codec, uint64_t columns, uint64_t from) {
    if (codec.kind != PST_CODEC_POWERSGD) return codec;
    codec.columns = (uint32_t)columns;
    codec.phase = (uint32_t)(from % columns);
    return codec;
}
/* powersgd: the rows of which n elements may have parts. */
static inline uint64_t pst_codec_rows(pst_codec codec, uint64_t n) { return n / codec.columns + 2; }
/* powersgd: whether a block of n elements is sent as factors. */
static inline int pst_codec_factors(pst_codec codec, uint64_t n) {
    const uint64_t sent = codec.rank * (pst_codec_rows(codec, n) + codec.columns);
    return (double)sent * (double)codec.least <= (double)n;
}
/* powersgd: the elements of the basis of n elements from the beginning of a block on, [block][rank]
 * [columns], of the blocks that are sent as factors; 0: none is kept. */
static inline uint64_t pst_codec_basis(pst_codec codec, uint64_t n) {
    const uint64_t rest = n % codec.block, whole = n / codec.block;
    uint64_t blocks = 0;
    if (!codec.warm) return 0;
    if (whole && pst_codec_factors(codec, codec.block)) blocks = whole;
    if (rest && pst_codec_factors(codec, rest)) blocks++;
    return blocks * codec.rank * codec.columns;
}
/* Bytes of a block of n elements. */
static inline uint64_t pst_codec_block_bytes(pst_codec codec, uint64_t n) {
    switch (codec.kind) {
    case PST_CODEC_INT8: return sizeof(float) + n;
    case PST_CODEC_INT4: return sizeof(float) + (n + 1) / 2;
    case PST_CODEC_2BIT: return sizeof(float) + (n + 3) / 4;
    case PST_CODEC_TOPK: return (sizeof(uint16_t) + sizeof(float)) * pst_codec_kept(codec, n);
    case PST_CODEC_BF16: return 2 * n;
    case PST_CODEC_POWERSGD:
        if (!pst_codec_factors(codec, n)) return n * sizeof(float);
        return codec.rank * (pst_codec_rows(codec, n) + codec.columns) * sizeof(float);
    default: return n * sizeof(float);
    }
}
/* The largest whole number of a codec, which rounds with an error of up to half the largest
 * magnitude over it; of bf16, which has none: half the reciprocal of its largest relative error. 1:
 * the error is at most the magnitude. */
static inline int pst_codec_most(pst_codec_kind kind) {
    static const int most[PST_CODEC_COUNT] = {
        [PST_CODEC_INT8] = 127, [PST_CODEC_INT4] = 7,   [PST_CODEC_2BIT] = 1,
        [PST_CODEC_TOPK] = 1,   [PST_CODEC_BF16] = 256, [PST_CODEC_POWERSGD] = 1};
    return most[kind];
}
#endif

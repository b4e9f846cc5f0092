/* See compress.h. */
#include "kv/compress.h"
#include "base/sized.h"
#include "kernels/kernel.h"
#include <math.h>
#include <string.h>

void pst_kv_compression_init(pst_kv_compression *c, const char *codec) {
    *c = (pst_kv_compression){.size = sizeof *c, .codec = codec, .threshold = 0.5, .rate = 0.01};
}

static pst_status check_numbers(const pst_kv_compression *c) {
    const double largest = 1e6;
    if (!isfinite(c->threshold) || c->threshold < 0 || c->threshold > largest)
        return pst_fail(PST_EINPUT, "compression with threshold %g; expected 0 to 1e6",
                        c->threshold);
    if (!(c->rate > 0 && c->rate <= 0.5))
        return pst_fail(PST_EINPUT,
                        "compression with rate %g; expected more than 0, and at most "
                        "0.5",
                        c->rate);
    const int64_t b = c->block;
    if (b && (b < PST_CODEC_BLOCK_MIN || b > PST_CODEC_BLOCK_MAX || (b & (b - 1))))
        return pst_fail(PST_EINPUT,
                        "compression with blocks of %lld elements; expected 0 or a power of two "
                        "from %d to %d",
                        (long long)b, PST_CODEC_BLOCK_MIN, PST_CODEC_BLOCK_MAX);
    return PST_OK;
}

static int is_known(pst_codec_kind kind) {
    return kind == PST_CODEC_INT8 || kind == PST_CODEC_INT4 || kind == PST_CODEC_2BIT ||
           kind == PST_CODEC_TOPK || kind == PST_CODEC_BF16;
}

pst_status pst_kv_codec_of(const pst_kv_compression *c, pst_codec *codec) {
    *codec = (pst_codec){.kind = PST_CODEC_NONE};
    PST_TRY(check_numbers(c));
    if (c->codec && !strcmp(c->codec, "none")) return PST_OK;
    const pst_codec_kind kind = c->codec ? pst_codec_find(c->codec) : PST_CODEC_COUNT;
    if (!is_known(kind))
        return pst_fail(PST_EINPUT,
                        "compression '%.40s': expected none, int8, int4, 2bit, topk or bf16",
                        c->codec ? c->codec : "NULL");
    codec->kind = kind;
    codec->block = c->block ? (uint32_t)c->block : pst_codec_default_block(kind);
    if (kind == PST_CODEC_2BIT) codec->threshold = (float)c->threshold;
    if (kind == PST_CODEC_TOPK) codec->keep = (uint32_t)fmax(1, round(c->rate * codec->block));
    return PST_OK;
}

int pst_kv_codec_is_valid(const pst_codec *c) {
    if (c->kind == PST_CODEC_NONE) return 1;
    const int block = c->block >= PST_CODEC_BLOCK_MIN && c->block <= PST_CODEC_BLOCK_MAX &&
                      !(c->block & (c->block - 1));
    const int keep = c->kind != PST_CODEC_TOPK || (c->keep && c->keep <= c->block);
    return is_known(c->kind) && block && keep;
}

void pst_kv_pack(const pst_codec *codec, const float *x, float *error, uint64_t n,
                 uint8_t *packed) {
    const pst_flat_pack of = {.x = (float *)(uintptr_t)x,
                              .error = error,
                              .scale = 1,
                              .packed = packed,
                              .next = error,
                              .n = n,
                              .codec = *codec};
    pst_flat_choose(pst_cpu_isa())->pack(NULL, &of);
}

void pst_kv_unpack(const pst_codec *codec, const uint8_t *packed, float *x, uint64_t n) {
    pst_flat_choose(pst_cpu_isa())->unpack(NULL, *codec, packed, x, n, 0);
}

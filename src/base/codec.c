/* See codec.h: names and sizes; kernels/ packs and unpacks. */
#include "base/codec.h"
#include <string.h>

static const struct {
    const char *name;
    uint32_t block;
} codecs[PST_CODEC_COUNT] = {[PST_CODEC_NONE] = {"fp32", 0},
                             [PST_CODEC_INT8] = {"int8", 256},
                             [PST_CODEC_INT4] = {"int4", 128},
                             [PST_CODEC_2BIT] = {"2bit", 256},
                             [PST_CODEC_TOPK] = {"topk", 1024},
                             [PST_CODEC_BF16] = {"bf16", 256},
                             [PST_CODEC_POWERSGD] = {"powersgd", PST_CODEC_MATRIX}};

const char *pst_codec_name(pst_codec_kind kind) {
    return (unsigned)kind < PST_CODEC_COUNT ? codecs[kind].name : "?";
}

pst_codec_kind pst_codec_find(const char *name) {
    int i = 0;
    while (i < PST_CODEC_COUNT && strcmp(codecs[i].name, name) != 0) i++;
    return (pst_codec_kind)i;
}

uint32_t pst_codec_default_block(pst_codec_kind kind) {
    return (unsigned)kind < PST_CODEC_COUNT ? codecs[kind].block : 0;
}

uint64_t pst_codec_bytes(pst_codec codec, uint64_t n) {
    if (codec.kind == PST_CODEC_NONE) return n * sizeof(float);
    const uint64_t rest = n % codec.block;
    return n / codec.block * pst_codec_block_bytes(codec, codec.block) +
           (rest ? pst_codec_block_bytes(codec, rest) : 0);
}

/* parallel.compress: which codec replicas pack gradients with, and on which stages. */
#include "prepare/prepare.h"
#include <stdlib.h>
#include <string.h>

static pst_status refuse(const pst_prepared *p, const char *key, const char *why) {
    return pst_config_at(p->config, "parallel.compress", key, pst_fail(PST_EINPUT, "%s", why));
}

pst_codec pst_prepare_codec(const pst_config *config) {
    pst_codec codec = {.kind = PST_CODEC_NONE};
    if (strcmp(config->parallel.compress.up, "none") == 0) return codec;
    codec.kind = pst_codec_find(config->parallel.compress.up);
    codec.block = (uint32_t)config->parallel.compress.block;
    if (!codec.block) codec.block = pst_codec_default_block(codec.kind);
    if (codec.kind == PST_CODEC_2BIT) codec.threshold = (float)config->parallel.compress.threshold;
    const double kept = config->parallel.compress.rate * codec.block;
    if (codec.kind == PST_CODEC_TOPK) codec.keep = kept > 1 ? (uint32_t)(kept + 0.5) : 1;
    return codec;
}

/* Keys of a codec that is not used. */
static pst_status check_keys(const pst_prepared *p, pst_codec_kind kind) {
    static const struct {
        const char *key;
        pst_codec_kind kind;
    } rows[] = {{"threshold", PST_CODEC_2BIT}, {"rate", PST_CODEC_TOPK}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (kind != rows[i].kind && pst_config_given(p->config, "parallel.compress", rows[i].key))
            return pst_config_at(
                p->config, "parallel.compress", rows[i].key,
                pst_fail(PST_EINPUT, "parallel.compress.%s is of codec %s, not of %s", rows[i].key,
                         pst_codec_name(rows[i].kind), pst_codec_name(kind)));
    return PST_OK;
}

static pst_status check(const pst_prepared *p) {
    const pst_config *c = p->config;
    const int64_t block = c->parallel.compress.block;
    if (p->plan->layout.zero == 2)
        return refuse(p, "up",
                      "parallel.compress packs the gradients of a whole step, but "
                      "parallel.zero=2 sends those of every micro-batch; use "
                      "parallel.zero=1");
    if (c->parallel.reproducible)
        return refuse(p, "up",
                      "parallel.reproducible needs parallel.compress.up none, because a codec "
                      "rounds the sum of each replica");
    if (strcmp(c->parallel.gradients, "fp32") != 0)
        return refuse(p, "up",
                      "parallel.compress.up and parallel.gradients bf16 are both formats of "
                      "gradients; use parallel.gradients=fp32");
    if (p->options.device && p->options.device->flags & PST_DEVICE_OWN_MEMORY)
        return pst_config_at(c, "parallel.compress", "up",
                             pst_fail(PST_EINPUT,
                                      "parallel.compress is supported on CPUs only; use "
                                      "parallel.compress.up=none with device %s",
                                      p->options.device->name));
    if (block && (block < PST_CODEC_BLOCK_MIN || (block & (block - 1)) != 0))
        return refuse(p, "block",
                      "parallel.compress.block: expected a power of two from 32 to 4096, or 0");
    return check_keys(p, pst_codec_find(c->parallel.compress.up));
}

/* Unknown hosts count as one. */
static uint32_t host_of(const pst_prepared *p, uint32_t rank) {
    if (p->options.host) return p->options.host[rank];
    return p->cluster ? p->cluster->device[p->device[rank]].node : 0;
}

/* Whether the replicas of a rank's part of the model are on several hosts. */
static int spans_hosts(const pst_prepared *p, uint32_t rank) {
    const pst_grid_place at = pst_grid_at(p->grid, rank);
    return host_of(p, rank) != host_of(p, pst_grid_rank(p->grid, at.stage, 0, at.tensor));
}

pst_status pst_prepare_compress(const pst_prepared *p, pst_job_spec *spec, uint8_t **packs) {
    const pst_config *c = p->config;
    const pst_codec up = pst_prepare_codec(c);
    const int all = !strcmp(c->parallel.compress.links, "all");
    *packs = NULL;
    if (up.kind == PST_CODEC_NONE || p->grid.data == spec->islands) return PST_OK;
    PST_TRY(check(p));
    if (!(*packs = calloc(p->grid.pipeline, 1))) return pst_no_memory("to prepare a run");
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (all || spans_hosts(p, r)) (*packs)[pst_grid_stage(p->grid, r)] = 1;
    spec->up = up;
    spec->min_bytes = (uint64_t)c->parallel.compress.min_bytes;
    spec->packs = *packs;
    return PST_OK;
}

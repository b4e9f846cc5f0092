/* parallel.compress: which codecs replicas pack gradients and changes of weights with, and on which
 * stages; and the codec of messages between stages. */
#include "prepare/prepare.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static pst_status refuse(const pst_prepared *p, const char *key, const char *why) {
    return pst_config_at(p->config, "parallel.compress", key, pst_fail(PST_EINPUT, "%s", why));
}

/* --- phases ----------------------------------------------------------------------------------- */

/* Of the rate of topk: stage i sends a share of 1 / 4^(i + 1), until that is no more than `rate`.
 */
static uint32_t stages(const pst_config *c) {
    double share = 0.25;
    uint32_t n = 0;
    if (strcmp(c->parallel.compress.up, "topk") != 0 || !c->parallel.compress.warmup) return 0;
    for (; share > c->parallel.compress.rate && n < PST_PHASES - 2; n++) share /= 4;
    return n;
}

/* The first step of stage i of `n`; i n: of what follows. */
static uint64_t stage_begin(const pst_config *c, uint32_t i, uint32_t n) {
    const uint64_t steps = n ? (uint64_t)c->parallel.compress.warmup : 0;
    return (uint64_t)c->parallel.compress.after + (n ? steps * i / n : 0);
}

uint32_t pst_prepare_phase(const pst_config *config, uint64_t step) {
    const uint32_t n = stages(config);
    if (step < (uint64_t)config->parallel.compress.after) return PST_PHASE_PLAIN;
    for (uint32_t i = 0; i < n; i++)
        if (step < stage_begin(config, i + 1, n)) return PST_PHASE_WARM_UP + i;
    return PST_PHASE_LAST;
}

uint32_t pst_prepare_phases(const pst_config *config, uint64_t begin[PST_PHASES]) {
    const uint32_t n = stages(config);
    uint32_t count = 0;
    for (uint32_t i = 0; i <= n; i++)
        if (stage_begin(config, i, n)) begin[count++] = stage_begin(config, i, n);
    return count;
}

/* --- codecs ----------------------------------------------------------------------------------- */

static uint32_t kept_at(double rate, uint32_t block) {
    const double kept = rate * block;
    return kept > 1 ? (uint32_t)(kept + 0.5) : 1;
}

/* parallel.compress.moments, for topk. */
static int sends_steps(const pst_config *c) {
    const char *moments = c->parallel.compress.moments;
    if (strcmp(moments, "auto") != 0) return !strcmp(moments, "replica");
    return !strcmp(c->train.optimizer, "adamw");
}

/* Of powersgd the columns are those of a square block, which is packed best, until a parameter is
 * known (pst_job_codec). */
enum { SQUARE = 512 };
static pst_codec codec_of(const pst_config *config, const char *name) {
    pst_codec codec = {.kind = PST_CODEC_NONE};
    if (strcmp(name, "none") == 0) return codec;
    codec.kind = pst_codec_find(name);
    codec.block = (uint32_t)config->parallel.compress.block;
    if (!codec.block || codec.kind == PST_CODEC_POWERSGD)
        codec.block = pst_codec_default_block(codec.kind);
    if (codec.kind == PST_CODEC_2BIT) codec.threshold = (float)config->parallel.compress.threshold;
    if (codec.kind == PST_CODEC_TOPK) {
        codec.keep = kept_at(config->parallel.compress.rate, codec.block);
        codec.moments = (uint32_t)sends_steps(config);
    }
    if (codec.kind == PST_CODEC_POWERSGD) {
        codec.rank = (uint32_t)config->parallel.compress.rank;
        codec.least = (float)config->parallel.compress.min_rate;
        codec.columns = SQUARE;
        codec.iterations = (uint32_t)config->parallel.compress.iterations;
        codec.warm = (uint32_t)!strcmp(config->parallel.compress.warm_start, "true");
    }
    return codec;
}

pst_codec pst_prepare_codec_up(const pst_config *config) {
    return codec_of(config, config->parallel.compress.up);
}

pst_codec pst_prepare_codec_down(const pst_config *config) {
    return codec_of(config, config->parallel.compress.down);
}

pst_codec pst_prepare_codec_stages(const pst_config *config) {
    return codec_of(config, config->parallel.compress.stages);
}

pst_codec pst_prepare_codec_islands(const pst_config *config) {
    return codec_of(config, config->parallel.local.compress);
}

/* --- what goes with them ---------------------------------------------------------------------- */

/* Of changes of weights, key `down`. */
static pst_status check_down(const pst_prepared *p) {
    if (p->plan->layout.zero != 1)
        return refuse(p, "down",
                      "parallel.compress.down packs weights that their owners send, but with "
                      "parallel.zero=0 every replica computes its own; use parallel.zero=1");
    if (p->graph->dtype != PST_F32)
        return refuse(p, "down",
                      "parallel.compress.down needs train.precision fp32: in 16 bits weights are "
                      "sent in 16 bits, too small for the changes of many steps");
    return PST_OK;
}

/* Of topk whose messages are steps. */
static pst_status check_moments(const pst_prepared *p) {
    const pst_config *c = p->config;
    if (strcmp(c->train.optimizer, "adamw") != 0)
        return pst_config_at(c, "parallel.compress", "moments",
                             pst_fail(PST_EINPUT,
                                      "parallel.compress.moments replica needs train.optimizer "
                                      "adamw; with %s use parallel.compress.moments=owner",
                                      c->train.optimizer));
    if (strcmp(c->train.optimizer_state, "fp32") != 0)
        return refuse(p, "moments",
                      "parallel.compress.moments replica has second moments in fp32; use "
                      "train.optimizer_state=fp32 or parallel.compress.moments=owner");
    if (p->options.twins)
        return refuse(p, "moments",
                      "parallel.compress.moments replica keeps one state of its second moments, "
                      "and elastic runs need two; use parallel.compress.moments=owner");
    if (c->parallel.compress.after)
        return refuse(p, "after",
                      "parallel.compress.after leaves replicas without second moments, which topk "
                      "needs with adamw; use parallel.compress.warmup instead, or "
                      "parallel.compress.moments=owner");
    return PST_OK;
}

/* GPUs lack kernels that select elements or approximate matrices. */
static pst_status check_device(const pst_prepared *p, const char *key, pst_codec codec) {
    const int on_host = !p->options.device || !(p->options.device->flags & PST_DEVICE_OWN_MEMORY);
    if (on_host || (codec.kind != PST_CODEC_TOPK && codec.kind != PST_CODEC_POWERSGD))
        return PST_OK;
    return pst_config_at(
        p->config, "parallel.compress", key,
        pst_fail(PST_EINPUT,
                 "parallel.compress.%s: device %s does not pack with %s; use int8, "
                 "int4, 2bit or bf16, or parallel.device=cpu",
                 key, p->options.device->name, pst_codec_name(codec.kind)));
}

/* key: "up", "down" or "stages", which is set; the codec that it names. */
static pst_status check_any(const pst_prepared *p, const char *key, pst_codec codec) {
    const pst_config *c = p->config;
    const int64_t block = c->parallel.compress.block;
    PST_TRY(check_device(p, key, codec));
    if (block && (block < PST_CODEC_BLOCK_MIN || (block & (block - 1)) != 0))
        return refuse(p, "block",
                      "parallel.compress.block: expected a power of two from 32 to 4096, or 0");
    return PST_OK;
}

/* key: "up" or "down", which is set; the codec that it names. */
static pst_status check(const pst_prepared *p, const char *key, pst_codec codec) {
    const pst_config *c = p->config;
    if (p->plan->layout.zero == 2)
        return refuse(p, key,
                      "parallel.compress packs the gradients of a whole step, but "
                      "parallel.zero=2 sends those of every micro-batch; use "
                      "parallel.zero=1");
    if (c->parallel.reproducible && !strcmp(key, "up"))
        return refuse(p, key,
                      "parallel.reproducible needs parallel.compress.up none, because a codec "
                      "rounds the sum of each replica");
    if (c->parallel.reproducible)
        return refuse(p, key,
                      "parallel.reproducible needs parallel.compress.down none, because operators "
                      "then read a rounded copy of the weights if there are several replicas");
    if (strcmp(c->parallel.gradients, "fp32") != 0)
        return pst_config_at(c, "parallel.compress", key,
                             pst_fail(PST_EINPUT,
                                      "parallel.compress.%s and parallel.gradients bf16 are both "
                                      "formats of messages between replicas; use "
                                      "parallel.gradients=fp32",
                                      key));
    return check_any(p, key, codec);
}

/* Of messages between stages. */
static pst_status check_stages(const pst_prepared *p) {
    const pst_config *c = p->config;
    if (c->parallel.reproducible || c->parallel.reproducible_tensor)
        return refuse(p, "stages",
                      "parallel.reproducible needs parallel.compress.stages none, because results "
                      "then depend on where the model is cut into stages");
    if (p->graph->dtype != PST_F32)
        return refuse(p, "stages",
                      "parallel.compress.stages needs train.precision fp32: in 16 bits activations "
                      "are sent in 16 bits");
    return check_any(p, "stages", pst_prepare_codec_stages(c));
}

uint32_t pst_prepare_host(const pst_prepared *p, uint32_t rank) {
    if (p->options.host) return p->options.host[rank];
    return p->cluster ? p->cluster->device[p->device[rank]].node : 0;
}

/* Whether the replicas of a rank's part of the model are on several hosts. */
static int spans_hosts(const pst_prepared *p, uint32_t rank) {
    const pst_grid_place at = pst_grid_at(p->grid, rank);
    return pst_prepare_host(p, rank) !=
           pst_prepare_host(p, pst_grid_rank(p->grid, at.stage, 0, at.tensor));
}

pst_status pst_prepare_compress(const pst_prepared *p, pst_job_spec *spec, uint8_t **packs) {
    const pst_config *c = p->config;
    const pst_codec up = pst_prepare_codec_up(c), down = pst_prepare_codec_down(c);
    const int all = !strcmp(c->parallel.compress.links, "all");
    *packs = NULL;
    if ((up.kind == PST_CODEC_NONE && down.kind == PST_CODEC_NONE) || p->grid.data == 1)
        return PST_OK;
    if (p->grid.data == spec->islands) return PST_OK;
    if (up.kind != PST_CODEC_NONE) PST_TRY(check(p, "up", up));
    if (up.moments) PST_TRY(check_moments(p));
    if (down.kind != PST_CODEC_NONE) PST_TRY(check(p, "down", down));
    if (down.kind != PST_CODEC_NONE) PST_TRY(check_down(p));
    if (!(*packs = calloc(p->grid.pipeline, 1))) return pst_no_memory("to prepare a run");
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (all || spans_hosts(p, r)) (*packs)[pst_grid_stage(p->grid, r)] = 1;
    spec->up = up;
    if (p->options.phase >= PST_PHASE_WARM_UP)
        spec->up.keep = kept_at(pow(0.25, 1 + p->options.phase - PST_PHASE_WARM_UP), up.block);
    spec->down = down;
    spec->plain = p->options.phase == PST_PHASE_PLAIN;
    spec->min_bytes = (uint64_t)c->parallel.compress.min_bytes;
    spec->packs = *packs;
    return PST_OK;
}

/* Whether two stages of a replica are on different hosts. */
static int are_apart(const pst_prepared *p, uint32_t stage, uint32_t other) {
    const pst_grid grid = p->grid;
    for (uint32_t lane = 0; lane < grid.data * grid.tensor; lane++)
        if (pst_prepare_host(p, pst_grid_in_lane(grid, stage, lane)) !=
            pst_prepare_host(p, pst_grid_in_lane(grid, other, lane)))
            return 1;
    return 0;
}

pst_status pst_prepare_packing(const pst_prepared *p, int train, pst_cut_packing *packing) {
    const pst_codec codec = pst_prepare_codec_stages(p->config);
    const uint32_t *stage = p->schedule->rank_of_chunk, n = p->schedule->n_chunk;
    const int all = !strcmp(p->config->parallel.compress.links, "all");
    *packing = (pst_cut_packing){.codec = {.kind = PST_CODEC_NONE}};
    if (codec.kind == PST_CODEC_NONE || !train || p->grid.pipeline == 1) return PST_OK;
    PST_TRY(check_stages(p));
    if (p->options.phase == PST_PHASE_PLAIN) return PST_OK;
    uint8_t *packs = calloc(n, 1);
    if (!packs) return pst_no_memory("to prepare a run");
    for (uint32_t k = 0; k + 1 < n; k++)
        packs[k] = stage[k] != stage[k + 1] && (all || are_apart(p, stage[k], stage[k + 1]));
    *packing = (pst_cut_packing){codec, packs};
    return PST_OK;
}

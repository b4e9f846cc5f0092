/* Costs of passes, exchanges and the flush: see costs.h. A CPU core shares its host's memory with
 * other cores, so the times of operations and of bytes add up; for other devices costs_device.c has
 * efficiency curves. */
#include "partition/cost/costs_parts.h"
#include "partition/cost/profile.h"
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

/* an AVX2 core, also used for kind `cpu` */
#define CPU_FLOPS 80e9
#define CPU_BYTES 8e9
/* shared memory */
const pst_cluster_link pst_costs_link = {.latency_ns = 30000, .bytes_per_s = 4e9};

int pst_costs_is_cpu(const pst_device_kind *kind) {
    return !kind || !strncmp(kind->name, "cpu", 3);
}

static int is_cpu(const pst_costs *costs) { return pst_costs_is_cpu(costs->kind); }

/* dtype: of the matrix products' factors. */
static uint64_t cpu_ns(const pst_costs *costs, pst_dtype dtype, double flops, double bytes) {
    const pst_device_kind *kind = costs->kind;
    double flops_per_s = CPU_FLOPS;
    if (kind) flops_per_s = kind->flops[kind->flops[dtype] > 0 ? dtype : PST_F32];
    return pst_costs_round((flops / flops_per_s + bytes / (kind ? kind->bytes_per_s : CPU_BYTES)) *
                           1e9);
}

/* Whether some word of the text starts with the first n characters of `what`. */
static int has_word(const char *text, const char *what, size_t n) {
    for (const char *at = text; *at; at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && !strncasecmp(at, what, n)) return 1;
    return 0;
}

int pst_costs_is_kind(const pst_device_kind *kind, const char *model) {
    if (pst_costs_is_cpu(kind)) return 0;
    for (const char *part = kind->name;; part++) {
        size_t n = strcspn(part, "-");
        if (!has_word(model, part, n)) return 0;
        part += n;
        if (!*part) return 1;
    }
}

int pst_costs_profiled(const pst_device_kind *kind, const pst_profile *profile) {
    if (!profile || !kind) return profile != NULL;
    const pst_profile_head *head = pst_profile_head_of(profile);
    return *head->device ? pst_costs_is_kind(kind, head->model) : pst_costs_is_cpu(kind);
}

static const pst_profile *profile_of(const pst_costs *costs) {
    return pst_costs_profiled(costs->kind, costs->profile) ? costs->profile : NULL;
}

uint64_t pst_costs_exchange_ns(const pst_costs *costs, pst_exchange kind, uint32_t parts,
                               uint64_t bytes) {
    const pst_cluster_link *link = costs->tensor_link ? costs->tensor_link : &pst_costs_link;
    uint64_t ns = costs->tensor_link ? 0 : pst_profile_exchange_ns(profile_of(costs), parts, bytes);
    if (ns) return ns;
    if (!is_cpu(costs))
        return pst_costs_round((double)pst_costs_ring_ns(kind, parts, link, bytes) *
                               (costs->program ? costs->program->tensor : 1));
    return link->latency_ns + (uint64_t)((double)bytes * 1e9 / link->bytes_per_s);
}

uint64_t pst_costs_exact_ns(const pst_costs *costs, pst_exchange kind, uint32_t parts,
                            uint64_t bytes) {
    return is_cpu(costs) ? 0 : pst_costs_added_ns(costs, kind, parts, bytes);
}

/* In W, which is not repeated by recomputation. */
static uint64_t shards_ns(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                          const pst_costs_work *work) {
    double elements = 0;
    if (!(costs->shard_ns > 0) || work->extra || work->pass != PST_PASS_W) return 0;
    for (uint32_t k = 0; k < node->n_param; k++)
        if (!node->use[k]) elements += (double)pst_param_elements(g->param + node->param[k]);
    return pst_costs_round(costs->shard_ns * elements);
}

static uint64_t pass_ns(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                        const pst_costs_work *work) {
    uint64_t ns =
        pst_profile_pass_ns(profile_of(costs), g, node, work->extra, work->pass, costs->busy);
    if (ns) return ns;
    pst_exchange kind = work->extra ? PST_EXCHANGE_NONE : pst_node_exchange(node, 0, work->pass);
    if (kind != PST_EXCHANGE_NONE && kind != PST_EXCHANGE_COPY)
        return pst_costs_exchange_ns(costs, kind, node->attr.parts, work->bytes);
    if (is_cpu(costs))
        return cpu_ns(costs, costs->kind ? pst_graph_factors(g) : PST_F32, (double)work->flops,
                      (double)work->bytes);
    return pst_costs_device_ns(costs, g, node, work) + shards_ns(costs, g, node, work);
}

static uint64_t corrected(const pst_costs *costs, uint64_t ns) {
    return costs->factor > 0 ? pst_costs_round((double)ns * costs->factor) : ns;
}

uint64_t pst_costs_pass_ns(const pst_costs *costs, const pst_graph *g, const pst_node *node,
                           const pst_costs_work *work) {
    return corrected(costs, pass_ns(costs, g, node, work));
}

/* A pass over `elements` that moves `bytes` per element. */
static uint64_t flush_ns(const pst_costs *costs, pst_profile_kind kind, double bytes,
                         uint64_t elements) {
    uint64_t ns = pst_profile_ns(profile_of(costs), kind, elements, costs->busy);
    if (ns) return ns;
    bytes *= (double)elements;
    return is_cpu(costs) ? cpu_ns(costs, PST_F32, 0, bytes) : pst_costs_move_ns(costs, bytes);
}

uint64_t pst_costs_norm_ns(const pst_costs *costs, uint64_t elements) {
    return corrected(costs, flush_ns(costs, PST_PROFILE_NORM, 4, elements));
}

uint64_t pst_costs_step_ns(const pst_costs *costs, uint64_t elements) {
    return corrected(costs,
                     flush_ns(costs, PST_PROFILE_STEP, pst_costs_optimizer_bytes(costs), elements));
}

/* int8 reads gradient and residual, and writes the new residual and a byte. The others: as many
 * bytes as take as long as they do (docs/layouts.md: the measured times). */
uint64_t pst_costs_pack_ns(const pst_costs *costs, pst_codec codec, uint64_t elements) {
    static const double bytes[PST_CODEC_COUNT] = {[PST_CODEC_INT8] = 13,
                                                  [PST_CODEC_INT4] = 13,
                                                  [PST_CODEC_2BIT] = 15.5,
                                                  [PST_CODEC_TOPK] = 20.5,
                                                  [PST_CODEC_BF16] = 14};
    double per_element = bytes[codec.kind];
    if (codec.kind == PST_CODEC_POWERSGD)
        per_element = 12 + (0.5 + 2.1 * codec.iterations) * codec.rank;
    if (codec.moments) per_element += 3;
    return corrected(costs, flush_ns(costs, PST_PROFILE_PACK, per_element, elements));
}

uint64_t pst_costs_reduce_ns(const pst_costs *costs, uint64_t elements) {
    /* part of the exchange */
    if (!is_cpu(costs) && pst_costs_program_is_other(costs->program)) return 0;
    return corrected(costs, flush_ns(costs, PST_PROFILE_REDUCE, 4, elements));
}

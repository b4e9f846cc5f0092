/* A memory map under construction. */
#ifndef PST_PIPELINE_MEMORY_MAP_BUILDER_H
#define PST_PIPELINE_MEMORY_MAP_BUILDER_H
#include "base/arena.h"
#include "pipeline/memory/map.h"

typedef struct {
    const pst_graph *g;
    const pst_cut *cut, *eval_cut;
    const pst_job *job, *eval;
    const pst_slots *slots;
    pst_memory_map *map;
    uint64_t end; /* offset after the last byte in use */
} pst_memory_map_builder;

/* Reserves `bytes` at the end of the arena, aligned, and returns the offset. */
static inline uint64_t pst_memory_map_take(pst_memory_map_builder *b, uint64_t bytes) {
    uint64_t at = pst_align(b->end);
    if (!bytes) return at;
    b->end = at + bytes;
    return at;
}

/* Begin and end a region at the current end of the arena. */
static inline void pst_memory_map_begin(pst_memory_map_builder *b, pst_region region) {
    b->map->start[region] = pst_align(b->end);
}

static inline void pst_memory_map_finish(pst_memory_map_builder *b, pst_region region) {
    uint64_t start = b->map->start[region];
    b->map->bytes[region] = b->end > start ? b->end - start : 0;
}

/* Returns 1 if a parameter's shards are on this rank's stage: that of its first use. */
static inline int pst_memory_map_shards(const pst_memory_map_builder *b, uint32_t p) {
    const uint32_t chunk = b->cut->use_chunk[b->cut->use_first[p]];
    return b->job->rank_of_chunk[chunk] == pst_job_stage(b->job, b->map->rank);
}
/* Return 1 if a chunk, or the chunk of a parameter's use, is on this rank. A server has none. */
static inline int pst_memory_map_has(const pst_memory_map_builder *b, uint32_t chunk) {
    return !b->map->serves && b->job->rank_of_chunk[chunk] == pst_job_stage(b->job, b->map->rank);
}
static inline int pst_memory_map_has_use(const pst_memory_map_builder *b, uint32_t p,
                                         uint32_t use) {
    return pst_memory_map_has(b, b->cut->use_chunk[b->cut->use_first[p] + use]);
}

static inline uint32_t pst_memory_map_params(const pst_memory_map_builder *b) {
    return b->g ? b->g->n_param : 0;
}
/* Returns the bytes of a weight, including the zero padding after the weight that operators
 * read. */
static inline uint64_t pst_memory_map_weight_bytes(const pst_memory_map_builder *b, uint32_t p) {
    const pst_param *param = b->g->param + p;
    return pst_param_bytes(b->g, param) + pst_param_pad_bytes(b->g, param);
}
/* Returns the bytes of an unsharded gradient accumulator (fp32). */
static inline uint64_t pst_memory_map_param_bytes(const pst_memory_map_builder *b, uint32_t p) {
    return pst_param_elements(b->g->param + p) * sizeof(float);
}

/* pipeline/memory/map_gradients.c: places all buffers of region GRAD. optim NULL: there are no
 * gradients. */
void pst_memory_map_place_gradients(pst_memory_map_builder *b, const pst_optim_row *optim);
/* Places the receive buffers of the exchange between islands, if there are any, in the current
 * region. Each holds the longest message of another island's weights. */
void pst_memory_map_place_outer_buffers(pst_memory_map_builder *b);
#endif

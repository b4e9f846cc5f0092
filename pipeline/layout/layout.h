/* A layout: which rank computes what in a training job. The search returns a layout, a run file or
 * a plan file describes one, and a run is prepared from one. A layout has no operator names, costs
 * or predictions. It owns all of its arrays. */
#ifndef PST_PIPELINE_LAYOUT_LAYOUT_H
#define PST_PIPELINE_LAYOUT_LAYOUT_H
#include "base/status.h"
#include "pipeline/layout/grid.h"
#include <stdint.h>

/* Values of F that a chunk recomputes before B instead of keeping them
 * (pipeline/compile/recompute.c). */
typedef enum {
    PST_RECOMPUTE_NONE,
    PST_RECOMPUTE_SELECTIVE,
    PST_RECOMPUTE_FULL,
    PST_RECOMPUTE_LAYERS, /* {full: N}: the first N layers, each of them before its own B */
    PST_RECOMPUTE_COUNT
} pst_recompute;
/* How a chunk recomputes: NONE, SELECTIVE or FULL, or the value of pst_recompute_of_layers. */
typedef uint32_t pst_recompute_way;
/* Maximum number of layers of {full: N}; a chunk with fewer layers than N recomputes all of them.
 * PST_RECOMPUTE_TEXT: bytes of a way as text. */
enum { PST_RECOMPUTE_MOST_LAYERS = 0xffffff, PST_RECOMPUTE_TEXT = 24 };
/* Returns the way in which the first `layers` layers are recomputed; NONE for 0. */
static inline pst_recompute_way pst_recompute_of_layers(uint32_t layers) {
    return layers ? PST_RECOMPUTE_LAYERS | layers << 8 : PST_RECOMPUTE_NONE;
}
static inline pst_recompute pst_recompute_mode(pst_recompute_way way) {
    return (pst_recompute)(way & 0xff);
}
/* Returns the number of layers of a way with mode LAYERS, else 0. */
static inline uint32_t pst_recompute_layers(pst_recompute_way way) { return way >> 8; }
/* Returns 1 if a chunk keeps more activations with a than with b, in general. */
int pst_recompute_keeps_more(pst_recompute_way a, pst_recompute_way b);
/* Writes "none", "selective", "full" or "{full: N}", and returns text. */
const char *pst_recompute_text(pst_recompute_way way, char text[PST_RECOMPUTE_TEXT]);
/* Reads what pst_recompute_text writes. EINPUT: pst_error() lists what is expected. */
pst_status pst_recompute_find(const char *text, pst_recompute_way *way);

typedef struct {
    /* number of stages, replicas, and tensor ranks (of the widest stage) */
    uint32_t pipeline, data, tensor;
    /* [pipeline + 1] as in pst_grid; NULL: all stages have the same number of tensor ranks */
    uint32_t *tensor_before;
    uint32_t servers; /* of each stage and tensor rank, as in pst_grid */
    /* 1: sequence parallelism: between operators, tensor ranks shard activations along the
     * positions */
    uint32_t sequence;
    /* ZeRO stage: replicas shard 0: nothing, 1: the optimizer state, 2: also the gradients */
    uint32_t zero;
    /* [ranks] index of the cluster's device for each rank; NULL: rank r has device r */
    uint32_t *device;
    uint32_t micro_batch; /* samples per micro-batch */
    uint32_t n_micro;     /* micro-batches per step, summed over replicas */
    uint32_t rest;        /* samples of the step's first micro-batch, which is smaller than the
                             others; 0: all are equal */
    uint32_t *micros;     /* [data] micro-batches of each replica; NULL: distributed by speed */
    char schedule[32];
    uint32_t chunks; /* chunks per stage; 0: the default of the schedule */
    uint32_t n_recompute;
    /* [n_recompute]; n_recompute is 1 (for all chunks) or the number of chunks */
    pst_recompute_way *recompute;
    /* The cut; n_chunk 0: the layout has no cut yet. An item is an operator: in the search, of the
     * whole model; in a run, of the graph of one tensor rank. */
    uint32_t n_item, n_chunk;
    uint32_t *first_item; /* [n_chunk + 1] chunk c has items [first_item[c], first_item[c + 1]) */
    /* [n_chunk] stage of each chunk; NULL: as the schedule places chunks */
    uint32_t *rank_of_chunk;
} pst_layout;

/* Creates a layout with the degrees and numbers of `like`, which has a cut, and with new arrays
 * that are all 0: device, micros, recompute (one per chunk) and first_item. The caller closes the
 * layout. ENOMEM: the layout needs no close. */
pst_status pst_layout_open(const pst_layout *like, pst_layout *layout);
/* Replaces the cut by a new one: allocates first_item, rank_of_chunk and recompute for n_chunk
 * chunks, all 0. ENOMEM. */
pst_status pst_layout_open_cut(pst_layout *layout, uint32_t n_item, uint32_t n_chunk);
/* Sets chunk[0..n_item) to the chunk of each item. */
void pst_layout_chunks(const pst_layout *layout, uint32_t *chunk);
/* Copies a layout with all arrays. The caller closes the copy. ENOMEM: the copy needs no close. */
pst_status pst_layout_copy(const pst_layout *from, pst_layout *layout);
/* Frees the arrays, but not *layout. */
void pst_layout_close(pst_layout *layout);
/* Returns the samples of a step. */
static inline uint64_t pst_layout_batch(const pst_layout *l) {
    const uint32_t less = l->rest ? l->micro_batch - l->rest : 0;
    return (uint64_t)l->n_micro * l->micro_batch - less;
}
/* Returns the number of samples of micro-batches [from, to) of a step. */
static inline uint64_t pst_layout_samples(const pst_layout *l, uint32_t from, uint32_t to) {
    const uint64_t samples = (uint64_t)(to - from) * l->micro_batch;
    return l->rest && !from && to ? samples - (l->micro_batch - l->rest) : samples;
}
/* Divides `batch` samples into micro-batches of `micro_batch`, of which the first one may be
 * smaller: sets n_micro and rest. It is the first one because replicas add gradients during the
 * last one, which then is as long for all of them. */
static inline void pst_layout_divide(pst_layout *l, uint64_t batch) {
    l->n_micro = (uint32_t)((batch + l->micro_batch - 1) / l->micro_batch);
    l->rest = (uint32_t)(batch % l->micro_batch);
}
/* Writes what follows "of N samples": ", the first of 3", or "" if all are equal; returns text. */
enum { PST_LAYOUT_REST_TEXT = 28 };
const char *pst_layout_rest_text(const pst_layout *l, char text[PST_LAYOUT_REST_TEXT]);
/* Returns the grid of the layout, which is valid as long as the layout. */
static inline pst_grid pst_layout_grid(const pst_layout *l) {
    return (pst_grid){l->pipeline, l->data, l->tensor, l->tensor_before, l->servers};
}
#endif

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
    PST_RECOMPUTE_COUNT
} pst_recompute;
/* Returns "none", "selective" or "full". */
const char *pst_recompute_name(pst_recompute recompute);
/* Finds a mode by name. EINPUT: the name is unknown; pst_error() lists the names. */
pst_status pst_recompute_find(const char *name, pst_recompute *recompute);

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
    uint32_t *micros;     /* [data] micro-batches of each replica; NULL: distributed by speed */
    char schedule[32];
    uint32_t chunks; /* chunks per stage; 0: the default of the schedule */
    uint32_t n_recompute;
    /* [n_recompute] pst_recompute; n_recompute is 1 (for all chunks) or the number of chunks */
    uint8_t *recompute;
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
/* Returns the grid of the layout, which is valid as long as the layout. */
static inline pst_grid pst_layout_grid(const pst_layout *l) {
    return (pst_grid){l->pipeline, l->data, l->tensor, l->tensor_before, l->servers};
}
#endif

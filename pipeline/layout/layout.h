/* The layout: which rank does what in a training job. The search produces one, a run file or a plan
 * file describes one, and a run is prepared from one. It is a plain value without operator names,
 * costs or predictions. It owns all of its arrays. */
#ifndef PST_PIPELINE_LAYOUT_LAYOUT_H
#define PST_PIPELINE_LAYOUT_LAYOUT_H
#include "base/status.h"
#include "pipeline/layout/grid.h"
#include <stdint.h>

/* What a chunk computes again before its B instead of keeping it since F
 * (pipeline/compile/recompute.c). */
typedef enum {
    PST_RECOMPUTE_NONE,
    PST_RECOMPUTE_SELECTIVE,
    PST_RECOMPUTE_FULL,
    PST_RECOMPUTE_COUNT
} pst_recompute;
const char *pst_recompute_name(pst_recompute recompute);
/* EINPUT lists the names. */
pst_status pst_recompute_find(const char *name, pst_recompute *recompute);

typedef struct {
    uint32_t pipeline, data, tensor; /* stages, replicas, tensor ranks (of the widest stage) */
    /* [pipeline + 1] as in pst_grid; NULL: all stages have the same number of tensor ranks */
    uint32_t *tensor_before;
    /* 1: between operators, activations are sharded along the positions among tensor ranks */
    uint32_t sequence;
    /* what is sharded among replicas: 0 nothing, 1 optimizer state, 2 gradients as well */
    uint32_t zero;
    /* [ranks] device of the cluster for each rank of the grid; NULL: rank r has device r */
    uint32_t *device;
    uint32_t micro_batch; /* samples */
    uint32_t n_micro;     /* micro-batches of a step, summed over the replicas */
    uint32_t *micros; /* [data] micro-batches of each replica; NULL: in proportion to its speed */
    char schedule[32];
    uint32_t chunks; /* chunks of each stage; 0: the schedule's default */
    uint32_t n_recompute;
    uint8_t *recompute; /* [n_recompute] pst_recompute: one for all chunks, or one per chunk */
    /* The cut; n_chunk 0: there is none yet. An item is an operator: of the whole model in the
     * search, of the graph of one rank in a run. */
    uint32_t n_item, n_chunk;
    uint32_t *first_item; /* [n_chunk + 1] chunk c has items [first_item[c], first_item[c + 1]) */
    uint32_t *rank_of_chunk; /* [n_chunk] the stage of each; NULL: the schedule's placement */
} pst_layout;

/* Copies the degrees and numbers of `like`, which has a cut. The new layout has arrays of its own,
 * all 0: devices, micro-batches, one recomputation per chunk, and chunk borders. ENOMEM, with
 * nothing to close. */
pst_status pst_layout_open(const pst_layout *like, pst_layout *layout);
/* Replaces the cut: allocates borders, stages and recomputations of n_chunk chunks, all 0. ENOMEM.
 */
pst_status pst_layout_open_cut(pst_layout *layout, uint32_t n_item, uint32_t n_chunk);
/* The chunk of each item of the cut; chunk: [n_item] */
void pst_layout_chunks(const pst_layout *layout, uint32_t *chunk);
/* Arrays are NULL where those of `from` are. ENOMEM, with nothing to close. */
pst_status pst_layout_copy(const pst_layout *from, pst_layout *layout);
/* Frees the arrays; the value itself is the caller's. */
void pst_layout_close(pst_layout *layout);
/* Valid as long as the layout is. */
static inline pst_grid pst_layout_grid(const pst_layout *l) {
    return (pst_grid){l->pipeline, l->data, l->tensor, l->tensor_before};
}
#endif

/* The layout: how a training job lies on its ranks. The search makes one, a run file or a plan file
 * says one, and a run is prepared from one. It is a plain value without operators' names, costs or
 * predictions. Its arrays, `before` and `rank_of_chunk` among them, are its own. */
#ifndef PST_PIPELINE_LAYOUT_LAYOUT_H
#define PST_PIPELINE_LAYOUT_LAYOUT_H
#include "base/status.h"
#include "pipeline/layout/grid.h"
#include <stdint.h>

/* What a chunk computes again before its B instead of keeping it from F on
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
    uint32_t pipeline, data, tensor; /* stages, replicas, tensor ranks (the most of any stage) */
    uint32_t *before;     /* [pipeline + 1] as in pst_grid where stages have different numbers of
                             tensor ranks; NULL */
    uint32_t sequence;    /* 1: tensor ranks share out positions between operators */
    uint32_t zero;        /* what replicas share out: 0 nothing, 1 optimizer states, 2
                             gradients, too */
    uint32_t *device;     /* [ranks] of the cluster, numbered as grid.h does; NULL: in order */
    uint32_t micro_batch; /* samples */
    uint32_t n_micro;     /* micro-batches of a step, all replicas together */
    uint32_t *micros;     /* [data] those of each replica; NULL: shared out by speed */
    char schedule[32];
    uint32_t chunks; /* per stage; 0: as the schedule has them */
    uint32_t n_recompute;
    uint8_t *recompute; /* [n_recompute] pst_recompute: one for all chunks, or of each */
    /* The cut; where n_chunk is 0, there is none yet. An item is an operator: of the whole model in
     * the search, of the graph of a rank in a run. */
    uint32_t n_item, n_chunk;
    uint32_t *first_item; /* [n_chunk + 1] chunk c has items [first_item[c], first_item[c + 1]) */
    uint32_t *rank_of_chunk; /* [n_chunk] the stage of each; NULL: as the schedule has them */
} pst_layout;

/* The numbers and degrees of `like`, which has a cut, with arrays of its own that are all 0:
 * devices, micro-batches, a recomputation for each chunk and borders. ENOMEM, with nothing to
 * close. */
pst_status pst_layout_open(const pst_layout *like, pst_layout *layout);
/* Room for the borders, ranks and recomputations of n_chunk chunks, all 0, instead of the cut that
 * it has. ENOMEM. */
pst_status pst_layout_open_cut(pst_layout *layout, uint32_t n_item, uint32_t n_chunk);
/* The chunk of each item of the cut; chunk: [n_item] */
void pst_layout_chunks(const pst_layout *layout, uint32_t *chunk);
/* Arrays are NULL where those of `from` are. ENOMEM, with nothing to close. */
pst_status pst_layout_copy(const pst_layout *from, pst_layout *layout);
/* Frees the arrays; the value itself is the caller's. */
void pst_layout_close(pst_layout *layout);
/* Valid as long as the layout. */
static inline pst_grid pst_layout_grid(const pst_layout *l) {
    return (pst_grid){l->pipeline, l->data, l->tensor, l->before};
}
#endif

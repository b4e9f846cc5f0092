/* Private to cut.c, recompute.c, local.c and liveness.c: the phases of building a cut. */
#ifndef PST_PIPELINE_COMPILE_CUT_PARTS_H
#define PST_PIPELINE_COMPILE_CUT_PARTS_H
#include "pipeline/compile/cut.h"

/* Properties of every tape value, computed before the chunks are built. */
typedef struct {
    uint32_t *order; /* [n_value] values as the tape writes them, data first */
    /* [n_value] first and last chunk with the value; low > high: none. Data: unused */
    uint32_t *low, *high;
    uint32_t *channel; /* [n_value] channel of the first boundary that it crosses */
    uint32_t *local;   /* [n_value] scratch: index of the value's local in the current chunk */
} pst_spread;

/* The chunk of a tape step. */
static inline uint32_t pst_cut_step_chunk(const pst_cut *cut, uint32_t step) {
    return cut->chunk_of_node[cut->tape->step[step].node];
}

/* F, B or W: the program of a tape step, fused BW counting as B. */
static inline pst_pass pst_cut_step_pass(const pst_cut *cut, uint32_t step) {
    return cut->tape->step[step].again ? PST_PASS_B : cut->tape->step[step].pass;
}

/* recompute.c. Rewrites the tape; mode: [n_chunk] pst_recompute. */
pst_status pst_cut_recompute(pst_cut *cut, const uint8_t *mode);

/* local.c. Fills order, low, high, channel and cut->n_channel. */
pst_status pst_spread_open(pst_cut *cut, pst_spread *spread);
void pst_spread_close(pst_spread *spread);
/* Fills the locals of chunk c; spread->local then holds for its values. */
pst_status pst_cut_locals(pst_cut *cut, pst_spread *spread, uint32_t c);
/* Fills the buffers of chunk c from its locals and programs: merged values, lifetimes, places. */
pst_status pst_cut_buffers(pst_cut *cut, uint32_t c);
/* Appends chunk c's classes to cut->class_ and places its SLOT buffers in them. */
pst_status pst_cut_classes(pst_cut *cut, uint32_t c);

/* liveness.c. Places the scratch buffers and kernel scratch of every program of chunk c. */
pst_status pst_cut_place_scratch(pst_cut *cut, uint32_t c);
#endif

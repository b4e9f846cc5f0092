/* The phases of building a cut. Private to cut.c, chunk_steps.c,
 * recompute.c, packed.c, rest.c, local.c and liveness.c. */
#ifndef PST_PIPELINE_COMPILE_CUT_PARTS_H
#define PST_PIPELINE_COMPILE_CUT_PARTS_H
#include "pipeline/compile/cut.h"

/* The steps of the tape by chunk: those of chunk c are step[first[c]] to step[first[c + 1] - 1], in
 * the order of the tape. */
typedef struct {
    uint32_t *first, *step;
} pst_chunk_steps;

/* Properties of the values of the tape, computed before the chunks are built. */
typedef struct {
    /* [n_value] values in the order in which the tape writes them, input data first */
    uint32_t *order;
    /* [n_value] first and last chunk that have the value; low > high: no chunk. Not used for input
     * data */
    uint32_t *low, *high;
    uint32_t *channel; /* [n_value] channel at the first chunk boundary that the value crosses */
    uint32_t *local;   /* [n_value] scratch: index of the value's local in the current chunk */
    /* the values of chunk c are value[first[c]] to value[first[c + 1] - 1], in the order of
     * `order`; of input data also some that the chunk does not read */
    uint32_t *first, *value;
    pst_chunk_steps steps;
} pst_spread;

/* Returns the chunk of a tape step. */
static inline uint32_t pst_cut_step_chunk(const pst_cut *cut, uint32_t step) {
    return cut->chunk_of_node[cut->tape->step[step].node];
}

/* Returns the pass (F, B or W) whose program gets a tape step; recomputed steps of F belong to
 * B. */
static inline pst_pass pst_cut_step_pass(const pst_cut *cut, uint32_t step) {
    return cut->tape->step[step].again ? PST_PASS_B : cut->tape->step[step].pass;
}

/* chunk_steps.c: makes the list for the current tape. The caller closes it, also after a failure.
 * ENOMEM.
 */
pst_status pst_chunk_steps_open(const pst_cut *cut, pst_chunk_steps *x);
void pst_chunk_steps_close(pst_chunk_steps *x);

/* recompute.c: adds recomputation to the tape. way: [n_chunk]; whole: as in pst_chooser. */
pst_status pst_cut_recompute(pst_cut *cut, const pst_recompute_way *way, int whole);

/* packed.c: packs values that cross the boundaries of `packing`; NULL: none. ENOMEM. */
pst_status pst_cut_pack(pst_cut *cut, const pst_cut_packing *packing);
/* Returns 1 if a value may be packed: if it has fp32 numbers which get fewer bytes, and is not an
 * output of the model, which the run reads. */
int pst_cut_may_pack(const pst_cut *cut, uint32_t value);

/* local.c: sets order, low, high and channel of *spread, and cut->n_channel. */
pst_status pst_spread_open(pst_cut *cut, pst_spread *spread);
void pst_spread_close(pst_spread *spread);
/* Builds the locals of chunk c, and sets spread->local for the values of the chunk. */
pst_status pst_cut_locals(pst_cut *cut, pst_spread *spread, uint32_t c);
/* Builds the buffers of chunk c from its locals and programs: merges values, and sets lifetimes and
 * places. */
pst_status pst_cut_buffers(pst_cut *cut, uint32_t c);
/* Appends the slot classes of chunk c to cut->class_ and places the SLOT buffers of the chunk in
 * them. */
pst_status pst_cut_classes(pst_cut *cut, uint32_t c);

/* rest.c: gives the cut of the smaller micro-batch (pst_cut.rest) the memory of this one. EINPUT:
 * they do not have the same steps and values, or a value of the smaller one needs more memory. */
pst_status pst_cut_place_rest(pst_cut *cut);
/* Returns the failure that the chunk has other steps or values in the two cuts. */
pst_status pst_cut_rest_differs(const pst_cut *cut, uint32_t chunk);

/* liveness.c: sets the offsets of scratch buffers and kernel scratch memory in all programs of
 * chunk c. */
pst_status pst_cut_place_scratch(pst_cut *cut, uint32_t c);
#endif

/* Gradients that replicas reduce before the flush. The last pass of a rank is compiled into several
 * instructions, called parts; each part is a range of steps of the pass. Between two parts are the
 * SENDs, RECVs and REDUCEs of the gradients that are complete at that point, so that communication
 * overlaps with the rest of the pass.
 *
 * A pass has parts only if no other rank waits for it: a W, or the backward pass of chunk 0. For
 * other passes a late sum would delay the whole pipeline, and the passes of earlier stages hide the
 * communication anyway. */
#ifndef PST_PIPELINE_COMPILE_EARLY_H
#define PST_PIPELINE_COMPILE_EARLY_H
#include "pipeline/compile/builder.h"

/* Each part but the last takes at least 1 / PST_PARTS of the time of the pass, so there are at most
 * PST_PARTS + 1 parts. */
enum { PST_PARTS = 32 };

struct pst_early {
    /* number of parts; 1: the pass is not divided, and all gradients are reduced in the flush */
    uint32_t n_part;
    uint32_t end[PST_PARTS + 1]; /* number of steps of the pass up to the end of each part */
    /* start of each part, and the end of the pass, in ns since the start of the pass */
    uint64_t at_ns[PST_PARTS + 2];
    uint32_t part_at[PST_PARTS + 1]; /* index of each part in the instruction list of the rank */
    /* [n_param] number of parts after which the parameter's gradient is complete; PST_NONE: the
     * gradient is reduced in the flush */
    uint32_t *ready;
    uint32_t *base; /* [n_param] number of the first piece of a parameter */
    /* [pieces] part before which the piece is reduced; PST_NONE: the piece is reduced in the
     * flush */
    uint32_t *due;
    uint32_t *relay; /* [pieces] part before which relays (pst_job.near) add an early piece */
    uint64_t *own, *pieces; /* [replicas] working memory of summary.c */
    uint32_t *at;           /* [pieces] index of the SEND or the last REDUCE of an early piece */
};

/* Chooses the parts and the early pieces of the current rank, before the rank's list is compiled.
 * ENOMEM. */
pst_status pst_early_open(pst_job_builder *b);
void pst_early_close(pst_job_builder *b);
/* Returns 1 if the last pass has parts. */
static inline int pst_early_is_on(const pst_job_builder *b) {
    return b->early && b->early->n_part > 1;
}
/* Returns 1 if a piece is reduced before the flush. */
static inline int pst_early_is_due(const pst_job_builder *b, uint32_t piece) {
    return pst_early_is_on(b) && b->early->due[piece] != PST_NONE;
}
/* Returns the instruction (a part) after which a parameter's gradient is complete; PST_NONE:
 * unknown, or the pass has no parts. */
uint32_t pst_early_finished(const pst_job_builder *b, uint32_t param);
#endif

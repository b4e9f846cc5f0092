/* Gradients that replicas exchange before the flush. The last pass of a rank is compiled into
 * several instructions, parts, each a range of its steps; between them stand the SENDs, RECVs and
 * REDUCEs of gradients that are complete by then, so that their way is hidden behind what is left
 * of the pass.
 *
 * Parts are for a pass that no other rank waits for: a W, or the backward pass of chunk 0. Where
 * another stage waits for it, a sum that is late would hold up the whole pipeline, and the exchange
 * is hidden behind the passes of earlier stages anyway. */
#ifndef PST_PIPELINE_COMPILE_EARLY_H
#define PST_PIPELINE_COMPILE_EARLY_H
#include "pipeline/compile/builder.h"

/* Parts at most: each ends after at least so much of the pass's time, but the last one. */
enum { PST_PARTS = 32 }; /* and one for the rest */

struct pst_early {
    uint32_t n_part;                 /* 1: the pass is whole, and nothing is early */
    uint32_t end[PST_PARTS + 1];     /* steps up to the end of each part */
    uint64_t at_ns[PST_PARTS + 2];   /* of the pass, before each part, and at its end */
    uint32_t part_at[PST_PARTS + 1]; /* instruction of each part */
    uint32_t *ready; /* [n_param] parts after which the gradient is there; PST_NONE: only the flush
                        knows */
    uint32_t *base;  /* [n_param] number of the first piece of a parameter */
    uint32_t *due;   /* [pieces] the part before which it is added; PST_NONE: in the flush */
    uint64_t *own, *pieces; /* [replicas] working memory of summary.c */
    uint32_t *at;           /* [pieces] of an early one, its SEND or its last REDUCE */
};

/* Of the rank at hand, whose list is empty. ENOMEM. */
pst_status pst_early_open(pst_job_builder *b);
void pst_early_close(pst_job_builder *b);
/* Whether the last pass has parts. */
static inline int pst_early_is_on(const pst_job_builder *b) {
    return b->early && b->early->n_part > 1;
}
static inline int pst_early_is_due(const pst_job_builder *b, uint32_t piece) {
    return pst_early_is_on(b) && b->early->due[piece] != PST_NONE;
}
/* The part after which a parameter's gradient is there, as instruction; PST_NONE: it is not known,
 * or the pass is whole. */
uint32_t pst_early_finished(const pst_job_builder *b, uint32_t param);
#endif

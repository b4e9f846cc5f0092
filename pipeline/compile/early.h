/* Gradients that replicas reduce before the flush. The last pass of a rank is compiled into several
 * instructions, called parts; each is a range of the steps of the pass. Between the parts are the
 * SENDs, RECVs and REDUCEs of the gradients that are complete by then, so that communication
 * overlaps the rest of the pass.
 *
 * Only a pass that no other rank waits for has parts: a W, or the backward pass of chunk 0. If
 * another stage waited for it, a late sum would delay the whole pipeline, and the passes of earlier
 * stages hide that communication anyway. */
#ifndef PST_PIPELINE_COMPILE_EARLY_H
#define PST_PIPELINE_COMPILE_EARLY_H
#include "pipeline/compile/builder.h"

/* Each part but the last takes at least 1 / PST_PARTS of the time of the pass, so that there are at
 * most PST_PARTS + 1. */
enum { PST_PARTS = 32 };

struct pst_early {
    uint32_t n_part;                 /* 1: the pass is whole, and nothing is early */
    uint32_t end[PST_PARTS + 1];     /* steps up to the end of each part */
    uint64_t at_ns[PST_PARTS + 2];   /* start of each part since the start of the pass; the end */
    uint32_t part_at[PST_PARTS + 1]; /* index of each part in the instruction list */
    uint32_t *ready; /* [n_param] number of parts after which the gradient is complete; PST_NONE: it
                        is reduced in the flush */
    uint32_t *base;  /* [n_param] number of the first piece of a parameter */
    uint32_t *due;   /* [pieces] the part before which it is reduced; PST_NONE: in the flush */
    uint64_t *own, *pieces; /* [replicas] working memory of summary.c */
    uint32_t *at;           /* [pieces] index of the SEND or the last REDUCE of an early piece */
};

/* Chooses parts and early pieces of the current rank, before its list is compiled. ENOMEM. */
pst_status pst_early_open(pst_job_builder *b);
void pst_early_close(pst_job_builder *b);
/* Whether the last pass has parts. */
static inline int pst_early_is_on(const pst_job_builder *b) {
    return b->early && b->early->n_part > 1;
}
static inline int pst_early_is_due(const pst_job_builder *b, uint32_t piece) {
    return pst_early_is_on(b) && b->early->due[piece] != PST_NONE;
}
/* The instruction (a part) after which a parameter's gradient is complete; PST_NONE: unknown, or
 * the pass has no parts. */
uint32_t pst_early_finished(const pst_job_builder *b, uint32_t param);
#endif

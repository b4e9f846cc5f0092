/* Rounds (zero 2): exchanges of the weight gradients of a micro-batch, in the midst of the
 * schedule. */
#ifndef PST_PIPELINE_COMPILE_ROUNDS_H
#define PST_PIPELINE_COMPILE_ROUNDS_H
#include "pipeline/compile/builder.h"

/* The exchanges of weight gradients on one stage, in the order in which every rank there has
 * them. */
typedef struct {
    uint32_t chunk, micro;
    /* by the pace of all replicas: when its SENDs stand, and when its RECVs and REDUCEs */
    uint32_t sent, added;
    uint32_t send, n_send; /* of the rank at hand: its SENDs, [send, send + n_send) */
} pst_round;
struct pst_rounds {
    uint32_t n;
    pst_round *round;
    uint32_t *of;       /* [n_chunk][n_micro of the job] the round of a pass */
    uint32_t *occupant; /* [n] of the rank at hand: the round that has a gradient slot */
};

/* Of all stages, when job->zero is 2; else *rounds is NULL. EINPUT when there are too many
 * messages. */
pst_status pst_rounds_open(const pst_job_spec *spec, const pst_job *job, pst_rounds **rounds);
void pst_rounds_close(pst_rounds *rounds, uint32_t n_stage);
/* Of the rank at hand: what stands before its action `i`, or behind the last one; and the gradient
 * slot of an action that was just emitted at `at`, which then waits for who had it before. */
void pst_builder_emit_rounds(pst_job_builder *b, uint32_t i);
void pst_builder_take_gradient(pst_job_builder *b, const pst_action *a, uint32_t at);
#endif

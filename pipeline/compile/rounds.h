/* Rounds (zero 2): exchanges of the weight gradients of a micro-batch, in the middle of the
 * schedule. */
#ifndef PST_PIPELINE_COMPILE_ROUNDS_H
#define PST_PIPELINE_COMPILE_ROUNDS_H
#include "pipeline/compile/builder.h"

/* The exchanges of weight gradients on one stage, in the order of the lists of all its ranks. */
typedef struct {
    uint32_t chunk, micro;
    /* time of its SENDs, and of its RECVs and REDUCEs, in the unit-time simulation of all replicas
     */
    uint32_t sent, added;
    uint32_t send, n_send; /* the SENDs of the current rank in this round: [send, send + n_send) */
} pst_round;
struct pst_rounds {
    uint32_t n;
    pst_round *round;
    uint32_t *of;       /* [n_chunk][n_micro of the job] the round of a pass */
    uint32_t *occupant; /* [n] of the current rank: the round in each gradient slot */
};

/* The rounds of all stages if job->zero is 2; else *rounds is NULL. EINPUT: there are too many
 * messages. */
pst_status pst_rounds_open(const pst_job_spec *spec, const pst_job *job, pst_rounds **rounds);
void pst_rounds_close(pst_rounds *rounds, uint32_t n_stage);
/* On the current rank: emits the rounds before its action `i`, or after the last one; chooses the
 * gradient slot of an action that was just emitted at `at`, which then waits for the slot's
 * previous round. */
void pst_builder_emit_rounds(pst_job_builder *b, uint32_t i);
void pst_builder_take_gradient(pst_job_builder *b, const pst_action *a, uint32_t at);
#endif

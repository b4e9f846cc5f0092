/* Rounds (zero 2): reductions of the weight gradients of one micro-batch over replicas, between
 * passes. */
#ifndef PST_PIPELINE_COMPILE_ROUNDS_H
#define PST_PIPELINE_COMPILE_ROUNDS_H
#include "pipeline/compile/builder.h"

/* A round: the exchange of the gradients of (chunk, micro). The rounds of a stage have the same
 * order in the lists of all ranks of the stage. */
typedef struct {
    uint32_t chunk, micro;
    /* time of the SENDs, and of the RECVs and REDUCEs, in the unit-time simulation of all
     * replicas */
    uint32_t sent, added;
    /* the SENDs of the current rank are instructions [send, send + n_send) */
    uint32_t send, n_send;
} pst_round;
/* The rounds of one stage. */
struct pst_rounds {
    uint32_t n;
    pst_round *round;
    uint32_t *of;       /* [n_chunk][n_micro of the job] index of the round of each pass */
    uint32_t *occupant; /* [n] for the current rank: index of the round in each gradient slot */
};

/* Builds the rounds of all stages, (*rounds)[grid.pipeline], if job->zero is 2; else sets *rounds
 * to NULL. The caller frees them with pst_rounds_close. EINPUT: too many messages; ENOMEM. */
pst_status pst_rounds_open(const pst_job_spec *spec, const pst_job *job, pst_rounds **rounds);
void pst_rounds_close(pst_rounds *rounds, uint32_t n_stage);
/* pst_builder_emit_rounds appends the exchanges of the current rank that precede action `i`, or
 * follow the last action. pst_builder_take_gradient chooses the gradient slot of the action that
 * was just appended as instruction `at`, and makes it wait for the previous round in the slot. */
void pst_builder_emit_rounds(pst_job_builder *b, uint32_t i);
void pst_builder_take_gradient(pst_job_builder *b, const pst_action *a, uint32_t at);
#endif

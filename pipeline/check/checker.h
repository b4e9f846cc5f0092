/* What the checker has collected about a job. */
#ifndef PST_PIPELINE_CHECK_CHECKER_H
#define PST_PIPELINE_CHECK_CHECKER_H
#include "pipeline/check/check.h"
#include "pipeline/simulate/walk.h"

typedef struct {
    uint32_t rank, index, is_end;
} pst_moment;

typedef struct {
    const pst_job *job;
    const pst_cut *const *cuts;  /* [job->grid.tensor] */
    pst_slots *const *all_slots; /* [lanes]; NULL: memory is not checked */
    pst_walk *walk;
    /* Of the current lane, see pst_checker_enter. */
    uint32_t lane, n_micro;
    const pst_cut *cut;
    const pst_slots *slots;
    uint32_t *local_first; /* [n_chunk + 1] index of the chunk's first local among all */
    /* Index in the list of the rank; PST_NONE: not there. */
    uint32_t *pass_at; /* [lanes][n_chunk][4][n_micro of the job] the last part of the pass */
    /* [lanes][all locals][n_micro of the job]; if a value has several SENDs, the last one */
    uint32_t *send_at, *recv_at;
    /* Happens-before on the current rank, see pst_checker_order. */
    uint32_t (*issue)[PST_Q_COUNT], (*end)[PST_Q_COUNT];
    /* Instructions are numbered over all ranks. */
    uint32_t *instr_first; /* [n_rank] number of the rank's first instruction */
    /* [instructions] the previous SEND of the same value in the same list, to another rank; of a
     * pass, its previous part; PST_NONE */
    uint32_t *again;
    /* Working memory of pst_checker_caused. */
    uint8_t *seen;     /* [instructions] bit 0: its issue was visited, bit 1: its end */
    pst_moment *stack; /* [2 x instructions] */
} pst_checker;

static inline uint32_t *pst_checker_pass(const pst_checker *c, uint32_t chunk, uint32_t opcode,
                                         uint32_t micro) {
    size_t lane = c->lane - pst_job_first_lane(c->job);
    return &c->pass_at[((lane * c->job->n_chunk + chunk) * 4 + opcode) * c->job->n_micro + micro];
}
static inline size_t pst_checker_cell(const pst_checker *c, uint32_t chunk, uint32_t local,
                                      uint32_t micro) {
    size_t of_lane = c->local_first[c->job->n_chunk];
    return ((c->lane - pst_job_first_lane(c->job)) * of_lane + c->local_first[chunk] + local) *
               c->job->n_micro +
           micro;
}
static inline uint32_t pst_checker_stage(const pst_checker *c, uint32_t rank) {
    return pst_job_stage(c->job, rank);
}
/* The functions below are about a rank of this lane. */
void pst_checker_enter(pst_checker *c, uint32_t lane);

/* The stage of a parameter's use. */
static inline uint32_t pst_checker_stage_of_use(const pst_checker *c, uint32_t param,
                                                uint32_t use) {
    return c->job->rank_of_chunk[c->cut->use_chunk[c->cut->use_first[param] + use]];
}
/* The caller has set job, cuts and all_slots. Close it even on failure. */
pst_status pst_checker_open(pst_checker *c);
void pst_checker_close(pst_checker *c);
/* "<a> <what> <b>": EINPUT. */
pst_status pst_checker_fail(const pst_checker *c, uint32_t rank, uint32_t a, const char *what,
                            uint32_t b);
/* "<i>: <why>": EINPUT. */
pst_status pst_checker_fail_at(const pst_checker *c, uint32_t rank, uint32_t i, const char *why);
#endif

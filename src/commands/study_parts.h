/* Private to study*.c: a simulation and the data that it owns. */
#ifndef PST_COMMANDS_STUDY_PARTS_H
#define PST_COMMANDS_STUDY_PARTS_H
#include "commands/dry_run.h"
#include "penstock/run.h"
#include "pipeline/solve/solve.h"
#include "prepare/prepare.h"

typedef struct {
    pst_schedule *schedule;
    pst_cut *cut;
    pst_job *job;
    pst_slots *slots;
    pst_config *config;        /* with a plan */
    pst_costs_program program; /* whose durations are simulated; set with a plan */
    pst_prepared *prepared;    /* set with a plan: owns what the fields above point to */
    /* lower bound of the step's duration over all orders of passes, without the flush; for `solved`
     * only orders that fit in the ranks' memory */
    uint64_t bound_ns;
    /* [n_rank] largest number of micro-batches of a stage that are between the start of F and the
     * end of W; NULL with a plan */
    double *held;
    int fits;               /* 1: the schedule fits in --memory */
    uint64_t exposed_ns[3]; /* with a plan: [pst_exposed_kind] */
} pst_study;

/* study_plan.c. Loads and prepares a plan with the changes in o. */
pst_status pst_study_plan(const pst_simulate_options *o, pst_study *s);

/* study_exposed.c. Time that messages add to a step, by kind: between stages; among replicas and
 * for the gradient norm; among tensor ranks within passes. */
typedef enum {
    PST_EXPOSED_STAGES,
    PST_EXPOSED_REPLICAS,
    PST_EXPOSED_TENSOR,
    PST_EXPOSED_COUNT
} pst_exposed_kind;
pst_status pst_study_exposed(const pst_prepared *p, uint64_t step_ns,
                             uint64_t exposed_ns[PST_EXPOSED_COUNT]);

/* study_print.c. */
/* Prints what the column "peak F to B" means and, if has_limits, "peak F to W". */
void pst_study_explain_peaks(int has_limits, FILE *out);
uint32_t pst_study_chunks(const pst_study *s); /* Chunks per rank. */
/* With train.batch_warmup: samples of the first steps; 0: all steps are as the one simulated. */
uint64_t pst_study_first_batch(const pst_study *s);
/* Peak of activations on a rank, in micro-batches of a whole stage. */
double pst_study_peak(const pst_study *s, const pst_timing *t, uint32_t rank);
double pst_study_gap(const pst_study *s, const pst_timing *t);
/* Prints the result; r NULL: nothing was run in real time. ENOMEM: `out` cannot be written. */
pst_status pst_study_text(const pst_simulate_options *o, const pst_study *s, const pst_timing *t,
                          const pst_dry_run *r, FILE *out);
pst_status pst_study_json(const pst_simulate_options *o, const pst_study *s, const pst_timing *t,
                          const pst_dry_run *r, FILE *out);
/* For --what-if: prints s, which has the changes, compared with the plan without them. */
pst_status pst_study_both(const pst_simulate_options *o, const pst_study *s, const pst_timing *t,
                          FILE *out);

/* Makes the schedule that the options name, for stages with the given durations; "solved" is
 * computed for these durations and the memory limits. */
pst_status pst_study_schedule(const pst_simulate_options *o, pst_study *s);
/* 1: the schedule has few enough passes for "solved". */
int pst_study_solves(const pst_simulate_options *o);
void pst_study_close(pst_study *s);
#endif

/* Private to study*.c: what is simulated, and who owns it. */
#ifndef PST_COMMANDS_STUDY_PARTS_H
#define PST_COMMANDS_STUDY_PARTS_H
#include "commands/rehearse.h"
#include "penstock/run.h"
#include "pipeline/solve/solve.h"
#include "prepare/prepare.h"

typedef struct {
    pst_schedule *schedule;
    pst_cut *cut;
    pst_job *job;
    pst_slots *slots;
    pst_config *config;     /* with a plan */
    pst_prepared *prepared; /* with a plan: owns what the fields above point to */
    /* no order can end earlier, flush left out; for `solved` in the memory that ranks have */
    uint64_t bound_ns;
    /* [n_rank] most micro-batches of a stage with F begun and W not done; NULL with a plan */
    double *held;
    int fits;               /* in --memory */
    uint64_t exposed_ns[3]; /* with a plan: by pst_exposed_kind */
} pst_study;

/* study_plan.c. Of a plan, prepared with the changes that o asks for. */
pst_status pst_study_plan(const pst_simulate_options *o, pst_study *s);

/* By how much a step is longer for messages between stages; for those among replicas, and of the
 * norm; for what tensor ranks exchange within passes. study_exposed.c. */
typedef enum {
    PST_EXPOSED_STAGES,
    PST_EXPOSED_REPLICAS,
    PST_EXPOSED_TENSOR,
    PST_EXPOSED_COUNT
} pst_exposed_kind;
pst_status pst_study_exposed(const pst_prepared *p, uint64_t step_ns,
                             uint64_t exposed_ns[PST_EXPOSED_COUNT]);

/* study_print.c. */
uint32_t pst_study_chunks(const pst_study *s); /* of a rank */
/* Most that a rank holds, in micro-batches of a whole stage. */
double pst_study_peak(const pst_study *s, const pst_timing *t, uint32_t rank);
double pst_study_gap(const pst_study *s, const pst_timing *t);
/* r: NULL when it was not run in real time. ENOMEM: cannot write. */
pst_status pst_study_text(const pst_simulate_options *o, const pst_study *s, const pst_timing *t,
                          const pst_rehearsal *r, FILE *out);
pst_status pst_study_json(const pst_simulate_options *o, const pst_study *s, const pst_timing *t,
                          const pst_rehearsal *r, FILE *out);
/* With --what-if: s is what came of it, beside the plan as it is. */
pst_status pst_study_both(const pst_simulate_options *o, const pst_study *s, const pst_timing *t,
                          FILE *out);

/* A schedule over synthetic stages, as the options say; "solved" is made for their durations and
 * memory. */
pst_status pst_study_schedule(const pst_simulate_options *o, pst_study *s);
/* Whether "solved" can take so many passes. */
int pst_study_solves(const pst_simulate_options *o);
void pst_study_close(pst_study *s);
#endif

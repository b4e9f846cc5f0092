/* Private to study.c and study_schedule.c: what is simulated, and who owns it. */
#ifndef PST_ENGINE_STUDY_PARTS_H
#define PST_ENGINE_STUDY_PARTS_H
#include "engine/prepare.h"
#include "penstock/run.h"
#include "pipeline/schedule_solved.h"

typedef struct {
    pst_schedule *schedule;
    pst_cut *cut;
    pst_job *job;
    pst_slots *slots;
    pst_config *config;     /* with a plan */
    pst_prepared *prepared; /* with a plan: owns what the fields above point to */
    uint64_t bound_ns;      /* no order can end earlier, flush left out; for `solved` in the memory that ranks have */
    double *held;           /* [n_rank] most micro-batches of a stage with F begun and W not done; NULL with a plan */
    int fits;               /* in --memory */
} pst_study;

/* A schedule over synthetic stages, as the options say; "solved" is made for their durations and memory. */
pst_status pst_study_schedule(const pst_simulate_options *o, pst_study *s);
/* Whether "solved" can take so many passes. */
int pst_study_solves(const pst_simulate_options *o);
void pst_study_close(pst_study *s);
#endif

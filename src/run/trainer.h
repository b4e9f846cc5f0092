/* One training run in this process: the state that its files share. */
#ifndef PST_RUN_TRAINER_H
#define PST_RUN_TRAINER_H
#include "penstock/run.h"
#include "metrics/evaluate.h"
#include "group/group.h"
#include "rank/scaler.h"
#include "metrics/prediction.h"
#include "metrics/metrics.h"

enum { PST_TRAINER_FOLDER = 768 };

typedef struct pst_saving pst_saving;

typedef struct {
    const pst_config *config;
    const pst_train_options *options;
    const pst_plan *plan; /* given to the run; NULL: none */
    pst_world *world;     /* owned here until the group takes it over */
    pst_group *group;
    pst_prepared *p;
    pst_data *data;
    pst_evaluate_sets sets;
    pst_metrics *metrics; /* NULL except in rank 0's process */
    pst_prediction *prediction;
    pst_report *report;     /* [n_rank] of the last step */
    pst_report *own_report; /* [n_local] buffer for this process' part of it */
    int proc_status;        /* descriptor of /proc/self/status, -1 if it does not exist */
    /* [n_field] a field of the data set's samples, and its data tensor */
    struct pst_feed_field *field;
    uint32_t n_field;
    /* [n_local] totals of a validation on this process' ranks, then [n_rank] of all ranks */
    struct pst_feed_total *total;
    int takes_signals; /* signals ask it to stop or to save (stop.h); not in a session */
    int stopped; /* the signal with which some rank was asked to stop, 0 none; the same on all ranks
                  */
    int stopped_in_last_step; /* asked to stop in the last step: save first, then evaluate */
    int save_requested; /* some rank was asked for a checkpoint of this step; the same on all ranks
                         */
    char folder[PST_TRAINER_FOLDER]; /* runs/NAME */
    /* the checkpoint to resume from, the same on all ranks; "" none */
    char resume[PST_TRAINER_FOLDER];
    int lock; /* rank 0's process: descriptor of the folder's lock; else -1 */
    /* a step was made; a timeline was drawn; our launcher knows how to resume */
    int trained, traced, resume_noted;
    int times_only; /* device timed: no losses, no weights, times only */
    uint64_t step;  /* optimizer steps done, including skipped ones */
    /* skipped steps, which were not finite: all, and those in a row at the end */
    uint64_t skipped, skipped_in_row;
    uint64_t skipped_before; /* value of `skipped` in the checkpoint that it resumed from */
    pst_scaler scaler;       /* loss scaler of the next step; opened by the first step, or by the
                                checkpoint */
    int overflowed; /* the last step was skipped because of an fp16 overflow, which is no failure */
    int skip_logged;          /* this process has logged its first skipped step */
    pst_culprit *culprit;     /* [n_rank] results of a replay */
    pst_culprit *own_culprit; /* [n_local] this process' part of it */
    /* loss of the last validation, NaN: none; the best so far, infinity: none */
    double validation_loss, best_loss;
    /* step of the last checkpoint written or resumed from, UINT64_MAX: none */
    uint64_t checkpointed;
    uint64_t resumed;   /* step of the checkpoint that it resumed from */
    pst_saving *saving; /* saving.c; NULL before its set-up, and if nothing is ever saved */
} pst_trainer;
#endif

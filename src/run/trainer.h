/* One training run in this process: what its files share. */
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
    const pst_plan *plan; /* given to the run; NULL: none was */
    pst_world *world;     /* until the group takes it over */
    pst_group *group;
    pst_prepared *p;
    pst_data *data;
    pst_evaluate_sets sets;
    pst_metrics *metrics; /* rank 0's process only */
    pst_prediction *prediction;
    pst_report *report; /* [n_rank] of the last step */
    pst_report *own;    /* [n_local] room for this process' part of it */
    int proc_status;    /* /proc/self/status, -1 when it is not there */
    /* [n_field] what the data set has of a sample, and where it goes */
    struct pst_feed_field *field;
    uint32_t n_field;
    /* [n_local] what the ranks here have added up in a validation, then [n_rank] of all */
    struct pst_feed_total *total;
    int takes_signals; /* signals ask it to stop or to save (stop.h); a session's does not */
    int stopped; /* the signal by which some rank was asked to stop, 0 none: all ranks know it */
    int stopped_in_last_step; /* asked to stop in the last step: saved first, then evaluated */
    int save_requested;       /* some rank was asked for a checkpoint of this step: likewise */
    char folder[PST_TRAINER_FOLDER]; /* runs/NAME */
    /* the checkpoint to go on from, the same on all ranks; "" none */
    char resume[PST_TRAINER_FOLDER];
    int lock; /* rank 0's process: descriptor of the locked folder; else -1 */
    /* a step was made, a timeline drawn, how to resume noted for our launcher */
    int trained, traced, noted;
    int study;     /* the device computes nothing: no losses, no weights, times only */
    uint64_t step; /* optimizer steps done, those that were skipped included */
    /* steps that were not finite and left the weights alone: all, the latest */
    uint64_t skipped, skipped_in_row;
    uint64_t skipped_before;  /* of skipped, in the checkpoint that it went on from */
    pst_scaler scaler;        /* of the next step; opened by the first one, or by the checkpoint */
    int overflowed;           /* the last step was skipped for it, and that is no failure */
    int said_skip;            /* the first one that this process skips is said at length */
    pst_culprit *culprit;     /* [n_rank] what a replay has found */
    pst_culprit *own_culprit; /* [n_local] this process' part of it */
    /* of the last validation, NaN without one; the best so far, infinity without one */
    double validation_loss, best_loss;
    /* step of the last checkpoint written or resumed from, UINT64_MAX none */
    uint64_t checkpointed;
    uint64_t resumed;   /* step of the checkpoint that it went on from */
    pst_saving *saving; /* saving.c; NULL before its set-up, and when nothing is ever saved */
} pst_trainer;
#endif

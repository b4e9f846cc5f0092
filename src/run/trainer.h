/* State of a training run in this process, shared by the files of this folder. */
#ifndef PST_RUN_TRAINER_H
#define PST_RUN_TRAINER_H
#include "penstock/run.h"
#include "metrics/evaluate.h"
#include "group/group.h"
#include "rank/scaler.h"
#include "metrics/prediction.h"
#include "checkpoint/checkpoint.h"
#include "metrics/metrics.h"

enum { PST_TRAINER_FOLDER = 768 };

typedef struct pst_saving pst_saving;
struct pst_elastic;
struct pst_async;

/* Why a run ends before its last step without a signal. */
typedef enum { PST_END_NONE, PST_END_TIME, PST_END_PATIENCE, PST_END_ORDER } pst_end;

/* A rank's totals of a step or validation: the sums of its losses (validation only), its number of
 * targets, and the bytes of text that these stand for (0: unknown). */
typedef struct {
    pst_loss_sums sum;
    uint64_t count, bytes;
} pst_trainer_total;

typedef struct {
    const pst_config *config;
    const pst_config *saved_config; /* what is saved instead; NULL: config */
    const pst_train_options *options;
    const pst_plan *plan; /* plan given to the run; NULL: none */
    pst_world *world;     /* owned until the group takes ownership */
    pst_group *group;
    pst_prepared *p;
    pst_data *data;
    pst_evaluate_sets sets;
    pst_metrics *metrics; /* NULL except in rank 0's process */
    pst_prediction *prediction;
    pst_report *report;     /* [n_rank] reports of the last step */
    pst_report *own_report; /* [n_local] this process's part of `report` */
    /* With islands or asynchronous updates (step.h): [n_local][PST_REPORTS] reports of this process
     * since reports were last gathered, and [n_rank][PST_REPORTS] those gathered last; n_pending:
     * steps since then; n_late: earlier ones among those gathered; gather_every: steps from one
     * gathering to the next */
    pst_report *pending_report, *gathered_report;
    uint32_t n_pending, n_late, gather_every;
    int is_late;     /* 1: `step` is one of the earlier ones */
    int proc_status; /* descriptor of /proc/self/status, -1 if it does not exist */
    /* [n_field] fields of the data set's samples, each with its data tensor */
    struct pst_feed_field *field;
    uint32_t n_field;
    struct pst_prefetch *prefetch;
    uint64_t data_wait_ns; /* how long the last step waited for its samples */
    /* [n_local + n_rank] totals of a step or validation: of this process's ranks, then (validation
     * only) of all ranks. NULL in a session. */
    pst_trainer_total *total;
    int takes_signals; /* 1: signals request to stop or save (stop.h); 0 in a session */
    /* the signal with which some rank was asked to stop; 0: none; equal on all ranks */
    int stopped;
    int stopped_in_last_step; /* 1: asked to stop during the last step: save first, then evaluate */
    pst_end end;              /* equal on all ranks */
    /* 1: the run goes on with other ranks after this step; this process has left its epoch for it;
     * both equal on all ranks */
    int changes, has_departed;
    /* monotonic clock when the run began here; the longest step, validation and checkpoint of this
     * process so far: for train.time_limit, on rank 0. Steps: [1] those after which all replicas
     * have the same weights, [0] the inner steps of islands */
    uint64_t began_ns, longest_step_ns[2], longest_validation_ns, longest_saving_ns;
    pst_metrics_times times; /* so far; total: at the end */
    /* 1: some rank was asked for a checkpoint of this step; equal on all ranks */
    int save_requested;
    char folder[PST_TRAINER_FOLDER]; /* runs/NAME */
    /* the checkpoint to resume from, equal on all ranks; "": none */
    char resume[PST_TRAINER_FOLDER];
    int lock; /* rank 0's process: descriptor of the folder's lock; else -1 */
    /* 1: a step was run; a timeline was drawn; our launcher was told how to resume */
    int trained, traced, resume_noted;
    int times_only; /* 1: device timed: the run has times, but no losses and no weights */
    uint64_t step;  /* optimizer steps done, including skipped ones */
    /* delayed updates: the last steps whose gradients are not applied yet, at most job.staleness */
    uint64_t pending;
    /* skipped (non-finite) steps: all; consecutive ones at the end */
    uint64_t skipped, skipped_in_row;
    /* value of `skipped` in the checkpoint from which the run was resumed */
    uint64_t skipped_before;
    /* train.spike: steps that were not applied, not counted in `skipped`; samples left out; spikes
     * in a row; rewinds to the checkpoint of step rewound_to; the last steps */
    uint64_t spiked, skipped_samples, spikes_in_row, rewinds, rewound_to;
    pst_ckpt_recent recent;
    /* loss scale of the next step; opened by the first step, or by reading a checkpoint */
    pst_scaler scaler;
    /* 1: the last step was skipped because of an fp16 overflow, which is not a failure */
    int overflowed;
    int skip_logged;          /* 1: this process has logged its first skipped step */
    pst_culprit *culprit;     /* [n_rank] results of a replay */
    pst_culprit *own_culprit; /* [n_local] this process's part of `culprit` */
    double validation_loss;   /* of the last validation; NaN: none */
    /* checkpoint.best: loss of the last evaluation (NaN: none); lowest so far (infinity: none);
     * evaluations since that one */
    double chosen_loss, best_loss;
    uint64_t no_better;
    /* step of the last checkpoint that was written or resumed from; UINT64_MAX: none */
    uint64_t checkpointed;
    uint64_t resumed;            /* step of the checkpoint from which the run was resumed */
    struct pst_async *async;     /* asynchronous updates (async.h), else NULL */
    struct pst_elastic *elastic; /* borrowed; NULL: the run ends when a rank dies */
    /* state of saving.c; NULL before pst_saving_open, and if the run saves no checkpoints */
    pst_saving *saving;
} pst_trainer;

/* Returns 1 if ranks take steps without all others: islands, and asynchronous updates. */
static inline int pst_trainer_is_loose(const pst_trainer *t) {
    return t->p->job->islands > 1 || t->p->job->async;
}
/* Index of the first sample of a step, from now on. */
static inline uint64_t pst_trainer_sample(const pst_trainer *t, uint64_t step) {
    return pst_batches_before(&t->p->batches, step) + t->skipped_samples;
}
#endif

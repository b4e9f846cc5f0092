/* What a run reports: metrics.jsonl (one line per optimizer step, written by rank 0) and the
 * progress line, with predicted and measured values. Formulas: docs/metrics.md. */
#ifndef PST_METRICS_METRICS_H
#define PST_METRICS_METRICS_H
#include "prepare/prepare.h"
#include "metrics/evaluate.h"
#include "rank/report.h"
#include "rank/replay.h"
#include "rank/work.h"

typedef struct {
    uint64_t step;              /* number of the step, from 1 */
    double loss, lr, grad_norm; /* loss: mean, nats per token; grad_norm: L2 norm before clipping */
    double step_s, bubble;
    double bits_per_byte;           /* of the batch; NaN: the bytes of its tokens are unknown */
    double next_sentence, accuracy; /* of the batch, as in pst_evaluation */
    double data_wait_s; /* wait for the step's samples, on the rank that waited longest */
    double predicted_step_s, predicted_bubble;
    uint64_t batch;       /* samples of the step */
    uint64_t tokens;      /* tokens trained on since training started */
    int post;             /* 1: post-validation is on */
    uint32_t rolled_back; /* number of ranks that had to roll back STEP (post-validation) */
    int scales;           /* 1: there is a loss scale */
    double loss_scale;    /* loss scale of this step */
    /* with islands: "inner", or "outer" for a step with an outer step, "fragment" with a part of an
     * exchange; else NULL */
    const char *phase;
    uint64_t skipped;   /* skipped steps so far, including this one if it overflowed */
    double compression; /* pst_job_compression of the step's lists */
    /* asynchronous updates: how many updates by other replicas came between the weights of a
     * gradient and its own update: mean (NaN: other updates) and maximum over replicas */
    double staleness;
    uint64_t most_stale;
} pst_metrics_step;

/* A completed checkpoint. */
typedef struct {
    uint64_t step, bytes; /* step of the checkpoint; bytes of all its tensors */
    /* s from the end of that step until all files were written, synced and read back */
    double seconds;
    /* s that later steps waited for the checkpoint, on the rank that waited longest */
    double held_s;
} pst_metrics_saved;

/* Output on stdout: nothing; lines of text; or, on an interactive terminal, one line that is
 * overwritten. */
typedef enum { PST_SHOW_NOTHING, PST_SHOW_LINES, PST_SHOW_LIVE } pst_metrics_show;

typedef struct pst_metrics pst_metrics;
/* Progress of a run, to estimate the remaining time: `step` of `steps` steps are done, the first
 * `first` of them before this process started. */
typedef struct {
    uint64_t first, step, steps;
    double elapsed_s;     /* s since this process started to train */
    uint64_t evaluations; /* number of evaluations in that time */
    double evaluated_s;   /* s that these evaluations took */
    /* steps between evaluations (0: only one, at the end); forward passes per evaluation (0: the
     * run has no evaluation) */
    uint64_t every, passes;
    const pst_batches *batches; /* samples of the steps; borrowed */
} pst_metrics_progress;
/* Estimated remaining seconds: the samples of the remaining steps at the mean pace so far, plus the
 * remaining evaluations. */
double pst_metrics_time_left(const pst_metrics_progress *p);

typedef struct {
    const char *folder; /* the run's folder */
    /* metrics.jsonl: lines of later steps, left by a run that died, are dropped */
    uint64_t keep_steps;
    int again;     /* 1: this run goes on after the death of a rank: lines of step 0 stay too */
    pst_peak peak; /* sum of the peak FLOP/s of all ranks */
    pst_metrics_show show;
    uint64_t passes; /* forward passes per evaluation (pst_feed_passes) */
} pst_metrics_options;
/* Opens the files of the run's folder. p is borrowed. ENOMEM: no memory, or a file cannot be
 * written. */
pst_status pst_metrics_open(const pst_prepared *p, const pst_metrics_options *o, pst_metrics **m);
void pst_metrics_close(pst_metrics *m);
/* Writes the line of one step and shows progress. report: [n_rank]. If the disk is full, that is
 * logged once and training continues. */
void pst_metrics_step_done(pst_metrics *m, const pst_metrics_step *s, const pst_report *report);
/* Writes the evaluation of the validation split, those of the sets, and the duration of all in
 * seconds. Prints nothing if nothing was evaluated. */
void pst_metrics_validation(pst_metrics *m, uint64_t step, const pst_evaluation *split,
                            const pst_evaluate_sets *sets, double seconds);
/* Writes an event for a step whose loss or gradient was not finite. c: the operator found by
 * repeating the step; NULL: the repetition was finite. skipped: number of skipped steps so far,
 * including this one; 0: the run ends. */
void pst_metrics_non_finite(pst_metrics *m, uint64_t step, uint64_t skipped, const pst_culprit *c);
/* A step with a spike (train.spike) and the limits that it exceeded; action: warn, skip, rewind. */
typedef struct {
    uint64_t step;
    double loss, norm, loss_limit, norm_limit;
    const char *action;
} pst_metrics_spike;
void pst_metrics_spiked(pst_metrics *m, const pst_metrics_spike *spike);
/* An elastic run goes on without some ranks. step: steps that were done and did not have to be
 * repeated; lost: [n_lost] ranks before; ranks: their number now; seconds: from the loss to the end
 * of the first step: until the others had prepared, set-up, memory of the state, step. host:
 * [n_host] names of the hosts that were lost; repeated: steps from the checkpoint to which the run
 * went back, if no newer state was left; moved_bytes: of the state, the most that the ranks of a
 * host read from other hosts. */
typedef struct {
    uint64_t step;
    const uint32_t *lost;
    uint32_t n_lost, ranks, n_host;
    const char *const *host;
    uint64_t repeated, moved_bytes;
    double seconds, predicted_s, prepared_s, set_up_s, state_s, step_s;
} pst_metrics_recovery;
void pst_metrics_recovered(pst_metrics *m, const pst_metrics_recovery *recovery);
/* An elastic run goes on with another number of ranks, or with other processes, by request; before
 * the first step of these. from: ranks before; seconds: from the end of the last step on. */
typedef struct {
    uint64_t step;
    uint32_t from, ranks;
    double seconds, predicted_s;
} pst_metrics_resize;
void pst_metrics_resized(pst_metrics *m, const pst_metrics_resize *resize);
/* Drops the lines of steps after `step`, to which the run has gone back. ENOMEM: the file cannot be
 * written. */
pst_status pst_metrics_rewind(pst_metrics *m, uint64_t step);
/* Writes an event for a checkpoint. why: NULL, or the reason why the checkpoint failed. */
void pst_metrics_checkpoint(pst_metrics *m, const pst_metrics_saved *saved, const char *path,
                            const char *why);
/* Where the time of a run went, in seconds: in all, since it was started; in steps that count;
 * until the first step; from losses of ranks to the beginning of the next step; in changes of the
 * ranks.
 */
typedef struct {
    double total, trained, start, recovery, resize;
} pst_metrics_times;
/* Writes the end of the run. weights_xxh64: hash of the weights; NULL: there are none (device
 * timed). why: how the run ended. */
void pst_metrics_end(pst_metrics *m, uint64_t steps, const uint64_t *weights_xxh64, const char *why,
                     const pst_metrics_times *times);
/* Shares of the steps' time by kind of work (rank/work.h) over all ranks, as text. The first step
 * counts only if it is the only one. */
void pst_metrics_work_text(const pst_metrics *m, char *text, size_t bytes);
/* Ends the overwritten progress line, before other text is printed. */
void pst_metrics_newline(pst_metrics *m);
#endif

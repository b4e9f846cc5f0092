/* What a run reports: metrics.jsonl (one line per optimizer step, written by rank 0), the
 * progress line, and predicted beside measured values. Formulas: docs/metrics.md. */
#ifndef PST_METRICS_METRICS_H
#define PST_METRICS_METRICS_H
#include "prepare/prepare.h"
#include "metrics/evaluate.h"
#include "rank/report.h"
#include "rank/replay.h"
#include "rank/work.h"

typedef struct {
    uint64_t step;              /* 1 for the first */
    double loss, lr, grad_norm; /* nats per token; norm before clipping */
    double step_s, bubble;
    double predicted_step_s, predicted_bubble;
    uint64_t tokens;      /* since training started */
    int post;             /* 1: post-validation is on */
    uint32_t rolled_back; /* number of ranks whose STEP was wrong */
    int scales;           /* 1: there is a loss scale */
    double loss_scale;    /* loss scale of this step */
    uint64_t skipped;     /* skipped steps so far, including this one if it overflowed */
} pst_metrics_step;

/* A checkpoint. */
typedef struct {
    uint64_t step, bytes; /* bytes of the tensors of all ranks */
    double seconds; /* from the end of its step until everything was written, synced and read back
                     */
    double held_s;  /* longest time that later steps waited for it */
} pst_metrics_saved;

/* Output on stdout: nothing; lines of text; or, on a terminal, one line that is overwritten. The
 * last only if a person uses the terminal: mpirun gives its ranks a terminal as well. */
typedef enum { PST_SHOW_NOTHING, PST_SHOW_LINES, PST_SHOW_LIVE } pst_metrics_show;

typedef struct pst_metrics pst_metrics;
/* Progress of a run, to estimate the remaining time: `step` of `steps` are done, `first` of them
 * before this process. */
typedef struct {
    uint64_t first, step, steps;
    double elapsed_s;     /* s, of this process */
    uint64_t evaluations; /* done in that time */
    double evaluated_s;   /* s, their part of it */
    /* steps between evaluations (0: one at the end); forward passes of one, 0: no evaluation */
    uint64_t every, passes;
} pst_metrics_progress;
/* Remaining seconds: steps at the present pace, and the evaluations to come. */
double pst_metrics_time_left(const pst_metrics_progress *p);

typedef struct {
    const char *folder; /* the run's folder */
    /* drop lines of later steps, which a dead run has left */
    uint64_t keep_steps;
    pst_peak peak; /* peak FLOP/s of all ranks together */
    pst_metrics_show show;
    uint64_t passes; /* pst_feed_passes */
} pst_metrics_options;
/* ENOMEM if the file cannot be written. */
pst_status pst_metrics_open(const pst_prepared *p, const pst_metrics_options *o, pst_metrics **m);
void pst_metrics_close(pst_metrics *m);
/* One step; report: [n_rank]. Writes the line and shows progress. A full disk is reported once
 * and does not stop training. */
void pst_metrics_step_done(pst_metrics *m, const pst_metrics_step *s, const pst_report *report);
/* An evaluation and its duration: of the validation split (tokens 0 if there is none) and of the
 * sets. Prints nothing if neither was made. */
void pst_metrics_validation(pst_metrics *m, uint64_t step, double loss, uint64_t tokens,
                            const pst_evaluate_sets *sets, double seconds);
/* A step that was not finite. c: NULL if its replay was finite; skipped: number of skipped
 * steps, including this one; 0: the run ends. */
void pst_metrics_non_finite(pst_metrics *m, uint64_t step, uint64_t skipped, const pst_culprit *c);
/* why: NULL, or the reason why it failed. */
void pst_metrics_checkpoint(pst_metrics *m, const pst_metrics_saved *saved, const char *path,
                            const char *why);
/* weights_xxh64: NULL if there are no weights (device timed). */
void pst_metrics_end(pst_metrics *m, uint64_t steps, const uint64_t *weights_xxh64,
                     const char *why);
/* Shares of the steps' time by kind of work over all ranks, as text; without the first step if
 * there are more. */
void pst_metrics_work_text(const pst_metrics *m, char *text, size_t bytes);
/* Ends the progress line of a terminal, before other text is printed. */
void pst_metrics_newline(pst_metrics *m);
#endif

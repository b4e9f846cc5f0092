/* What a run says about itself: metrics.jsonl (one line per optimizer step, written by rank 0), the
 * progress line, and predicted beside measured. Formulas: docs/metrics.md. */
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
    uint64_t tokens;      /* since the start of training */
    int post;             /* with post-validation: */
    uint32_t rolled_back; /* ranks whose STEP was wrong */
    int scales;           /* there is a loss scale: */
    double loss_scale;    /* of this step */
    uint64_t skipped;     /* steps skipped so far, this one included when it overflowed */
} pst_metrics_step;

/* A checkpoint. */
typedef struct {
    uint64_t step, bytes; /* bytes of tensors, all ranks' */
    double seconds; /* from its step's end until all of it was written, synced and read back */
    double held_s;  /* how long later steps stood still for it, where longest */
} pst_metrics_saved;

/* On stdout: nothing; lines of text; on a terminal, one line that is written over again. The last
 * only where the terminal is known to be a person's: mpirun gives its ranks one, too. */
typedef enum { PST_SHOW_NOTHING, PST_SHOW_LINES, PST_SHOW_LIVE } pst_metrics_show;

typedef struct pst_metrics pst_metrics;
/* How far a run is, for the time that it will take: `step` of `steps` are done, `first` of them
 * before this process. */
typedef struct {
    uint64_t first, step, steps;
    double elapsed_s;     /* of this process; in it: */
    uint64_t evaluations; /* those done, */
    double evaluated_s;   /* and how long they took */
    /* steps between evaluations (0: one at the end); forward passes of one, 0: none */
    uint64_t every, passes;
} pst_metrics_progress;
/* Seconds to the end: steps at the pace so far, and the evaluations to come. */
double pst_metrics_left(const pst_metrics_progress *p);

typedef struct {
    const char *folder; /* of the run */
    /* lines of later steps (left by a run that died) are dropped, the rest stays */
    uint64_t keep_steps;
    pst_peak peak; /* of all ranks together */
    pst_metrics_show show;
    uint64_t passes; /* pst_feed_passes */
} pst_metrics_options;
/* ENOMEM when the file cannot be written. */
pst_status pst_metrics_open(const pst_prepared *p, const pst_metrics_options *o, pst_metrics **m);
void pst_metrics_close(pst_metrics *m);
/* One step; report: [n_rank]. Writes the line and shows progress. A full disk is said once and does
 * not stop training. */
void pst_metrics_step_done(pst_metrics *m, const pst_metrics_step *s, const pst_report *report);
/* An evaluation that took so long: on the validation split, tokens 0 where there is none, and on
 * the sets. Nothing is said where none of them was made. */
void pst_metrics_validation(pst_metrics *m, uint64_t step, double loss, uint64_t tokens,
                            const pst_evaluate_sets *sets, double seconds);
/* A step that was not finite. c: NULL when its replay was; skipped: how many were, this one
 * included, 0: it ended the run. */
void pst_metrics_non_finite(pst_metrics *m, uint64_t step, uint64_t skipped, const pst_culprit *c);
/* why: NULL, or why there is none. */
void pst_metrics_checkpoint(pst_metrics *m, const pst_metrics_saved *saved, const char *path,
                            const char *why);
/* weights_xxh64: NULL when there are none (device timed). */
void pst_metrics_end(pst_metrics *m, uint64_t steps, const uint64_t *weights_xxh64,
                     const char *why);
/* Shares of the steps' time by kind of work over all ranks, as text; of the steps but the first
 * where there are more. */
void pst_metrics_work_text(const pst_metrics *m, char *text, size_t bytes);
/* Ends the progress line of a terminal, before other text is printed. */
void pst_metrics_newline(pst_metrics *m);
#endif

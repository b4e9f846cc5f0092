/* One training run in this process: what setup.c (before the first step), train.c (the loop),
 * step.c (one step), feed.c (data in, losses out), trace.c (the timeline), saving.c and save.c
 * (checkpoints out and in) share. */
#ifndef PST_RUN_TRAINER_H
#define PST_RUN_TRAINER_H
#include "penstock/run.h"
#include "run/evaluate.h"
#include "run/group.h"
#include "rank/scaler.h"
#include "run/prediction.h"
#include "run/metrics.h"
#include "run/seats.h"

enum { PST_TRAINER_FOLDER = 768 };

typedef struct pst_saving pst_saving;

typedef struct {
    const pst_config *config;
    const pst_train_options *options;
    const pst_plan *plan; /* that it is to have; NULL: none was given */
    pst_world *world;     /* until the group takes it over */
    pst_group *group;
    pst_prepared *p;
    pst_data *data;
    pst_evaluate_sets sets;
    pst_metrics *metrics; /* rank 0's process only */
    pst_prediction *fit;
    pst_report *report;           /* [n_rank] of the last step */
    pst_report *own;              /* [n_local] room for this process' part of it */
    int proc_status;              /* /proc/self/status, -1 when it is not there */
    struct pst_feed_field *field; /* [n_field] what the data set has of a sample, and where it
                                     goes */
    uint32_t n_field;
    struct pst_feed_total *total; /* [n_local] what the ranks here have added up in a validation,
                                     then [n_rank] of all */
    int takes_signals; /* signals ask it to stop or to save (stop.h); a session's does not */
    int stopped; /* the signal by which some rank was asked to stop, 0 none: all ranks know it */
    int stopped_in_last_step; /* asked to stop in the last step: saved first, then evaluated */
    int save_requested;       /* some rank was asked for a checkpoint of this step: likewise */
    char folder[PST_TRAINER_FOLDER]; /* runs/NAME */
    char resume[PST_TRAINER_FOLDER]; /* the checkpoint to go on from, the same on all ranks; ""
                                        none */
    int lock;                        /* rank 0's process: the folder, open and locked; else -1 */
    int trained, traced, noted; /* a step was made, a timeline drawn, how to resume noted for our
                                   launcher */
    int study;                  /* the device computes nothing: no losses, no weights, times only */
    uint64_t step;              /* optimizer steps done, those that were skipped included */
    uint64_t skipped, skipped_in_row; /* steps that were not finite and left the weights alone: all,
                                         the latest */
    uint64_t skipped_before;          /* of these, in the checkpoint that it went on from */
    pst_scaler scaler;        /* of the next step; opened by the first one, or by the checkpoint */
    int overflowed;           /* the last step was skipped for it, and that is no failure */
    int said_skip;            /* the first one that this process skips is said at length */
    pst_culprit *culprit;     /* [n_rank] what a replay has found, */
    pst_culprit *own_culprit; /* [n_local] and this process' part of it */
    double validation_loss, best_loss; /* the last one, NaN when there is none; the best so far,
                                          infinity */
    uint64_t checkpointed; /* step of the last checkpoint written or resumed from, UINT64_MAX
                              none */
    uint64_t resumed;      /* step of the checkpoint that it went on from */
    pst_saving *saving;    /* saving.c; NULL before its set-up, and when nothing is ever saved */
} pst_trainer;

/* train.c. This process' part of a run, with a plan or NULL; takes the world over. When all ranks
 * have failed alike: one says why, and clears it. */
pst_status pst_train_here(const pst_config *c, const pst_train_options *o, const pst_plan *plan,
                          pst_world *world, uint32_t n_rank);
void pst_train_say_once(pst_world *world);

/* setup.c. Parts that a run and a session (session.c) are made of: what log.level names is said
 * from now on; threads of each rank, where so many share the processors; the plan in full (options:
 * threads, isa and n_eval_micro are filled in; world: NULL when all ranks will be here), when the
 * device is there and every rank fits in memory; the ranks themselves, which compare what they have
 * prepared and time the links between hosts (takes t->world over; collective); mkdir -p of
 * everything above the last name; room for what steps measure (t->report, own, fit). */
void pst_setup_log(const char *level);
uint32_t pst_setup_threads(const pst_config *c, const pst_world *world, uint32_t ranks_here);
/* The job's processes in the order of its ranks (parallel.devices, or the plan's; plan may be
 * NULL). */
pst_status pst_setup_seat(const pst_config *c, const pst_plan *plan, uint32_t n_rank,
                          pst_world **world);
pst_status pst_setup_plan(const pst_config *c, pst_prepare_options options, const pst_world *world,
                          pst_prepared **prepared);
pst_status pst_setup_ranks(pst_trainer *t);
pst_status pst_setup_parents(const char *path);
pst_status pst_setup_room(pst_trainer *t);

/* A whole run, in this order. prepare: everything that can be known to be wrong before any rank
 * starts; each rank for itself, or once before they are started. world: as above. The others are
 * collective. */
typedef struct {
    pst_data *data;
    pst_evaluate_sets sets;
    pst_prepared *p;
} pst_run_inputs;
pst_status pst_setup_prepare(const pst_config *c, const pst_train_options *o, const pst_plan *plan,
                             uint32_t n_rank, const pst_world *world, pst_run_inputs *inputs);
pst_status pst_setup_folder(pst_trainer *t);  /* run.yaml and plan.yaml in it; this process' alone
                                                 from here on */
pst_status pst_setup_weights(pst_trainer *t); /* from the seed, a file, or the checkpoint to go on
                                                 from */
pst_status pst_setup_metrics(pst_trainer *t); /* and the room that steps need: none is asked for
                                                 later */
void pst_setup_close(pst_trainer *t); /* what these have opened in t, metrics and p excepted */

/* announce.c. Before the first step: what the run is, what is predicted, and warnings, from rank 0;
 * a warning that train.warmup was cut to all the steps, if it was; whether threads of ranks take
 * turns on processors of rank 0's host, and those of how many ranks on how many. */
void pst_announce_run(const pst_trainer *t);
void pst_announce_warmup(const pst_config *c);
int pst_announce_crowd(const pst_trainer *t, pst_seat_group *crowd);

/* step.c. take_requests: the requests of all ranks (PST_STOP_), joined, set t->stopped and
 * t->save_requested. run: one step with the data that the ranks have, which began at began_ns
 * (monotonic); t->step and t->report follow; collective. check, afterwards: whether that was a
 * step: see pst_nonfinite_check. */
void pst_step_take_requests(pst_trainer *t, uint64_t asked);
pst_status pst_step_run(pst_trainer *t, uint64_t began_ns, pst_metrics_step *measured);
pst_status pst_step_check(pst_trainer *t);

/* trace.c: gathers the spans of the step just done and draws them; a full disk is said and
 * survived. Collective. */
pst_status pst_trace_step(pst_trainer *t);

/* explain.c: the end of a run says what its steps took, measured and predicted, on stdout; nothing
 * where its metrics.jsonl has no steps. */
void pst_explain_times(const pst_trainer *t);

/* nonfinite.c: whether the step just done was applied, the same answer on every rank. One whose
 * loss or gradient is not finite was not (rank.c): it is repeated under the checker, and the
 * operator and tensor at fault are named. Then train.non_finite says: EINPUT, or OK and
 * skipped_in_row is not 0. Collective. */
pst_status pst_nonfinite_check(pst_trainer *t);
/* What helps against steps that are not finite: a fixed loss scale, else the learning rate. */
enum { PST_NONFINITE_ADVICE = 96 };
void pst_nonfinite_advice(const pst_trainer *t, char out[PST_NONFINITE_ADVICE]);

/* feed.c. check: whether the model reads what the data set has, EINPUT says what not. open: room
 * for a sample, once t->p is there; ENOMEM. */
pst_status pst_feed_check(const pst_prepared *p, const pst_data *data);
pst_status pst_feed_open(pst_trainer *t);
void pst_feed_close(pst_trainer *t);
/* Fills data tensors of every local rank for the training batch that starts at `sample`. */
pst_status pst_feed_batch(pst_trainer *t, uint64_t sample);
/* Forward passes of an evaluation on all that there is to evaluate on, each of as many samples as a
 * step; 0: there is nothing. */
uint64_t pst_feed_passes(const pst_trainer *t);
/* Mean loss (nats per token) over eval.tokens of the data's validation split, or all of it, the
 * same on every rank; *tokens: how many. NaN and 0 when the split is empty, or when a rank was
 * asked to stop before its end: t->stopped is then set. Collective. */
pst_status pst_feed_validate(pst_trainer *t, pst_data *data, double *loss, uint64_t *tokens);

/* saving.c. A checkpoint is written while training goes on; one that cannot be written is said in
 * the metrics and survived, and t->checkpointed follows. open: threads and buffers (optional: start
 * does it, too). All others are collective. start: the one of t->step; when there is one under way
 * still, training waits for that first. last: training does not go on meanwhile. progress, after
 * each step, with t->report: what has become of it. finish: waits until it counts or has failed.
 * EINPUT from any: weights or state were not finite, and no checkpoint was written. */
pst_status pst_saving_open(pst_trainer *t);
pst_status pst_saving_start(pst_trainer *t, int last);
pst_status pst_saving_progress(pst_trainer *t);
pst_status pst_saving_finish(pst_trainer *t);
pst_save_state pst_saving_state(pst_trainer *t); /* of this process' part; not collective */
/* Ends what is under way; what was there before stays. Not collective; before the group is
 * closed. */
void pst_saving_close(pst_trainer *t);

/* save.c. Reads the checkpoint t->resume and sets t->step; collective. EINPUT when ranks have found
 * different ones. */
pst_status pst_save_resume(pst_trainer *t);
/* Whether `resume` and a model.weights file can be what this run starts from: headers and shapes,
 * not the tensors' bytes. EINPUT says why not. Not collective. */
pst_status pst_save_check_resume(const pst_prepared *p, pst_data *data, const char *resume);
pst_status pst_save_check_hf(const pst_prepared *p, const char *source);
/* XXH64 of all weights (docs/formats.md), collective. */
pst_status pst_save_weights_hash(pst_trainer *t, uint64_t *hash);
/* Weights of a Hugging Face file (model.weights), collective. */
pst_status pst_save_import(pst_trainer *t, const char *path);
#endif

/* A training session: a graph, run as a plan says, on data that the program feeds, step by step.
 *
 * In a process on its own, a session runs all ranks of the plan in it, one after another in the
 * calling thread (their kernels use parallel.threads each): for study, tests and small models. In a
 * job of several processes (mpirun, srun --mpi=pmix, or started one by one with RANK, WORLD_SIZE,
 * MASTER_ADDR, MASTER_PORT and PENSTOCK_SECRET) each process runs one rank, the job has as many as
 * the plan has stages times parallel.data times parallel.tensor, and every function here is
 * collective: all processes call it alike, with the same values. Losses and weights have the same
 * bits either way. Opening compares the processes' builds, configurations, plans and schedules (a
 * machine may have threads, memory, paths and log level of its own), binds each to cores as
 * parallel.bind says, and between hosts times messages for the prediction; there a process whose
 * rank hangs in a step says so and ends, with status 3.
 *
 * Errors: EINPUT a NULL, contradictions, unusable files; EPEER a rank or link failed; ENOMEM memory
 * or disk; EINTERNAL. After EPEER or EINTERNAL a session can only be closed. A failure that the
 * other processes of a job cannot know of would leave them waiting: when opening has met one, or a
 * session that has failed is closed, the process says so on stderr and asks the launcher to end the
 * job, this process with it. A session belongs to one thread at a time. Several may be open in one
 * process; in one that a launcher started, only one in its life. Nothing is printed to stdout;
 * stderr gets what log.level lets through. A session installs no signal handlers: a program that is
 * to save when it is asked to end notes the signal in a handler of its own, on every rank, agrees
 * on it between steps, and calls pst_session_save. A handler that may interrupt a call here must be
 * installed with SA_ONSTACK: oneDNN keeps live data below the stack pointer. Those that UCX
 * installs when it is loaded (SIGHUP, crashes) are taken away when this library is loaded. */
#ifndef PENSTOCK_TRAIN_H
#define PENSTOCK_TRAIN_H
#include "penstock/plan.h"
#include <string.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pst_session pst_session;

/* What a step was like. It may grow at its end: `size` says what the caller knows of it. */
typedef struct {
    size_t size;   /* sizeof(pst_step_result), see pst_step_result_init */
    uint64_t step; /* optimizer steps done, this one included */
    double loss;   /* mean over the batch before the update, nats; the same bits for every plan, for
                      every data degree, too, with parallel.reproducible; within 1e-5 for every
                      tensor degree (README.md) */
    double lr;     /* learning rate of this step */
    double grad_norm;        /* of all gradients together, before clipping */
    double step_s;           /* measured, seconds */
    double predicted_step_s; /* by the plan's simulation; the first steps measured make it better */
    double bubble;           /* measured idle share of the rank with the longest span, 0 to 1 */
    double predicted_bubble;
    uint64_t skipped; /* steps so far whose numbers were not finite and that changed nothing */
} pst_step_result;

static inline void pst_step_result_init(pst_step_result *result) {
    memset(result, 0, sizeof *result);
    result->size = sizeof *result;
}

/* Takes memory for every rank that runs here, and gives the parameters their first values. config:
 * train.* (batch, optimizer, lr, warm-up and decay over train.steps, clip, seed, precision and loss
 * scale, non_finite, hang_factor, hang_slack), of parallel all but pipeline, chunks, schedule,
 * schedule_file and recompute, which are the plan's, checkpoint.keep, log.level; train.batch has to
 * be the plan's micro-batches times b. config, graph and plan are copied. *session is the caller's;
 * free with pst_session_close. ENOMEM also when a rank would not fit in memory, with a change that
 * would. */
PST_API pst_status pst_session_open(const pst_config *config, const pst_graph *graph,
                                    const pst_plan *plan, pst_session **session);
/* NULL: nothing. Nothing is saved. Not collective after a failure. pst_error() stays as it was. */
PST_API void pst_session_close(pst_session *session);

/* One optimizer step on one batch. data[i], i < n_data: the i-th data tensor that was added to the
 * graph, for the whole batch, [train.batch, dim[1], ...] int32, sample after sample; read during
 * the call only. *result: may be NULL, else initialised. After the first few steps it allocates
 * nothing. EINPUT also when a token is outside its table, or when loss or gradients are not finite:
 * pst_error() names the first operator and tensor, and the weights are those of before
 * (train.non_finite skip: OK, counted in result.skipped). */
PST_API pst_status pst_session_step(pst_session *session, const int32_t *const *data,
                                    uint32_t n_data, pst_step_result *result);
/* The mean loss of a batch like that of pst_session_step (nats), without dropout, nothing being
 * changed. */
PST_API pst_status pst_session_evaluate(pst_session *session, const int32_t *const *data,
                                        uint32_t n_data, double *loss);

/* Writes folder/checkpoints/step-N (docs/formats.md): all of it or, when that fails, nothing;
 * `folder` is made where it is missing. The newest checkpoint.keep stay there. `penstock inspect
 * FOLDER` shows it. ENOMEM: disk full or not writable; the session can go on. */
PST_API pst_status pst_session_save(pst_session *session, const char *folder);
/* Weights, optimizer state and step of a checkpoint, or of the newest one in a folder that was
 * saved to; any number of ranks may have written it. EINPUT when it is of another model, optimizer,
 * train.seed or train.batch (then nothing has changed), or damaged (the session can then only be
 * closed or loaded again). */
PST_API pst_status pst_session_load(pst_session *session, const char *path);

/* A parameter's values, fp32, in the order of its shape: out has room for exactly `elements`, which
 * has to be its number. In a job of several processes every one gets them. */
PST_API pst_status pst_session_read(pst_session *session, const char *param, float *out,
                                    uint64_t elements);
/* XXH64 of all weights (docs/formats.md): equal when every bit of them is. */
PST_API pst_status pst_session_hash(pst_session *session, uint64_t *hash);
/* Optimizer steps done, those before a load included; 0 for NULL. Not collective. */
PST_API uint64_t pst_session_steps(const pst_session *session);
#ifdef __cplusplus
}
#endif
#endif

/* A training session: runs a graph according to a plan on data that the program passes in, step by
 * step.
 *
 * In a process on its own, a session runs all ranks of the plan, one after another in the calling
 * thread (their kernels use parallel.threads each): for experiments, tests and small models. In a
 * job of several processes (mpirun, srun --mpi=pmix, or started one by one with RANK, WORLD_SIZE,
 * MASTER_ADDR, MASTER_PORT and PENSTOCK_SECRET) each process runs one rank, and the job needs the
 * plan's stages x parallel.data x parallel.tensor processes. Every function here is then
 * collective: all processes make the same calls with the same values. Losses and weights have the
 * same bits in both cases. Opening compares builds, configurations, plans and schedules of the
 * processes (threads, memory, paths and log level may differ between machines), binds each process
 * to cores as parallel.bind says, and between hosts measures messages for the prediction. In a
 * job over several hosts, a process whose rank hangs in a step reports it and ends with status 3.
 *
 * Errors: EINPUT a NULL, contradictions, unusable files; EPEER a rank or link failed; ENOMEM memory
 * or disk; EINTERNAL. After EPEER or EINTERNAL a session can only be closed. Other processes of a
 * job would wait forever for one that fails alone: if opening fails, or a session that has failed
 * is closed, the process reports it on stderr and asks the launcher to end the job, including this
 * process. A session belongs to one thread at a time. A process may have several open sessions; one
 * that was started by a launcher may open only one in its life. Nothing is printed to stdout;
 * messages go to stderr as log.level says.
 *
 * A session installs no signal handlers. A program that has to save before it ends sets a flag
 * in a handler of its own, on every rank, agrees on it between steps, and calls
 * pst_session_save. A handler that may interrupt a call here must be installed with SA_ONSTACK:
 * oneDNN keeps live data below the stack pointer. Handlers that UCX installs when it is loaded
 * (SIGHUP, crashes) are removed when this library is loaded. */
#ifndef PENSTOCK_TRAIN_H
#define PENSTOCK_TRAIN_H
#include "penstock/plan.h"
#include <string.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pst_session pst_session;

/* The result of a step. It may grow at its end: `size` tells what the caller knows of it. */
typedef struct {
    size_t size;   /* sizeof(pst_step_result), see pst_step_result_init */
    uint64_t step; /* optimizer steps done, including this one */
    double loss;   /* mean over the batch before the update, nats. The same bits for every number of
                      stages and schedule, and for every data degree with parallel.reproducible;
                      within 1e-5 for every tensor degree (docs/layouts.md) */
    double lr;     /* learning rate of this step */
    double grad_norm;        /* norm of all gradients together, before clipping */
    double step_s;           /* measured, seconds */
    double predicted_step_s; /* from the plan's simulation; improved by the first measured steps */
    double bubble;           /* measured idle share of the rank with the longest span, 0 to 1 */
    double predicted_bubble;
    uint64_t skipped; /* steps so far that were not finite and changed nothing */
} pst_step_result;

static inline void pst_step_result_init(pst_step_result *result) {
    memset(result, 0, sizeof *result);
    result->size = sizeof *result;
}

/* Allocates memory for every rank that runs here, and initializes the parameters. Keys used from
 * config: train.* (batch, optimizer, lr, warmup and decay over train.steps, clip, seed,
 * precision and loss scale, non_finite, hang_factor, hang_slack), parallel.* (except pipeline,
 * chunks, schedule, schedule_file and recompute, which the plan defines), checkpoint.keep,
 * log.level; train.batch must be the plan's micro-batches times b. config, graph and plan are
 * copied. *session is the caller's; free with pst_session_close. ENOMEM also if a rank would not
 * fit in memory; the message has a change that would fit. */
PST_API pst_status pst_session_open(const pst_config *config, const pst_graph *graph,
                                    const pst_plan *plan, pst_session **session);
/* NULL: nothing. Saves nothing. Not collective after a failure. pst_error() is unchanged. */
PST_API void pst_session_close(pst_session *session);

/* One optimizer step on one batch. data[i], i < n_data: the i-th data tensor that was added to
 * the graph, for the whole batch, [train.batch, dim[1], ...] int32, sample after sample; used
 * during the call only. *result: may be NULL, else initialized. After the first few steps
 * nothing is allocated. EINPUT also if a token is outside its table, or if loss or gradients are
 * not finite: pst_error() names the first operator and tensor, and the weights are unchanged
 * (train.non_finite skip: OK, counted in result.skipped). */
PST_API pst_status pst_session_step(pst_session *session, const int32_t *const *data,
                                    uint32_t n_data, pst_step_result *result);
/* The mean loss (nats) of a batch as for pst_session_step, without dropout; changes nothing. */
PST_API pst_status pst_session_evaluate(pst_session *session, const int32_t *const *data,
                                        uint32_t n_data, double *loss);

/* Writes folder/checkpoints/step-N (docs/formats.md) completely, or nothing if that fails;
 * `folder` is made if it is missing. The newest checkpoint.keep stay there. `penstock inspect
 * FOLDER` shows it. ENOMEM: disk full or not writable; the session can continue. */
PST_API pst_status pst_session_save(pst_session *session, const char *folder);
/* Loads weights, optimizer state and step of a checkpoint, or of the newest one in a folder that
 * was saved to; any number of ranks may have written it. EINPUT if it has another model,
 * optimizer, train.seed or train.batch (then nothing has changed), or is damaged (the session
 * can then only be closed or loaded again). */
PST_API pst_status pst_session_load(pst_session *session, const char *path);

/* A parameter's values, fp32, in the order of its shape; `elements` must be their number, and
 * `out` has space for them. In a job of several processes every process gets them. */
PST_API pst_status pst_session_read(pst_session *session, const char *param, float *out,
                                    uint64_t elements);
/* XXH64 of all weights (docs/formats.md); equal if all bits are equal. */
PST_API pst_status pst_session_hash(pst_session *session, uint64_t *hash);
/* Number of optimizer steps done, including those before a load; 0 for NULL. Not collective. */
PST_API uint64_t pst_session_steps(const pst_session *session);
#ifdef __cplusplus
}
#endif
#endif

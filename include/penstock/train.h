/* A training session: trains a graph as a plan prescribes, one optimizer step per call, on data
 * that the program passes in.
 *
 * One process: the session runs all ranks of the plan, one after another in the calling thread
 * (each rank's kernels use parallel.threads threads). This mode is for experiments, tests and small
 * models. Several processes (mpirun, srun --mpi=pmix, or processes started with RANK, WORLD_SIZE,
 * MASTER_ADDR, MASTER_PORT and PENSTOCK_SECRET): each process runs one rank, and the job needs
 * stages x parallel.data x parallel.tensor processes. Every function here is then collective: all
 * processes make the same calls with the same values. Losses and weights are bitwise equal in both
 * modes. pst_session_open checks that all processes have the same build, configuration, plan and
 * schedule (threads, memory, paths and log level may differ), binds each process to cores
 * (parallel.bind), and measures messages between hosts for the prediction. In a job on several
 * hosts, a process whose rank hangs in a step reports the hang and exits with status 3.
 *
 * Errors: EINPUT for a NULL pointer, contradictions or unusable files; EPEER if a rank or link
 * failed; ENOMEM if memory or disk space runs out; EINTERNAL for a bug. After EPEER or EINTERNAL
 * the only allowed call is pst_session_close. In a job, the other processes would wait forever for
 * a process that fails alone. Therefore, if pst_session_open fails or a failed session is closed,
 * the process writes the error to stderr and asks the launcher to end the job, including this
 * process. Only one thread at a time may use a session. A process without a launcher may have
 * several open sessions; a process started by a launcher may open only one session in its life.
 * Nothing is written to stdout; log messages go to stderr (log.level).
 *
 * A session installs no signal handlers. A program that has to save on a signal installs a handler
 * on every rank that only sets a flag; between steps the ranks agree on the flag and call
 * pst_session_save. A handler that may interrupt a call here must be installed with SA_ONSTACK:
 * oneDNN keeps live data below the stack pointer. When this library is loaded, it removes the
 * handlers that UCX installs (SIGHUP, crashes). */
#ifndef PENSTOCK_TRAIN_H
#define PENSTOCK_TRAIN_H
#include "penstock/plan.h"
#include <string.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pst_session pst_session;

/* The result of a step. Later versions may add members at the end; `size` says which members the
 * caller knows. */
typedef struct {
    size_t size;   /* sizeof(pst_step_result), see pst_step_result_init */
    uint64_t step; /* optimizer steps done, including this one */
    /* mean over the batch before the update, in nats. Bitwise equal for all numbers of stages and
     * schedules, and with parallel.reproducible also for all data or tensor degrees; without it,
     * tensor degrees change the loss by at most 1e-5 (docs/layouts.md) */
    double loss;
    double lr;        /* learning rate of this step */
    double grad_norm; /* norm of all gradients together, before clipping */
    double step_s;    /* measured duration of the step, seconds */
    /* predicted duration of a step, seconds: simulated from the plan, then corrected by the first
     * measured steps */
    double predicted_step_s;
    /* measured share of time, 0 to 1, in which the rank with the longest span from its first to its
     * last pass is idle */
    double bubble;
    double predicted_bubble; /* the predicted share */
    uint64_t skipped; /* steps so far that were skipped because of a non-finite loss or gradient */
} pst_step_result;

/* Sets all members to 0 and `size` to the size of the structure. */
static inline void pst_step_result_init(pst_step_result *result) {
    memset(result, 0, sizeof *result);
    result->size = sizeof *result;
}

/* Allocates memory for every rank of this process and initializes the parameters. Uses these keys
 * of config: train.* (batch, batch_warmup, optimizer, lr, warmup and decay over train.steps, clip,
 * seed, precision and loss scale, non_finite, hang_factor, hang_slack), parallel.* except pipeline,
 * chunks, schedule, schedule_file and recompute (the plan defines these), checkpoint.keep and
 * log.level. train.batch must be equal to the samples of the plan's micro-batches. config,
 * graph and plan are copied. The caller frees *session with pst_session_close. ENOMEM also if a
 * rank does not fit in memory; the message suggests a change that fits. */
PST_API pst_status pst_session_open(const pst_config *config, const pst_graph *graph,
                                    const pst_plan *plan, pst_session **session);
/* Frees the session without saving it. Does nothing for NULL. Not collective after a failure. Does
 * not change pst_error(). */
PST_API void pst_session_close(pst_session *session);

/* Runs one optimizer step on one batch. data[i], i < n_data: the whole batch of the i-th data
 * tensor that was added to the graph, int32 [pst_session_batch, dim[1], ...]; read during the call
 * only.
 * result: NULL, or initialized with pst_step_result_init. After the first few steps the call
 * allocates no memory. EINPUT also if a token is outside the embedding table, or if the loss or a
 * gradient is not finite: pst_error() names the first operator and tensor, and the weights are
 * unchanged (with train.non_finite: skip the call returns OK and counts the step in
 * result->skipped). */
PST_API pst_status pst_session_step(pst_session *session, const int32_t *const *data,
                                    uint32_t n_data, pst_step_result *result);
/* Computes the mean loss (nats) of a batch of train.batch samples, given as for pst_session_step,
 * without dropout. The session does not change. */
PST_API pst_status pst_session_evaluate(pst_session *session, const int32_t *const *data,
                                        uint32_t n_data, double *loss);

/* Writes a checkpoint to folder/checkpoints/step-N (docs/formats.md), completely or not at all.
 * Creates `folder` if it is missing, and deletes older checkpoints there except the newest
 * checkpoint.keep. `penstock inspect FOLDER` shows the checkpoint. ENOMEM if the disk is full or
 * not writable; the session can continue. */
PST_API pst_status pst_session_save(pst_session *session, const char *folder);
/* Loads weights, optimizer state and step number. path: a checkpoint folder, or a folder given to
 * pst_session_save (the newest checkpoint there). Any number of ranks may have written the
 * checkpoint. EINPUT if the checkpoint has another model, optimizer, train.seed or train.batch (the
 * session is unchanged), or if it is damaged (the only allowed calls are then pst_session_close and
 * another pst_session_load). */
PST_API pst_status pst_session_load(pst_session *session, const char *path);

/* Copies the values of a parameter to `out` as fp32 in row-major order. `elements` must be the
 * number of elements of the parameter, and `out` must have space for them. In a job of several
 * processes every process gets all values. EINPUT also for a frozen parameter (train.freeze) that
 * no rank has completely in fp32. */
PST_API pst_status pst_session_read(pst_session *session, const char *param, float *out,
                                    uint64_t elements);
/* Sets *hash to the XXH64 hash of all weights (docs/formats.md), which is equal for bitwise equal
 * weights. */
PST_API pst_status pst_session_hash(pst_session *session, uint64_t *hash);
/* Returns the number of optimizer steps that the weights have had, including the steps before the
 * loaded checkpoint; 0 for NULL. Not collective. */
PST_API uint64_t pst_session_steps(const pst_session *session);
/* Returns the number of samples of the next step: train.batch, or fewer in the first steps with
 * train.batch_warmup; 0 for NULL. Not collective. */
PST_API uint64_t pst_session_batch(const pst_session *session);
#ifdef __cplusplus
}
#endif
#endif

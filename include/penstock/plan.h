/* A plan: which part of a graph runs on which rank, the number and order of micro-batches, and the
 * predicted step time and memory. A plan is computed without training, and can be written as text,
 * edited and read again. It stores the hash of its graph and is valid for this graph only. Errors:
 * EINPUT for a NULL pointer, contradictions, or a plan of another graph; ENOMEM if memory runs out.
 * Only one thread at a time may use a plan; once it is complete, several threads may read it. */
#ifndef PENSTOCK_PLAN_H
#define PENSTOCK_PLAN_H
#include "penstock/graph.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pst_plan pst_plan;

/* Cuts the graph into pipeline stages so that the time of the slowest stage is smallest. `ranks` is
 * the number of ranks of the job = stages x parallel.data x parallel.tensor; 0: parallel.pipeline x
 * parallel.data x parallel.tensor, where a key that is 0 counts as 1. Uses parallel.schedule and
 * train.batch / train.micro_batch micro-batches per step over all replicas (rounded up: the first
 * one has fewer samples if the division leaves a rest); predicts time and
 * memory with train.optimizer and the other keys of section parallel. train.micro_batch,
 * train.precision and train.residual must be the values with which the graph was built. The caller
 * frees *plan with pst_plan_close. EINPUT also for more stages than operators, if ranks is not a
 * multiple of data x tensor, and for a graph without a loss or with an unused parameter. */
PST_API pst_status pst_plan_solve(const pst_config *config, const pst_graph *graph, uint32_t ranks,
                                  pst_plan **plan);
/* Reads a plan file, as written by pst_plan_print. The caller frees *plan with pst_plan_close.
 * EINPUT: pst_error() gives file, line, column and what is allowed. */
PST_API pst_status pst_plan_load(const char *path, pst_plan **plan);
/* Frees the plan. Sessions made from it stay valid. Does nothing for NULL. */
PST_API void pst_plan_close(pst_plan *plan);
/* Returns OK if the plan is valid for this graph, else EINPUT. Do not call this function for a plan
 * with tensor parallelism: such a plan describes the part of the graph on one tensor rank, and
 * pst_session_open checks it. */
PST_API pst_status pst_plan_check(const pst_plan *plan, const pst_graph *graph);
/* Writes the plan to `out` as YAML (docs/formats.md); `out` stays open. graph: the graph of the
 * plan, for comments with names of operators; NULL: no such comments. ENOMEM if `out` cannot be
 * written. */
PST_API pst_status pst_plan_print(const pst_plan *plan, const pst_graph *graph, FILE *out);

/* Values of the plan; 0 or "" for NULL. pst_plan_ranks: the number of pipeline stages. */
PST_API uint32_t pst_plan_ranks(const pst_plan *plan);
PST_API uint32_t pst_plan_micro_batches(const pst_plan *plan); /* per optimizer step, all replicas
                                                                */
PST_API const char *pst_plan_schedule(const pst_plan *plan);   /* valid until the plan is closed */
/* Predictions for a nominal machine, or those in the plan file. step_s: seconds per optimizer step.
 * bubble: share of time, 0 to 1, in which the rank with the longest span from its first to its last
 * pass is idle. peak_bytes: peak memory of pipeline stage `rank` in bytes (weights, optimizer
 * state, gradients and activations); 0 if there is no such stage. */
PST_API double pst_plan_step_s(const pst_plan *plan);
PST_API double pst_plan_bubble(const pst_plan *plan);
PST_API uint64_t pst_plan_peak_bytes(const pst_plan *plan, uint32_t rank);
#ifdef __cplusplus
}
#endif
#endif

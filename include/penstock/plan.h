/* A plan: which part of a graph runs on which rank, in how many micro-batches and in which
 * order, and its predicted cost. It is computed without training, can be printed, edited as text
 * and read again, and belongs to its graph (by the graph's hash). EINPUT: a NULL,
 * contradictions, a plan of another graph; ENOMEM. A plan belongs to one thread at a time; once
 * complete, several threads may read it. */
#ifndef PENSTOCK_PLAN_H
#define PENSTOCK_PLAN_H
#include "penstock/graph.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pst_plan pst_plan;

/* Cuts the graph into one pipeline of stages for a job of `ranks` ranks = stages x parallel.data
 * x tensor (0: parallel.pipeline x data x tensor, where 0 counts as 1), and minimizes the cost
 * of the costliest stage. Uses parallel.schedule, train.batch / b micro-batches per step over
 * all replicas, and predicts time and memory with train.optimizer and the other keys of
 * parallel. train.micro_batch, train.precision and train.residual must be those of the graph. *plan
 * is the caller's; free with pst_plan_close. EINPUT, among others: more stages than operators;
 * ranks is not a multiple of data x tensor; a graph without a loss, or with a parameter that no
 * operator uses. */
PST_API pst_status pst_plan_solve(const pst_config *config, const pst_graph *graph, uint32_t ranks,
                                  pst_plan **plan);
/* Reads what pst_plan_print has written. EINPUT has file, line, column, and what would be right. */
PST_API pst_status pst_plan_load(const char *path, pst_plan **plan);
/* NULL: nothing. Sessions made from the plan stay valid. */
PST_API void pst_plan_close(pst_plan *plan);
/* EINPUT unless the plan is valid for this graph. A plan with parallel.tensor is for the parts
 * of the graph that tensor ranks have: pst_session_open checks such plans. */
PST_API pst_status pst_plan_check(const pst_plan *plan, const pst_graph *graph);
/* YAML (docs/formats.md). graph: its operators' names are printed as comments; NULL: no names.
 * ENOMEM if `out` cannot be written; the caller keeps it open. */
PST_API pst_status pst_plan_print(const pst_plan *plan, const pst_graph *graph, FILE *out);

/* The plan's values; 0 or "" for NULL. ranks: of one pipeline, its stages. */
PST_API uint32_t pst_plan_ranks(const pst_plan *plan);
PST_API uint32_t pst_plan_micro_batches(const pst_plan *plan); /* per optimizer step */
PST_API const char *pst_plan_schedule(const pst_plan *plan);   /* valid until the plan is closed */
/* Predictions from a nominal machine, or from the plan's file: seconds of an optimizer step; the
 * bubble, i.e. the idle share (0 to 1) of the rank with the longest span; peak bytes of a rank
 * with weights, optimizer state, gradients and activations (0 if there is no such rank). */
PST_API double pst_plan_step_s(const pst_plan *plan);
PST_API double pst_plan_bubble(const pst_plan *plan);
PST_API uint64_t pst_plan_peak_bytes(const pst_plan *plan, uint32_t rank);
#ifdef __cplusplus
}
#endif
#endif

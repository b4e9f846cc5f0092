/* A plan: which part of a graph runs on which rank, in how many micro-batches and in which order,
 * and what that is predicted to cost. It is made without training, can be printed, edited as text
 * and read again, and belongs to the graph that it was made from (by its hash). EINPUT: a NULL,
 * contradictions, a plan of another graph; ENOMEM. A plan belongs to one thread at a time; once
 * made it may be read from several. */
#ifndef PENSTOCK_PLAN_H
#define PENSTOCK_PLAN_H
#include "penstock/graph.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct pst_plan pst_plan;

/* Cuts the graph into one pipeline of stages for a job of `ranks` ranks, which are stages x
 * parallel.data x tensor (0: as many as parallel.pipeline, data and tensor say, each 1 where it is
 * 0), so that the costliest stage is as cheap as possible, under parallel.schedule, with
 * train.batch / b micro-batches per step over all replicas, and predicts time and memory with
 * train.optimizer and the other keys of parallel. train.micro_batch, train.precision and
 * train.residual have to be those of the graph. *plan is the caller's; free with pst_plan_close.
 * EINPUT among others: more stages than operators; ranks that are no multiple of data x tensor; a
 * graph without a loss, or with a parameter that no operator uses. */
PST_API pst_status pst_plan_solve(const pst_config *config, const pst_graph *graph, uint32_t ranks,
                                  pst_plan **plan);
/* Reads what pst_plan_print has written. EINPUT says file, line, column, and what would be
 * right. */
PST_API pst_status pst_plan_load(const char *path, pst_plan **plan);
/* NULL: nothing. Sessions made from the plan stay valid. */
PST_API void pst_plan_close(pst_plan *plan);
/* EINPUT unless the plan is a sound one for this graph. One with parallel.tensor is for the parts
 * that tensor ranks have of it: pst_session_open checks that. */
PST_API pst_status pst_plan_check(const pst_plan *plan, const pst_graph *graph);
/* YAML (docs/formats.md). graph: its operators' names go into comments; NULL: no names. ENOMEM when
 * `out`, which stays the caller's, cannot be written. */
PST_API pst_status pst_plan_print(const pst_plan *plan, const pst_graph *graph, FILE *out);

/* What it says; 0 or "" for NULL. Ranks: of one pipeline, its stages. */
PST_API uint32_t pst_plan_ranks(const pst_plan *plan);
PST_API uint32_t pst_plan_micro_batches(const pst_plan *plan); /* per optimizer step */
PST_API const char *pst_plan_schedule(const pst_plan *plan);   /* valid until the plan is closed */
/* What it predicts from a nominal machine, or from its file: seconds of an optimizer step; the
 * bubble, idle share (0 to 1) of the rank with the longest span; peak bytes of a rank, weights,
 * optimizer state, gradients and activations together (0 for a rank that there is not). */
PST_API double pst_plan_step_s(const pst_plan *plan);
PST_API double pst_plan_bubble(const pst_plan *plan);
PST_API uint64_t pst_plan_peak_bytes(const pst_plan *plan, uint32_t rank);
#ifdef __cplusplus
}
#endif
#endif

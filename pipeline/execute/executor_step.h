/* Operations on the current instruction. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_STEP_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_STEP_H
#include "pipeline/execute/executor.h"

/* Whether an operator is an exchange that the CPU takes part in. */
int pst_executor_is_apart(const pst_executor *x, const pst_step *step);
/* publish: sets the position. seek: moves a queue's cursor to its next instruction at or after
 * `from`. complete: marks an instruction as done. steps: its number of operators. launch: launches
 * operator x->step (with an event, or without one on an asynchronous device), or starts its
 * exchange; exchanged: polls that. fail_step: puts an operator's name before a message. */
void pst_executor_publish(pst_executor *x, pst_activity activity);
void pst_executor_seek(pst_executor *x, pst_queue queue, uint32_t from);
void pst_executor_complete(pst_executor *x, uint32_t at, uint64_t start, uint64_t end);
/* Step i of a pass, or of its part. */
const pst_step *pst_executor_step_at(const pst_executor *x, const pst_instr *instr, uint32_t i);
uint32_t pst_executor_steps(const pst_executor *x, const pst_instr *instr);
pst_status pst_executor_launch(pst_executor *x, const pst_instr *instr, int with_event);
pst_status pst_executor_exchanged(pst_executor *x, uint64_t *start, uint64_t *end);
pst_status pst_executor_fail_step(const pst_executor *x, const pst_step *step, pst_status status);
#endif

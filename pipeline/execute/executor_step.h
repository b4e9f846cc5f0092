/* The instruction at hand. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_STEP_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_STEP_H
#include "pipeline/execute/executor.h"

/* Whether a step is an exchange that the host takes part in. */
int pst_executor_is_apart(const pst_executor *x, const pst_step *step);
/* The next instruction of a queue from `from` on is at its cursor; an instruction is done; how many
 * steps it has; its step x->step is launched (on a device that runs ahead perhaps without an
 * event), or its exchange begun; asks for that; puts an operator's name in front. */
void pst_executor_say(pst_executor *x, pst_activity activity);
void pst_executor_seek(pst_executor *x, pst_queue queue, uint32_t from);
void pst_executor_complete(pst_executor *x, uint32_t at, uint64_t start, uint64_t end);
uint32_t pst_executor_steps(const pst_executor *x, const pst_instr *instr);
pst_status pst_executor_launch(pst_executor *x, const pst_instr *instr, int with_event);
pst_status pst_executor_exchanged(pst_executor *x, uint64_t *start, uint64_t *end);
pst_status pst_executor_fail_step(const pst_executor *x, const pst_step *step, pst_status status);
#endif

/* Operations on the current instruction of an executor. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_STEP_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_STEP_H
#include "pipeline/execute/executor.h"

/* Returns 1 if an operator is an exchange in which the CPU takes part. */
int pst_executor_is_apart(const pst_executor *x, const pst_step *step);
/* pst_executor_publish sets the published position. pst_executor_seek moves the cursor of a queue
 * to the queue's next instruction at or after `from`. pst_executor_complete marks an instruction as
 * complete. pst_executor_steps returns the number of operators of an instruction.
 * pst_executor_launch launches operator x->step (on an asynchronous device with or without an
 * event) or starts its exchange, and pst_executor_exchanged polls the exchange.
 * pst_executor_fail_step prefixes the error message with the operator's name. */
void pst_executor_publish(pst_executor *x, pst_activity activity);
void pst_executor_seek(pst_executor *x, pst_queue queue, uint32_t from);
void pst_executor_complete(pst_executor *x, uint32_t at, uint64_t start, uint64_t end);
/* Returns step i of a pass or of a part of a pass. */
const pst_step *pst_executor_step_at(const pst_executor *x, const pst_instr *instr, uint32_t i);
uint32_t pst_executor_steps(const pst_executor *x, const pst_instr *instr);
/* Posts the transfer of an instruction. */
pst_status pst_executor_post(pst_executor *x, uint32_t at, uint64_t *request);
pst_status pst_executor_launch(pst_executor *x, const pst_instr *instr, int with_event);
pst_status pst_executor_exchanged(pst_executor *x, uint64_t *start, uint64_t *end);
pst_status pst_executor_fail_step(const pst_executor *x, const pst_step *step, pst_status status);
#endif

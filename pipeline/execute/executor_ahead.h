/* Execution on an asynchronous device. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_AHEAD_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_AHEAD_H
#include "pipeline/execute/executor.h"

/* Launches operators and retires launches, as far as possible without blocking. *moved is increased
 * by the number of events. On failure sets *at to the instruction. */
pst_status pst_executor_run_ahead(pst_executor *x, uint32_t *moved, uint32_t *at);
#endif

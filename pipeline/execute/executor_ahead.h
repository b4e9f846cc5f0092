/* Computing on an asynchronous device. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_AHEAD_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_AHEAD_H
#include "pipeline/execute/executor.h"

/* Does as much as is possible now on an asynchronous device; *at: on failure, the instruction. */
pst_status pst_executor_run_ahead(pst_executor *x, uint32_t *moved, uint32_t *at);
#endif

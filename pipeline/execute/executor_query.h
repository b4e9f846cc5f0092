/* Queries about an executor, used by drive.c. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_QUERY_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_QUERY_H
#include "pipeline/execute/executor.h"

/* Returns 1 if the list is finished. */
int pst_executor_finished(const pst_executor *x);
/* Returns 1 if an operator is launched and has not ended. */
int pst_executor_computes(const pst_executor *x);
/* Returns the transport; NULL: the list is finished. */
pst_transport *pst_executor_transport(const pst_executor *x);
/* Returns the number of ranks of the job. */
uint32_t pst_executor_ranks(const pst_executor *x);
#endif

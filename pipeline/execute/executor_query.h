/* Queries about an executor, for drive.c. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_QUERY_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_QUERY_H
#include "pipeline/execute/executor.h"

int pst_executor_finished(const pst_executor *x);
/* 1: an operator is launched and has not ended. */
int pst_executor_computes(const pst_executor *x);
/* NULL: the list is finished. */
pst_transport *pst_executor_transport(const pst_executor *x);
/* The number of ranks of its job. */
uint32_t pst_executor_ranks(const pst_executor *x);
#endif

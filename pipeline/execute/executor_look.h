/* What drive.c asks of an executor. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_LOOK_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_LOOK_H
#include "pipeline/execute/executor.h"

int pst_executor_finished(const pst_executor *x);
/* 1 while an operator is launched and has not ended. */
int pst_executor_computes(const pst_executor *x);
/* NULL when the list is finished. */
pst_transport *pst_executor_transport(const pst_executor *x);
/* Ranks of the job that it runs. */
uint32_t pst_executor_ranks(const pst_executor *x);
#endif

/* Captured graphs: sequences of operators that the device has captured and launches together. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_CAPTURE_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_CAPTURE_H
#include "pipeline/execute/executor.h"

typedef struct pst_executor_run pst_executor_run;
/* pst_executor_captures_open sets x->captures if the device can capture launches.
 * pst_executor_find_run returns the captured graph that begins with operator x->step; NULL: launch
 * this operator alone. pst_executor_run_steps returns the number of operators of a graph.
 * pst_executor_launch_run launches a graph. */
pst_status pst_executor_captures_open(pst_executor *x);
void pst_executor_captures_close(pst_executor *x);
const pst_executor_run *pst_executor_find_run(pst_executor *x, const pst_instr *instr,
                                              uint32_t n_step);
uint32_t pst_executor_run_steps(const pst_executor_run *run);
pst_status pst_executor_launch_run(pst_executor *x, const pst_executor_run *run, int with_event);
#endif

/* Operators that a device has captured, launched together. */
#ifndef PST_PIPELINE_EXECUTE_EXECUTOR_CAPTURE_H
#define PST_PIPELINE_EXECUTE_EXECUTOR_CAPTURE_H
#include "pipeline/execute/executor.h"

typedef struct pst_executor_run pst_executor_run;
/* captures_open sets x->captures if launches are to be captured. find_run: the captured operators
 * from x->step on; NULL: the next one is launched alone. run_steps: how many. launch_run launches
 * them. */
pst_status pst_executor_captures_open(pst_executor *x);
void pst_executor_captures_close(pst_executor *x);
const pst_executor_run *pst_executor_find_run(pst_executor *x, const pst_instr *instr,
                                              uint32_t n_step);
uint32_t pst_executor_run_steps(const pst_executor_run *run);
pst_status pst_executor_launch_run(pst_executor *x, const pst_executor_run *run, int with_event);
#endif

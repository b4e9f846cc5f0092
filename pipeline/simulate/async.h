/* The mean step of a job with asynchronous updates. */
#ifndef PST_PIPELINE_SIMULATE_ASYNC_H
#define PST_PIPELINE_SIMULATE_ASYNC_H
#include "pipeline/simulate/simulate.h"

/* Sets *ns to the mean step of a job whose timing is known: its step or, with asynchronous updates,
 * the result of pst_simulate_async. ENOMEM. */
pst_status pst_simulate_mean(const pst_job *job, const pst_timing *timing, uint64_t *ns);
/* Sets *ns to the longer of the longest step of a worker that has the servers for itself, and the
 * longest time that a server needs for one step of all workers: the mean step of all workers if
 * they are not held up. ENOMEM. */
pst_status pst_simulate_async(const pst_job *job, uint64_t *ns);
#endif

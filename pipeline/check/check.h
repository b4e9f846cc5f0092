/* The checker: proves that a job is correct before it runs. Every SEND has its RECV with the same
 * size; no deadlock with rendezvous sends and bounded buffers; F before B before W before REDUCE
 * before NORM before STEP; a chunk's W (BW) in micro-batch order; no slot is reused before its last
 * reader has completed. */
#ifndef PST_PIPELINE_CHECK_CHECK_H
#define PST_PIPELINE_CHECK_CHECK_H
#include "pipeline/compile/job.h"

typedef enum { PST_CHECK_TAGGED, PST_CHECK_FIFO } pst_check_mode;
/* OK, or EINPUT with a message that says what is wrong and, for a deadlock, prints the cycle ("rank
 * 0 F c0 m3 waits for ... waits for ..."). slots NULL: memory is not checked. */
pst_status pst_job_check(const pst_job *job, const pst_cut *cut, const pst_slots *slots,
                         pst_check_mode mode);
/* For several lanes: cut [grid.tensor], all with the same number of values; slots [lanes]. */
pst_status pst_job_check_grid(const pst_job *job, const pst_cut *const *cut,
                              pst_slots *const *slots, pst_check_mode mode);
#endif

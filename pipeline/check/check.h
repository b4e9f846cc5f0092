/* The checker proves before a run that the instruction lists of a job are correct: every SEND has a
 * matching RECV of the same size; there is no deadlock with rendezvous sends and bounded buffers;
 * the order is F, B, W, REDUCE, NORM, STEP; the W (or BW) of a chunk run in micro-batch order; no
 * memory slot is reused before its last reader has completed. */
#ifndef PST_PIPELINE_CHECK_CHECK_H
#define PST_PIPELINE_CHECK_CHECK_H
#include "pipeline/compile/job.h"

typedef enum { PST_CHECK_TAGGED, PST_CHECK_FIFO } pst_check_mode;
/* Checks a job with one lane. mode: TAGGED for transports that match messages by channel and
 * sequence number, FIFO for transports that deliver messages between two ranks in order. slots
 * NULL: memory is not checked. EINPUT: pst_error() names the wrong instruction or, for a deadlock,
 * the cycle ("rank 0 F c0 m3 waits for ... waits for ..."); ENOMEM. */
pst_status pst_job_check(const pst_job *job, const pst_cut *cut, const pst_slots *slots,
                         pst_check_mode mode);
/* Like pst_job_check, for a job with several lanes. cut: [grid.tensor], all with the same number of
 * values per chunk; slots: [lanes]. */
pst_status pst_job_check_grid(const pst_job *job, const pst_cut *const *cut,
                              pst_slots *const *slots, pst_check_mode mode);
#endif

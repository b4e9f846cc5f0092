/* The order of messages for transports that deliver messages in first-in-first-out order, without
 * tags. */
#ifndef PST_PIPELINE_COMPILE_FIFO_H
#define PST_PIPELINE_COMPILE_FIFO_H
#include "pipeline/compile/job.h"

typedef struct pst_job_builder pst_job_builder;

/* A message that a rank receives. The messages of a rank are in the order of its RECVs; the
 * messages [first[a], first[a + 1]) are posted before the predecessor of action a computes. */
typedef struct {
    uint32_t source, post, chunk, local, micro; /* post: the action a */
} pst_fifo_message;
typedef struct {
    uint32_t n_rank;
    pst_fifo_message **message; /* [n_rank][n_message of the rank] */
    uint32_t *n_message, **first;
} pst_fifo;

pst_status pst_fifo_open(const pst_job_builder *b, pst_fifo *fifo);
void pst_fifo_close(pst_fifo *fifo);
#endif

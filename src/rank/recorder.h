/* Records what a rank computes in training steps: with the environment variable PENSTOCK_RECORD=
 * FOLDER, every rank writes FOLDER/rank-R.record (record.h): a digest of every tensor that an
 * operator reads or writes, of every gradient sum, and of weights and optimizer state after each
 * step, with some of their elements. `penstock verify` compares such files of several layouts.
 *
 *   PENSTOCK_RECORD_ELEMENTS=N   elements stored of a tensor or piece at most (4096), evenly spaced
 *   PENSTOCK_RECORD_WHOLE=NAME   of this tensor all elements are stored
 *
 * Without the variable no recorder is opened, and a step pays for a comparison with NULL per
 * launch. Recording makes steps slower, and synchronous on devices with queues. */
#ifndef PST_RANK_RECORDER_H
#define PST_RANK_RECORDER_H
#include "pipeline/compile/cut.h"

typedef struct pst_rank pst_rank;
typedef struct pst_recorder pst_recorder;

/* *recorder: NULL if nothing is to be recorded. EINPUT: the file cannot be created. */
pst_status pst_recorder_open(const pst_rank *r, pst_recorder **recorder);
/* NULL: nothing. A file that could not be written completely has been reported by a function
 * below. */
void pst_recorder_close(pst_recorder *recorder);

/* All below: r->recorder is not NULL. ENOMEM: memory, or the disk is full. */
/* Before a training step: at the run's first one, the weights and states that it starts from. */
pst_status pst_recorder_begin(pst_rank *r);
/* A launch of an operator: what it reads, before the launch; what it has written, after it. */
typedef struct {
    const pst_step *step;
    uint32_t chunk, micro;
    void *const *arg; /* addresses of the operands */
} pst_recorder_launch;
pst_status pst_recorder_before(pst_rank *r, const pst_recorder_launch *launch);
pst_status pst_recorder_after(pst_rank *r, const pst_recorder_launch *launch);
/* An exchange of the tensor group has ended: what it has written. */
pst_status pst_recorder_exchanged(pst_rank *r, uint32_t chunk, const pst_step *step,
                                  uint32_t micro);
/* NORM begins: the gradients that this rank owns are summed. */
pst_status pst_recorder_gradients(pst_rank *r);
/* The step is done: its numbers, and the weights and states after it. */
pst_status pst_recorder_end(pst_rank *r);
#endif

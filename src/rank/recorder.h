/* Records what a rank computes in training steps: with the environment variable PENSTOCK_RECORD=
 * FOLDER, every rank writes FOLDER/rank-R.record (record.h): a digest of every tensor that an
 * operator reads or writes, of every gradient sum, and of weights and optimizer state after each
 * step, with some of the elements. `penstock verify` compares such files of several layouts.
 *
 * PENSTOCK_RECORD_ELEMENTS=N: stores at most N elements per record (default 4096), evenly spaced.
 * PENSTOCK_RECORD_WHOLE=NAME: stores all elements of this tensor.
 * PENSTOCK_RECORD_REPEAT=1: repeats every operator (repeat.h).
 *
 * Without PENSTOCK_RECORD no recorder is opened, and the cost is one comparison with NULL per
 * launch. Recording slows steps down and makes asynchronous devices synchronous. */
#ifndef PST_RANK_RECORDER_H
#define PST_RANK_RECORDER_H
#include "pipeline/compile/cut.h"

typedef struct pst_rank pst_rank;
typedef struct pst_recorder pst_recorder;

/* *recorder: NULL if nothing is to be recorded. EINPUT: the file cannot be created. */
pst_status pst_recorder_open(const pst_rank *r, pst_recorder **recorder);
/* recorder may be NULL. Errors in writing the file were returned by the functions below. */
void pst_recorder_close(pst_recorder *recorder);

/* For all functions below, r->recorder must not be NULL. ENOMEM: no memory, or the disk is full. */
/* To be called before each training step; before the first step of a run, records the initial
 * weights and optimizer state. */
pst_status pst_recorder_begin(pst_rank *r);
/* A launch of an operator. pst_recorder_before records the inputs, to be called before the launch;
 * pst_recorder_after records the outputs. */
typedef struct {
    const pst_step *step;
    uint32_t chunk, micro;
    void *const *arg; /* addresses of the operands */
} pst_recorder_launch;
pst_status pst_recorder_before(pst_rank *r, const pst_recorder_launch *launch);
pst_status pst_recorder_after(pst_rank *r, const pst_recorder_launch *launch);
/* 1: operators are to be repeated; recorder may be NULL. */
int pst_recorder_repeats(const pst_recorder *recorder);
/* Records the outputs of a repetition. */
pst_status pst_recorder_repeated(pst_rank *r, const pst_recorder_launch *launch);
/* Records the outputs of communication within the tensor group; to be called when it is done. */
pst_status pst_recorder_exchanged(pst_rank *r, uint32_t chunk, const pst_step *step,
                                  uint32_t micro);
/* Records the reduced gradients that this rank owns; to be called when NORM begins. */
pst_status pst_recorder_gradients(pst_rank *r);
/* Records the scalars of a step, and weights and optimizer state after the step; to be called at
 * the end of the step. */
pst_status pst_recorder_end(pst_rank *r);
#endif

/* Writes checkpoints while training continues. If a checkpoint cannot be written, an event in the
 * metrics says so and training continues; t->checkpointed is the step of the last complete
 * checkpoint. EINPUT from any function: weights or optimizer state were not finite, and no
 * checkpoint was written. All functions are collective unless noted. */
#ifndef PST_RUN_SAVING_H
#define PST_RUN_SAVING_H
#include "checkpoint/shard.h"
#include "run/trainer.h"

/* Prints run.yaml as it is kept in the run's folder and in checkpoints: data.tokenizer is the copy
 * beside it (PST_CKPT_TOKENIZER). Not collective. */
pst_status pst_saving_print_config(const pst_config *c, FILE *out);
/* The same as text, which the caller frees. */
pst_status pst_saving_config_text(const pst_config *c, char **text);
/* Starts threads and allocates buffers; optional: otherwise pst_saving_start does it. */
pst_status pst_saving_open(pst_trainer *t);
/* Starts the checkpoint of t->step; first waits until the previous one is written. last: 1: no
 * training step follows before pst_saving_finish. */
pst_status pst_saving_start(pst_trainer *t, int last);
/* Makes progress on the checkpoint; to be called after each step, when t->report is set. */
pst_status pst_saving_progress(pst_trainer *t);
/* Waits until the checkpoint is complete or has failed. */
pst_status pst_saving_finish(pst_trainer *t);
/* State of this process's part of the checkpoint. Not collective. */
pst_save_state pst_saving_state(pst_trainer *t);
/* 1: islands keep weights for an exchange under way, which a checkpoint of this step has to
 * contain. Not collective. */
int pst_saving_keeps(const pst_trainer *t);
/* Bytes of a checkpoint's tensors, of all ranks; 0: not known yet. Not collective. */
uint64_t pst_saving_bytes(const pst_trainer *t);
/* Before a step with delayed updates: waits until the checkpoint under way no longer needs the
 * pending gradients, which the step exchanges in place. Not collective. */
void pst_saving_await_pending(const pst_trainer *t);
/* After pst_saving_open: what a checkpoint of t->step contains: its information, and the header of
 * the first local rank's shard if each side of the state begins at byte `at` of a file
 * (pst_shard_header). pst_saving_whole_header: with all that the rank has of weights and optimizer
 * state, in addition to what it owns: other replicas have the same. is_busy: 1: a checkpoint is
 * under way; equal on all ranks. Not collective. */
void pst_saving_info(const pst_trainer *t, pst_ckpt_info *info);
pst_status pst_saving_header(const pst_trainer *t, uint64_t at, char **text, size_t *bytes);
pst_status pst_saving_whole_header(const pst_trainer *t, uint64_t at, char **text, size_t *bytes);
int pst_saving_is_busy(const pst_trainer *t);
/* Abandons a checkpoint that is being written; earlier ones are kept. Not collective; to be called
 * before the group is closed. */
void pst_saving_close(pst_trainer *t);
/* Removes the checkpoints in `folder` that checkpoint.keep and keep_every do not keep, now that the
 * one with this information is complete. One process of the run. */
void pst_saving_prune(const char *folder, const pst_config *c, const pst_ckpt_info *info);
/* What checkpoints are compared by: best_of of their information. */
void pst_saving_best_of(const pst_config *c, char out[PST_CKPT_BEST_OF]);
#endif

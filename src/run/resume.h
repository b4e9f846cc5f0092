/* Loads what a run starts from: a checkpoint (of any layout) or Hugging Face weights. Also the hash
 * of all weights. */
#ifndef PST_RUN_RESUME_H
#define PST_RUN_RESUME_H
#include "run/trainer.h"

/* Reads the weights of a checkpoint into one rank. source: a checkpoint, or a run folder, of which
 * the newest checkpoint is read. EINPUT: the checkpoint does not match the model. */
pst_status pst_resume_read_weights(pst_rank *r, const char *source);
/* Reads Hugging Face weights into one rank. source: a folder or a safetensors file. */
pst_status pst_resume_read_hf(pst_rank *r, const char *source);

/* Reads the checkpoint t->resume into all ranks and sets t->step. Collective. EINPUT: the
 * checkpoint does not match, or ranks have found different checkpoints. */
pst_status pst_resume_read(pst_trainer *t);
/* Reads an open checkpoint of this same run, which is not checked, into this process's ranks, and
 * sets t->step and other counters. Not collective. */
pst_status pst_resume_load(pst_trainer *t, const pst_ckpt *ckpt);
/* Goes back to the last checkpoint of this run, t->checkpointed, which exists. Collective. */
pst_status pst_resume_rewind(pst_trainer *t);
/* Check that the checkpoint `resume`, or the Hugging Face weights `source`, match this run: headers
 * and shapes, not the contents of tensors. EINPUT: the message gives the reason. Not collective. */
pst_status pst_resume_check(const pst_prepared *p, pst_data *data, const char *resume);
pst_status pst_resume_check_hf(const pst_prepared *p, const char *source);
/* Checks that data.tokenizer is that of the checkpoint `resume`, without the data. EINPUT: it is
 * not; names both hashes. Not collective. */
pst_status pst_resume_check_tokenizer(const pst_config *c, const char *resume);
/* If the run file is that of the folder `resume`, which has lost its copy of the tokenizer: sets
 * data.tokenizer to the copy in the checkpoint. EINPUT: there is none either. */
pst_status pst_resume_find_tokenizer(pst_config *c, const char *resume);
/* Reads Hugging Face weights (model.weights) into all ranks. Collective. */
pst_status pst_resume_read_hf_all(pst_trainer *t, const char *path);
/* weights_hash.c: *hash: XXH64 of all weights (docs/formats.md). Collective. */
pst_status pst_weights_hash_all(pst_trainer *t, uint64_t *hash);
#endif

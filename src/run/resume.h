/* What a run starts from: checkpoints (of any layout), or Hugging Face weights; and the hash of all
 * weights. */
#ifndef PST_RUN_RESUME_H
#define PST_RUN_RESUME_H
#include "run/trainer.h"

/* Into one rank. source: a checkpoint, or a run folder (its newest checkpoint). EINPUT when it does
 * not match the model. */
pst_status pst_resume_read_weights(pst_rank *r, const char *source);
/* source: folder or file of a Hugging Face GPT-2. */
pst_status pst_resume_read_hf(pst_rank *r, const char *source);

/* Reads the checkpoint t->resume and sets t->step; collective. EINPUT when ranks have found
 * different ones. */
pst_status pst_resume_read(pst_trainer *t);
/* Checks that `resume`, or the file model.weights, matches this run: headers and shapes, not the
 * tensors' bytes. EINPUT says why not. Not collective. */
pst_status pst_resume_check(const pst_prepared *p, pst_data *data, const char *resume);
pst_status pst_resume_check_hf(const pst_prepared *p, const char *source);
/* Weights from a Hugging Face file (model.weights), collective. */
pst_status pst_resume_read_hf_all(pst_trainer *t, const char *path);
/* weights_hash.c: XXH64 of all weights (docs/formats.md), collective. */
pst_status pst_weights_hash_all(pst_trainer *t, uint64_t *hash);
#endif

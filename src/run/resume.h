/* Reading weights into one rank, from a checkpoint or a Hugging Face model. The training run's own
 * saving and resuming is declared in trainer.h. */
#ifndef PST_RUN_RESUME_H
#define PST_RUN_RESUME_H
#include "rank/rank.h"

/* source: checkpoint, run folder (its newest checkpoint). EINPUT when it does not fit the model. */
pst_status pst_save_read_weights(pst_rank *r, const char *source);
/* source: folder or file of a Hugging Face GPT-2. */
pst_status pst_save_read_hf(pst_rank *r, const char *source);
#endif

/* Copies samples into the arenas of the ranks, and losses out of them. */
#ifndef PST_RUN_FEED_H
#define PST_RUN_FEED_H
#include "run/trainer.h"

/* Checks that the samples of the data set have the fields that the model reads. EINPUT: the message
 * names the difference. */
pst_status pst_feed_check(const pst_prepared *p, const pst_data *data);
/* Allocates the buffers of samples, and starts the thread that reads them; the ranks must be open.
 * ENOMEM. */
pst_status pst_feed_open(pst_trainer *t);
/* To be called before the data is closed. */
void pst_feed_close(pst_trainer *t);
/* Fills the data tensors of every local rank, which runs the lists of that batch (pst_group_use),
 * with the batch of step t->step, and begins to read the next batch. Sets t->data_wait_ns. */
pst_status pst_feed_batch(pst_trainer *t);
/* Number of forward passes per evaluation, over the validation split and all evaluation sets; each
 * pass has as many samples as a step. 0: no data. */
uint64_t pst_feed_passes(const pst_trainer *t);
/* Evaluates on the validation split of `data`, limited to eval.tokens; *out is equal on all ranks.
 * It has no tokens if the split is empty, or if some rank was asked to stop before the end;
 * t->stopped is then set. Collective. */
pst_status pst_feed_validate(pst_trainer *t, pst_data *data, pst_evaluation *out);
#endif

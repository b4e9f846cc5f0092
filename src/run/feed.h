/* Copies data into the arenas of the ranks, and losses out of them. */
#ifndef PST_RUN_FEED_H
#define PST_RUN_FEED_H
#include "run/trainer.h"

/* Checks that the data set has what the model reads; EINPUT names the difference. */
pst_status pst_feed_check(const pst_prepared *p, const pst_data *data);
/* Allocates the buffer of a sample; t->p must be set. ENOMEM. */
pst_status pst_feed_open(pst_trainer *t);
void pst_feed_close(pst_trainer *t);
/* Fills the data tensors of every local rank with the training batch that starts at `sample`. */
pst_status pst_feed_batch(pst_trainer *t, uint64_t sample);
/* Forward passes of one evaluation on all evaluation data, each of as many samples as a step; 0: no
 * data. */
uint64_t pst_feed_passes(const pst_trainer *t);
/* Mean loss (nats per token) over eval.tokens of the data's validation split, or all of it, the
 * same on every rank; *tokens: how many. NaN and 0 when the split is empty, or when a rank was
 * asked to stop before the end: t->stopped is then set. Collective. */
pst_status pst_feed_validate(pst_trainer *t, pst_data *data, double *loss, uint64_t *tokens);
#endif

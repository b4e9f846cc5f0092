/* Data into the arenas of the ranks, and losses out of them. */
#ifndef PST_RUN_FEED_H
#define PST_RUN_FEED_H
#include "run/trainer.h"

/* Whether the model reads what the data set has; EINPUT says what not. */
pst_status pst_feed_check(const pst_prepared *p, const pst_data *data);
/* Room for a sample, once t->p is there; ENOMEM. */
pst_status pst_feed_open(pst_trainer *t);
void pst_feed_close(pst_trainer *t);
/* Fills data tensors of every local rank for the training batch that starts at `sample`. */
pst_status pst_feed_batch(pst_trainer *t, uint64_t sample);
/* Forward passes of an evaluation on all that there is to evaluate on, each of as many samples as a
 * step; 0: there is nothing. */
uint64_t pst_feed_passes(const pst_trainer *t);
/* Mean loss (nats per token) over eval.tokens of the data's validation split, or all of it, the
 * same on every rank; *tokens: how many. NaN and 0 when the split is empty, or when a rank was
 * asked to stop before its end: t->stopped is then set. Collective. */
pst_status pst_feed_validate(pst_trainer *t, pst_data *data, double *loss, uint64_t *tokens);
#endif

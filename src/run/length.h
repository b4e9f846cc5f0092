/* The length of a run that is given in tokens or epochs. */
#ifndef PST_RUN_LENGTH_H
#define PST_RUN_LENGTH_H
#include "config/config.h"
#include "data/data.h"

/* Sets train.steps from train.tokens or train.epochs, rounded up to whole steps, and what follows
 * from it; does nothing if neither is given. EINPUT: more than 10^12 steps. */
pst_status pst_length_resolve(pst_config *config, const pst_data *data);
/* The same for data that only a program knows, which has `tokens` tokens per step. EINPUT:
 * train.epochs is given. */
pst_status pst_length_resolve_tokens(pst_config *config, uint64_t tokens);
#endif

/* The length of a run that is given in tokens or epochs. */
#ifndef PST_RUN_LENGTH_H
#define PST_RUN_LENGTH_H
#include "data/data.h"
#include "prepare/prepare.h"

/* Sets train.steps from train.tokens or train.epochs, rounded up to whole steps, and what follows
 * from it; does nothing if neither is given. c: the configuration of p. data: NULL: only a program
 * knows it. EINPUT: more than 10^12 steps, or train.epochs without `data`. */
pst_status pst_length_resolve(pst_config *c, const pst_prepared *p, const pst_data *data);
#endif

/* parallel.collectives: whether sums of tensor ranks are exact or fast; and advice about this and
 * parallel.gradients. */
#ifndef PST_RUN_COLLECTIVES_H
#define PST_RUN_COLLECTIVES_H
#include "prepare/prepare.h"

/* EINPUT: `fast` is requested, but not available. */
pst_status pst_collectives_check(const pst_prepared *p);
/* The share of the predicted step that `fast` would save on the slowest rank. */
double pst_collectives_saved_share(const pst_prepared *p);
/* Logs advice about these options. */
void pst_collectives_advise(const pst_prepared *p);
#endif

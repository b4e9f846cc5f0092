/* parallel.collectives: reproducible sums of tensor ranks (added in rank order) or fast ones (added
 * by NCCL). Checks of this key and of parallel.gradients. */
#ifndef PST_RUN_COLLECTIVES_H
#define PST_RUN_COLLECTIVES_H
#include "prepare/prepare.h"

/* EINPUT: `fast` is set, but no transport on this machine supports it. */
pst_status pst_collectives_check(const pst_prepared *p);
/* The share of the predicted step that `fast` would save, on the rank that saves most. */
double pst_collectives_saved_share(const pst_prepared *p);
/* Logs warnings about these keys. */
void pst_collectives_advise(const pst_prepared *p);
#endif

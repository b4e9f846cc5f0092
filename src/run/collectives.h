/* parallel.collectives: who adds up what tensor ranks exchange; and what is worth saying of that
 * and of parallel.gradients. */
#ifndef PST_RUN_COLLECTIVES_H
#define PST_RUN_COLLECTIVES_H
#include "prepare/prepare.h"

/* EINPUT: `fast` is asked for where nothing adds fast. */
pst_status pst_collectives_check(const pst_prepared *p);
/* Of the predicted step, the share of its longest rank that `fast` would spare. */
double pst_collectives_spared(const pst_prepared *p);
/* Says what is worth knowing about the choices. */
void pst_collectives_say(const pst_prepared *p);
#endif

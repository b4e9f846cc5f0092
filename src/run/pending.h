/* Pending gradients in checkpoints (parallel.update: delayed): those of the last steps, which are
 * not applied yet, of each replica. */
#ifndef PST_RUN_PENDING_H
#define PST_RUN_PENDING_H
#include "run/trainer.h"

/* Sets the pending gradients of this process's ranks, and t->pending; t->step is set. Of another
 * number of replicas, the first replica gets the sum, added in the order of the binary tree, and
 * the others -0, which changes no sum. A checkpoint without any begins with none. EINPUT: they are
 * of another parallel.staleness, or unreadable; ENOMEM. */
pst_status pst_pending_read(pst_trainer *t, const pst_ckpt *ckpt);
/* Says that this run drops them, if its updates are not delayed. */
void pst_pending_explain(const pst_prepared *p, const pst_ckpt *ckpt);
#endif

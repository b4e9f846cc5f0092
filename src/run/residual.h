/* Residuals in checkpoints: what codecs (parallel.compress) had left out of the gradients of each
 * replica; and the copies of weights that all replicas have, to which packed changes are added. */
#ifndef PST_RUN_RESIDUAL_H
#define PST_RUN_RESIDUAL_H
#include "checkpoint/checkpoint.h"
#include "rank/rank.h"

/* Sets a rank's residuals to those of its replica. If the checkpoint is of another number of
 * replicas, each gets an equal part of their sum, because gradients of replicas are added. Those
 * that the checkpoint lacks, or that are of gradients where this run packs steps or the reverse,
 * become 0. Second moments of replicas become the mean of those of the checkpoint or, if it has
 * none, the optimizer's. A replica takes the basis of the stored replica of its number modulo
 * theirs, or none if it has another shape. Copies that it lacks become the weights. EINPUT as
 * pst_ckpt_read_held; ENOMEM. */
pst_status pst_residual_read(const pst_rank *r, const pst_ckpt *ckpt);
/* Says what becomes of residuals and copies if they are divided among other replicas, dropped or
 * missing. */
void pst_residual_explain(const pst_prepared *p, const pst_ckpt *ckpt);
#endif

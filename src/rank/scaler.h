/* The loss scale in fp16 (Micikevicius et al. 2018, Mixed Precision Training): the loss is
 * multiplied by it, so that small gradients do not become 0, and the optimizer divides by it.
 * Dynamic: a step that overflows is skipped and the scale lowered; after enough steps without
 * overflow it is doubled. As torch.amp.GradScaler does, within bounds. */
#ifndef PST_RANK_SCALER_H
#define PST_RANK_SCALER_H
#include "config/config.h"

#define PST_SCALE_MIN 1.0
#define PST_SCALE_MAX 16777216.0

typedef struct {
    double scale;  /* 0: not opened */
    uint64_t good; /* steps in a row without overflow since the scale last changed */
    int dynamic;
} pst_scaler;

/* At the start of the run. */
void pst_scaler_open(const pst_config *c, pst_scaler *s);
/* Call it after every step; finite: its loss and gradients were. 1: an overflow, and the scale was
 * lowered. 0 after a step that is not finite: the scale is fixed, or at its minimum. The same on
 * every rank. */
int pst_scaler_step(pst_scaler *s, const pst_config *c, int finite);
#endif

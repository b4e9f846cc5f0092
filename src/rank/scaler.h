/* The loss scale in fp16 (Micikevicius et al. 2018, Mixed Precision Training): the loss is
 * multiplied by the scale, so that small gradients do not underflow, and the optimizer divides
 * gradients by the scale. A dynamic scale is lowered after a step that overflows, which is skipped,
 * and doubled after enough steps without overflow, as in torch.amp.GradScaler, but between
 * PST_SCALE_MIN and PST_SCALE_MAX. */
#ifndef PST_RANK_SCALER_H
#define PST_RANK_SCALER_H
#include "config/config.h"

#define PST_SCALE_MIN 1.0
#define PST_SCALE_MAX 16777216.0

typedef struct {
    double scale;  /* the loss scale; 0: pst_scaler_open was not called yet */
    uint64_t good; /* consecutive steps without overflow since the scale last changed */
    int dynamic;
} pst_scaler;

/* Sets the initial scale of a run. */
void pst_scaler_open(const pst_config *c, pst_scaler *s);
/* To be called after every step; finite: 1: the step's loss and gradients were finite. Returns 1
 * after an overflow that has lowered the scale; returns 0 after a finite step, or if the scale is
 * fixed or at its minimum. The result is equal on all ranks. */
int pst_scaler_step(pst_scaler *s, const pst_config *c, int finite);
#endif

/* See scaler.h. */
#include "rank/scaler.h"
#include <string.h>

void pst_scaler_open(const pst_config *c, pst_scaler *s) {
    int dynamic = !(c->train.loss_scale > 0) && !strcmp(c->train.precision, "fp16");
    *s = (pst_scaler){.dynamic = dynamic, .scale = 1};
    if (c->train.loss_scale > 0) s->scale = c->train.loss_scale;
    if (dynamic) s->scale = c->train.loss_scale_start;
}

int pst_scaler_step(pst_scaler *s, const pst_config *c, int finite) {
    if (!s->dynamic || (!finite && s->scale <= PST_SCALE_MIN)) return 0;
    if (!finite) {
        s->scale *= c->train.loss_scale_backoff;
        s->good = 0;
        if (s->scale < PST_SCALE_MIN) s->scale = PST_SCALE_MIN;
        return 1;
    }
    if (++s->good < (uint64_t)c->train.loss_scale_interval) return 0;
    s->good = 0;
    s->scale = s->scale * 2 < PST_SCALE_MAX ? s->scale * 2 : PST_SCALE_MAX;
    return 0;
}

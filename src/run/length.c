/* See length.h. */
#include "run/length.h"
#include <math.h>

static const double MAX_STEPS = 1e12; /* as the row of train.steps */

static pst_status set_steps(pst_config *c, const char *key, double steps) {
    if (steps > MAX_STEPS)
        return pst_config_at(c, "train", key,
                             pst_fail(PST_EINPUT, "train.%s gives %.3g steps; expected at most %g",
                                      key, steps, MAX_STEPS));
    pst_config_set_steps(c, steps > 1 ? (int64_t)steps : 1);
    return PST_OK;
}

/* Numbers of samples may exceed 64 bits. */
static pst_status set_samples(pst_config *c, const pst_prepared *p, const char *key,
                              double samples) {
    const double batch = (double)c->train.batch;
    if (samples > MAX_STEPS * batch) return set_steps(c, key, samples / batch);
    return set_steps(c, key, (double)pst_batches_steps(&p->batches, (uint64_t)ceil(samples)));
}

pst_status pst_length_resolve(pst_config *c, const pst_prepared *p, const pst_data *data) {
    const double tokens = (double)p->tokens / (double)pst_prepared_batch(p); /* of a sample */
    if (c->train.epochs > 0 && !data)
        return pst_config_at(c, "train", "epochs",
                             pst_fail(PST_EINPUT, "train.epochs: the program's data has no known "
                                                  "size; give train.steps or train.tokens"));
    if (c->train.epochs > 0)
        return set_samples(c, p, "epochs",
                           c->train.epochs * (double)data->row->size(data, PST_SPLIT_TRAIN));
    return c->train.tokens ? set_samples(c, p, "tokens", (double)c->train.tokens / tokens) : PST_OK;
}

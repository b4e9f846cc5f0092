/* See learning_rate.h. */
#include "run/learning_rate.h"
#include <math.h>
#include <string.h>

static int is(const pst_config *c, const char *decay) { return !strcmp(c->train.decay, decay); }

/* How far the decay has come, from 0 to 1; it begins with step `from`. */
static double progress(const pst_config *c, uint64_t step, uint64_t from) {
    uint64_t steps = (uint64_t)c->train.steps;
    if (step < from || from >= steps) return 0;
    double x = (double)(step - from) / (double)(steps - from);
    return x > 1 ? 1 : x;
}

/* Vaswani et al. 2017; continues the warm-up, which ends with lr in step warmup - 1. */
static double inverse_root(const pst_config *c, uint64_t step) {
    double warmup = c->train.warmup > 1 ? (double)c->train.warmup : 1;
    double rate = c->train.lr * sqrt(warmup / (double)(step + 1));
    return rate > c->train.lr_min ? rate : c->train.lr_min;
}

double pst_learning_rate(const pst_config *c, uint64_t step) {
    double lr = c->train.lr, low = c->train.lr_min;
    uint64_t warmup = (uint64_t)c->train.warmup, steps = (uint64_t)c->train.steps;
    if (step < warmup) return lr * (double)(step + 1) / (double)c->train.warmup;
    if (is(c, "none")) return lr;
    if (is(c, "inverse-sqrt")) return inverse_root(c, step);
    if (is(c, "wsd"))
        return low + (lr - low) * (1 - progress(c, step, steps - (uint64_t)c->train.decay_steps));
    double x = progress(c, step, warmup);
    if (is(c, "linear")) return low + (lr - low) * (1 - x);
    return low + (lr - low) * (0.5 * (1 + cos(3.14159265358979323846 * x)));
}

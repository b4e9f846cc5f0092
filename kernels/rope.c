/* See rope.h. In double, rounded once. */
#include "kernels/rope.h"
#include <math.h>

static const double turn = 6.283185307179586;

/* Frequencies whose wavelength exceeds context/low are divided, those below context/high stay,
 * those between are blended (Llama 3.1). */
static double llama3(const pst_rope *r, double angle) {
    const double turns = r->context * angle / turn; /* within the context */
    if (turns < (double)r->low) return angle / (double)r->factor;
    if (turns > (double)r->high) return angle;
    const double keep = (turns - (double)r->low) / ((double)r->high - (double)r->low);
    return (1 - keep) * angle / (double)r->factor + keep * angle;
}

/* The pair, as a fraction, that makes so many turns within the context. */
static double pair_of(const pst_rope *r, double d, double turns) {
    return d * log(r->context / (turns * turn)) / (2 * log((double)r->theta));
}

/* A ramp over the pairs, between those of `high` and of `low` turns (YaRN, section 3.2). */
static double yarn(const pst_rope *r, double d, double i, double angle) {
    double from = fmax(floor(pair_of(r, d, (double)r->high)), 0),
           to = fmin(ceil(pair_of(r, d, (double)r->low)), d - 1);
    if (from == to) to += 0.001;
    const double divided = fmin(fmax((i - from) / (to - from), 0), 1);
    return angle / (double)r->factor * divided + angle * (1 - divided);
}

float pst_rope_angles(const pst_rope *rope, uint64_t d, float *angle) {
    for (uint64_t i = 0; i < d / 2; i++) {
        double a = pow((double)rope->theta, -2.0 * (double)i / (double)d);
        if (rope->scaling == PST_ROPE_LINEAR) a /= (double)rope->factor;
        if (rope->scaling == PST_ROPE_LLAMA3) a = llama3(rope, a);
        if (rope->scaling == PST_ROPE_YARN) a = yarn(rope, (double)d, (double)i, a);
        angle[i] = (float)a;
    }
    if (rope->scaling != PST_ROPE_YARN) return 1;
    return rope->attention > 0 ? rope->attention : (float)(0.1 * log((double)rope->factor) + 1);
}

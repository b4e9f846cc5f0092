/* See replicas.h. Most micro-batches are assigned at once, because there may be millions: what each
 * replica finishes by a time that is certainly early enough. */
#include "partition/cost/replicas.h"
#include <math.h>

static uint32_t share_at_once(const double *period, uint32_t n, uint32_t n_micro,
                              uint32_t *micros) {
    uint32_t left = n_micro;
    int equal = 1;
    double rate = 0;
    for (uint32_t k = 0; k < n; k++) {
        equal &= !(period[k] < period[0]) && !(period[k] > period[0]);
        rate += period[k] > 0 ? 1 / period[k] : INFINITY;
    }
    const double by = (n_micro - n) / rate;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t own = period[k] > 0 ? (uint32_t)(by / period[k]) : 0;
        if (equal) own = n_micro / n + (k < n_micro % n);
        micros[k] = own > 1 ? own : 1;
        left -= micros[k];
    }
    return left;
}

void pst_replicas_share(const double *period, uint32_t n, uint32_t n_micro, uint32_t *micros) {
    for (uint32_t left = share_at_once(period, n, n_micro, micros); left; left--) {
        uint32_t best = 0;
        for (uint32_t k = 1; k < n; k++)
            if ((micros[k] + 1.) * period[k] < (micros[best] + 1.) * period[best]) best = k;
        micros[best]++;
    }
}

/* The time of the slowest replica. */
static double slowest(const double *period, uint32_t n, const uint32_t *micros, double rest) {
    double most = period[0] * (micros[0] - 1 + rest);
    for (uint32_t k = 1; k < n; k++) most = fmax(most, period[k] * micros[k]);
    return most;
}

void pst_replicas_share_rest(const double *period, uint32_t n, uint32_t n_micro, double rest,
                             uint32_t *micros) {
    pst_replicas_share(period, n, n_micro, micros);
    if (rest <= 0 || n_micro - 1 < n) return;
    const double alike = slowest(period, n, micros, rest);
    pst_replicas_share(period, n, n_micro - 1, micros);
    micros[0]++;
    if (slowest(period, n, micros, rest) >= alike) pst_replicas_share(period, n, n_micro, micros);
}

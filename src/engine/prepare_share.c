/* Which micro-batches each replica takes, and how much slower than it is each rank is made. */
#include "engine/prepare.h"
#include <math.h>
#include <stdlib.h>

/* Item i of a list of numbers in [least, most]. */
static pst_status number_of(const char *key, char *const *list, uint32_t i, double least, double most, int whole,
                            double *out) {
    char *end;
    double x = strtod(list[i], &end);
    if (end != list[i] && !*end && x >= least && x <= most && (!whole || floor(x) == x)) {
        *out = x;
        return PST_OK;
    }
    return pst_fail(PST_EINPUT, "%s: expected a %snumber from %.10g to %.10g, found '%.40s'", key,
                    whole ? "whole " : "", least, most, list[i]);
}

pst_status pst_prepare_throttle(pst_prepared *p) {
    const pst_config *c = p->config;
    uint32_t n = p->options.n_rank, given = p->options.infer ? 0 : c->parallel.n_throttle;
    if (given > 1 && given != n)
        return pst_fail(PST_EINPUT, "parallel.throttle has %u factors for %u ranks; give one for each, or one for all",
                        given, n);
    if (!(p->throttle = malloc(n * sizeof *p->throttle)))
        return pst_fail(PST_ENOMEM, "no memory to prepare a run of %u ranks", n);
    for (uint32_t r = 0; r < n; r++) {
        p->throttle[r] = 1;
        if (given)
            PST_TRY(
                number_of("parallel.throttle", c->parallel.throttle, given > 1 ? r : 0, 1, 1000, 0, &p->throttle[r]));
    }
    return PST_OK;
}

/* A pipeline is as fast as its slowest rank. */
static double speed_of(const pst_prepared *p, uint32_t replica) {
    double slowest = 1;
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (pst_grid_at(p->grid, r).replica == replica && p->throttle[r] > slowest) slowest = p->throttle[r];
    return 1 / slowest;
}

/* One to each; each further one to whoever would be done with it first, the first of equals. */
static void share_by_speed(const pst_prepared *p, uint32_t n_micro, uint32_t *count) {
    uint32_t n = p->grid.data;
    for (uint32_t k = 0; k < n; k++) count[k] = 1;
    for (uint32_t left = n_micro - n; left > 0; left--) {
        uint32_t best = 0;
        for (uint32_t k = 1; k < n; k++)
            if ((count[k] + 1) / speed_of(p, k) < (count[best] + 1) / speed_of(p, best)) best = k;
        count[best]++;
    }
}

static pst_status share_as_given(const pst_prepared *p, uint32_t n_micro, uint32_t *count) {
    const pst_config *c = p->config;
    uint64_t sum = 0;
    if (c->parallel.n_replicas != p->grid.data)
        return pst_fail(PST_EINPUT, "parallel.replicas says what %u replicas take, but parallel.data is %u",
                        c->parallel.n_replicas, p->grid.data);
    for (uint32_t k = 0; k < p->grid.data; k++) {
        double x;
        PST_TRY(number_of("parallel.replicas", c->parallel.replicas, k, 1, 1048576, 1, &x));
        sum += count[k] = (uint32_t)x;
    }
    if (sum == n_micro) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "parallel.replicas: %llu micro-batches together, but a step has %u (train.batch / micro_batch)",
                    (unsigned long long)sum, n_micro);
}

pst_status pst_prepare_share(const pst_prepared *p, uint32_t n_micro, uint32_t *first) {
    uint32_t n = p->grid.data, *count = first + 1; /* becomes their sums */
    if (n_micro < n)
        return pst_fail(PST_EINPUT,
                        "%u micro-batch%s of a step cannot keep %u replicas busy; use a smaller train.micro_batch, a "
                        "larger train.batch or a smaller parallel.data",
                        n_micro, n_micro == 1 ? "" : "es", n);
    if (p->config->parallel.n_replicas && !p->options.infer) PST_TRY(share_as_given(p, n_micro, count));
    else share_by_speed(p, n_micro, count);
    for (uint32_t k = 0; k < n; k++) first[k + 1] += first[k];
    return PST_OK;
}

pst_status pst_prepare_parts(const pst_prepared *p, uint32_t *parts) {
    uint32_t all = p->options.infer ? 0 : (uint32_t)p->config->parallel.reproducible, n = p->grid.data;
    uint32_t n_micro = p->micro[n];
    *parts = 1;
    if (!all) return PST_OK;
    if (all & (all - 1)) return pst_fail(PST_EINPUT, "parallel.reproducible must be a power of two, not %u", all);
    if (all % n)
        return pst_fail(PST_EINPUT, "parallel.reproducible: %u parts cannot be shared out evenly to %u replicas", all,
                        n);
    if (n_micro % all)
        return pst_fail(
            PST_EINPUT,
            "parallel.reproducible: %u micro-batches of a step (train.batch / micro_batch) are no multiple of %u",
            n_micro, all);
    for (uint32_t k = 0; k < n; k++)
        if (p->micro[k + 1] - p->micro[k] != n_micro / n)
            return pst_fail(PST_EINPUT, "parallel.reproducible needs as many micro-batches on every replica");
    *parts = all / n;
    return PST_OK;
}

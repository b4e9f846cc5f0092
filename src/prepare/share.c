/* Divides the micro-batches among the replicas, by the speed of their ranks. */
#include "prepare/prepare.h"
#include "partition/cost/replicas.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void pst_prepare_slow_stages(const pst_prepared *p, double *slow) {
    for (uint32_t s = 0; s < p->grid.pipeline; s++) slow[s] = 0;
    for (uint32_t r = 0; r < p->options.n_rank; r++) {
        uint32_t stage = pst_grid_at(p->grid, r).stage;
        if (pst_grid_is_server(p->grid, r)) continue;
        slow[stage] = fmax(slow[stage], p->slow[r]);
    }
}

/* A pipeline is as fast as its slowest rank. */
double pst_prepare_speed(const pst_prepared *p, uint32_t replica) {
    double slowest = 0;
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (pst_grid_at(p->grid, r).replica == replica) slowest = fmax(slowest, p->slow[r]);
    return 1 / slowest;
}

static pst_status share_by_speed(const pst_prepared *p, uint32_t n_micro, uint32_t *count) {
    const pst_layout *l = &p->plan->layout;
    const uint32_t n = p->grid.data, rest = n_micro == l->n_micro ? l->rest : 0;
    double *period = calloc(n, sizeof *period);
    if (!period)
        return pst_fail(PST_ENOMEM, "no memory to share micro-batches among %u replicas", n);
    for (uint32_t k = 0; k < n; k++) period[k] = 1 / pst_prepare_speed(p, k);
    pst_replicas_share_rest(period, n, n_micro, (double)rest / l->micro_batch, count);
    free(period);
    return PST_OK;
}

/* The layout may have the micro-batches of each replica already, for the same total. */
static int share_as_laid_out(const pst_prepared *p, uint32_t n_micro, uint32_t *count) {
    const uint32_t *micros = p->plan->layout.micros;
    if (!micros || n_micro != p->plan->layout.n_micro) return 0;
    memcpy(count, micros, p->grid.data * sizeof *count);
    return 1;
}

pst_status pst_prepare_share(const pst_prepared *p, uint32_t n_micro, uint32_t *first) {
    uint32_t n = p->grid.data, *count = first + 1; /* prefix sums from here on */
    if (n_micro < n)
        return pst_fail(
            PST_EINPUT,
            "%u micro-batch%s per step for %u replicas; expected at least one per replica: use a "
            "smaller train.micro_batch, a larger train.batch or a smaller parallel.data",
            n_micro, n_micro == 1 ? "" : "es", n);
    if (!share_as_laid_out(p, n_micro, count)) PST_TRY(share_by_speed(p, n_micro, count));
    for (uint32_t k = 0; k < n; k++) first[k + 1] += first[k];
    for (uint32_t k = n; k < pst_grid_owners(p->grid); k++) first[k + 1] = first[n]; /* servers */
    return PST_OK;
}

pst_status pst_prepare_parts(const pst_prepared *p, uint32_t *parts) {
    uint32_t all = p->options.infer ? 0 : (uint32_t)p->config->parallel.reproducible,
             n = p->grid.data;
    uint32_t n_micro = p->micro[n];
    *parts = 1;
    if (!all) return PST_OK;
    if (p->plan->layout.zero == 2)
        return pst_fail(PST_EINPUT,
                        "parallel.reproducible needs unsharded gradients; use parallel.zero=1");
    if (all & (all - 1))
        return pst_fail(PST_EINPUT, "parallel.reproducible is %u; expected a power of two", all);
    if (all % n)
        return pst_fail(
            PST_EINPUT,
            "parallel.reproducible is %u; expected a multiple of the number of replicas, %u", all,
            n);
    if (n_micro % all)
        return pst_fail(PST_EINPUT,
                        "parallel.reproducible: %u micro-batches per step (train.batch / "
                        "micro_batch) are not a multiple of its value, %u",
                        n_micro, all);
    for (uint32_t k = 0; k < n; k++)
        if (p->micro[k + 1] - p->micro[k] != n_micro / n)
            return pst_fail(
                PST_EINPUT,
                "parallel.reproducible needs the same number of micro-batches on every replica");
    *parts = all / n;
    return PST_OK;
}

pst_status pst_prepare_narrow(const pst_prepared *p, int *narrow) {
    *narrow = !strcmp(p->config->parallel.gradients, "bf16") && p->grid.data > 1;
    if (!*narrow) return PST_OK;
    if (p->options.device && p->options.device->flags & PST_DEVICE_OWN_MEMORY)
        return pst_fail(PST_EINPUT,
                        "parallel.gradients bf16 is supported on CPUs only; use "
                        "parallel.gradients=fp32 with device %s",
                        p->options.device->name);
    return p->config->parallel.reproducible
               ? pst_fail(PST_EINPUT, "parallel.reproducible needs parallel.gradients fp32, "
                                      "because bf16 rounds the sum of each replica")
               : PST_OK;
}

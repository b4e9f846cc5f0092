/* Whether every rank of what was prepared fits in memory, and if not, what would. */
#include "engine/prepare.h"
#include <inttypes.h>
#include <string.h>

static uint64_t largest(const pst_prepared *p, uint32_t *rank) {
    uint64_t most = 0;
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (p->layout[r]->total > most) most = p->layout[r]->total, *rank = r;
    return most;
}

enum { MOST_RANKS = 64 }; /* of the advice */

/* Peak of the same run with another schedule, recomputation (NULL: as it is), micro-batch size or number of ranks;
 * UINT64_MAX when impossible. */
static uint64_t peak_with(const pst_prepared *p, const char *schedule, const char *recompute, int64_t micro_batch,
                          uint32_t n_rank) {
    pst_config changed = *p->config; /* shallow: only read below */
    pst_prepare_options options = p->options;
    pst_prepared *other = NULL;
    char *way = (char *)(uintptr_t)recompute;
    uint32_t rank = 0;
    if (recompute) changed.parallel.recompute = &way, changed.parallel.n_recompute = 1;
    changed.parallel.schedule = (char *)(uintptr_t)schedule;
    if (strcmp(schedule, p->config->parallel.schedule)) changed.parallel.chunks = 0;
    changed.train.micro_batch = micro_batch;
    changed.parallel.measured = (char *)(uintptr_t) ""; /* of this micro-batch alone */
    options.n_rank = n_rank;
    if (micro_batch < 1 || changed.train.batch % micro_batch) return UINT64_MAX;
    options.n_eval_micro = (uint32_t)(changed.train.batch / micro_batch);
    if (pst_prepare(&changed, &options, &other) != PST_OK) return UINT64_MAX;
    uint64_t most = largest(other, &rank);
    pst_prepared_close(other);
    return most;
}

/* With the optimizer shared out among replicas, which costs nothing. */
static uint64_t peak_shared(const pst_prepared *p) {
    pst_config changed = *p->config;
    pst_prepare_options options = p->options;
    pst_prepared *other = NULL;
    uint32_t rank = 0;
    changed.parallel.zero = 1;
    if (p->grid.data == 1 || p->config->parallel.zero || pst_prepare(&changed, &options, &other) != PST_OK)
        return UINT64_MAX;
    uint64_t most = largest(other, &rank);
    pst_prepared_close(other);
    return most;
}

/* The cheapest change, in the order of what it costs in speed, that brings every rank under the limit. */
static void suggest(const pst_prepared *p, uint64_t limit, char *text, size_t bytes) {
    const pst_config *c = p->config;
    const char *schedule = c->parallel.schedule;
    int64_t micro_batch = c->train.micro_batch;
    uint32_t ranks = p->options.n_rank;
    static const char *const sparing[] = {"1f1b", "v-half", "v-min"};
    if (peak_shared(p) <= limit) {
        snprintf(text, bytes, "parallel.zero=1 would fit");
        return;
    }
    for (size_t i = 0; i < sizeof sparing / sizeof *sparing; i++)
        if (strcmp(schedule, sparing[i]) && peak_with(p, sparing[i], NULL, micro_batch, ranks) <= limit) {
            snprintf(text, bytes, "parallel.schedule=%s would fit", sparing[i]);
            return;
        }
    for (uint32_t i = PST_RECOMPUTE_SELECTIVE; i <= PST_RECOMPUTE_FULL; i++)
        if (peak_with(p, schedule, pst_recompute_name((pst_recompute)i), micro_batch, ranks) <= limit) {
            snprintf(text, bytes, "parallel.recompute=%s would fit", pst_recompute_name((pst_recompute)i));
            return;
        }
    for (int64_t micro = micro_batch - 1; micro >= 1; micro--)
        if (c->train.batch % micro == 0 && peak_with(p, schedule, NULL, micro, ranks) <= limit) {
            snprintf(text, bytes, "train.micro_batch=%" PRId64 " would fit", micro);
            return;
        }
    for (uint32_t n = ranks + 1; n <= MOST_RANKS && n <= p->graph->n_node; n += n < 16 ? 1 : n / 2)
        for (int one = 0; one < 2; one++) {
            if (peak_with(p, schedule, NULL, one ? 1 : micro_batch, n) > limit) continue;
            snprintf(text, bytes, "-n %u%s would fit, with as much memory for each", n,
                     one ? " and train.micro_batch=1" : "");
            return;
        }
    snprintf(text, bytes, "no schedule, recomputation, micro-batch or number of ranks up to %d would fit", MOST_RANKS);
}

static const char *scaled(uint64_t bytes, char text[32]) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int u = 0;
    for (; u < 4 && value >= 1024; u++) value /= 1024;
    snprintf(text, 32, "%.*f %s", u ? 1 : 0, value, unit[u]);
    return text;
}

pst_status pst_prepare_fits(const pst_prepared *p, uint64_t limit) {
    uint32_t rank = 0;
    uint64_t most = largest(p, &rank);
    char advice[160], needs[32], may[32];
    if (!limit || most <= limit) return PST_OK;
    suggest(p, limit, advice, sizeof advice);
    return pst_fail(PST_ENOMEM, "rank %u needs %s but may use %s; %s", rank, scaled(most, needs), scaled(limit, may),
                    advice);
}

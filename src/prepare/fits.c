/* Whether every rank of what was prepared fits in memory, and if not, what would. */
#include "prepare/prepare.h"
#include "base/bytes.h"
#include <inttypes.h>
#include <string.h>

enum { MOST_RANKS = 64 }; /* of the advice */

/* Whether the same run fits with another schedule, recomputation (NULL: as it is), micro-batch size
 * or number of ranks; 0 also when there is none such. */
static int fits_with(const pst_prepared *p, uint64_t limit, const char *schedule,
                     const char *recompute, int64_t micro_batch, uint32_t n_rank) {
    pst_config changed = *p->config; /* shallow: only read below */
    pst_prepare_options options = p->options;
    pst_prepared *other = NULL;
    char *way = (char *)(uintptr_t)recompute;
    uint32_t rank = 0;
    if (recompute) {
        changed.parallel.recompute = &way;
        changed.parallel.n_recompute = 1;
    }
    changed.parallel.schedule = (char *)(uintptr_t)schedule;
    if (strcmp(schedule, p->config->parallel.schedule)) changed.parallel.chunks = 0;
    changed.train.micro_batch = micro_batch;
    changed.parallel.measured = (char *)(uintptr_t) ""; /* of this micro-batch alone */
    options.n_rank = n_rank;
    if (micro_batch < 1 || changed.train.batch % micro_batch) return 0;
    options.n_eval_micro = (uint32_t)(changed.train.batch / micro_batch);
    if (pst_prepare(&changed, &options, &other) != PST_OK) return 0;
    int fits = !pst_prepare_excess(other, limit, &rank);
    pst_prepared_close(other);
    return fits;
}

/* With the optimizer shared out among replicas, which costs nothing (zero 1), or with gradients,
 * too (2). */
static int fits_shared(const pst_prepared *p, uint64_t limit, int zero) {
    pst_config changed = *p->config;
    pst_prepare_options options = p->options;
    pst_prepared *other = NULL;
    uint32_t rank = 0;
    changed.parallel.zero = zero;
    if (p->grid.data == 1 || p->config->parallel.zero >= zero ||
        pst_prepare(&changed, &options, &other) != PST_OK)
        return 0;
    int fits = !pst_prepare_excess(other, limit, &rank);
    pst_prepared_close(other);
    return fits;
}

/* The cheapest change, in the order of what it costs in speed, that brings every rank under the
 * limit. */
static void suggest(const pst_prepared *p, uint64_t limit, char *text, size_t bytes) {
    const pst_config *c = p->config;
    const char *schedule = c->parallel.schedule;
    int64_t micro_batch = c->train.micro_batch;
    uint32_t ranks = p->options.n_rank;
    uint32_t n_row;
    const pst_schedule_row *row = pst_schedule_rows(&n_row);
    if (fits_shared(p, limit, 1)) {
        snprintf(text, bytes, "parallel.zero=1 would fit");
        return;
    }
    for (uint32_t i = 0; i < n_row; i++)
        if (row[i].spares && strcmp(schedule, row[i].name) &&
            fits_with(p, limit, row[i].name, NULL, micro_batch, ranks)) {
            snprintf(text, bytes, "parallel.schedule=%s%s would fit", row[i].name,
                     c->parallel.chunks ? " with parallel.chunks=0" : "");
            return;
        }
    if (fits_shared(p, limit, 2)) {
        snprintf(text, bytes, "parallel.zero=2 would fit");
        return;
    }
    for (uint32_t i = PST_RECOMPUTE_SELECTIVE; i <= PST_RECOMPUTE_FULL; i++)
        if (fits_with(p, limit, schedule, pst_recompute_name((pst_recompute)i), micro_batch,
                      ranks)) {
            snprintf(text, bytes, "parallel.recompute=%s would fit",
                     pst_recompute_name((pst_recompute)i));
            return;
        }
    for (int64_t micro = micro_batch - 1; micro >= 1; micro--)
        if (c->train.batch % micro == 0 && fits_with(p, limit, schedule, NULL, micro, ranks)) {
            snprintf(text, bytes, "train.micro_batch=%" PRId64 " would fit", micro);
            return;
        }
    for (uint32_t n = ranks + 1; n <= MOST_RANKS && n <= p->graph->n_node; n += n < 16 ? 1 : n / 2)
        for (int one = 0; one < 2; one++) {
            if (!fits_with(p, limit, schedule, NULL, one ? 1 : micro_batch, n)) continue;
            uint32_t fixed = c->parallel.pipeline != 0; /* then -n alone would be refused */
            snprintf(text, bytes, "%s%u%s would fit, with as much memory for each",
                     fixed ? "parallel.pipeline=" : "-n ", fixed ? n / pst_prepare_lanes(c) : n,
                     one ? " and train.micro_batch=1" : "");
            return;
        }
    snprintf(text, bytes,
             "no schedule, recomputation, micro-batch or number of ranks up to %d would fit",
             MOST_RANKS);
}

static const char *scaled(uint64_t bytes, char text[PST_BYTES_TEXT]) {
    return pst_bytes_text(bytes, PST_BYTES, PST_TIB, 1, text);
}

pst_status pst_prepare_fits(const pst_prepared *p, uint64_t limit) {
    uint32_t rank = 0;
    char advice[160], needs[32], may[32];
    if (!pst_prepare_excess(p, limit, &rank)) return PST_OK;
    uint64_t total = p->memory[rank]->total, room = pst_prepare_room(p, limit, rank);
    suggest(p, limit, advice, sizeof advice);
    if (!strcmp(scaled(total, needs), scaled(room, may))) {
        snprintf(needs, sizeof needs, "%" PRIu64 " bytes", total);
        snprintf(may, sizeof may, "%" PRIu64, room);
    }
    return pst_fail(PST_ENOMEM, "rank %u needs %s but may use %s; %s", rank, needs, may, advice);
}

/* Caches schedules, and how many micro-batches they hold in flight. */
#include "partition/search/space.h"
#include "base/grow.h"
#include <stdlib.h>

/* --- schedules -------------------------------------------------------------------------------- */

/* Frees cached schedules except `kept`, the oldest first, while all together are too large. */
static void forget(pst_search_context *x, const pst_search_cached *kept) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < PST_SEARCH_CACHED; i++)
        all += x->cached[i].built ? x->cached[i].n_action : 0;
    for (uint32_t i = 0; i < PST_SEARCH_CACHED && all > PST_SEARCH_ACTIONS; i++) {
        pst_search_cached *m = &x->cached[(x->next_cached + i) % PST_SEARCH_CACHED];
        if (m == kept || !m->built) continue;
        all -= m->n_action;
        pst_schedule_close(m->built);
        m->built = NULL;
    }
}

pst_status pst_search_schedule_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline,
                                  uint32_t chunks, uint32_t n_micro, const pst_schedule **made) {
    for (uint32_t i = 0; i < PST_SEARCH_CACHED; i++) {
        const pst_search_cached *m = &x->cached[i];
        if (!m->built || m->schedule != schedule || m->pipeline != pipeline ||
            m->chunks != chunks || m->n_micro != n_micro)
            continue;
        *made = m->built;
        return PST_OK;
    }
    pst_schedule *s;
    PST_TRY(pst_schedule_generate(x->row[schedule]->name, pipeline, chunks, n_micro, &s));
    pst_search_cached *m = &x->cached[x->next_cached++ % PST_SEARCH_CACHED];
    pst_schedule_close(m->built);
    *m = (pst_search_cached){schedule, pipeline, chunks, n_micro, s, 0};
    for (uint32_t r = 0; r < s->n_rank; r++) m->n_action += s->n_action[r];
    forget(x, m);
    *made = s;
    return PST_OK;
}

/* --- in flight -------------------------------------------------------------------------------- */

void pst_search_flight_close(pst_search_flight *f) {
    if (f) {
        free(f->stage);
        free(f);
    }
}

static pst_status make_flight(pst_search_context *x, pst_search_flight *f) {
    const pst_schedule_row *row = x->row[f->schedule];
    uint32_t p = f->pipeline;
    f->n_chunk = p * f->chunks;
    f->stage = calloc(4 * (size_t)f->n_chunk + p, sizeof *f->stage);
    if (!f->stage) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    f->f_to_w = f->stage + f->n_chunk;
    f->f_to_b = f->f_to_w + f->n_chunk;
    f->b_to_w = f->f_to_b + f->n_chunk;
    f->stage_f_to_b = f->b_to_w + f->n_chunk;
    for (uint32_t k = 0; k < f->n_chunk; k++)
        f->stage[k] = row->placement == PST_PLACE_V_SHAPE && k >= p ? 2 * p - 1 - k : k % p;
    pst_schedule_flight held = {.n_rank = p,
                                .n_chunk = f->n_chunk,
                                .n_micro = f->n_micro,
                                .stage = f->stage,
                                .f_to_w = f->f_to_w,
                                .f_to_b = f->f_to_b,
                                .b_to_w = f->b_to_w,
                                .held = f->stage_f_to_b};
    if (pst_schedule_flight_rule(row, &held)) return PST_OK;
    const pst_schedule *s;
    PST_TRY(pst_search_schedule_of(x, f->schedule, p, f->chunks, f->n_micro, &s));
    return pst_schedule_flight_count(s, &held);
}

pst_status pst_search_flight_of(pst_search_context *x, uint32_t schedule, uint32_t pipeline,
                                uint32_t chunks, uint32_t n_micro,
                                const pst_search_flight **flight) {
    n_micro = pst_schedule_saturation(x->row[schedule], pipeline, n_micro);
    for (uint32_t i = 0; i < x->n_flight; i++) {
        const pst_search_flight *f = x->flight[i];
        if (f->schedule != schedule || f->pipeline != pipeline || f->chunks != chunks ||
            f->n_micro != n_micro)
            continue;
        *flight = f;
        return PST_OK;
    }
    PST_TRY(pst_grow(&x->flight, sizeof *x->flight, x->n_flight, &x->flight_capacity,
                     "for the layout search"));
    pst_search_flight *f = calloc(1, sizeof *f);
    if (!f) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    f->schedule = schedule;
    f->pipeline = pipeline;
    f->chunks = chunks;
    f->n_micro = n_micro;
    pst_status status = make_flight(x, f);
    if (status != PST_OK) {
        pst_search_flight_close(f);
        return status;
    }
    *flight = x->flight[x->n_flight++] = f;
    return PST_OK;
}

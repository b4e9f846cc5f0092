/* Lower bound of the longest path, without the schedule's order of passes: most cuts are refused by
 * it before that order is built, which takes longer than everything else. Let a(k) and z(k) be the
 * earliest times at which F and B of the first micro-batch can start at chunk k. For each stage:
 *   begin  nothing runs before a(k) of its first chunk; all its work comes after that
 *   first  before z(k) of its last chunk only w(k) F of each of its chunks k can run
 *          (partition/search/bound.c, pst_schedule_warm_up)
 *   end    after its last B of its first chunk, the gradient still has to pass B of the first
 *          chunks of the stages before */
#include "partition/search/score.h"

static uint32_t chunk_of(const pst_schedule_row *row, const pst_search_flight *f, uint32_t stage,
                         uint32_t nth) {
    return row->placement == PST_PLACE_V_SHAPE && nth ? 2 * f->pipeline - 1 - stage
                                                      : nth * f->pipeline + stage;
}

static uint64_t backward_ns(const pst_schedule_row *row, const pst_search_times *t, uint32_t k) {
    return t->ns[k].b + (row->split ? 0 : t->ns[k].w);
}

/* When each stage could begin if it then ran all its passes without waiting. */
static void find_begins(const pst_schedule_row *row, const pst_search_flight *f,
                        const pst_search_times *t, uint32_t m, uint64_t *begin) {
    const pst_schedule_size size = {f->pipeline, f->chunks, m};
    uint64_t now = 0;
    for (uint32_t k = 0; k < f->n_chunk; k++) {
        if (k < f->pipeline) begin[k] = now;
        now += t->ns[k].f + pst_search_hop_ns(t, k);
    }
    for (uint32_t k = f->n_chunk; k-- > f->n_chunk - f->pipeline;) {
        /* the last chunk of each stage */
        uint64_t warm = 0, *of = &begin[f->stage[k]];
        for (uint32_t i = 0; i < f->chunks; i++)
            warm += pst_schedule_warm_up(row, &size, f->stage[k], i) *
                    t->ns[chunk_of(row, f, f->stage[k], i)].f;
        if (now > warm && now - warm > *of) *of = now - warm;
        now += backward_ns(row, t, k) + (k ? pst_search_hop_ns(t, k - 1) : 0);
    }
}

void pst_search_path_bound(const pst_schedule_row *row, const pst_search_flight *f,
                           const pst_search_times *t, uint32_t m, uint64_t *end_ns) {
    uint64_t backward = 0;
    find_begins(row, f, t, m, end_ns);
    for (uint32_t stage = f->pipeline; stage-- > 0;) {
        /* stage s has chunk s as its first */
        uint64_t w = 0, *end = &end_ns[stage];
        for (uint32_t i = 0; i < f->chunks; i++) {
            const pst_pass_ns *ns = &t->ns[chunk_of(row, f, stage, i)];
            *end += m * (ns->f + ns->b + ns->w);
            w += row->split ? m * ns->w : 0;
        }
        if (backward) backward += pst_search_hop_ns(t, stage) + backward_ns(row, t, stage);
        if (*end - w > backward) backward = *end - w;
        uint64_t own = backward + (row->split ? t->ns[stage].w : 0);
        if (own > *end) *end = own;
    }
}

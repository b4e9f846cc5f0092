/* Why a row is not the best: too large, or which part makes its step longer. */
#include "partition/search/candidates.h"
#include "base/bytes.h"
#include <string.h>

static void print_bytes(uint64_t bytes, char text[PST_BYTES_TEXT]) {
    if (bytes < 1024) snprintf(text, PST_BYTES_TEXT, "%u bytes", (uint32_t)bytes);
    else pst_bytes_text(bytes, PST_KIB, PST_TIB, 1, text);
}

/* 0.145 ms, 72.2 ms, 1.48 s. */
static const char *print_time(double ns, char text[32]) {
    if (ns >= 999.5e6) snprintf(text, 32, "%.*f s", ns < 99.95e9 ? 2 : 0, ns * 1e-9);
    else if (ns >= 9.995e6) snprintf(text, 32, "%.1f ms", ns * 1e-6);
    else snprintf(text, 32, "%.3f ms", ns * 1e-6);
    return text;
}

/* Why the stage that computes longest takes longer than that of the best layout. */
static const char *why_computing(const pst_layout *own, const pst_layout *best, char text[64]) {
    if (own->tensor > best->tensor && !own->tensor_before)
        snprintf(text, 64, "smaller matrix products on %u tensor ranks", own->tensor);
    else if (own->micro_batch < best->micro_batch)
        snprintf(text, 64, "smaller matrix products of %u sample%s", own->micro_batch,
                 own->micro_batch == 1 ? "" : "s");
    else if (own->pipeline > best->pipeline)
        snprintf(text, 64, "%u stages divide the layers less evenly", own->pipeline);
    else snprintf(text, 64, "more computation on the slowest stage");
    return text;
}

/* Whether all chunks of the stage recompute everything. */
static int recomputes_all(const pst_candidate *c, uint32_t stage) {
    const pst_schedule_row *row;
    if (pst_schedule_find(c->layout.schedule, &row) != PST_OK) {
        pst_error_clear();
        return 0;
    }
    for (uint32_t k = 0; k < c->layout.n_chunk; k++) {
        uint32_t back = row->placement == PST_PLACE_V_SHAPE && k >= c->layout.pipeline;
        uint32_t at = back ? 2 * c->layout.pipeline - 1 - k : k % c->layout.pipeline;
        const pst_recompute mode = pst_recompute_mode(c->layout.recompute[k]);
        if (at == stage && mode != PST_RECOMPUTE_FULL && mode != PST_RECOMPUTE_LAYERS) return 0;
    }
    return 1;
}

/* "about": not prepared. */
static void why_too_large(const pst_search_problem *problem, pst_search_row *row) {
    char over[32];
    const pst_candidate *c = row->best;
    const double held = (double)c->in_flight[row->stage] * c->layout.pipeline / c->layout.n_chunk;
    print_bytes(row->excess, over);
    int m = snprintf(row->why, sizeof row->why, "%s%s over the memory of stage %u",
                     problem->verify && !c->exact ? "about " : "", over, row->stage);
    size_t capacity = sizeof row->why - (size_t)m;
    if (held > 1) m += snprintf(row->why + m, capacity, ": %.4g micro-batches in flight", held);
    else m += snprintf(row->why + m, capacity, ", with one micro-batch in flight");
    if (recomputes_all(c, row->stage))
        snprintf(row->why + m, sizeof row->why - (size_t)m, " and full recomputation");
}

static int spans_nodes(const pst_search_problem *p, const pst_candidate *c) {
    const pst_grid grid = pst_layout_grid(&c->layout);
    for (uint32_t s = 0; s < c->layout.pipeline; s++)
        for (uint32_t k = 1; k < c->layout.data; k++)
            if (p->cluster->device[c->layout.device[pst_grid_first(grid, s)]].node !=
                p->cluster->device[c->layout.device[pst_grid_rank(grid, s, k, 0)]].node)
                return 1;
    return 0;
}

/* Names the part of the step with the largest increase over the best. A layout with fewer devices
 * computes longer for that reason. */
static void why_longer(const pst_search_problem *p, const pst_candidate *best,
                       pst_search_row *row) {
    const pst_candidate *candidate = row->best;
    double step = (double)candidate->step_ns;
    char own_text[32], more_text[32], reason[64];
    const uint32_t used = pst_grid_size(pst_layout_grid(&candidate->layout)),
                   by_best = pst_grid_size(pst_layout_grid(&best->layout));
    const struct {
        const char *text;
        double own, its;
    } part[] = {
        {spans_nodes(p, candidate) ? "all-reduce of gradients between nodes"
                                   : "all-reduce of gradients",
         (double)candidate->reduce_ns, (double)best->reduce_ns},
        {"tensor-parallel communication", (double)candidate->exchange_ns,
         (double)best->exchange_ns},
        {"pipeline bubble", candidate->bubble * (step - (double)candidate->flush_ns),
         best->bubble * (double)(best->step_ns - best->flush_ns)},
        {"recomputation", (double)candidate->again_ns, (double)best->again_ns},
        {"activations sent between stages", (double)candidate->message_ns,
         (double)best->message_ns},
        {"optimizer and tied weights", (double)candidate->flush_ns - (double)candidate->reduce_ns,
         (double)best->flush_ns - (double)best->reduce_ns},
        {"computation", (double)(candidate->busy_ns - candidate->exchange_ns - candidate->again_ns),
         (double)(best->busy_ns - best->exchange_ns - best->again_ns)},
    };
    size_t most = 0;
    for (size_t i = 1; i < sizeof part / sizeof *part; i++)
        if (part[i].own - part[i].its > part[most].own - part[most].its) most = i;
    double more = part[most].own - part[most].its;
    size_t computation = sizeof part / sizeof *part - 1;
    if (candidate->step_ns < best->step_ns) {
        snprintf(row->why, sizeof row->why, "may be faster; not verified within the time limit");
    } else if (candidate->step_ns == best->step_ns) {
        snprintf(row->why, sizeof row->why, "as fast as the best layout");
    } else if (used < by_best && most == computation) {
        snprintf(row->why, sizeof row->why, "uses only %u of %u devices", used,
                 p->cluster->n_device);
    } else if (most == computation) {
        snprintf(row->why, sizeof row->why,
                 "%s: passes of the slowest take %s, %s more than in the best",
                 why_computing(&candidate->layout, &best->layout, reason),
                 print_time(part[most].own, own_text), print_time(more, more_text));
    } else {
        snprintf(row->why, sizeof row->why, "%s: %.0f%% of the step, %s more than in the best",
                 part[most].text, 100 * part[most].own / step, print_time(more, more_text));
    }
}

void pst_search_why(const pst_search_problem *problem, const pst_candidate *best,
                    pst_search_row *row) {
    const pst_candidate *c = row->best;
    if (!c) {
        if (!*row->why)
            snprintf(row->why, sizeof row->why,
                     "not evaluated: time limit reached, or lower bound above the best step");
        return;
    }
    if (!row->fits) {
        if (!*row->why) why_too_large(problem, row);
        return;
    }
    *row->why = 0;
    int is_best = best && best->layout.pipeline == c->layout.pipeline &&
                  best->layout.tensor == c->layout.tensor && best->layout.data == c->layout.data;
    for (uint32_t s = 0; is_best && s < c->layout.pipeline; s++)
        is_best = pst_grid_degree(pst_layout_grid(&c->layout), s) ==
                  pst_grid_degree(pst_layout_grid(&best->layout), s);
    if (best && !is_best) why_longer(problem, best, row);
}

pst_status pst_search_keep_nearest(const pst_search_problem *problem, pst_search_row *row,
                                   const pst_candidate *candidate) {
    pst_candidate *copy;
    uint32_t stage = 0;
    uint64_t excess = pst_search_excess(problem, candidate, &stage);
    if (row->fits || !excess || (row->best && excess >= row->excess)) return PST_OK;
    PST_TRY(pst_candidate_copy(candidate, &copy));
    pst_candidate_close(row->best);
    row->best = copy;
    row->excess = excess;
    row->stage = stage;
    why_too_large(problem, row);
    return PST_OK;
}

/* See planning/page.h: the layout in words, the operators with their chunks, and the rows. */
#include "planning/page_parts.h"
#include "base/plural.h"
#include "planning/planning.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Appends to a text of `capacity` bytes; cut off at its end. */
static void append(char *text, size_t capacity, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t capacity, const char *format, ...) {
    size_t n = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + n, capacity - n, format, args);
    va_end(args);
}

/* The mode of all chunks, or that they differ. */
static void recompute_text(const pst_recompute_way *recompute, uint32_t n, char *text,
                           size_t capacity) {
    char all[PST_RECOMPUTE_TEXT];
    for (uint32_t c = 1; c < n; c++)
        if (recompute[c] != recompute[0]) {
            snprintf(text, capacity, "different per chunk");
            return;
        }
    snprintf(text, capacity, "%s", pst_recompute_text(recompute[0], all));
}

/* --- words ------------------------------------------------------------------------------------ */

static void describe_layout(const pst_prepared *p, pst_plan_page *page) {
    char grid[PST_GRID_TEXT], recompute[32];
    char *text = page->layout, rest[PST_LAYOUT_REST_TEXT];
    size_t capacity = sizeof page->layout;
    const pst_layout *l = &p->plan->layout;
    uint32_t chunks = l->n_chunk / l->pipeline;
    pst_grid_text(p->grid, grid);
    if (*grid) append(text, capacity, "%s", grid);
    else append(text, capacity, "%u stage%s", p->grid.pipeline, pst_plural(p->grid.pipeline));
    if (chunks > 1) append(text, capacity, ", %u chunks per stage", chunks);
    append(text, capacity, ", schedule %s, %u micro-batch%s of %u sample%s%s", l->schedule,
           l->n_micro, pst_plural_es(l->n_micro), l->micro_batch, pst_plural(l->micro_batch),
           pst_layout_rest_text(l, rest));
    if (p->batches.n > 1)
        append(text, capacity, " (the first steps have fewer, from %llu samples on)",
               (unsigned long long)p->batches.row[0].size);
    recompute_text(l->recompute, l->n_chunk, recompute, sizeof recompute);
    append(text, capacity, ", recomputation %s, %s", recompute,
           pst_dtype_name(pst_graph_factors(p->graph)));
    if (p->grid.data > 1) append(text, capacity, ", zero %d", p->job->zero);
    if (p->job->near > 1) append(text, capacity, ", two-level exchange");
}

static void describe_model(const pst_prepared *p, pst_plan_page *page) {
    uint64_t parameters = 0;
    for (uint32_t i = 0; i < p->whole->n_param; i++)
        parameters += pst_param_elements(&p->whole->param[i]);
    int large = parameters >= 1000000000;
    append(page->model, sizeof page->model, "%s, %.4g %s parameters, %u operators",
           p->config->model.kind, (double)parameters * (large ? 1e-9 : 1e-6), large ? "G" : "M",
           p->whole->n_node);
}

/* Devices by kind and speed, in the order of their first occurrence. */
static void describe_cluster(const pst_cluster *c, uint32_t used, pst_plan_page *page) {
    char *text = page->cluster;
    if (!c) {
        append(text, sizeof page->cluster, "%u rank%s of equal speed", used, pst_plural(used));
        return;
    }
    append(text, sizeof page->cluster, "%u device%s on %u node%s: ", c->n_device,
           pst_plural(c->n_device), c->n_node, pst_plural(c->n_node));
    for (uint32_t first = 0, end; first < c->n_device; first = end) {
        const pst_cluster_device *d = &c->device[first];
        for (end = first; end < c->n_device && c->device[end].kind == d->kind &&
                          c->device[end].speed == d->speed;)
            end++;
        append(text, sizeof page->cluster, "%s%u", first ? ", " : "", end - first);
        if (d->kind < c->n_kind) append(text, sizeof page->cluster, " %s", c->kind[d->kind].name);
        if (d->speed != 1 || !c->n_kind)
            append(text, sizeof page->cluster, " of speed %g", d->speed);
    }
    if (used != c->n_device) append(text, sizeof page->cluster, "; %u used", used);
}

/* In the order in which durations are looked up. */
static void describe_costs(const pst_prepared *p, pst_plan_page *page) {
    char *text = page->costs;
    size_t capacity = sizeof page->costs;
    if (*p->config->parallel.measured)
        append(text, capacity, "measured in run %s, otherwise ", p->config->parallel.measured);
    if (p->profile) append(text, capacity, "profile %s, otherwise ", p->config->parallel.profile);
    append(text, capacity, "estimated for %s",
           p->costs.kind ? p->costs.kind->name : "a nominal CPU core");
}

static void describe(const pst_prepared *p, const pst_search_result *r, pst_plan_page *page) {
    double s = (double)p->timing->step_ns * 1e-9;
    describe_layout(p, page);
    describe_model(p, page);
    describe_costs(p, page);
    describe_cluster(p->cluster, pst_grid_size(p->grid), page);
    page->title = p->config->name;
    page->grid = p->grid;
    page->step_ns = p->timing->step_ns;
    page->flush_ns = p->timing->flush_ns;
    page->bubble = p->timing->bubble;
    if (s > 0) {
        page->tokens_per_s = (double)p->tokens / s;
        page->flops_per_s = (double)p->flops / s / pst_grid_size(p->grid);
    }
    page->n_region = PST_REGION_COUNT;
    for (uint32_t k = 0; k < PST_REGION_COUNT; k++)
        page->region_name[k] = pst_region_name((pst_region)k);
    if (!r) return;
    page->bound_ns = r->bound_ns;
    page->gap = r->gap;
    append(
        page->search, sizeof page->search,
        "%llu layout%s estimated, %llu simulated, %llu compiled and simulated; %u combination%s of "
        "degrees%s",
        (unsigned long long)r->n_layout, pst_plural(r->n_layout),
        (unsigned long long)r->n_simulated, (unsigned long long)r->n_verified, r->n_row,
        pst_plural(r->n_row), r->timed_out ? "; stopped by the time limit" : "");
}

/* --- operators -------------------------------------------------------------------------------- */

static void add_costs(const pst_cut *cut, pst_plan_page *page) {
    for (uint32_t c = 0; c < cut->n_chunk; c++)
        for (uint32_t k = 0; k < 4; k++)
            for (uint32_t s = 0; s < cut->chunk[c].program[k].n_step; s++) {
                const pst_step *step = &cut->chunk[c].program[k].step[s];
                pst_plan_op *op = &page->op[step->node];
                op->ns += step->ns;
                if (step->again) op->again_ns += step->ns;
                else if (step->pass == PST_PASS_F && !step->extra) {
                    op->flops += step->flops;
                    op->bytes += step->bytes;
                }
            }
}

static void add_operators(const pst_prepared *p, pst_plan_page *page) {
    for (uint32_t i = 0; i < p->graph->n_node; i++) {
        const pst_node *node = &p->graph->node[i];
        pst_plan_op *op = &page->op[i];
        snprintf(op->name, sizeof op->name, "%s", node->name);
        op->kind = node->op->name;
        op->chunk = p->cut->chunk_of_node[i];
        for (uint32_t k = 0; k < node->n_out; k++)
            op->out_bytes += pst_tensor_bytes(&p->graph->tensor[node->out[k]]);
        for (uint32_t k = 0; k < node->n_param; k++)
            op->parameters += pst_param_elements(&p->graph->param[node->param[k]]);
    }
    add_costs(p->cut, page);
}

/* The slowdown of a stage: that of its slowest rank. */
static double slowest(const pst_prepared *p, uint32_t stage) {
    double most = 1;
    for (uint32_t r = 0; r < p->job->n_rank; r++)
        if (p->job->slow && pst_grid_at(p->grid, r).stage == stage && p->job->slow[r] > most)
            most = p->job->slow[r];
    return most;
}

static void add_chunks(const pst_prepared *p, pst_plan_page *page) {
    for (uint32_t c = 0; c < page->n_chunk; c++) {
        pst_plan_chunk *chunk = &page->chunk[c];
        chunk->stage = p->plan->layout.rank_of_chunk[c];
        pst_recompute_text(p->plan->layout.recompute[c], chunk->recompute);
        chunk->first = c ? page->chunk[c - 1].end : 0;
        for (chunk->end = chunk->first; chunk->end < page->n_op && page->op[chunk->end].chunk == c;
             chunk->end++)
            chunk->parameters += page->op[chunk->end].parameters;
        for (uint32_t k = 0; k < 4; k++) chunk->ns += p->cut->chunk[c].program[k].ns;
        chunk->ns = (uint64_t)((double)chunk->ns * slowest(p, chunk->stage));
        for (uint32_t i = 0; i < p->cut->chunk[c].n_local; i++) {
            const pst_local *local = &p->cut->chunk[c].local[i];
            if (local->channel_out != PST_NONE && local->uses >> PST_EV_SEND_F & 1)
                chunk->crossing += local->bytes;
        }
    }
}

/* --- rows ------------------------------------------------------------------------------------- */

static void add_row(const pst_search_row *from, pst_plan_row *to) {
    const pst_candidate *candidate = from->best;
    *to = (pst_plan_row){.pipeline = from->pipeline, .data = from->data, .fits = from->fits};
    pst_planning_short_degrees(from, to->tensor, sizeof to->tensor);
    snprintf(to->why, sizeof to->why, "%s", from->why);
    if (!candidate) return;
    to->possible = 1;
    to->exact = candidate->exact;
    to->micro_batch = candidate->layout.micro_batch;
    to->micro_batches = candidate->layout.n_micro;
    to->chunks = candidate->layout.chunks;
    to->zero = candidate->layout.zero;
    to->step_ns = candidate->step_ns;
    to->bubble = candidate->bubble;
    snprintf(to->schedule, sizeof to->schedule, "%s", pst_planning_schedule(candidate));
    if (candidate->layout.n_chunk && candidate->layout.recompute)
        recompute_text(candidate->layout.recompute, candidate->layout.n_chunk, to->recompute,
                       sizeof to->recompute);
    for (uint32_t s = 0; candidate->peak_bytes && s < candidate->layout.pipeline; s++)
        if (candidate->peak_bytes[s] > to->peak_bytes) to->peak_bytes = candidate->peak_bytes[s];
}

pst_status pst_plan_page_fill(const pst_prepared *p, const pst_search_result *r,
                              pst_plan_page *page) {
    page->n_op = p->graph->n_node;
    page->n_chunk = p->plan->layout.n_chunk;
    page->n_row = r ? r->n_row : 0;
    page->op = calloc(page->n_op + 1, sizeof *page->op);
    page->chunk = calloc(page->n_chunk + 1, sizeof *page->chunk);
    page->row = calloc(page->n_row + 1, sizeof *page->row);
    if (!page->op || !page->chunk || !page->row)
        return pst_fail(PST_ENOMEM, "no memory for the report");
    describe(p, r, page);
    add_operators(p, page);
    add_chunks(p, page);
    for (uint32_t i = 0; i < page->n_row; i++) add_row(&r->row[i], &page->row[i]);
    PST_TRY(pst_plan_page_cluster(p, page));
    return pst_plan_page_ranks(p, page);
}

pst_status pst_plan_page_of(const pst_prepared *prepared, const pst_search_result *result,
                            const pst_budget *budget, const char *change, const char *path) {
    pst_plan_page page = {.change = change};
    pst_status status = pst_plan_page_fill(prepared, result, &page);
    if (status == PST_OK && budget) status = pst_budget_page(budget, &page);
    if (status == PST_OK) status = pst_plan_page_write(&page, path);
    pst_plan_page_release(&page);
    return status;
}

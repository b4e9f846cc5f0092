/* Ranks in a plan's report: which are shown, what each does when, and where its time goes. */
#include "planning/page_parts.h"
#include <stdlib.h>
#include <string.h>

/* Kinds of intervals in a rank's step; where they overlap, the first one counts. */
typedef enum { COMPUTE, MESSAGE, REPLICA, NORM, N_CLASS } class;
typedef struct {
    uint64_t start, end;
    uint8_t class;
} stretch;

/* ns of a pass: all of it, its tensor exchanges, its recomputation. */
typedef struct {
    uint64_t all, exchange, again;
} parts;

static parts parts_of(const pst_cut *cut, const pst_instr *in) {
    parts x = {0};
    uint32_t n;
    const pst_step *first = pst_job_steps(cut, in, &n);
    for (const pst_step *step = first; step < first + n; step++) {
        x.all += step->ns;
        if (step->exchange) x.exchange += step->ns;
        else if (step->again) x.again += step->ns;
    }
    return x;
}

static void add_pass(const pst_cut *cut, const pst_instr *in, double us, pst_plan_rank *to) {
    static const pst_plan_time time[] = {[PST_OP_F] = PST_PLAN_F,
                                         [PST_OP_B] = PST_PLAN_B,
                                         [PST_OP_W] = PST_PLAN_W,
                                         [PST_OP_BW] = PST_PLAN_BW};
    parts x = parts_of(cut, in);
    double exchange = x.all ? us * (double)x.exchange / (double)x.all : 0;
    double again = x.all ? us * (double)x.again / (double)x.all : 0;
    to->us[PST_PLAN_EXCHANGE] += exchange;
    to->us[PST_PLAN_AGAIN] += again;
    to->us[time[in->opcode]] += us - exchange - again;
}

static class class_of(const pst_instr *in) {
    if (pst_queue_computes(in->queue)) return COMPUTE;
    if (in->local != PST_NONE) return MESSAGE;
    return in->param != PST_NONE ? REPLICA : NORM;
}

static int by_start(const void *a, const void *b) {
    const stretch *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Waiting times: intervals in which the rank receives and does not compute. */
static void add_waits(stretch *s, size_t n, uint64_t step_ns, pst_plan_rank *to) {
    static const pst_plan_time time[] = {
        [MESSAGE] = PST_PLAN_MESSAGE, [REPLICA] = PST_PLAN_REPLICA, [NORM] = PST_PLAN_STEP};
    uint64_t before = 0;
    qsort(s, n, sizeof *s, by_start);
    for (uint32_t most = COMPUTE; most < N_CLASS; most++) {
        uint64_t covered = 0, until = 0;
        for (size_t i = 0; i < n; i++) {
            if (s[i].class > most || s[i].end <= until) continue;
            covered += s[i].end - (s[i].start > until ? s[i].start : until);
            until = s[i].end;
        }
        if (most > COMPUTE) to->us[time[most]] += (double)(covered - before) * 1e-3;
        before = covered;
    }
    to->us[PST_PLAN_IDLE] = step_ns > before ? (double)(step_ns - before) * 1e-3 : 0;
}

static pst_status add_slices(const pst_prepared *p, uint32_t rank, uint32_t row,
                             pst_plan_page *page) {
    static const uint8_t kind[] = {[PST_OP_F] = PST_REPORT_F,
                                   [PST_OP_B] = PST_REPORT_B,
                                   [PST_OP_W] = PST_REPORT_W,
                                   [PST_OP_BW] = PST_REPORT_BW};
    const pst_instr_list *list = &p->job->list[rank];
    const pst_cut *cut = p->cuts[pst_grid_at(p->grid, rank).tensor];
    pst_plan_rank *to = &page->rank[row];
    size_t n = 0;
    stretch *s = malloc((list->n_instr + 1) * sizeof *s);
    if (!s) return pst_fail(PST_ENOMEM, "no memory for the report");
    for (uint32_t i = 0; i < list->n_instr; i++) {
        const pst_instr *in = &list->instr[i];
        const pst_span *span = &p->timing->span[rank][i];
        double us = (double)(span->end - span->start) * 1e-3;
        if (in->opcode == PST_OP_SEND) continue;
        if (span->end > span->start)
            s[n++] = (stretch){span->start, span->end, (uint8_t)class_of(in)};
        if (in->opcode <= PST_OP_BW) add_pass(cut, in, us, to);
        else if (in->opcode >= PST_OP_PACK && in->opcode <= PST_OP_REDUCE)
            to->us[PST_PLAN_REPLICA] += us;
        else if (in->queue == PST_Q_COMPUTE) to->us[PST_PLAN_STEP] += us;
        if (in->queue != PST_Q_COMPUTE || span->end == span->start) continue;
        page->trace.slice[page->trace.n++] = (pst_report_slice){
            .start = (double)span->start * 1e-3,
            .end = (double)span->end * 1e-3,
            .rank = row,
            .chunk = in->chunk,
            .micro = in->micro,
            .kind = in->opcode <= PST_OP_BW ? kind[in->opcode] : PST_REPORT_FLUSH,
            .predicted = 1};
    }
    add_waits(s, n, p->timing->step_ns, to);
    free(s);
    return PST_OK;
}

static void describe_device(const pst_prepared *p, uint32_t rank, pst_plan_rank *to) {
    const pst_cluster *c = p->cluster;
    uint32_t which = p->device[rank];
    if (!c || which >= c->n_device) return;
    const pst_cluster_device *d = &c->device[which];
    const char *kind = d->kind < c->n_kind ? c->kind[d->kind].name : "";
    int n =
        snprintf(to->device, sizeof to->device, "node %u%s%s", d->node, *kind ? ", " : "", kind);
    if (d->speed != 1)
        snprintf(to->device + n, sizeof to->device - (size_t)n, ", speed %g", d->speed);
}

static void add_memory(const pst_prepared *p, uint32_t rank, pst_plan_rank *to) {
    const pst_memory_map *map = p->memory[rank];
    for (uint32_t k = 0; k < PST_REGION_COUNT; k++) to->region[k] = map->bytes[k];
    to->fixed = map->start[PST_REGION_SLOT];
    to->total = map->total;
    to->capacity = pst_prepare_usable_bytes(p, p->memory_limit, rank);
}

/* All ranks; if too many, tensor rank 0 of each stage and replica; if still too many, or if only
 * one pipeline has instruction lists, one pipeline; else its first stages. */
static uint32_t choose(const pst_prepared *p, uint32_t rank[PST_PLAN_ROWS], const char **shown) {
    pst_grid grid = p->grid;
    uint32_t lane = pst_job_first_lane(p->job), data = grid.data, tensor = grid.tensor, n = 0,
             all = 0;
    int many = p->job->alone || pst_grid_size(grid) > PST_PLAN_ROWS;
    if (many && tensor > 1) {
        tensor = 1;
        *shown = "tensor rank 0 of each stage and replica";
    }
    if (p->job->alone || grid.pipeline * data * tensor > PST_PLAN_ROWS)
        if (pst_grid_lanes(grid) > 1) {
            data = tensor = 1;
            *shown = "one pipeline, which represents all";
        }
    for (uint32_t s = 0; s < grid.pipeline; s++)
        for (uint32_t k = 0; k < data; k++)
            for (uint32_t t = 0; t < tensor && t < pst_grid_degree(grid, s); t++, all++)
                if (n < PST_PLAN_ROWS)
                    rank[n++] = pst_grid_in_lane(grid, s, lane + k * grid.tensor + t);
    if (n < all) *shown = "the first stages of one pipeline";
    return n;
}

pst_status pst_plan_page_ranks(const pst_prepared *p, pst_plan_page *page) {
    uint32_t rank[PST_PLAN_ROWS];
    size_t slices = 0;
    page->all_ranks = pst_grid_size(p->grid);
    page->n_rank = choose(p, rank, &page->shown);
    for (uint32_t r = 0; r < page->n_rank; r++) slices += p->job->list[rank[r]].n_instr;
    page->rank = calloc(page->n_rank, sizeof *page->rank);
    page->trace.slice = malloc((slices + 1) * sizeof *page->trace.slice);
    if (!page->rank || !page->trace.slice) return pst_fail(PST_ENOMEM, "no memory for the report");
    page->trace.n_rank = page->n_rank;
    page->trace.end[1] = (double)p->timing->step_ns * 1e-3;
    for (uint32_t r = 0; r < page->n_rank; r++) {
        pst_plan_rank *to = &page->rank[r];
        to->rank = rank[r];
        pst_grid_place_text(p->grid, rank[r], to->place);
        describe_device(p, rank[r], to);
        add_memory(p, rank[r], to);
        PST_TRY(pst_plan_page_held(p, rank[r], to));
        PST_TRY(add_slices(p, rank[r], r, page));
    }
    return PST_OK;
}

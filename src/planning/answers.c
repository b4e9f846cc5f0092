/* Properties of a plan, and the format of numbers. Declared in planning/planning.h. */
#include "base/bytes.h"
#include "base/plural.h"
#include "partition/cost/range.h"
#include "planning/planning.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *pst_planning_source(const pst_planning *x) {
    if (x->profile) return "profile";
    return x->local && !x->datasheet ? "nominal" : "datasheet";
}

uint64_t pst_planning_capacity(const pst_planning *x, const pst_candidate *c, uint32_t stage) {
    uint64_t least = x->problem.memory;
    const pst_grid grid = pst_layout_grid(&c->layout);
    for (uint32_t r = pst_grid_first(grid, stage); r < pst_grid_first(grid, stage + 1); r++)
        least = pst_cluster_usable_bytes(x->cluster, c->layout.device[r], least);
    return least;
}

/* FLOPs of a micro-batch on the first tensor rank (of the whole model where stages have different
 * numbers of them), from the tape; 0: unknown. */
static double flops_of(pst_planning *x, const pst_candidate *c) {
    pst_planning_part *part;
    pst_tape *tape;
    double flops = 0;
    if (pst_planning_graph_of(x, &c->layout, &part) != PST_OK ||
        pst_tape_build(part->graph, 1, &tape) != PST_OK)
        return 0;
    for (uint32_t s = 0; s < tape->n_step; s++) flops += (double)tape->step[s].flops;
    pst_tape_close(tape);
    return flops;
}

double pst_planning_mfu(const pst_planning *x, const pst_candidate *c) {
    double peak = 0;
    for (uint32_t i = 0; i < pst_grid_size(pst_layout_grid(&c->layout)); i++) {
        const pst_cluster_device *d = &x->cluster->device[c->layout.device[i]];
        peak += x->cluster->kind[d->kind].flops[x->model.dtype] * d->speed;
    }
    if (x->local || peak <= 0) return 0;
    double flops = flops_of((pst_planning *)(uintptr_t)x, c) *
                   (c->layout.tensor_before ? 1 : c->layout.tensor);
    const double micros = (double)pst_layout_batch(&c->layout) / c->layout.micro_batch;
    return flops * micros / ((double)c->step_ns * 1e-9 * peak);
}

int pst_planning_range(const pst_planning *x, const pst_candidate *c, double *low, double *high) {
    const double step = (double)c->step_ns * 1e-9;
    pst_costs_range widest = {1, 1};
    const pst_device_kind *before = NULL;
    for (uint32_t i = 0; i < pst_grid_size(pst_layout_grid(&c->layout)); i++) {
        const pst_device_kind *kind =
            x->cluster->kind + x->cluster->device[c->layout.device[i]].kind;
        pst_costs_range range;
        if (x->local && x->datasheet) kind = x->datasheet;
        if (kind == before) continue;
        before = kind;
        if (!pst_costs_range_of(kind, x->parameters, x->profile != NULL, x->factor > 0, &range))
            return 0;
        widest.low = range.low < widest.low ? range.low : widest.low;
        widest.high = range.high > widest.high ? range.high : widest.high;
    }
    *low = step * widest.low;
    *high = step * widest.high;
    return 1;
}

const pst_search_row *pst_planning_nearest(const pst_planning *x) {
    const pst_search_row *best = NULL;
    for (uint32_t i = 0; i < x->result->n_row; i++) {
        const pst_search_row *r = &x->result->row[i];
        if (r->best && !r->fits && (!best || r->excess < best->excess)) best = r;
    }
    return best;
}

const char *pst_planning_degrees(pst_grid grid, char text[PST_PLANNING_DEGREES]) {
    int n = 0;
    for (uint32_t s = 0; grid.tensor_before && s < grid.pipeline && n < PST_PLANNING_DEGREES - 40;
         s++)
        n += snprintf(text + n, PST_PLANNING_DEGREES - (size_t)n, "%s%u", s ? ", " : "[",
                      pst_grid_degree(grid, s));
    if (grid.tensor_before)
        snprintf(text + n, PST_PLANNING_DEGREES - (size_t)n, "%s] tensor ranks",
                 n < PST_PLANNING_DEGREES - 40 ? "" : ", ...");
    else
        snprintf(text, PST_PLANNING_DEGREES, "%u tensor rank%s", grid.tensor,
                 pst_plural(grid.tensor));
    return text;
}

const char *pst_planning_count(uint64_t count, char text[32]) {
    char digit[24];
    int n = 0;
    const int length = snprintf(digit, sizeof digit, "%" PRIu64, count);
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) text[n++] = ',';
        text[n++] = digit[i];
    }
    text[n] = 0;
    return text;
}

const char *pst_planning_whole(double value, char text[32]) {
    double unit = 1;
    if (isnan(value)) return strcpy(text, "-");
    while (value / unit >= 10000) unit *= 10;
    if (value < 1000 || value > 1e18) {
        snprintf(text, 32, "%.4g", value);
        return text;
    }
    return pst_planning_count((uint64_t)(round(value / unit) * unit), text);
}

const char *pst_planning_short(double value, char text[32]) {
    static const char units[] = "KMBT";
    int unit = -1;
    if (isnan(value)) return strcpy(text, "-");
    while (value >= 999.95 && unit < 3) {
        value /= 1000;
        unit++;
    }
    if (unit < 0) snprintf(text, 32, "%.4g", value);
    else snprintf(text, 32, "%.4g%c", value, units[unit]);
    return text;
}

const char *pst_planning_bytes(uint64_t bytes, char text[32]) {
    return pst_bytes_text(bytes, PST_KIB, PST_GIB, 2, text);
}

const char *pst_planning_short_degrees(const pst_search_row *r, char *text, size_t capacity) {
    const pst_grid grid = {r->pipeline, r->data, r->tensor, r->before, 0};
    size_t n = 0;
    if (!r->before) snprintf(text, capacity, "%u", r->tensor);
    for (uint32_t s = 0; r->before && s < r->pipeline && n < capacity; s++)
        n += (size_t)snprintf(text + n, capacity - n, "%s%u", s ? "-" : "",
                              pst_grid_degree(grid, s));
    return text;
}

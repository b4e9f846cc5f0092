/* Output of `penstock plan --json`: docs/formats.md lists its keys. planning/planning.h declares
 * it. */
#include "planning/budget.h"
#include <errno.h>
#include <jansson.h>
#include <string.h>

static double seconds(uint64_t ns) { return (double)ns * 1e-9; }

static json_t *list32(const uint32_t *item, uint32_t n) {
    json_t *list = json_array();
    for (uint32_t i = 0; item && i < n; i++) json_array_append_new(list, json_integer(item[i]));
    return list;
}

static json_t *list64(const uint64_t *item, uint32_t n) {
    json_t *list = json_array();
    for (uint32_t i = 0; item && i < n; i++)
        json_array_append_new(list, json_integer((json_int_t)item[i]));
    return list;
}

/* Tensor ranks of each stage. */
static json_t *degrees_of(pst_grid grid) {
    json_t *list = json_array();
    for (uint32_t s = 0; s < grid.pipeline; s++)
        json_array_append_new(list, json_integer(pst_grid_degree(grid, s)));
    return list;
}

static json_t *recompute_of(const pst_candidate *candidate) {
    json_t *list = json_array();
    for (uint32_t c = 0; c < candidate->layout.n_chunk; c++) {
        const pst_recompute_way way = candidate->layout.recompute[c];
        const uint32_t layers = pst_recompute_layers(way);
        char text[PST_RECOMPUTE_TEXT];
        json_array_append_new(list, layers ? json_pack("{s:i}", "full", (int)layers)
                                           : json_string(pst_recompute_text(way, text)));
    }
    return list;
}

static json_t *in_flight_of(const pst_candidate *c) {
    json_t *list = json_array();
    for (uint32_t s = 0; s < c->layout.pipeline; s++)
        json_array_append_new(list, json_real(pst_planning_in_flight(c, s)));
    return list;
}

static json_t *room_of(const pst_planning *x, const pst_candidate *c) {
    json_t *list = json_array();
    for (uint32_t s = 0; s < c->layout.pipeline; s++)
        json_array_append_new(list, json_integer((json_int_t)pst_planning_capacity(x, c, s)));
    return list;
}

static json_t *real_if(int known, double value) { return known ? json_real(value) : json_null(); }

/* A layout and its predictions. */
static json_t *layout_of(const pst_planning *x, const pst_candidate *candidate) {
    json_t *j = json_pack(
        "{s:i,s:i,s:i,s:b,s:i,s:i,s:i,s:s,s:i,s:o,s:o,s:o,s:o}", "pipeline",
        (int)candidate->layout.pipeline, "data", (int)candidate->layout.data, "tensor",
        (int)candidate->layout.tensor, "sequence",
        candidate->layout.tensor > 1 && candidate->layout.sequence, "zero",
        (int)candidate->layout.zero, "micro_batch", (int)candidate->layout.micro_batch,
        "micro_batches", (int)candidate->layout.n_micro, "schedule",
        pst_planning_schedule(candidate), "chunks",
        (int)(candidate->layout.n_chunk / candidate->layout.pipeline), "recompute",
        recompute_of(candidate), "cut",
        list32(candidate->layout.first_item, candidate->layout.n_chunk + 1), "replicas",
        list32(candidate->layout.micros, candidate->layout.data), "devices",
        list32(candidate->layout.device, pst_grid_size(pst_layout_grid(&candidate->layout))));
    if (j && candidate->layout.rest)
        json_object_set_new(j, "first_micro_batch", json_integer(candidate->layout.rest));
    if (j && candidate->layout.tensor_before)
        json_object_set_new(j, "tensors", degrees_of(pst_layout_grid(&candidate->layout)));
    if (j && candidate->exact && candidate->layout.data > 1)
        json_object_set_new(j, "exchange", json_string(candidate->near > 1 ? "two-level" : "flat"));
    double low = 0, high = 0;
    const int known = pst_planning_range(x, candidate, &low, &high);
    json_t *predicted = json_pack(
        "{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:o,s:o,s:b}", "step_s",
        seconds(candidate->step_ns), "flush_s", seconds(candidate->flush_ns), "bound_s",
        seconds(candidate->bound_ns), "busy_s", seconds(candidate->busy_ns), "tensor_exchange_s",
        seconds(candidate->exchange_ns), "recompute_s", seconds(candidate->again_ns), "message_s",
        seconds(candidate->message_ns), "reduce_s", seconds(candidate->reduce_ns), "bubble",
        candidate->bubble, "peak_bytes", list64(candidate->peak_bytes, candidate->layout.pipeline),
        "room_bytes", room_of(x, candidate), "in_flight", in_flight_of(candidate), "exact",
        candidate->exact);
    if (predicted) json_object_set_new(predicted, "step_low_s", real_if(known, low));
    if (predicted) json_object_set_new(predicted, "step_high_s", real_if(known, high));
    if (!j || json_object_set_new(j, "predicted", predicted) == 0) return j;
    json_decref(j);
    return NULL;
}

static json_t *row_of(const pst_planning *x, const pst_search_row *r) {
    return json_pack("{s:i,s:i,s:i,s:b,s:I,s:i,s:s,s:o}", "pipeline", (int)r->pipeline, "tensor",
                     (int)r->tensor, "data", (int)r->data, "fits", r->fits, "excess_bytes",
                     (json_int_t)r->excess, "stage", (int)r->stage, "why", r->why, "layout",
                     r->best ? layout_of(x, r->best) : json_null());
}

static json_t *rows_of(const pst_planning *x) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < x->result->n_row; i++)
        if (json_array_append_new(list, row_of(x, &x->result->row[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Of the first device; 0: unknown. */
static json_t *memory_of(const pst_planning *x) {
    const pst_cluster_device *d = &x->cluster->device[0];
    const pst_device_kind *kind = &x->cluster->kind[d->kind];
    const int chip = !x->local && !d->given;
    return json_pack("{s:I,s:I,s:f,s:i,s:I}", "total_bytes", (json_int_t)(chip ? kind->memory : 0),
                     "reserved_bytes",
                     (json_int_t)(chip ? pst_device_kind_reserved(kind, x->communicators) : 0),
                     "margin", x->margin, "communicators", (int)x->communicators, "usable_bytes",
                     (json_int_t)d->memory);
}

static json_t *searched(const pst_planning *x) {
    const pst_search_result *r = x->result;
    return json_pack("{s:I,s:I,s:I,s:I,s:f,s:b}", "bounded", (json_int_t)r->n_bounded, "layouts",
                     (json_int_t)r->n_layout, "simulated", (json_int_t)r->n_simulated, "prepared",
                     (json_int_t)r->n_verified, "seconds", x->seconds, "timed_out", r->timed_out);
}

static json_t *fewer_of(const pst_planning *x) {
    if (!x->fewer) return json_null();
    return json_pack("{s:i,s:f}", "devices", (int)x->fewer, "step_s", seconds(x->fewer_ns));
}

static json_t *batches_of(const pst_planning *x) {
    const uint64_t steps = x->batches.run_steps;
    if (!x->batches.steps) return json_null();
    return json_pack("{s:I,s:I,s:I,s:f,s:I,s:f}", "from", (json_int_t)x->batches.from, "steps",
                     (json_int_t)x->batches.steps, "samples", (json_int_t)x->batches.samples,
                     "seconds", x->batches.ns * 1e-9, "run_steps", (json_int_t)steps, "run_seconds",
                     x->batches.run_ns * 1e-9);
}

static json_t *overridden_of(const pst_planning *x) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < x->n_override; i++)
        json_array_append_new(list, json_string(x->override[i]));
    return list;
}

/* The best step with each number of servers that was tried. */
static json_t *servers_of(const pst_planning *x) {
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < x->n_tried; i++)
        json_array_append_new(list, json_pack("{s:i, s:f}", "servers", (int)x->tried[i].servers,
                                              "step_s", seconds(x->tried[i].step_ns)));
    return list;
}

static json_t *packings_of(const pst_planning *x) {
    json_t *all = json_array();
    for (uint32_t i = 0; i < x->n_packed; i++)
        json_array_append_new(all, json_pack("{s:s,s:s,s:s,s:f}", "up", x->packed[i].up, "down",
                                             x->packed[i].down, "stages", x->packed[i].stages,
                                             "step_s", seconds(x->packed[i].step_ns)));
    return all;
}

pst_status pst_planning_json(pst_planning *x, const char *change, const char *cluster, FILE *out) {
    const pst_search_result *r = x->result;
    const pst_candidate *best = r->best;
    double step = best ? seconds(best->step_ns) : 1, mfu = best ? pst_planning_mfu(x, best) : 0;
    double tokens = (double)x->problem.batch * x->model.context, low = 0, high = 0;
    const int known = best && pst_planning_range(x, best, &low, &high);
    json_t *j = json_pack("{s:b,s:s,s:i,s:s,s:s,s:o,s:s,s:s}", "fits", best != NULL, "cluster",
                          x->cluster_text, "devices", (int)(x->cluster->n_device + x->servers),
                          "costs", pst_planning_source(x), "program", x->program.name, "overridden",
                          overridden_of(x), "change", change, "smallest_cluster", cluster);
    int failed =
        !j ||
        json_object_set_new(j, "imported", x->imported ? json_string(x->imported) : json_null()) !=
            0 ||
        json_object_set_new(j, "lower_bound_s", real_if(best != NULL, seconds(r->bound_ns))) != 0 ||
        json_object_set_new(j, "gap", real_if(best != NULL, r->gap)) != 0 ||
        json_object_set_new(j, "unequal_bound_s",
                            real_if(best && r->unequal_ns, seconds(r->unequal_ns))) != 0 ||
        json_object_set_new(j, "step_s", real_if(best != NULL, step)) != 0 ||
        json_object_set_new(j, "step_low_s", real_if(known, low)) != 0 ||
        json_object_set_new(j, "step_high_s", real_if(known, high)) != 0 ||
        json_object_set_new(j, "calibration", real_if(x->factor > 0, x->factor)) != 0 ||
        json_object_set_new(j, "tokens_per_s", real_if(best != NULL, tokens / step)) != 0 ||
        json_object_set_new(j, "mfu", real_if(mfu > 0, mfu)) != 0 ||
        json_object_set_new(j, "fewer", fewer_of(x)) != 0 ||
        json_object_set_new(j, "batch_warmup", batches_of(x)) != 0 ||
        json_object_set_new(j, "servers", servers_of(x)) != 0 ||
        json_object_set_new(j, "compress", packings_of(x)) != 0 ||
        json_object_set_new(j, "layout", best ? layout_of(x, best) : json_null()) != 0 ||
        json_object_set_new(j, "memory", memory_of(x)) != 0 ||
        json_object_set_new(j, "rows", rows_of(x)) != 0 ||
        (x->budget && json_object_set_new(j, "budget", pst_budget_json(x->budget)) != 0) ||
        json_object_set_new(j, "searched", searched(x)) != 0 ||
        json_dumpf(j, out, JSON_INDENT(2)) != 0 || fputc('\n', out) == EOF;
    json_decref(j);
    return failed ? pst_fail(PST_ENOMEM, "cannot write the plan as JSON: %s", strerror(errno))
                  : PST_OK;
}

/* Suite `kernels`: the speed of each distinct operator of a model beside what the machine can
 * reach. FLOPs and bytes are those of the operator rows. A time is the median of several runs;
 * with one thread it is CPU time, which other processes disturb less. FMA peak and memory
 * bandwidth are measured in between, under the same conditions. On a module's device, its own
 * events give the times, and a large product and a large copy give the peaks. An operator's
 * roofline time is the larger of FLOPs / peak and bytes / bandwidth; work on cached data can be
 * faster. */
#include "commands/bench_kernels.h"
#include "prepare/prepare.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 7, FAR_TURNS = 64 }; /* calls queued at once on a module's device */
/* shortest run: short kernels are repeated */
static const double MIN_SECONDS = 0.05, FAR_SECONDS = 0.005;

typedef pst_bench_kernels suite;
typedef pst_bench_group group;

/* --- operators -------------------------------------------------------------------------------- */

static group *group_of(suite *s, const pst_node *node) {
    for (uint32_t i = 0; i < s->n_group; i++)
        if (pst_bench_same_shape(s->graph, s->groups[i].node, node)) return s->groups + i;
    if (s->n_group == PST_BENCH_GROUPS) return NULL;
    s->groups[s->n_group] = (group){.node = node};
    return s->groups + s->n_group++;
}

/* The tape says which passes occur: the first layers have no input gradient. */
static pst_status list_groups(suite *s) {
    pst_tape *tape;
    PST_TRY(pst_tape_build(s->graph, 1, &tape));
    for (uint32_t i = 0; i < s->graph->n_node; i++)
        group_of(s, s->graph->node + i); /* in the order of the model */
    for (uint32_t i = 0; i < tape->n_step; i++) {
        group *g = tape->extra[i] ? NULL : group_of(s, s->graph->node + tape->step[i].node);
        if (g) g->count[tape->step[i].pass]++;
    }
    pst_tape_close(tape);
    return PST_OK;
}

/* Appends to the string; returns its end. */
static size_t add_shape(char *text, size_t bytes, size_t at, const uint64_t *dim, uint32_t n_dim) {
    for (uint32_t i = 0; i < n_dim && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, i ? "x%llu" : "%llu",
                               (unsigned long long)dim[i]);
    return at;
}

static void shape_text(const pst_graph *g, const pst_node *node, char *text, size_t bytes) {
    const pst_tensor *x = g->tensor + node->in[0];
    const pst_param *weight = node->n_param ? g->param + node->param[0] : NULL;
    size_t at = add_shape(text, bytes, 0, x->dim, x->n_dim);
    if (weight && weight->n_dim > 1 && at < bytes) {
        at += (size_t)snprintf(text + at, bytes - at, " w ");
        at = add_shape(text, bytes, at, weight->dim, weight->n_dim);
    }
    if (node->attr.heads && at < bytes)
        at += (size_t)snprintf(text + at, bytes - at, " heads %u", node->attr.heads);
    if (node->attr.bidirectional && at < bytes)
        at += (size_t)snprintf(text + at, bytes - at, " bidirectional");
    if (node->attr.activation != PST_ACT_NONE && at < bytes)
        snprintf(text + at, bytes - at, " %s", pst_activation_name(node->attr.activation));
}

/* Launches the same call several times. */
typedef struct {
    const pst_kernel_row *row;
    pst_call call;
    uint64_t turns;
} launches;

static pst_status launch_all(pst_device *device, const void *block) {
    const launches *l = block;
    for (uint64_t i = 0; i < l->turns; i++) PST_TRY(l->row->launch(device, &l->call));
    return PST_OK;
}

/* Median seconds per launch. */
static pst_status time_launch(suite *s, launches *l, double *seconds) {
    double time[RUNS], took, least = s->target.far ? FAR_SECONDS : MIN_SECONDS;
    pst_bench_polls = (pst_bench_poll_times){0};
    l->turns = 1;
    if (!s->target.far) PST_TRY(l->row->launch(s->target.device, &l->call));
    for (int run = -1; run < RUNS; run++) {
        PST_TRY(pst_bench_time_once(s, launch_all, l, &took));
        if (run >= 0) time[run] = took / (double)l->turns;
        else l->turns = 1 + (uint64_t)(least / (took + 1e-9));
        if (s->target.far && l->turns > FAR_TURNS) l->turns = FAR_TURNS;
    }
    *seconds = pst_bench_median(time, RUNS);
    return PST_OK;
}

static pst_status time_pass(suite *s, const group *g, pst_pass pass) {
    void *arg[PST_MAX_ARG];
    char shape[128];
    launches l = {.row = g->row[pass]};
    double seconds;
    uint64_t flops, moved;
    pst_bench_case_call(&g->operands, pass, s->n_micro == 1, arg, &l.call);
    PST_TRY(time_launch(s, &l, &seconds));
    g->node->op->cost(s->graph, g->node, pass, &flops, &moved);
    shape_text(s->graph, g->node, shape, sizeof shape);
    const pst_bench_row row = {.op = g->node->op->name,
                               .kernel = l.row->name,
                               .shape = shape,
                               .pass = "FBW"[pass],
                               .count = g->count[pass] * s->n_micro,
                               .seconds = seconds,
                               .flops = (double)flops,
                               .bytes = (double)moved,
                               .longest_poll_s = (double)pst_bench_polls.longest_ns * 1e-9};
    pst_bench_add_row(s, &row);
    return PST_OK;
}

/* Finds kernels and operands of all passes that occur. */
static pst_status prepare_group(suite *s, group *g) {
    pst_device *d = s->target.device;
    uint64_t most = 0;
    for (pst_pass pass = 0; pass < PST_PASS_COUNT; pass++) {
        uint32_t index;
        if (!g->count[pass]) continue;
        PST_TRY(pst_registry_choose_kernel(s->graph, g->node, 0, pass, d, &index));
        const pst_kernel_row *row = g->row[pass] = pst_registry_kernel(index);
        if (row->prepare) PST_TRY(row->prepare(d, s->graph, g->node));
        uint64_t bytes = row->scratch ? row->scratch(s->graph, g->node, d->threads) : 0;
        if (bytes > most) most = bytes;
    }
    pst_bench_case_list(s->graph, g->node, most, &g->operands);
    return PST_OK;
}

static pst_status time_group(suite *s, group *g) {
    PST_TRY(pst_bench_case_place(&g->operands, &s->target));
    for (pst_pass pass = 0; pass < PST_PASS_COUNT; pass++) {
        if (!s->target.far && s->n_peak < PST_BENCH_GROUPS)
            s->peak[s->n_peak++] =
                pst_cpu_peak_flops(s->target.device->isa, s->dtype, s->b->threads);
        if (g->row[pass]) PST_TRY(time_pass(s, g, pass));
    }
    return PST_OK;
}

static int is_asked_for(const suite *s, const group *g) {
    return !*s->b->options->op || !strcmp(s->b->options->op, g->node->op->name);
}

/* --- findings --------------------------------------------------------------------------------- */

static double real_of(json_t *j, const char *key) {
    return json_number_value(json_object_get(j, key));
}

static double step_seconds(json_t *row) { return real_of(row, "seconds") * real_of(row, "count"); }

static int is_product(json_t *row) {
    const char *op = json_string_value(json_object_get(row, "op"));
    return !strcmp(op, "linear") || !strcmp(op, "convolution");
}

/* Adds to each row what follows from time and cost, and sums up over the step. */
static json_t *conclude(suite *s) {
    double peak = pst_bench_median(s->peak, s->n_peak);
    double one = s->target.far ? peak : pst_cpu_peak_flops(s->target.device->isa, s->dtype, 1);
    double products = 0, rest = 0, flops = 0;
    json_t *row;
    size_t i;
    json_array_foreach(s->rows, i, row) {
        if (is_product(row)) {
            products += step_seconds(row);
            flops += real_of(row, "flops") * real_of(row, "count");
        } else rest += step_seconds(row);
    }
    json_array_foreach(s->rows, i, row) {
        double seconds = real_of(row, "seconds"), least = real_of(row, "flops") / peak;
        if (real_of(row, "bytes") / s->bandwidth > least)
            least = real_of(row, "bytes") / s->bandwidth;
        json_object_set_new(row, "roofline", json_real(least / seconds));
        json_object_set_new(row, "share", json_real(step_seconds(row) / (products + rest)));
    }
    double rate = products > 0 ? flops / products : 0;
    return json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:O,s:O}", "precision",
                     pst_dtype_precision(s->dtype), "peak_flops_per_core", one, "peak_flops", peak,
                     "bandwidth_bytes_per_s", s->bandwidth, "products_s", products,
                     "products_flops_per_s", rate, "products_of_peak", rate / peak, "rest_share",
                     rest / (products + rest), "rows", s->rows, "products", s->products);
}

static pst_status build(suite *s) {
    const pst_config *c = s->b->config;
    const pst_model_row *row;
    pst_model_config m;
    PST_TRY(pst_prepare_model(c, &row, &m));
    m.dtype = s->dtype;
    PST_TRY(row->build(&m, &s->graph));
    uint32_t flags = s->target.device ? s->target.device->ops->flags : 0;
    if (flags & PST_DEVICE_PADDED) pst_graph_pad(s->graph);
    if (flags & PST_DEVICE_SUMS) pst_graph_leave_sums(s->graph);
    s->n_micro = pst_config_micros(c);
    return list_groups(s);
}

/* The largest number of bytes that any measurement needs. */
static pst_status reserve_far(suite *s) {
    uint64_t most = pst_bench_flat_bytes(s);
    for (uint32_t i = 0; i < s->n_group; i++)
        if (s->groups[i].operands.bytes > most) most = s->groups[i].operands.bytes;
    return pst_bench_target_reserve(&s->target, most);
}

/* Compares the algorithm chosen for each prepared product with the fastest one. Allocates memory
 * of its own. */
static pst_status compare_choices(suite *s) {
    pst_device *d = s->target.device;
    const pst_choice_ops *ops = pst_registry_choices(d->ops);
    pst_choice choice;
    pst_choice_times t;
    for (uint32_t i = 0; ops && ops->take(d, i, &choice); i++) {
        PST_TRY(ops->compare(d, i, &t));
        if (!t.tried) continue; /* its parts have rows of their own */
        json_array_append_new(s->products,
                              json_pack("{s:s,s:f,s:f,s:f,s:i}", "of", choice.of, "first_s",
                                        t.first_s, "measured_s", t.measured_s, "best_s", t.best_s,
                                        "tried", (int)t.tried));
    }
    return PST_OK;
}

static pst_status measure_groups(suite *s) {
    for (uint32_t i = 0; i < s->n_group; i++)
        if (is_asked_for(s, s->groups + i)) PST_TRY(prepare_group(s, s->groups + i));
    PST_TRY(compare_choices(s));
    if (s->target.far) PST_TRY(reserve_far(s));
    for (uint32_t i = 0; i < s->n_group; i++)
        if (is_asked_for(s, s->groups + i)) PST_TRY(time_group(s, s->groups + i));
    if (!json_array_size(s->rows) && *s->b->options->op)
        return pst_fail(PST_EINPUT, "--op %.60s: the model has no such operator",
                        s->b->options->op);
    return pst_bench_flat(s);
}

static pst_status measure_precision(const pst_bench *b, const pst_device_ops *ops, pst_dtype dtype,
                                    json_t *list) {
    const pst_device_config config = {.threads = b->threads, .poll = pst_bench_note_poll};
    suite *s = calloc(1, sizeof *s);
    if (!s) return pst_fail(PST_ENOMEM, "no memory to measure kernels");
    *s = (suite){.b = b, .dtype = dtype, .rows = json_array(), .products = json_array()};
    pst_status status = PST_OK;
    if (!pst_registry_is_host(ops)) {
        status = pst_bench_peaks(ops, &config, dtype, s->peak, &s->bandwidth);
        s->n_peak = 1;
    }
    if (status == PST_OK) status = pst_bench_target_open(ops, &config, &s->target);
    if (status == PST_OK) status = build(s);
    if (status == PST_OK) status = measure_groups(s);
    if (status == PST_OK) json_array_append_new(list, conclude(s));
    json_decref(s->rows);
    json_decref(s->products);
    pst_graph_close(s->graph);
    pst_bench_target_close(&s->target);
    free(s);
    return status;
}

pst_status pst_bench_precisions(const pst_bench *b, const pst_device_ops *ops,
                                pst_bench_precision measure, json_t *list) {
    const char *precision = b->options->precision;
    int host = pst_registry_is_host(ops), both = !strcmp(precision, "both");
    pst_dtype dtype = pst_dtype_of_precision(precision);
    const char *who = host ? pst_cpu_no_bf16() : NULL;
    if (who && !strcmp(precision, "bf16"))
        return pst_fail(PST_EINPUT, "bf16 needs AVX512-BF16, which %s", who);
    if (host && pst_dtype_stored(dtype) != dtype)
        return pst_fail(PST_EINPUT,
                        "--precision %s: only GPUs support matrix products in this format",
                        precision);
    if (!both) return measure(b, ops, dtype, list);
    PST_TRY(measure(b, ops, PST_F32, list));
    return who ? PST_OK : measure(b, ops, PST_BF16, list);
}

pst_status pst_bench_device(const pst_bench *b, const pst_device_ops **ops) {
    const pst_device_config config = {.threads = b->threads};
    if (!strcmp(b->options->device, "timed"))
        return pst_fail(PST_EINPUT, "--device timed: this device computes nothing, so there is "
                                    "nothing to measure; choose another device");
    return pst_registry_device(b->options->device, &config, ops);
}

pst_status pst_bench_kernels_measure(const pst_bench *b, json_t **found) {
    const pst_device_ops *ops;
    const pst_device_config config = {.threads = b->threads};
    PST_TRY(pst_bench_device(b, &ops));
    json_t *list = json_array();
    int host = pst_registry_is_host(ops);
    int cpu_time = b->threads == 1 && host;
    const char *clock = cpu_time ? "CPU time of the thread" : "wall";
    if (!host) clock = "the device's";
    pst_bench_use_cpu_time(cpu_time);
    pst_status status = pst_bench_precisions(b, ops, measure_precision, list);
    if (status == PST_OK)
        *found = json_pack("{s:s,s:s,s:s,s:s,s:i,s:s,s:o}", "model",
                           *b->config->model.preset ? b->config->model.preset : "", "device",
                           ops->name, "device_model", ops->model ? ops->model(&config) : "", "isa",
                           host ? pst_isa_name(pst_cpu_isa()) : "", "threads", (int)b->threads,
                           "clock", clock, "precisions", list);
    else json_decref(list);
    return status == PST_OK && !*found ? pst_fail(PST_ENOMEM, "no memory for results") : status;
}

/* Suite `kernels`: how fast each distinct operator of a model runs, beside what the machine could do at best. FLOPs and
 * bytes are those of the operator rows; a time is the median of several runs, with one thread its CPU time, which
 * neighbours disturb less. FMA peak and memory bandwidth are measured between the operators, not at another time.
 * The roofline's time of an operator is the larger of FLOPs / peak and bytes / bandwidth; what works from cache can be
 * faster than that. */
#include "engine/bench.h"
#include "engine/bench_case.h"
#include "engine/prepare.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 7, FLAT_RUNS = 5, MAX_GROUPS = 256, MAX_PEAKS = MAX_GROUPS, FLAT_ELEMENTS = 8 << 20 };
static const double MIN_SECONDS = 0.05; /* per run: short kernels are repeated */

/* Nodes of the same shape. count: how often each pass of it occurs in a micro-batch. */
typedef struct {
    const pst_node *node;
    uint64_t count[PST_PASS_COUNT];
} group;

typedef struct {
    const pst_bench *b;
    pst_dtype dtype;
    pst_graph *graph;
    pst_device *device;
    uint64_t n_micro; /* micro-batches of a step */
    uint32_t n_group, n_peak;
    group groups[MAX_GROUPS];
    double peak[MAX_PEAKS]; /* FLOP/s of all threads, measured now and then */
    double bandwidth;       /* bytes/s */
    json_t *rows;
} suite;

/* --- time ------------------------------------------------------------------------------------------------------- */

static int cpu_time; /* one thread: its CPU time is measured */

static uint64_t now_ns(void) {
    struct timespec t;
    if (!cpu_time) return pst_monotonic_ns();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, uint32_t n) {
    qsort(x, n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* The longest time between two polls for transfers since it was last cleared. */
static struct { uint64_t last_ns, longest_ns; } polls;

static void note_poll(void *unused) {
    (void)unused;
    uint64_t now = now_ns();
    if (polls.last_ns && now - polls.last_ns > polls.longest_ns) polls.longest_ns = now - polls.last_ns;
    polls.last_ns = now;
}

/* --- operators -------------------------------------------------------------------------------------------------- */

static group *group_of(suite *s, const pst_node *node) {
    for (uint32_t i = 0; i < s->n_group; i++)
        if (pst_bench_same_shape(s->graph, s->groups[i].node, node)) return s->groups + i;
    if (s->n_group == MAX_GROUPS) return NULL;
    s->groups[s->n_group] = (group){.node = node};
    return s->groups + s->n_group++;
}

/* Which passes occur is what the tape says: the first layers have no input gradient. */
static pst_status list_groups(suite *s) {
    pst_tape *tape;
    PST_TRY(pst_tape_build(s->graph, 1, &tape));
    for (uint32_t i = 0; i < s->graph->n_node; i++) group_of(s, s->graph->node + i); /* in the order of the model */
    for (uint32_t i = 0; i < tape->n_step; i++) {
        group *g = tape->is_sum[i] ? NULL : group_of(s, s->graph->node + tape->step[i].node);
        if (g) g->count[tape->step[i].pass]++;
    }
    pst_tape_close(tape);
    return PST_OK;
}

static void shape_text(const pst_graph *g, const pst_node *node, char *text, size_t bytes) {
    const pst_tensor *x = g->tensor + node->in[0];
    size_t at = 0;
    for (uint32_t i = 0; i < x->n_dim && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, i ? "x%llu" : "%llu", (unsigned long long)x->dim[i]);
    if (node->n_param && g->param[node->param[0]].n_dim == 2 && at < bytes)
        at +=
            (size_t)snprintf(text + at, bytes - at, " w %llux%llu", (unsigned long long)g->param[node->param[0]].dim[0],
                             (unsigned long long)g->param[node->param[0]].dim[1]);
    if (node->attr.heads && at < bytes) at += (size_t)snprintf(text + at, bytes - at, " heads %u", node->attr.heads);
    if (node->attr.activation != PST_ACT_NONE && at < bytes)
        snprintf(text + at, bytes - at, " %s", pst_activation_name(node->attr.activation));
}

static void add_row(suite *s, const char *op, const char *kernel, const char *shape, char pass, uint64_t count,
                    double seconds, double flops, double moved, double poll_s) {
    json_array_append_new(s->rows,
                          json_pack("{s:s,s:s,s:s,s:s%,s:I,s:f,s:f,s:f,s:f}", "op", op, "kernel", kernel, "shape",
                                    shape, "pass", &pass, (size_t)1, "count", (json_int_t)count, "seconds", seconds,
                                    "flops", flops, "bytes", moved, "longest_poll_s", poll_s));
}

/* Median seconds of a launch. */
static pst_status time_launch(suite *s, const pst_kernel_row *row, const pst_call *call, double *seconds) {
    double time[RUNS];
    uint64_t turns = 1;
    polls.last_ns = polls.longest_ns = 0;
    PST_TRY(row->launch(s->device, call));
    for (int run = -1; run < RUNS; run++) {
        uint64_t start = now_ns();
        polls.last_ns = 0;
        for (uint64_t i = 0; i < turns; i++) PST_TRY(row->launch(s->device, call));
        double took = (double)(now_ns() - start) * 1e-9;
        if (run >= 0) time[run] = took / (double)turns;
        else turns = 1 + (uint64_t)(MIN_SECONDS / (took + 1e-9));
    }
    *seconds = median(time, RUNS);
    return PST_OK;
}

static pst_status time_pass(suite *s, const group *g, pst_pass pass, const pst_kernel_row *row,
                            const pst_bench_case *c) {
    void *arg[PST_MAX_ARG];
    char shape[128];
    pst_call call;
    double seconds;
    uint64_t flops, moved;
    pst_bench_case_call(c, pass, s->n_micro == 1, arg, &call);
    PST_TRY(time_launch(s, row, &call, &seconds));
    g->node->op->cost(s->graph, g->node, pass, &flops, &moved);
    shape_text(s->graph, g->node, shape, sizeof shape);
    add_row(s, g->node->op->name, row->name, shape, "FBW"[pass], g -> count[pass] * s -> n_micro, seconds,
            (double)flops, (double)moved, (double)polls.longest_ns * 1e-9);
    return PST_OK;
}

static pst_status time_group(suite *s, const group *g) {
    const pst_kernel_row *row[PST_PASS_COUNT] = {NULL};
    pst_bench_case c;
    uint64_t most = 0;
    for (pst_pass pass = 0; pass < PST_PASS_COUNT; pass++) {
        uint32_t index;
        if (!g->count[pass]) continue;
        PST_TRY(pst_registry_choose_kernel(s->graph, g->node, 0, pass, s->device, &index));
        row[pass] = pst_registry_kernel(index);
        uint64_t bytes = row[pass]->scratch ? row[pass]->scratch(s->graph, g->node, s->device->threads) : 0;
        if (bytes > most) most = bytes;
    }
    PST_TRY(pst_bench_case_open(s->graph, g->node, most, &c));
    pst_status status = PST_OK;
    for (pst_pass pass = 0; status == PST_OK && pass < PST_PASS_COUNT; pass++) {
        if (s->n_peak < MAX_PEAKS) s->peak[s->n_peak++] = pst_cpu_peak_flops(s->device->isa, s->dtype, s->b->threads);
        if (row[pass]) status = time_pass(s, g, pass, row[pass], &c);
    }
    pst_bench_case_close(&c);
    return status;
}

/* --- optimizer, norm, sums; and the memory's bandwidth ---------------------------------------------------------- */

static const pst_optim_hyper adamw = {.lr = 1e-3f,
                                      .decay = 0.1f,
                                      .beta1 = 0.9f,
                                      .beta2 = 0.95f,
                                      .eps = 1e-8f,
                                      .grad_scale = 1,
                                      .correction1 = 0.1f,
                                      .correction2 = 0.05f,
                                      .t = 1};
enum { UPDATE, SQUARES, ACCUMULATE, NARROW, N_FLAT };
static const struct {
    const char *name;
    double bytes, flops; /* of an element */
} flat_rows[N_FLAT] = {{"adamw", 28, 12}, {"norm", 4, 2}, {"accumulate", 12, 1}, {"narrow", 6, 0}};

static void run_flat(suite *s, const pst_flat *flat, float *x, uint64_t n, double time[N_FLAT]) {
    float *state[2] = {x + n, x + 2 * n}, *grad = x + 3 * n;
    pst_pool *pool = s->device->pool;
    uint64_t at[N_FLAT + 1];
    at[0] = now_ns();
    flat->update(pool, PST_OPTIM_ADAMW, &adamw, x, grad, state, n);
    at[1] = now_ns();
    flat->sum_squares(pool, grad, n);
    at[2] = now_ns();
    flat->accumulate(pool, state[0], grad, n);
    at[3] = now_ns();
    flat->narrow(pool, s->dtype == PST_F32 ? PST_BF16 : s->dtype, grad, (uint16_t *)state[1], n);
    at[4] = now_ns();
    for (int i = 0; i < N_FLAT; i++) time[i] = (double)(at[i + 1] - at[i]) * 1e-9;
}

/* Elements of all parameters, and of the accumulators beyond a parameter's first. */
static void count_elements(const pst_graph *g, uint64_t *all, uint64_t *shared) {
    *all = *shared = 0;
    for (uint32_t i = 0; i < g->n_param; i++) {
        uint64_t n = pst_param_elements(g->param + i);
        *all += n, *shared += n * (g->param[i].n_use > 1 ? g->param[i].n_use - 1 : 0);
    }
}

/* Rows hold the time for the whole model, measured on as much of it as is far larger than any cache. */
static pst_status time_flat(suite *s) {
    const pst_flat *flat = pst_flat_choose(s->device->isa);
    const uint64_t n = FLAT_ELEMENTS;
    uint64_t all, shared;
    double time[FLAT_RUNS + 1][N_FLAT];
    pst_arena arena;
    count_elements(s->graph, &all, &shared);
    PST_TRY(pst_arena_open(4 * n * sizeof(float), 0, &arena));
    float *x = (float *)(void *)arena.base;
    for (uint64_t i = 0; i < 4 * n; i++) x[i] = 1e-3f;
    for (int run = 0; run <= FLAT_RUNS; run++) run_flat(s, flat, x, n, time[run]); /* the first counts for nothing */
    pst_arena_close(&arena);
    for (int i = 0; i < N_FLAT; i++) {
        double of[FLAT_RUNS], elements = (double)(i == ACCUMULATE ? shared : all);
        for (int run = 0; run < FLAT_RUNS; run++) of[run] = time[run + 1][i];
        double each = median(of, FLAT_RUNS) / (double)n, rate = flat_rows[i].bytes / each;
        if (rate > s->bandwidth) s->bandwidth = rate;
        if (elements > 0 && (i != NARROW || s->dtype != PST_F32) && !*s->b->options->op)
            add_row(s, flat_rows[i].name, flat->name, "all parameters", '-', 1, each * elements,
                    flat_rows[i].flops * elements, flat_rows[i].bytes * elements, 0);
    }
    return PST_OK;
}

/* --- findings --------------------------------------------------------------------------------------------------- */

static double real_of(json_t *j, const char *key) { return json_number_value(json_object_get(j, key)); }

static double step_seconds(json_t *row) { return real_of(row, "seconds") * real_of(row, "count"); }

static int is_product(json_t *row) { return !strcmp(json_string_value(json_object_get(row, "op")), "linear"); }

/* Adds what follows from time and cost to each row, and sums over the step. */
static json_t *conclude(suite *s) {
    double peak = median(s->peak, s->n_peak), one = pst_cpu_peak_flops(s->device->isa, s->dtype, 1);
    double products = 0, rest = 0, flops = 0;
    json_t *row;
    size_t i;
    json_array_foreach(s->rows, i, row) {
        if (is_product(row)) products += step_seconds(row), flops += real_of(row, "flops") * real_of(row, "count");
        else rest += step_seconds(row);
    }
    json_array_foreach(s->rows, i, row) {
        double seconds = real_of(row, "seconds"), least = real_of(row, "flops") / peak;
        if (real_of(row, "bytes") / s->bandwidth > least) least = real_of(row, "bytes") / s->bandwidth;
        json_object_set_new(row, "roofline", json_real(least / seconds));
        json_object_set_new(row, "share", json_real(step_seconds(row) / (products + rest)));
    }
    double rate = products > 0 ? flops / products : 0;
    return json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:O}", "precision", pst_dtype_precision(s->dtype),
                     "peak_flops_per_core", one, "peak_flops", peak, "bandwidth_bytes_per_s", s->bandwidth,
                     "products_s", products, "products_flops_per_s", rate, "products_of_peak", rate / peak,
                     "rest_share", rest / (products + rest), "rows", s->rows);
}

static pst_status build(suite *s) {
    const pst_config *c = s->b->config;
    const pst_model_row *row;
    pst_model_config m;
    PST_TRY(pst_prepare_model(c, pst_data_vocabulary(c->data.tokenizer), &row, &m));
    m.dtype = s->dtype;
    PST_TRY(row->build(&m, &s->graph));
    s->n_micro = (uint64_t)(c->train.batch / c->train.micro_batch);
    return list_groups(s);
}

static pst_status measure_precision(const pst_bench *b, pst_dtype dtype, json_t *list) {
    const pst_device_config config = {.threads = b->threads, .poll = note_poll};
    suite *s = calloc(1, sizeof *s);
    if (!s) return pst_fail(PST_ENOMEM, "no memory to measure kernels");
    *s = (suite){.b = b, .dtype = dtype, .rows = json_array()};
    pst_status status = pst_device_cpu.open(&config, &s->device);
    if (status == PST_OK) status = build(s);
    for (uint32_t i = 0; status == PST_OK && i < s->n_group; i++)
        if (!*b->options->op || !strcmp(b->options->op, s->groups[i].node->op->name))
            status = time_group(s, s->groups + i);
    if (status == PST_OK && !json_array_size(s->rows) && *b->options->op)
        status = pst_fail(PST_EINPUT, "the model has no operator '%.60s'", b->options->op);
    if (status == PST_OK) status = time_flat(s);
    if (status == PST_OK) json_array_append_new(list, conclude(s));
    json_decref(s->rows);
    pst_graph_close(s->graph);
    if (s->device) pst_device_cpu.close(s->device);
    free(s);
    return status;
}

pst_status pst_bench_kernels_measure(const pst_bench *b, json_t **found) {
    const char *precision = b->options->precision;
    int bf16 = (pst_cpu_isa() & PST_ISA_AVX512_BF16) != 0, both = !strcmp(precision, "both");
    json_t *list = json_array();
    pst_status status = PST_OK;
    cpu_time = b->threads == 1;
    if (!bf16 && !strcmp(precision, "bf16"))
        status = pst_fail(PST_EINPUT, "bf16 needs AVX512-BF16, which this CPU lacks (or PENSTOCK_ISA hides)");
    if (status == PST_OK && (both || !strcmp(precision, "fp32"))) status = measure_precision(b, PST_F32, list);
    if (status == PST_OK && ((both && bf16) || !strcmp(precision, "bf16")))
        status = measure_precision(b, PST_BF16, list);
    if (status == PST_OK && !strcmp(precision, "fp16")) status = measure_precision(b, PST_F16, list);
    if (status == PST_OK)
        *found = json_pack("{s:s,s:s,s:i,s:s,s:o}", "model", *b->config->model.preset ? b->config->model.preset : "",
                           "isa", pst_isa_name(pst_cpu_isa()), "threads", (int)b->threads, "clock",
                           cpu_time ? "CPU time of the thread" : "wall", "precisions", list);
    else json_decref(list);
    return status == PST_OK && !*found ? pst_fail(PST_ENOMEM, "no memory for findings") : status;
}

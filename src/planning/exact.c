/* Exact predictions of a layout, prepared as a run would be. planning/planning.h declares it. */
#include "planning/planning.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void take_exact(const pst_prepared *p, pst_candidate *c) {
    c->step_ns = (uint64_t)pst_prepared_step_ns(p);
    const pst_prepared *most = p->inner ? p->inner : p; /* most steps are like it */
    c->flush_ns = most->timing->flush_ns;
    c->bubble = most->timing->bubble;
    c->bound_ns = pst_simulate_bound(most->job) + c->flush_ns;
    memset(c->in_flight, 0, c->layout.pipeline * sizeof *c->in_flight);
    for (uint32_t r = pst_job_gathers(p->job); r < p->job->n_rank; r = pst_job_next(p->job, r)) {
        uint32_t *held = &c->in_flight[pst_job_stage(p->job, r)];
        if (p->timing->peak_stash[r] > *held) *held = p->timing->peak_stash[r];
    }
    memcpy(c->peak_bytes, p->plan->peak_bytes, c->layout.pipeline * sizeof *c->peak_bytes);
    c->near = p->job->near;
    c->exact = 1;
    c->solved = pst_schedule_kind_of(p->plan->layout.schedule) == PST_SCHEDULE_SOLVED;
}

static pst_status fill_config(pst_planning *x) {
    if (x->filled_config) return PST_OK;
    char *text = strdup(x->cluster_text);
    pst_status status = text ? pst_config_copy(x->config, &x->filled_config)
                             : pst_fail(PST_ENOMEM, "no memory to plan");
    if (status != PST_OK) {
        free(text);
        return status;
    }
    free(x->filled_config->parallel.cluster);
    x->filled_config->parallel.cluster = text;
    return PST_OK;
}

/* The prepared run knows no margin. */
static void keep_margin(const pst_planning *x, pst_prepared *p) {
    pst_cluster *c = p->cluster;
    for (uint32_t i = 0; c && i < c->n_device && i < x->cluster->n_device; i++)
        c->device[i].memory = x->cluster->device[i].memory;
}

/* how: SMALLER: also the smaller batches of train.batch_warmup; BRIEF: without memory maps. */
enum { SMALLER = 1, BRIEF = 2 };
static pst_status prepare(pst_planning *x, const pst_candidate *found, int how, pst_prepared **p) {
    const uint32_t n_rank = pst_grid_size(pst_layout_grid(&found->layout));
    pst_layout layout;
    pst_prepare_options o = {.n_rank = n_rank,
                             .threads = pst_planning_threads(x, n_rank),
                             .isa = pst_planning_isa(x),
                             .device = x->device,
                             .processors = x->processors,
                             .n_eval_micro = found->layout.n_micro,
                             .smaller = how == SMALLER,
                             .brief = how == BRIEF,
                             .twins = x->config->elastic.min > 0,
                             .layout = &layout,
                             .score = 1,
                             .program = &x->program,
                             .factor = x->factor,
                             .quiet = 1};
    PST_TRY(fill_config(x));
    PST_TRY(pst_planning_layout(x, &found->layout, &layout));
    pst_status status = pst_prepare(x->filled_config, &o, p);
    pst_layout_close(&layout);
    if (status == PST_OK) keep_margin(x, *p);
    return status;
}

pst_status pst_planning_prepare(pst_planning *x, const pst_candidate *found, pst_prepared **p) {
    return prepare(x, found, 0, p);
}

/* Measured on a core of 4 to 5 GHz, and a quarter more. */
static const double s_per_operator = 4e-5, s_per_pass = 6e-6, s_per_operator_pass = 1.5e-7;
/* where the exchange between all replicas is compiled: of each operator on each rank */
static const double s_per_operator_rank = 5e-6;
enum { WHOLE_JOBS = 64 };

double pst_planning_verify_s(const void *arg, const pst_candidate *c) {
    const pst_planning *x = arg;
    const double micros = ceil((double)c->layout.n_micro / c->layout.data), n = x->n_operator;
    const uint32_t ranks = pst_grid_size(pst_layout_grid(&c->layout));
    const int whole = c->layout.data > 1 && ranks <= WHOLE_JOBS;
    return s_per_operator * n + (whole ? s_per_operator_rank * n * ranks : 0) +
           micros * (s_per_pass * c->layout.n_chunk + s_per_operator_pass * x->problem.n_item);
}

pst_status pst_planning_verify(void *arg, pst_candidate *c) {
    pst_planning *x = arg;
    pst_prepared *p;
    PST_TRY(pst_planning_add_servers(x, c));
    PST_TRY(prepare(x, c, BRIEF, &p));
    take_exact(p, c);
    pst_prepared_close(p);
    return PST_OK;
}

/* Of the run; 0: only its data says. */
static uint64_t run_steps(const pst_config *c, const pst_prepared *p) {
    const uint64_t tokens = p->tokens / pst_prepared_batch(p);
    if (c->train.epochs > 0) return 0;
    if (!c->train.tokens) return (uint64_t)c->train.steps;
    return pst_batches_steps(&p->batches, ((uint64_t)c->train.tokens + tokens - 1) / tokens);
}

pst_status pst_planning_batches(pst_planning *x) {
    pst_prepared *p;
    if (!x->config->train.batch_warmup.from) return PST_OK;
    PST_TRY(prepare(x, x->result->best, SMALLER, &p));
    const pst_batches_row *whole = &p->batches.row[p->batches.n - 1];
    x->batches.from = p->batches.row[0].size;
    x->batches.steps = whole->step;
    x->batches.samples = whole->sample;
    x->batches.run_steps = run_steps(x->config, p);
    x->batches.ns = pst_prepared_time(p, whole->step);
    x->batches.run_ns = pst_prepared_time(p, x->batches.run_steps);
    pst_prepared_close(p);
    return PST_OK;
}

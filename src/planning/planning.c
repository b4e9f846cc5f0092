/* See planning/planning.h. */
#include "planning/planning.h"
#include "backends/machine.h"
#include "backends/registry.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/plural.h"
#include "data/data.h"
#include "planning/page.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- what is planned for ---------------------------------------------------------------------- */

/* The device that a run on this machine would use. A run on several hosts has already checked
 * whether messages can be sent from device to device. */
static pst_status open_device(pst_planning *x) {
    const pst_device_config config = {.threads = 1};
    const pst_direct_ops *direct;
    const pst_config *c = x->config;
    pst_status status = pst_registry_device(c->parallel.device, &config, &x->device);
    if (status != PST_OK)
        return pst_fail(status, "%s; use --cluster to plan for other machines", pst_error());
    if (!x->all_ranks && x->cluster->n_device > 1)
        PST_TRY(
            pst_registry_direct(c->parallel.transport, x->device, x->cluster->n_device, &direct));
    x->datasheet = pst_prepare_datasheet(c, x->device);
    return PST_OK;
}

/* One device per processor of this machine: as many as -n or the degrees in the run file require,
 * else all. */
static pst_status open_processors(pst_planning *x) {
    const pst_config *c = x->config;
    int64_t n = x->options->ranks, degrees = pst_prepare_lanes(c);
    if (!n && c->parallel.pipeline) n = c->parallel.pipeline * degrees;
    if (!n && c->parallel.n_throttle > 1) n = c->parallel.n_throttle;
    if (!n) n = pst_machine_cpus();
    if (n < 1 || n > PST_RANKS_MAX)
        return pst_fail(PST_EINPUT, "the number of ranks must be from 1 to %d, not %" PRId64,
                        PST_RANKS_MAX, n);
    x->local = 1;
    PST_TRY(pst_cluster_default((uint32_t)n, &x->cluster));
    return open_device(x);
}

/* Applies parallel.throttle to equal devices. */
static pst_status throttle(pst_planning *x) {
    const pst_config *c = x->config;
    uint32_t n = x->cluster->n_device, given = c->parallel.n_throttle;
    if (!given || !x->local) return PST_OK;
    if (given > 1 && given != n)
        return pst_fail(PST_EINPUT,
                        "parallel.throttle has %u factors for %u ranks; give one factor per rank, "
                        "or one for all ranks",
                        given, n);
    for (uint32_t r = 0; r < n; r++) {
        double factor = strtod(c->parallel.throttle[given > 1 ? r : 0], NULL);
        if (!(factor >= 1 && factor <= 1000))
            return pst_fail(PST_EINPUT,
                            "parallel.throttle: expected a number from 1 to 1000, found '%.40s'",
                            c->parallel.throttle[given > 1 ? r : 0]);
        x->cluster->device[r].speed = 1 / factor;
    }
    return PST_OK;
}

/* Memory limit of a rank from the run file; 0: none given. */
static uint64_t rank_memory(const pst_planning *x) {
    return x->config->parallel.memory > 0 ? (uint64_t)x->config->parallel.memory : x->memory;
}

/* The devices of this machine have its free memory. */
static void fill_memory(pst_planning *x) {
    pst_cluster *c = x->cluster;
    uint64_t own = x->local && !rank_memory(x) ? pst_prepare_free(x->device, c->n_device) : 0;
    for (uint32_t i = 0; i < c->n_device; i++)
        if (!c->device[i].memory) c->device[i].memory = own;
}

/* The device of a run on this cluster: of the same kind as the cluster's first device. */
static pst_status load_cluster(pst_planning *x) {
    PST_TRY(pst_cluster_load(x->cluster_text, &x->cluster));
    x->device = pst_prepare_device_of(x->config, x->cluster->kind + x->cluster->device[0].kind);
    return PST_OK;
}

/* Devices of several nodes can only be used together if the nodes have links. */
static pst_status check_links(const pst_cluster *c) {
    pst_cluster_link link;
    for (uint32_t i = 1; i < c->n_device; i++)
        if (c->device[i].node != c->device[0].node) PST_TRY(pst_cluster_between(c, 0, i, &link));
    return PST_OK;
}

static pst_status open_cluster(pst_planning *x) {
    const pst_plan_run_options *o = x->options;
    x->cluster_text = *o->cluster ? o->cluster : x->config->parallel.cluster;
    if (!*x->cluster_text) PST_TRY(open_processors(x));
    else PST_TRY(load_cluster(x));
    PST_TRY(throttle(x));
    if (!x->local && o->ranks > x->cluster->n_device)
        return pst_fail(PST_EINPUT, "-n %" PRId64 ", but %s has only %u devices", o->ranks,
                        x->cluster_text, x->cluster->n_device);
    if (o->ranks) x->cluster->n_device = (uint32_t)o->ranks; /* the first ones */
    if (x->cluster->n_device > PST_PLANNED_RANKS_MAX)
        return pst_fail(PST_EINPUT,
                        "%s has %u devices, but at most %d can be planned; use -n to choose fewer",
                        x->cluster_text, x->cluster->n_device, PST_PLANNED_RANKS_MAX);
    fill_memory(x);
    PST_TRY(check_links(x->cluster));
    return pst_planning_margin(x);
}

static pst_status open_model(pst_planning *x) {
    const pst_config *c = x->config;
    PST_TRY(pst_prepare_model(c, &x->row, &x->model));
    x->model.dtype = pst_dtype_of_precision(c->train.precision);
    x->optim = pst_optim_find(c->train.optimizer);
    if (!x->optim) return pst_fail(PST_EINPUT, "unknown optimizer '%s'", c->train.optimizer);
    x->optim = pst_optim_with(x->optim, pst_dtype_of_precision(c->train.optimizer_state));
    return PST_OK;
}

/* Of a gradient that replicas send to its owner: not more than what is really sent, also where they
 * pack only some (parallel.compress). */
static double sum_bytes(const pst_config *c) {
    const pst_codec up = pst_prepare_codec_up(c);
    if (up.kind == PST_CODEC_NONE) return sizeof(float);
    return (double)pst_codec_bytes(up, up.block) / up.block;
}

/* With islands, one of parallel.local.steps steps ends with an exchange. */
static double sum_share(const pst_config *c) {
    return pst_prepare_islands(c, 2) > 1 ? 1 / (double)c->parallel.local.steps : 1;
}

/* The same of a weight that its owner sends. */
static double change_bytes(const pst_config *c) {
    const pst_codec down = pst_prepare_codec_down(c);
    return down.kind == PST_CODEC_NONE ? 0 : (double)pst_codec_bytes(down, down.block) / down.block;
}

/* Bytes per element of a parameter: weights, and optimizer state with masters. Elastic runs have
 * two sides of both. */
static void fill_problem(pst_planning *x) {
    const pst_config *c = x->config;
    int half = pst_dtype_is_half(pst_dtype_stored(x->model.dtype));
    uint32_t states = pst_optim_least_states(x->optim) * (uint32_t)pst_optim_state_bytes(x->optim);
    const uint32_t sides = c->elastic.min ? 2 : 1;
    x->problem = (pst_search_problem){.cluster = x->cluster,
                                      .program = &x->program,
                                      .batch = (uint32_t)c->train.batch,
                                      .least_batch = (uint32_t)c->train.batch_warmup.from,
                                      .weight_bytes = half ? 2 : 4,
                                      .state_bytes = sides * (states + (half ? 4 : 0)),
                                      .grad_bytes = 4,
                                      .sum_bytes = sum_bytes(c),
                                      .sum_share = sum_share(c),
                                      .change_bytes = change_bytes(c),
                                      .parts = (uint32_t)c->parallel.reproducible,
                                      .memory = rank_memory(x),
                                      .table = pst_planning_table,
                                      .verify = x->unverified ? NULL : pst_planning_verify,
                                      .verify_s = pst_planning_verify_s,
                                      .arg = x,
                                      .time_limit_s = x->options->time_limit};
}

#define LEAST_S 1e-3

/* The graphs were built within the limit. */
static void keep_limit(pst_planning *x, uint64_t start) {
    const double spent = (double)(pst_monotonic_ns() - start) * 1e-9,
                 limit = x->options->time_limit;
    if (limit > 0) x->problem.time_limit_s = fmax(limit - spent, LEAST_S);
}

pst_status pst_planning_search(pst_planning *x) {
    uint64_t start = pst_monotonic_ns();
    uint32_t n;
    if (!x->program.name) x->program = pst_costs_programs(&n)[0];
    double limit = x->options->time_limit;
    pst_planning_part *part;
    x->end_ns = limit > 0 && limit < 1e9 ? start + (uint64_t)(limit * 1e9) : UINT64_MAX;
    PST_TRY(open_cluster(x));
    PST_TRY(open_model(x));
    fill_problem(x);
    PST_TRY(pst_planning_graph(x, 1, 0, (uint32_t)x->config->train.micro_batch, &part));
    x->problem.n_item = x->n_operator = part->n;
    for (uint32_t i = 0; i < part->graph->n_param; i++) {
        const double own = (double)pst_param_elements(part->graph->param + i);
        x->parameters += own;
        x->frozen += part->graph->param[i].frozen ? own : 0;
    }
    /* frozen weights have one side */
    if (x->config->elastic.min && x->frozen == 0) x->problem.weight_bytes *= 2;
    PST_TRY(pst_planning_calibrate(x));
    PST_TRY(pst_planning_profile(x, part->graph));
    PST_TRY(pst_planning_shorten(x));
    PST_TRY(pst_planning_graph(x, 1, 0, (uint32_t)x->config->train.micro_batch, &part));
    x->problem.n_item = part->n;
    keep_limit(x, start);
    PST_TRY(pst_planning_search_servers(x));
    x->seconds = (double)(pst_monotonic_ns() - start) * 1e-9;
    return PST_OK;
}

void pst_planning_close(pst_planning *x) {
    pst_search_result_close(x->result);
    for (uint32_t i = 0; i < x->n_part; i++) {
        for (uint32_t k = 0; k < x->cluster->n_kind; k++) pst_cost_table_close(x->part[i].table[k]);
        free(x->part[i].table);
        free(x->part[i].first);
        pst_graph_close(x->part[i].graph);
    }
    for (uint32_t i = 0; i < x->n_model; i++) pst_graph_close(x->models[i].graph);
    free(x->part);
    free(x->models);
    free(x->micros);
    free(x->degree);
    pst_config_close(x->filled_config);
    pst_profile_close(x->profile);
    pst_cluster_close(x->cluster);
}

/* --- the command ------------------------------------------------------------------------------ */

static int is_timed_out(const pst_planning *x) { return pst_monotonic_ns() >= x->end_ns; }

static const char *skip_prefix(const char *why) {
    static const char prefix[] = "infeasible: ";
    return strncmp(why, prefix, sizeof prefix - 1) ? why : why + sizeof prefix - 1;
}

pst_status pst_planning_infeasible(const pst_planning *x, const char *change, const char *cluster) {
    const pst_search_row *row = pst_planning_nearest(x);
    const char *why = x->result->n_row ? x->result->row[0].why
                                       : "no combination of pipeline, data and tensor degrees is "
                                         "possible for this model, batch and cluster";
    char over[32], degrees[PST_PLANNING_DEGREES];
    if (!row)
        return pst_fail(PST_EINPUT, "no layout is feasible on %u device%s: %s",
                        x->cluster->n_device, pst_plural(x->cluster->n_device), skip_prefix(why));
    return pst_fail(
        PST_ENOMEM,
        "no layout %s the memory of %u device%s: the nearest, %u stage%s x %u replica%s x %s, "
        "needs %s more on stage %u%s%s%s%s%s%s%s",
        x->result->timed_out ? "found in time fits in" : "fits in", x->cluster->n_device,
        pst_plural(x->cluster->n_device), row->pipeline, pst_plural(row->pipeline), row->data,
        pst_plural(row->data),
        pst_planning_degrees((pst_grid){row->pipeline, row->data, row->tensor, row->before, 0},
                             degrees),
        pst_planning_bytes(row->excess, over), row->stage,
        *change ? "; a layout would fit with " : "", change,
        *cluster ? "; the smallest cluster of this kind on which a layout fits: " : "", cluster,
        *change || !is_timed_out(x)
            ? ""
            : "; no time was left to search for a change that fits (--time-limit)",
        *x->options->plan ? "; no plan is written to " : "", x->options->plan);
}

/* Writes the report of the best layout or, if no layout fits, of the nearest one. */
static pst_status write_report(pst_planning *x, const char *change) {
    const pst_search_row *nearest = pst_planning_nearest(x);
    const pst_candidate *found = x->result->best;
    if (!found && nearest) found = nearest->best;
    pst_prepared *p;
    if (!*x->options->report || !found) return PST_OK;
    PST_TRY(pst_planning_prepare(x, found, &p));
    pst_status status = pst_plan_page_of(p, x->result, x->budget, change, x->options->report);
    pst_prepared_close(p);
    return status;
}

/* A plan does not need the CPU feature, but a run here will. */
static void warn_of_precision(const pst_planning *x) {
    int here = x->local && pst_registry_is_host(x->device);
    if (here && x->model.dtype == PST_BF16 && pst_cpu_no_bf16())
        pst_log(PST_LOG_WARN,
                "train.precision bf16 needs AVX512-BF16, which %s: penstock train will reject this "
                "plan on this machine",
                pst_cpu_no_bf16());
}

/* Other programs divide the layers evenly. */
static pst_status warn_of_cut(const pst_planning *x) {
    int even = 1;
    if (!x->imported || !x->result->best) return PST_OK;
    PST_TRY(pst_planning_is_even(x, &x->result->best->layout, &even));
    if (!even)
        pst_log(PST_LOG_WARN,
                "--import %s: the stages are cut where their times are most equal; %s divides the "
                "layers evenly",
                x->options->import_, x->imported);
    return PST_OK;
}

pst_status pst_planning_answer(pst_planning *x, FILE *out) {
    const pst_plan_run_options *o = x->options;
    warn_of_precision(x);
    PST_TRY(warn_of_cut(x));
    char change[PST_PLANNING_ADVICE] = "", cluster[PST_PLANNING_ADVICE] = "";
    if (!x->result->best) PST_TRY(pst_planning_change(x, change, cluster));
    else if (!*o->export_) PST_TRY(pst_planning_fewer(x));
    if (x->result->best) PST_TRY(pst_planning_batches(x));
    if (x->result->best && !*o->export_) PST_TRY(pst_planning_compress(x));
    if (x->result->best && *o->export_) PST_TRY(pst_planning_export(x, out));
    else if (o->json) PST_TRY(pst_planning_json(x, change, cluster, out));
    else PST_TRY(pst_planning_text(x, out));
    PST_TRY(write_report(x, change));
    if (!x->result->best) return pst_planning_infeasible(x, change, cluster);
    return *o->plan ? pst_planning_write(x, x->result->best, o->plan) : PST_OK;
}

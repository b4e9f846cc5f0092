/* `penstock bench`: runs suites and prints their results. */
#include "base/sized.h"
#include "comm/collective/collective.h"
#include "commands/bench.h"
#include "base/status.h"
#include "backends/machine.h"
#include "backends/registry.h"
#include "penstock/option.h"
#include <errno.h>
#include <string.h>

static const pst_bench_suite suites[] = {
    {"kernels", pst_bench_kernels_measure, NULL, pst_bench_kernels_print},
    {"step", pst_bench_step_measure, NULL, pst_bench_step_print},
    {"generate", pst_bench_generate_measure, NULL, pst_bench_generate_print},
    {"p2p", NULL, pst_bench_p2p_rank, pst_bench_p2p_print},
    {"collectives", NULL, pst_bench_collectives_rank, pst_bench_collectives_print},
};
enum { N_SUITE = sizeof suites / sizeof *suites };

const char *pst_bench_suite_name(uint32_t i) { return i < N_SUITE ? suites[i].name : NULL; }

static pst_status find(const char *name, const pst_bench_suite **suite) {
    const char *names[N_SUITE];
    for (size_t i = 0; i < N_SUITE; i++) {
        names[i] = suites[i].name;
        if (!strcmp(name, names[i])) {
            *suite = &suites[i];
            return PST_OK;
        }
    }
    const char *meant = pst_did_you_mean(name, names, N_SUITE);
    return pst_fail(PST_EINPUT, "unknown suite '%.60s'; did you mean '%s'?", name,
                    meant ? meant : names[0]);
}

static pst_status find_collective(const char *name) {
    const char *names[PST_COLL_KINDS];
    for (uint32_t i = 0; i < PST_COLL_KINDS; i++) {
        names[i] = pst_coll_name((pst_coll_kind)i);
        if (!strcmp(name, names[i])) return PST_OK;
    }
    const char *meant = pst_did_you_mean(name, names, PST_COLL_KINDS);
    return pst_fail(PST_EINPUT, "unknown collective '%.60s'; did you mean '%s'?", name,
                    meant ? meant : "all-reduce");
}

/* A run file of the given sizes; no data is read. */
static pst_status configure(const pst_bench_options *o, pst_config **config) {
    char text[512];
    if (o->run) return pst_config_load(o->run, NULL, 0, config);
    snprintf(text, sizeof text,
             "model: {kind: gpt, preset: \"%.60s\", context: %lld}\ndata: {paths: [\"none\"]}\n"
             "train: {batch: %lld, micro_batch: %lld}\n",
             o->preset, (long long)o->context, (long long)o->batch, (long long)o->batch);
    return pst_config_parse(text, "the model to measure", NULL, 0, config);
}

static pst_status measure(const pst_bench *b, json_t *all) {
    const pst_bench_options *o = b->options;
    size_t n = o->n_suite ? o->n_suite : N_SUITE;
    for (size_t i = 0; i < n; i++) {
        const pst_bench_suite *suite = &suites[i < N_SUITE ? i : 0];
        json_t *found = NULL;
        if (o->n_suite) PST_TRY(find(o->suite[i], &suite));
        uint32_t ranks = suite->rank == pst_bench_p2p_rank || !o->ranks ? 2 : (uint32_t)o->ranks;
        PST_TRY(suite->measure ? suite->measure(b, &found)
                               : pst_bench_ranks_measure(b, suite, ranks, &found));
        if (json_object_set_new(all, suite->name, found) != 0)
            return pst_fail(PST_ENOMEM, "no memory for results");
    }
    return PST_OK;
}

/* Runs in a rank that a suite or the user's launcher has started. */
static pst_status measure_as_rank(const pst_bench *b, json_t *all) {
    const pst_bench_suite *suite;
    json_t *found = NULL;
    const char *name = pst_bench_ranks_started();
    if (!name) name = b->options->n_suite ? b->options->suite[0] : "p2p";
    PST_TRY(find(name, &suite));
    if (!suite->rank)
        return pst_fail(PST_EINPUT, "suite %s runs in one process: start it without a launcher",
                        suite->name);
    PST_TRY(pst_bench_ranks_run(b, suite, &found));
    return found && json_object_set_new(all, suite->name, found)
               ? pst_fail(PST_ENOMEM, "no memory for results")
               : PST_OK;
}

static pst_status print(json_t *all, int json, FILE *out) {
    if (!json_object_size(all)) return PST_OK;
    if (json) {
        json_dumpf(all, out, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        fputc('\n', out);
    }
    for (size_t i = 0; !json && i < N_SUITE; i++)
        if (json_object_get(all, suites[i].name))
            suites[i].print(json_object_get(all, suites[i].name), out);
    return ferror(out) ? pst_fail(PST_ENOMEM, "cannot write the output: %s", strerror(errno))
                       : PST_OK;
}

pst_status pst_bench_run(const pst_bench_options *options, FILE *out) {
    pst_bench_options taken;
    const pst_bench_options *o = &taken;
    const pst_bench_suite *suite;
    pst_config *config = NULL;
    PST_TRY(pst_sized_take("pst_bench_run", options, &taken, sizeof taken));
    if (!out || (!o->run && !o->preset))
        return pst_fail(PST_EINPUT, "pst_bench_run: %s is NULL", out ? "run or preset" : "out");
    if (!o->op) taken.op = "";
    if (!o->collective) taken.collective = "";
    if (!o->device) taken.device = "cpu";
    if (!o->precision) taken.precision = "both";
    if (!(o->seconds > 0)) taken.seconds = 0.5;
    pst_bench b = {.options = o, .threads = o->threads ? (uint32_t)o->threads : pst_machine_cpus()};
    for (size_t i = 0; i < o->n_suite; i++)
        PST_TRY(find(o->suite[i], &suite)); /* checked before any suite runs */
    if (*o->collective) PST_TRY(find_collective(o->collective));
    PST_TRY(configure(o, &config));
    b.config = config;
    json_t *all = json_object();
    int is_rank = strcmp(pst_registry_world()->name, "single") != 0;
    pst_status status = all ? PST_OK : pst_fail(PST_ENOMEM, "no memory for results");
    if (status == PST_OK) status = is_rank ? measure_as_rank(&b, all) : measure(&b, all);
    if (status == PST_OK) status = print(all, o->json, out);
    json_decref(all);
    pst_config_close(config);
    return status;
}

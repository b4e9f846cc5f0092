/* `penstock profile`: starts the ranks that measure (profile_rank.c, profile_link.c) and writes
 * their results as a profile; or joins profiles. */
#include "commands/profile.h"
#include "prepare/profile_use.h"
#include "backends/machine.h"
#include "base/file.h"
#include "base/sized.h"
#include "run/setup.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const pst_bench_suite suites[] = {{"profile", NULL, pst_profile_rank, NULL},
                                         {"messages", NULL, pst_profile_messages, NULL},
                                         {"exchanges", NULL, pst_profile_exchanges, NULL}};

/* --- options ---------------------------------------------------------------------------------- */

/* Reads "1,2,4"; NULL: the run's own value. */
static pst_status read_choices(const char *name, const char *text, uint32_t own, uint32_t *n,
                               uint32_t *value) {
    *n = 1;
    value[0] = own;
    for (*n = text ? 0 : 1; text && *n < PST_PROFILE_CHOICES; text++) {
        char *end;
        unsigned long v = strtoul(text, &end, 10);
        if (end == text || *text == '-' || v < 1 || v > 65535) break;
        value[(*n)++] = (uint32_t)v;
        if (!*end) return PST_OK;
        if (*end != ',') break;
        text = end;
    }
    return text ? pst_fail(PST_EINPUT,
                           "%s '%.60s': expected up to %d whole numbers >= 1, such as 1,2,4", name,
                           text, PST_PROFILE_CHOICES)
                : PST_OK;
}

static int by_number(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The run's tensor degrees, each once; at most PST_PROFILE_CHOICES. */
static void own_degrees(const pst_config *c, pst_profile_request *take) {
    take->n_tensor = 0;
    for (uint32_t s = 0; s < c->parallel.n_tensors; s++) {
        uint32_t degree = (uint32_t)strtoul(c->parallel.tensors[s], NULL, 10), i = 0;
        while (i < take->n_tensor && take->tensor[i] != degree) i++;
        if (degree && i == take->n_tensor && i < PST_PROFILE_CHOICES)
            take->tensor[take->n_tensor++] = degree;
    }
    if (!take->n_tensor) take->tensor[take->n_tensor++] = 1;
    qsort(take->tensor, take->n_tensor, sizeof *take->tensor, by_number);
}

/* If the run leaves its degrees open, one rank per processor, as in a plan. */
static int64_t open_ranks(const pst_profile_options *o, const pst_config *c) {
    const pst_device_config config = {.threads = 1};
    const pst_device_ops *ops;
    if (o->ranks || c->parallel.pipeline || pst_prepare_lanes(c) > 1) return o->ranks;
    if (pst_registry_device(c->parallel.device, &config, &ops) != PST_OK) {
        pst_error_clear();
        return 0;
    }
    return pst_registry_is_host(ops) ? pst_machine_cpus() : 0;
}

static pst_status read_take(const pst_profile_options *o, const pst_config *c,
                            pst_profile_request *take) {
    uint32_t n_rank;
    if (o->n_override > PST_PROFILE_OVERRIDES)
        return pst_fail(PST_EINPUT, "at most %d overrides key=value are allowed",
                        PST_PROFILE_OVERRIDES);
    PST_TRY(pst_prepare_ranks(c, open_ranks(o, c), &n_rank));
    *take = (pst_profile_request){.run = o->file[0],
                                  .override = o->override,
                                  .n_override = o->n_override,
                                  .threads = pst_setup_threads(c, NULL, n_rank),
                                  .device = "cpu",
                                  .seconds = o->seconds > 0 ? o->seconds : 1};
    PST_TRY(read_choices("--micro-batches", o->micro_batches, (uint32_t)c->train.micro_batch,
                         &take->n_micro_batch, take->micro_batch));
    own_degrees(c, take);
    return o->tensor ? read_choices("--tensor", o->tensor, 1, &take->n_tensor, take->tensor)
                     : PST_OK;
}

/* --- findings --------------------------------------------------------------------------------- */

static double real_of(const json_t *j, const char *key) {
    return json_number_value(json_object_get(j, key));
}

static pst_status take_rows(json_t *found, pst_profile *p) {
    json_t *row;
    size_t i;
    json_array_foreach(json_object_get(found, "rows"), i, row) PST_TRY(
        pst_profile_set(p, (pst_profile_kind)json_integer_value(json_object_get(row, "kind")),
                        json_string_value(json_object_get(row, "text")),
                        (uint64_t)json_integer_value(json_object_get(row, "size")),
                        (int)json_integer_value(json_object_get(row, "busy")), real_of(row, "ns")));
    return PST_OK;
}

static pst_status run_suite(const pst_bench *b, const pst_bench_suite *suite, uint32_t ranks,
                            pst_profile *p) {
    json_t *found = NULL;
    PST_TRY(pst_bench_ranks_measure(b, suite, ranks, &found));
    pst_status status = take_rows(found, p);
    json_decref(found);
    return status;
}

/* Leaves out degrees above the number of processors, whose ranks would only take turns. Messages
 * and exchanges of devices with memory of their own are estimated. */
static pst_status measure(const pst_bench *b, pst_profile *p) {
    const pst_profile_head *head = pst_profile_head_of(p);
    PST_TRY(run_suite(b, &suites[0], head->ranks, p));
    if (*head->device) return PST_OK;
    PST_TRY(run_suite(b, &suites[1], 2, p));
    for (uint32_t i = 0; i < b->profile->n_tensor; i++)
        if (b->profile->tensor[i] > 1 && b->profile->tensor[i] <= head->ranks)
            PST_TRY(run_suite(b, &suites[2], b->profile->tensor[i], p));
    return PST_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static pst_status print_profile(const void *p, FILE *f) { return pst_profile_print(p, f); }

static pst_status write_profile(const pst_profile *p, const char *path) {
    return pst_file_replace(path, print_profile, p);
}

/* force: joins even if the profiles differ in machine, precision or optimizer. */
static pst_status join(pst_profile *to, const pst_profile *from, const char *path, int force) {
    pst_status status = force ? pst_profile_force(to, from) : pst_profile_merge(to, from);
    return status == PST_OK
               ? PST_OK
               : pst_fail(status, "%s: %s; use --force to merge them anyway", path, pst_error());
}

/* The existing profile in the output file, or NULL. Checked before anything is measured that
 * could not be added to it. */
static pst_status open_file(const pst_profile_options *o, const pst_profile_head *fresh,
                            pst_profile **existing) {
    *existing = NULL;
    if (access(o->output, F_OK)) return PST_OK;
    PST_TRY(pst_profile_load(o->output, existing));
    if (o->force || pst_profile_joins(*existing, fresh) == PST_OK) return PST_OK;
    pst_profile_close(*existing), *existing = NULL;
    return pst_fail(PST_EINPUT, "%s: %s; write to another file, or use --force to add anyway",
                    o->output, pst_error());
}

static pst_status add_to_file(const pst_profile_options *o, pst_profile *existing,
                              const pst_profile *fresh, FILE *out) {
    uint32_t n = 0;
    if (existing) PST_TRY(pst_profile_force(existing, fresh));
    PST_TRY(write_profile(existing ? existing : fresh, o->output));
    pst_profile_rows(existing ? existing : fresh, &n);
    fprintf(out, "%s: %u durations\n", o->output, n);
    return PST_OK;
}

static pst_status join_files(const pst_profile_options *o, FILE *out) {
    pst_profile *p = NULL, *next = NULL;
    uint32_t n;
    PST_TRY(pst_profile_load(o->file[0], &p));
    pst_status status = PST_OK;
    for (size_t i = 1; status == PST_OK && i < o->n_file; i++) {
        status = pst_profile_load(o->file[i], &next);
        if (status == PST_OK) status = join(p, next, o->file[i], o->force);
        pst_profile_close(next);
        next = NULL;
    }
    if (status == PST_OK) status = write_profile(p, o->output);
    pst_profile_rows(p, &n);
    if (status == PST_OK) fprintf(out, "%s: %u durations\n", o->output, n);
    pst_profile_close(p);
    return status;
}

/* --- the command ------------------------------------------------------------------------------ */

/* Runs in one of the ranks that were started. */
static pst_status run_as_rank(const pst_bench *b) {
    const char *name = pst_bench_ranks_started();
    json_t *found = NULL;
    for (size_t i = 0; name && i < sizeof suites / sizeof *suites; i++)
        if (!strcmp(name, suites[i].name)) {
            pst_status status = pst_bench_ranks_run(b, &suites[i], &found);
            json_decref(found);
            return status;
        }
    return pst_fail(PST_EINPUT,
                    "penstock profile starts its ranks itself: start it without a launcher");
}

/* checked once here instead of in each rank */
static pst_status check_precision(const pst_config *c, const pst_profile_request *take) {
    const pst_device_config config = {.threads = take->threads};
    pst_prepare_options options = {.threads = take->threads};
    pst_dtype dtype;
    PST_TRY(pst_registry_device(take->device, &config, &options.device));
    options.isa = pst_cpu_isa() | (pst_registry_is_host(options.device) ? 0 : PST_ISA_CUDA);
    return pst_prepare_precision(c, &options, &dtype);
}

static pst_status profile(const pst_profile_options *o, const pst_config *c, FILE *out) {
    pst_profile_request take;
    pst_profile_head head;
    pst_profile *p = NULL, *existing = NULL;
    PST_TRY(read_take(o, c, &take));
    pst_profile_here(c, take.threads, &head);
    if (*head.device) take.device = head.device;
    const pst_bench_options ranks = {.argv = o->argv};
    const pst_bench b = {.options = &ranks, .config = c, .threads = take.threads, .profile = &take};
    if (strcmp(pst_registry_world()->name, "single")) return run_as_rank(&b);
    PST_TRY(check_precision(c, &take));
    PST_TRY(open_file(o, &head, &existing));
    pst_status status = pst_profile_open(&head, &p);
    if (status == PST_OK) status = measure(&b, p);
    if (status == PST_OK) status = add_to_file(o, existing, p, out);
    pst_profile_close(p);
    pst_profile_close(existing);
    return status;
}

pst_status pst_profile_run(const pst_profile_options *options, FILE *out) {
    pst_profile_options taken;
    const pst_profile_options *o = &taken;
    pst_config *c = NULL;
    PST_TRY(pst_sized_take("pst_profile_run", options, &taken, sizeof taken));
    const char *missing = o->file && o->n_file ? NULL : "file";
    if (!o->output) missing = "output";
    if (!out) missing = "out";
    if (missing) return pst_fail(PST_EINPUT, "pst_profile_run: %s is NULL", missing);
    if (o->n_file > 1) return join_files(o, out);
    PST_TRY(pst_config_load(o->file[0], o->override, o->n_override, &c));
    pst_status status = profile(o, c, out);
    pst_config_close(c);
    return status;
}

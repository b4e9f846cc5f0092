/* test: label=quick timeout=60
 * parallel.measured: durations of an earlier run's operators are what programs are predicted with,
 * whatever the layout; the numbers stay the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "pipeline/trace_check.h"
#include "prepare/prepare.h"
#include "run/runs.h"

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1}\n"                                                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 3, batch: 6, micro_batch: 1, lr: 1.0e-2, warmup: 2, seed: 7}\n"                \
    "parallel: {transport: self}\n"

static run_result base;
static char measured[600];

static void first_run(void **state) {
    (void)state;
    base = run_here(YAML, "base", 1, "", NULL, 0);
    assert_int_equal(base.exit_status, 0);
    snprintf(measured, sizeof measured, "parallel.measured=%s", base.folder);
}

/* Every step of every program takes what the trace says, unless it was not measured. */
static void durations_are_those_measured(void **state) {
    (void)state;
    const char *override[] = {measured};
    pst_config *c;
    pst_prepared *p;
    pst_measured *m;
    uint32_t found = 0, missing = 0;
    assert_int_equal(pst_config_parse(YAML, "test", override, 1, &c), PST_OK);
    pst_prepare_options options = {
        .n_rank = 2, .threads = 1, .isa = pst_cpu_isa(), .n_eval_micro = 6};
    if (pst_prepare(c, &options, &p) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(pst_measured_load(base.folder, p->graph, &m), PST_OK);
    for (uint32_t k = 0; k < p->cut->n_chunk; k++)
        for (int op = 0; op < 4; op++)
            for (uint32_t s = 0; s < p->cut->chunk[k].program[op].n_step; s++) {
                const pst_step *step = &p->cut->chunk[k].program[op].step[s];
                uint64_t ns = pst_measured_ns(m, p->graph->node[step->node].name,
                                              (pst_pass)step->pass, step->extra);
                if (ns) {
                    assert_int_equal(step->ns, ns);
                    found++;
                } else missing++;
            }
    printf("%u steps measured, %u modelled\n", found, missing);
    assert_true(found > 20 && missing * 4 < found);
    assert_int_equal(pst_measured_ns(m, "nobody", PST_PASS_F, 0), 0);
    pst_measured_close(m);
    pst_prepared_close(p);
    pst_config_close(c);
}

/* A trace whose messages from rank 0 to rank 1 take 1 ms and 1 us per KiB. */
static void slow_messages(const char *folder) {
    char path[700];
    size_t i;
    json_t *event;
    snprintf(path, sizeof path, "%s/trace.json", folder);
    json_t *trace = json_load_file(path, 0, NULL), *events = json_object_get(trace, "traceEvents");
    assert_true(json_array_size(events) > 0);
    json_array_foreach(events, i, event) {
        json_t *args = json_object_get(event, "args");
        const char *category = json_string_value(json_object_get(event, "cat"));
        if (!category || strcmp(category, "SEND") ||
            json_integer_value(json_object_get(args, "rank")))
            continue;
        double us = 1000 + (double)json_integer_value(json_object_get(args, "bytes")) / 1024;
        json_object_set_new(args, "predicted_us", json_real(us));
    }
    assert_int_equal(json_dump_file(trace, path, 0), 0);
    json_decref(trace);
}

/* The trace of a run, measured beside predicted: all that holds of one. */
static void check_trace(const char *folder) {
    char path[700];
    snprintf(path, sizeof path, "%s/trace.json", folder);
    json_t *trace = json_load_file(path, 0, NULL);
    trace_check c = trace_holds(trace, 2, 4);
    assert_true(c.operators > 20 && c.flows > 20);
    json_decref(trace);
}

/* Messages between ranks take what they took in the measured run, in that direction, of whatever
 * size. */
static void check_messages(const char *name, const char *layout, uint32_t least) {
    char from[600];
    run_result two = run_here(YAML, name, 2, "", &layout, 1);
    assert_int_equal(two.exit_status, 0);
    check_trace(two.folder);
    slow_messages(two.folder);
    snprintf(from, sizeof from, "parallel.measured=%s", two.folder);
    const char *override[] = {from, "parallel.schedule=zb-h1", layout};
    pst_config *c;
    pst_prepared *p;
    uint32_t n = 0;
    assert_int_equal(pst_config_parse(YAML, "test", override, 3, &c), PST_OK);
    pst_prepare_options options = {
        .n_rank = 2, .threads = 1, .isa = pst_cpu_isa(), .n_eval_micro = 6};
    if (pst_prepare(c, &options, &p) != PST_OK) fail_msg("%s", pst_error());
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t i = 0; i < p->job->list[r].n_instr; i++) {
            const pst_instr *in = &p->job->list[r].instr[i];
            int there = in->opcode == (r ? PST_OP_RECV : PST_OP_SEND);
            if (in->queue == PST_Q_COMPUTE) continue;
            double us = (double)in->ns * 1e-3, slow = 1000 + (double)in->bytes / 1024;
            if (there) {
                assert_true(us > slow - 1 && us < slow + 1);
                n++;
            } else assert_true(us < 900);
        }
    assert_true(n > least);
    pst_prepared_close(p);
    pst_config_close(c);
}

static void messages_are_those_measured(void **state) {
    (void)state;
    check_messages("two", "parallel.pipeline=2", 12);
    check_messages("replicas", "parallel.data=2", 20);
}

static void numbers_stay(void **state) {
    (void)state;
    const char *override[] = {measured, "parallel.schedule=solved"};
    run_result r = run_here(YAML, "again", 2, "", override, 2);
    assert_int_equal(r.exit_status, 0);
    assert_string_equal(r.hash, base.hash);
}

static void wrong_folders(void **state) {
    (void)state;
    const char *none[] = {"parallel.measured=/nowhere"},
               *other[] = {measured, "train.micro_batch=2"};
    assert_int_equal(run_here(YAML, "none", 1, "", none, 1).exit_status, 2);
    assert_int_equal(run_here(YAML, "other", 1, "", other, 2).exit_status, 2);
    char path[700];
    snprintf(path, sizeof path, "%s/trace.json", base.folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{\"traceEvents\": []}", f);
    fclose(f);
    assert_int_equal(run_here(YAML, "empty", 1, "", (const char *[]){measured}, 1).exit_status, 2);
    f = fopen(path, "w");
    fputs("{\"traceEvents\": [", f);
    fclose(f);
    assert_int_equal(run_here(YAML, "cut", 1, "", (const char *[]){measured}, 1).exit_status, 2);
}

static int remove_runs(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_run), cmocka_unit_test(durations_are_those_measured),
        cmocka_unit_test(messages_are_those_measured), cmocka_unit_test(numbers_stay),
        cmocka_unit_test(wrong_folders)};
    return cmocka_run_group_tests(tests, NULL, remove_runs);
}

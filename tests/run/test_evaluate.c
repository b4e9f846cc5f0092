/* test: label=quick timeout=60 */
/* What an evaluation is made on: eval.tokens of the split, spread over all of it, the same ones in
 * every layout, after a resume, and each time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/runs.h"
#include <math.h>

#define LAST "name: run\nmodel: {kind: gpt, layers: 2, heads: 2, channels: 16, context: 8}\n"
#define YAML                                                                                       \
    LAST "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                      \
         "train: {steps: 4, batch: 8, micro_batch: 2, lr: 1.0e-2, warmup: 0, seed: 7}\n"           \
         "parallel: {threads: 1}\ncheckpoint: {every: 2}\neval: {every: 2, tokens: 100}\n"

static run_result run(const char *yaml, const char *name, int ranks, const char *a, const char *b,
                      const char *c) {
    const char *const override[] = {"parallel.transport=self", a, b, c};
    return run_here(yaml, name, ranks, "", override,
                    (size_t)(1 + (a != NULL) + (b != NULL) + (c != NULL)));
}

static void same_tokens_in_every_layout(void **state) {
    (void)state;
    run_result one = run(YAML, "one", 1, NULL, NULL, NULL);
    assert_int_equal(one.exit_status, 0);
    assert_int_equal(one.validation_tokens, 104); /* 13 whole samples of 8 */
    run_result two = run(YAML, "two", 2, NULL, NULL, NULL),
               micro = run(YAML, "micro", 1, "micro_batch=8", NULL, NULL);
    assert_true(two.validation == one.validation && two.validation_tokens == 104);
    assert_true(fabs(micro.validation - one.validation) < 1e-5 && micro.validation_tokens == 104);
    run_result apart = run(YAML, "apart", 2, "parallel.data=2", "parallel.pipeline=1", NULL);
    assert_true(fabs(apart.validation - one.validation) < 1e-5 && apart.validation_tokens == 104);
    /* stopped after two steps, and on from there */
    const char *const rest[] = {"parallel.transport=self"};
    char half[600];
    snprintf(half, sizeof half, "%s/one/run/checkpoints/step-00000002", run_folder());
    run_result on = run_here(YAML, "on", 2, half, rest, 1);
    assert_int_equal(on.exit_status, 0);
    snprintf(on.folder, sizeof on.folder, "%s/on/run", run_folder());
    run_read(&on);
    assert_true(on.validation == one.validation && on.validation_tokens == 104);
}

static void all_of_it(void **state) {
    (void)state;
    run_result r = run(YAML, "all", 1, "eval.tokens=all", NULL, NULL),
               zero = run(YAML, "0", 1, "eval.tokens=0", NULL, NULL);
    run_result more = run(YAML, "more", 1, "eval.tokens=1000000000", NULL, NULL);
    assert_true(r.validation_tokens > 2000);
    assert_true(r.validation_tokens == zero.validation_tokens && r.validation == zero.validation);
    assert_true(r.validation_tokens == more.validation_tokens && r.validation == more.validation);
}

/* The last half of the split is of letters that were not learned: a part of it is as hard as the
 * whole. */
static void spread_over_the_split(void **state) {
    (void)state;
    char path[600], yaml[1200];
    snprintf(path, sizeof path, "%s/text", run_folder());
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 10000; i++) fputc(i < 9500 ? 'a' : 'a' + i % 26, f);
    fclose(f);
    snprintf(yaml, sizeof yaml,
             LAST "data: {paths: [\"%s\"]}\ntrain: {steps: 40, batch: 8, lr: 1.0e-2, warmup: 0}\n"
                  "parallel: {threads: 1}\ncheckpoint: {every: 0}\n",
             path);
    run_result whole = run(yaml, "whole", 1, "eval.tokens=all", NULL, NULL),
               part = run(yaml, "part", 1, "eval.tokens=160", NULL, NULL);
    assert_int_equal(whole.validation_tokens, 999);
    assert_int_equal(part.validation_tokens, 160);
    assert_string_equal(whole.hash, part.hash);
    assert_true(whole.validation > 1);
    assert_true(fabs(part.validation - whole.validation) < 0.15 * whole.validation);
}

static void write_text(const char *name, const char *text, int times) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", run_folder(), name);
    FILE *f = fopen(path, "w");
    for (int i = 0; i < times; i++) fputs(text, f);
    fclose(f);
}

/* The last validation line of a run. */
static json_t *last_validation(const run_result *r) {
    char path[700], line[4096];
    json_t *last = NULL;
    snprintf(path, sizeof path, "%s/metrics.jsonl", r->folder);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        json_t *j = json_loads(line, 0, NULL);
        const char *event = json_string_value(json_object_get(j, "event"));
        if (event && !strcmp(event, "validation")) {
            json_decref(last);
            last = json_incref(j);
        }
        json_decref(j);
    }
    if (f) fclose(f);
    return last;
}

static double of_set(const json_t *line, const char *set, const char *key) {
    return json_number_value(
        json_object_get(json_object_get(json_object_get(line, "sets"), set), key));
}

/* Named sets: each has the loss that it has as the only thing evaluated on, in every layout; they
 * are not trained on. */
static void named_sets(void **state) {
    (void)state;
    char yaml[2000];
    write_text("learned", "the quick brown fox jumps over the lazy dog\n", 300);
    write_text("known.txt", "the lazy dog jumps over the quick brown fox\n", 10);
    write_text("odd.txt", "0123456789!?", 10);
    write_text("more.txt", "9876543210", 10);
    snprintf(yaml, sizeof yaml,
             LAST "data: {paths: [\"%s/learned\"], validation: 0.1}\n"
                  "train: {steps: 30, batch: 8, micro_batch: 2, lr: 1.0e-2, warmup: 0}\n"
                  "parallel: {threads: 1}\ncheckpoint: {every: 0}\n"
                  "eval: {every: 10, sets: {known: \"%s/known.txt\", odd: [\"%s/odd.txt\", "
                  "\"%s/more.txt\"]}}\n",
             run_folder(), run_folder(), run_folder(), run_folder());
    run_result with = run(yaml, "with", 1, NULL, NULL, NULL),
               none = run(yaml, "none", 2, "eval.sets={}", NULL, NULL);
    run_result two = run(yaml, "two-sets", 2, NULL, NULL, NULL);
    assert_int_equal(with.exit_status, 0);
    assert_string_equal(with.hash, none.hash);
    assert_true(with.validation == none.validation && with.validation == two.validation);
    json_t *line = last_validation(&with), *line_two = last_validation(&two),
           *line_none = last_validation(&none);
    assert_int_equal((int)of_set(line, "known", "tokens"), 439);
    assert_int_equal((int)of_set(line, "odd", "tokens"), 219);
    assert_true(of_set(line, "odd", "loss") > of_set(line, "known", "loss") + 1);
    assert_true(of_set(line, "odd", "loss") == of_set(line_two, "odd", "loss"));
    assert_true(of_set(line, "known", "loss") == of_set(line_two, "known", "loss"));
    assert_null(json_object_get(line_none, "sets"));
    json_decref(line);
    json_decref(line_two);
    json_decref(line_none);
    /* without a validation split they are all there is, and eval.tokens holds for each */
    run_result alone = run(yaml, "alone", 1, "data.validation=0", "eval.tokens=16", NULL);
    assert_int_equal(alone.exit_status, 0);
    line = last_validation(&alone);
    assert_non_null(line);
    assert_true(json_is_null(json_object_get(line, "loss")));
    assert_int_equal((int)of_set(line, "odd", "tokens"), 16);
    json_decref(line);
    run_result bad = run(yaml, "bad", 1, "eval.sets.gone=/nowhere/at/all", NULL, NULL);
    assert_int_equal(bad.exit_status, 2);
    assert_non_null(strstr(pst_error(), "eval.sets.gone"));
}

static int remove_folder(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_tokens_in_every_layout), cmocka_unit_test(all_of_it),
        cmocka_unit_test(spread_over_the_split), cmocka_unit_test(named_sets)};
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}

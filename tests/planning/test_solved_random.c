/* test: label=full timeout=900 isa=any Random pipelines through `simulate --schedule all`: solved
 * holds its memory, is never longer than a named schedule that does, and its bound is below
 * both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "penstock/run.h"
#include "pipeline/study.h"
#include <jansson.h>

enum { PIPELINES = 1000, MOST_STAGES = 4, MOST_MICROS = 6 };

typedef struct {
    double times[3 * MOST_STAGES], memory[MOST_STAGES];
    pst_simulate_options o;
    char text[512]; /* as it would be typed */
} pipeline;

static void draw(uint64_t *seed, pipeline *x) {
    uint32_t p = 1 + (uint32_t)(study_random(seed) % MOST_STAGES),
             m = 1 + (uint32_t)(study_random(seed) % MOST_MICROS);
    *x = (pipeline){
        .o = {.size = sizeof x->o, .schedule = "all", .stages = p, .micro_batches = m, .json = 1}};
    x->o.chunks = (int64_t)(study_random(seed) % 4);
    x->o.transfer_ms = study_random(seed) % 2 ? 0.1 : 0;
    x->o.times_ms = x->times;
    x->o.n_times = p;
    for (uint32_t i = 0; i < 3 * p; i++) /* now and then nothing at all */
        x->times[i] = study_random(seed) % 16 ? (double)(study_random(seed) % 3000) * 1e-3 : 0;
    if (study_random(seed) % 4) {
        x->o.memory = x->memory;
        x->o.n_memory = p;
    }
    for (uint32_t r = 0; r < p; r++)
        x->memory[r] = 1 + 0.5 * (double)(study_random(seed) % (2 * p));
    int n = snprintf(x->text, sizeof x->text, "-p %u -m %u --chunks %d --transfer %g --times", p, m,
                     (int)x->o.chunks, x->o.transfer_ms);
    for (uint32_t i = 0; i < 3 * p; i++) {
        char between = i % 3 ? ',' : ':';
        n += snprintf(x->text + n, sizeof x->text - (size_t)n, "%c%.3f", i ? between : ' ',
                      x->times[i]);
    }
    for (uint32_t r = 0; x->o.n_memory && r < p; r++)
        n += snprintf(x->text + n, sizeof x->text - (size_t)n, "%s%g", r ? "," : " --memory ",
                      x->memory[r]);
}

static double number(const json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

static json_t *table(const pipeline *x) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    if (pst_simulate_study(&x->o, out) != PST_OK)
        fail_msg("simulate --schedule all %s: %s", x->text, pst_error());
    fclose(out);
    json_t *rows = json_loads(text, 0, NULL);
    assert_non_null(rows);
    free(text);
    return rows;
}

static void sound(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    uint32_t named = 0, proven = 0;
    for (int round = 0; round < PIPELINES; round++) {
        pipeline x;
        draw(&seed, &x);
        json_t *rows = table(&x), *row;
        size_t i, last = json_array_size(rows) - 1;
        const json_t *solved = json_array_get(rows, last);
        double makespan = number(solved, "makespan"), bound = number(solved, "lower_bound");
        assert_string_equal(json_string_value(json_object_get(solved, "schedule")), "solved");
        if (!json_is_true(json_object_get(solved, "fits")))
            fail_msg("it holds too much: %s", x.text);
        if (number(solved, "gap") < 0 || bound > makespan)
            fail_msg("bound %.9f, makespan %.9f: %s", bound, makespan, x.text);
        proven += bound == makespan;
        json_array_foreach(rows, i, row) {
            double other = number(row, "makespan");
            if (number(row, "lower_bound") > other)
                fail_msg("row %zu: bound %.9f, makespan %.9f: %s", i, number(row, "lower_bound"),
                         other, x.text);
            if (i == last || !json_is_true(json_object_get(row, "fits"))) continue;
            if (makespan > other || bound > other)
                fail_msg("%s takes %.9f, solved %.9f, bound %.9f: %s",
                         json_string_value(json_object_get(row, "schedule")), other, makespan,
                         bound, x.text);
            named++;
        }
        json_decref(rows);
    }
    printf("%u named schedules fitted; %u of %d proven optimal\n", named, proven, PIPELINES);
    assert_true(named > PIPELINES && 2 * proven > PIPELINES);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

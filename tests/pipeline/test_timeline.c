/* test: label=quick */
/* The timeline: traces are JSON with every instruction, slices of a lane never overlap; pictures are well formed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/study.h"
#include "pipeline/timeline.h"
#include <jansson.h>

static const pst_instr_cost cost = {.latency_ns = 2500, .norm_ns = 100, .gather_ns = 50, .step_ns = 300, .flush = 1};

static void check_lanes(json_t *events) {
    double until[4096] = {0};
    size_t i;
    json_t *e;
    json_array_foreach(events, i, e) {
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X")) continue;
        json_int_t tid =
            json_integer_value(json_object_get(e, "tid")) + 2048 * json_integer_value(json_object_get(e, "pid"));
        double ts = json_number_value(json_object_get(e, "ts")), dur = json_number_value(json_object_get(e, "dur"));
        assert_in_range(tid, 0, 4095);
        assert_true(ts >= until[tid] - 1e-6 && dur >= 0);
        until[tid] = ts + dur;
    }
}

static void traces_hold_every_instruction(void **state) {
    (void)state;
    const char *names[] = {"gpipe", "1f1b", "1f1b-early", "forward"};
    for (int k = 0; k < 8; k++) { /* every schedule without and with a second process */
        study s;
        pst_timing *t;
        char *text = NULL;
        size_t bytes, slices = 0, total = 0, i;
        assert_int_equal(study_open(&s, names[k / 2], 4, 6, 1000, 1500, 1500, &cost), PST_OK);
        assert_int_equal(pst_simulate(s.job, &t), PST_OK);
        FILE *out = open_memstream(&text, &bytes);
        assert_int_equal(pst_timeline_trace(s.job, t->span, "a \"title\"", k % 2 ? t->span : NULL, NULL, out), PST_OK);
        fclose(out);
        json_error_t error;
        json_t *root = json_loads(text, 0, &error), *e;
        if (!root) fail_msg("line %d: %s", error.line, error.text);
        json_t *events = json_object_get(root, "traceEvents");
        json_array_foreach(events, i, e) slices += !strcmp(json_string_value(json_object_get(e, "ph")), "X");
        for (uint32_t r = 0; r < 4; r++) total += s.job->list[r].n_instr;
        assert_int_equal(slices, total * (k % 2 ? 2 : 1));
        assert_non_null(strstr(text, "\"a \\\"title\\\"\""));
        check_lanes(events);
        assert_non_null(strstr(
            text, "\"name\":\"F c0 m1\",\"cat\":\"F\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":1.000,\"dur\":1.000"));
        assert_non_null(strstr(text, "\"name\":\"rank 3 recv\""));
        json_decref(root);
        free(text);
        pst_timing_close(t);
        study_close(&s);
    }
}

/* Tags are closed in order; attributes are quoted: enough of an XML parser for what we write. */
static void assert_well_formed(const char *text) {
    const char *open[64];
    int depth = 0;
    for (const char *c = strchr(text, '<'); c; c = strchr(c, '<')) {
        const char *end = strchr(c, '>');
        assert_non_null(end);
        if (c[1] == '/') {
            size_t n = (size_t)(end - c - 2);
            assert_true(depth > 0 && !strncmp(open[depth - 1], c + 2, n) && strchr(" >", open[depth - 1][n]));
            depth--;
        } else if (end[-1] != '/') {
            assert_true(depth < 64);
            open[depth++] = c + 1;
        }
        for (const char *q = c; q < end; q++) assert_true(*q != '&' || strchr(q, ';'));
        c = end;
    }
    assert_int_equal(depth, 0);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf\""));
}

static char *draw(const char *schedule, uint32_t p, uint32_t m, uint64_t ns, const char *title, size_t *bytes) {
    study s;
    pst_timing *t;
    char *text = NULL;
    assert_int_equal(study_open(&s, schedule, p, m, ns, ns, ns, &cost), PST_OK);
    assert_int_equal(pst_simulate(s.job, &t), PST_OK);
    FILE *out = open_memstream(&text, bytes);
    assert_int_equal(pst_timeline_svg(s.job, t->span, title, out), PST_OK);
    fclose(out);
    pst_timing_close(t);
    study_close(&s);
    return text;
}

static void pictures_are_well_formed(void **state) {
    (void)state;
    const char *names[] = {"gpipe", "1f1b", "1f1b-early", "forward"};
    size_t bytes;
    for (int k = 0; k < 4; k++) {
        for (uint32_t p = 1; p <= 33; p += 8) {
            for (uint32_t m = 1; m <= 257; m += 128) {
                char *text = draw(names[k], p, m, 1000000, p % 2 ? "a <b> & \"c\"" : NULL, &bytes);
                assert_well_formed(text);
                assert_true(bytes < 3000000);
                free(text);
            }
        }
    }
    char *text = draw("1f1b-early", 3, 4, 1000000, "a <b> & \"c\"", &bytes);
    assert_non_null(strstr(text, "a &lt;b&gt; &amp; &quot;c&quot;"));
    assert_non_null(strstr(text, "rank 2: B chunk 2, micro-batch 3"));
    free(text);
    text = draw("1f1b", 2, 2, 0, "nothing takes time", &bytes); /* only messages and the flush do */
    assert_well_formed(text);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_hold_every_instruction),
        cmocka_unit_test(pictures_are_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Reading what a run wrote, and drawing it: nothing between least and most is lost, times add up,
 * damaged files and numbers without sense do no harm, text from files is never markup. */
#include "report/chart.h"
#include "report/html.h"
#include "report/page.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static FILE *file_of(const char *text) {
    FILE *f = fmemopen((void *)(size_t)text, strlen(text), "r");
    assert_non_null(f);
    return f;
}

static pst_report_metrics metrics_of(const char *text) {
    pst_report_metrics m = {0};
    FILE *f = file_of(text);
    assert_int_equal(pst_report_read_metrics(f, &m), PST_OK);
    fclose(f);
    return m;
}

static pst_report_trace trace_of(const char *text) {
    pst_report_trace t = {0};
    FILE *f = file_of(text);
    assert_int_equal(pst_report_read_trace(f, &t), PST_OK);
    fclose(f);
    return t;
}

static void test_metrics(void **state) {
    (void)state;
    pst_report_metrics m = metrics_of(
        "{\"event\":\"start\",\"step\":0,\"time\":5}\n"
        "{\"step\":1,\"loss\":3.5,\"step_ms\":10,\"peak_bytes\":[7,8],\"resident_bytes\":[30,20],"
        "\"work_s\":{"
        "\"linear\":1}}\n"
        "{\"step\":2,\"loss\":null,\"step_ms\":20,\"peak_bytes\":[7,9],\"resident_bytes\":[10,40],"
        "\"work_s\":{"
        "\"linear\":2}}\n"
        "{\"step\":3,\"loss\":\"x\",\"step_ms\":30,\"work_s\":{\"linear\":3,\"add\":0.5},\"peak_"
        "bytes\":[7,9],\"new_"
        "key\":[1]}\n"
        "{\"step\":3,\"loss\":1}\nnot json\n[1,2]\n"
        "{\"event\":\"validation\",\"step\":3,\"loss\":2.75}\n" /* evaluated again at the end */
        "{\"event\":\"validation\",\"step\":3,\"loss\":2.5,\"sets\":{\"wiki\":{\"loss\":2.25,"
        "\"tokens\":9}}}\n{"
        "\"event\":\"surprise\",\"step\":3,\"odd\":{\"a\":1}}\n"
        "{\"event\":\"end\",\"steps\":3,\"why\":\"done\"}\n{\"step\":4,\"loss\":1.2,\"step_m");
    assert_int_equal(m.n, 3);
    assert_int_equal(m.n_bad, 4);
    assert_true(m.curve[PST_REPORT_LOSS][0] == 3.5 && isnan(m.curve[PST_REPORT_LOSS][1]));
    assert_true(isnan(m.curve[PST_REPORT_LOSS][2]) && m.curve[PST_REPORT_STEP_MS][2] == 30);
    assert_true(m.n_validation == 1 && m.validation_loss[0] == 2.5 && m.first_time == 5);
    assert_true(m.sets_step == 3 &&
                pst_report_number(json_object_get(m.sets, "wiki"), "loss") == 2.25);
    assert_true(m.n_rank == 2 && m.memory[1].peak == 9 && m.memory[0].resident == 30 &&
                m.memory[1].resident == 40);
    assert_int_equal(m.n_event, 3);
    assert_string_equal(pst_report_text(m.end, "why"), "done");
    assert_true(pst_report_number(m.work, "linear") == 5 &&
                pst_report_number(m.work, "add") == 0.5); /* not the first */
    assert_true(fabs(m.work_wall - 0.1) < 1e-12);
    pst_report_release_metrics(&m);
}

/* A resumed run goes on after its end. */
static void test_resumed(void **state) {
    (void)state;
    pst_report_metrics m = metrics_of("{\"event\":\"start\",\"step\":0,\"time\":5}\n{\"step\":1}\n"
                                      "{\"event\":\"end\",\"steps\":1}\n{\"event\":\"start\","
                                      "\"step\":1,\"time\":9}\n{\"step\":2}\n");
    assert_true(m.n == 2 && m.n_start == 2 && m.first_time == 5 && m.end == NULL);
    pst_report_release_metrics(&m);
}

static void test_many_events(void **state) {
    (void)state;
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    for (int i = 0; i < 1000; i++) fprintf(f, "{\"event\":\"checkpoint\",\"step\":%d}\n", i);
    fclose(f);
    pst_report_metrics m = metrics_of(text);
    assert_int_equal(m.n_event, 1000);
    assert_int_equal(json_array_size(m.head), PST_REPORT_HEAD);
    assert_int_equal(json_array_size(m.tail), PST_REPORT_TAIL);
    assert_true(pst_report_number(json_array_get(m.tail, PST_REPORT_TAIL - 1), "step") == 999);
    pst_report_release_metrics(&m);
    free(text);
}

/* Rank 0: F 0-10, a message posted at 10 that is sent at 20 and arrives at 25, BW 25-45, flush
 * 45-50. Rank 1: F 12-20. */
static void test_trace(void **state) {
    (void)state;
    pst_report_trace t = trace_of("{\"traceEvents\":[\n{\"name\":\"process_labels\",\"ph\":\"M\","
                                  "\"pid\":0,\"args\":{\"labels\":\"a step\"}},\n"
                                  "{\"name\":\"F\",\"cat\":\"F\",\"ph\":\"X\",\"pid\":0,\"ts\":0,"
                                  "\"dur\":10,\"args\":{\"rank\":0,\"chunk\":0,"
                                  "\"micro_batch\":0}},\n"
                                  "{\"name\":\"R\",\"cat\":\"RECV\",\"ph\":\"X\",\"pid\":0,\"ts\":"
                                  "10,\"dur\":15,\"args\":{\"rank\":0,\"peer\":1,"
                                  "\"channel\":7}},\n"
                                  "{\"name\":\"S\",\"cat\":\"SEND\",\"ph\":\"X\",\"pid\":1,\"ts\":"
                                  "20,\"dur\":5,\"args\":{\"rank\":1,\"peer\":0,"
                                  "\"channel\":7}},\n"
                                  "{\"name\":\"BW\",\"cat\":\"BW\",\"ph\":\"X\",\"pid\":0,\"ts\":"
                                  "25,\"dur\":20,\"args\":{\"rank\":0,\"chunk\":0,"
                                  "\"micro_batch\":0}},\n"
                                  "{\"name\":\"STEP\",\"cat\":\"STEP\",\"ph\":\"X\",\"pid\":0,"
                                  "\"ts\":45,\"dur\":5,\"args\":{\"rank\":0}},\n"
                                  "{\"name\":\"F\",\"cat\":\"F\",\"ph\":\"X\",\"pid\":1,\"ts\":12,"
                                  "\"dur\":8,\"args\":{\"rank\":1,\"chunk\":1,"
                                  "\"micro_batch\":0}},\n"
                                  "{\"name\":\"F\",\"cat\":\"F\",\"ph\":\"X\",\"pid\":100000,"
                                  "\"ts\":0,\"dur\":9,\"args\":{\"rank\":0,\"chunk\":0,"
                                  "\"micro_batch\":0}},\n"
                                  "{\"name\":\"F\",\"cat\":\"F\",\"ph\":\"X\",\"pid\":0,\"ts\":-1,"
                                  "\"dur\":9,\"args\":{\"rank\":0}},\n"
                                  "{\"name\":\"F\",\"cat\":\"F\",\"ph\":\"X\",\"pid\":0,\"ts\":1,"
                                  "\"dur\":1e300,\"args\":{\"rank\":0}},\n"
                                  "{\"name\":\"F\",\"cat\":\"F\",\"ph\":\"X\",\"pid\":0,\"ts\":1,"
                                  "\"dur\":1,\"args\":{\"rank\":1000000}},\n"
                                  "{\"name\":\"F\",\"cat\":\"F\",\"ph\":\"X\",\"pid\":0,\"ts\":1,"
                                  "\"dur\":1,\"args\":{\"rank\":1}},\n"
                                  "{\"name\":\"message\",\"cat\":\"message\",\"ph\":\"s\",\"id\":0,"
                                  "\"pid\":0,\"tid\":0,\"ts\":9}\n"
                                  "{\"name\":\"linear\",\"cat\":\"operator\",\"ph\":\"X\",\"pid\":"
                                  "0,\"ts\":0,\"dur\":99,\"args\":{\"rank\":0}},\n"
                                  "{\"name\":\"F\",\"cat\":\"F\",\"ph\":\"X\",\"pi");
    double us[PST_REPORT_KIND_COUNT];
    assert_string_equal(t.title, "a step");
    assert_true(t.n == 7 && t.n_rank == 2 && t.n_bad == 5 && t.end[0] == 50 && t.end[1] == 9);
    pst_report_times(&t, 0, 0, us);
    assert_true(us[PST_REPORT_F] == 10 && us[PST_REPORT_BW] == 20 && us[PST_REPORT_FLUSH] == 5);
    assert_true(us[PST_REPORT_TRANSFER] == 5 && us[PST_REPORT_IDLE] == 10);
    pst_report_times(&t, 0, 1, us);
    assert_true(us[PST_REPORT_F] == 8 && us[PST_REPORT_TRANSFER] == 0 && us[PST_REPORT_IDLE] == 42);
    pst_report_times(&t, 1, 0, us);
    assert_true(us[PST_REPORT_F] == 9 && us[PST_REPORT_IDLE] == 0);
    pst_report_times(&t, 1, 1, us);
    assert_true(us[PST_REPORT_IDLE] == 0);
    pst_report_release_trace(&t);
}

static void test_decimation(void **state) {
    (void)state;
    static double x[100003], y[100003];
    pst_report_point point[PST_REPORT_POINTS];
    size_t per, n_of[] = {0, 1, 2, PST_REPORT_POINTS, PST_REPORT_POINTS + 1, 100003};
    for (size_t i = 0; i < 100003; i++) {
        x[i] = (double)(i + 1);
        y[i] = i % 7 == 3 ? NAN : sin((double)i);
    }
    y[54321] = 1000;
    y[77777] = -1000;
    for (size_t k = 0; k < sizeof n_of / sizeof *n_of; k++) {
        pst_report_series s = {.x = x, .y = y, .n = n_of[k], .scale = 2};
        size_t n = pst_report_decimate(&s, point, &per), covered = 0;
        double least = INFINITY, most = -INFINITY;
        assert_true(n <= PST_REPORT_POINTS && n * per >= s.n && (n <= 1 || (n - 1) * per < s.n));
        if (s.n <= PST_REPORT_POINTS) assert_true(n == s.n);
        for (size_t i = 0; i < n; i++) {
            assert_true(point[i].from == x[covered]);
            covered = i + 1 < n ? covered + per : s.n;
            assert_true(point[i].to == x[covered - 1]);
            least = fmin(least, point[i].least);
            most = fmax(most, point[i].most);
            if (!isnan(point[i].mean))
                assert_true(point[i].least <= point[i].mean && point[i].mean <= point[i].most);
        }
        if (s.n == 100003) assert_true(least == -2000 && most == 2000);
    }
}

static void test_ticks(void **state) {
    (void)state;
    const double ranges[] = {1, 0.3, 7, 99, 100, 12345, 1e-9, 3e20, 1e-300};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        double tick = pst_report_tick(ranges[i], 6, 0), steps = pst_report_tick(ranges[i], 6, 1);
        assert_true(tick > 0 && ranges[i] / tick <= 6.001 && ranges[i] / tick >= 2);
        assert_true(steps >= 1 && fmod(steps, 1) == 0 && ranges[i] / steps <= 6.001);
    }
    assert_true(pst_report_tick(0, 6, 0) > 0 && pst_report_tick(NAN, 6, 0) > 0);
}

static void test_numbers(void **state) {
    (void)state;
    char t[PST_HTML_NUMBER];
    assert_string_equal(pst_html_whole(1234567.4, t), "1,234,567");
    assert_string_equal(pst_html_whole(-1234, t), "-1,234");
    assert_string_equal(pst_html_whole(999, t), "999");
    assert_string_equal(pst_html_bytes(17273408, t), "16.5 MiB");
    assert_string_equal(pst_html_bytes(512, t), "512 B");
    assert_string_equal(pst_html_bytes(1048576, t), "1.00 MiB");
    assert_string_equal(pst_html_ms(74.84, t), "74.8 ms");
    assert_string_equal(pst_html_ms(999.7, t), "1.00 s");
    assert_string_equal(pst_html_ms(0.31, t), "310 µs");
    assert_string_equal(pst_html_span(190, t), "3 min 10 s");
    assert_string_equal(pst_html_span(7500, t), "2 h 05 min");
    assert_string_equal(pst_html_share(0.1547, t), "15.5%");
    assert_string_equal(pst_html_count(834304, t), "0.83 M");
    assert_string_equal(pst_html_count(124439808, t), "124 M");
    assert_string_equal(pst_html_time(0, t), "1970-01-01 00:00:00 UTC");
    const double odd[] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 1e-300, 0};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        pst_html_whole(odd[i], t);
        pst_html_bytes(odd[i], t);
        pst_html_ms(odd[i], t);
        pst_html_span(odd[i], t);
        pst_html_share(odd[i], t);
        pst_html_count(odd[i], t);
        pst_html_time(odd[i], t);
    }
}

static void test_text(void **state) {
    (void)state;
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    pst_html_text(f, "<script>&\"'\x01 \xc3\xa9 \xff\xc3");
    fclose(f);
    assert_string_equal(text, "&lt;script&gt;&amp;&quot;&#39;  \xc3\xa9 ??");
    free(text);
}

static char *page_of(const pst_report_data *d) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    assert_int_equal(pst_report_print(d, f), PST_OK);
    fclose(f);
    return text;
}

/* A page from nothing, and from texts that want to be markup. */
static void test_page(void **state) {
    (void)state;
    pst_report_data d = {.metrics.first_time = NAN, .name = "<b>&"};
    char *text = page_of(&d);
    assert_non_null(strstr(text, "&lt;b&gt;&amp;"));
    assert_non_null(strstr(text, "No step is complete yet"));
    free(text);
    d.metrics = metrics_of(
        "{\"event\":\"start\",\"step\":0,\"model\":{\"kind\":\"<evil>\"},\"versions\":{\"<evil>\":"
        "\"<evil>\"},"
        "\"machine\":{\"host\":\"<evil>\",\"cpu\":\"<evil>\"},\"predicted_region_bytes\":{\"<evil>"
        "\":[5]}}\n"
        "{\"step\":1,\"loss\":1e90,\"step_ms\":-5,\"bubble\":1e99,\"lr\":1e-300,\"peak_bytes\":[5],"
        "\"predicted_peak_bytes\":[5],\"work_s\":{\"<evil>\":1}}\n"
        "{\"event\":\"<evil>\",\"<evil>\":\"<evil>\",\"step\":\"<evil>\"}\n"
        "{\"event\":\"end\",\"why\":\"<evil>\",\"weights_xxh64\":\"<evil>\"}\n");
    d.plan_text = strdup("<evil>");
    text = page_of(&d);
    assert_null(strstr(text, "<evil>"));
    assert_non_null(strstr(text, "&lt;evil&gt;"));
    free(text);
    pst_report_release(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics),     cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_many_events), cmocka_unit_test(test_trace),
        cmocka_unit_test(test_decimation),  cmocka_unit_test(test_ticks),
        cmocka_unit_test(test_numbers),     cmocka_unit_test(test_text),
        cmocka_unit_test(test_page)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

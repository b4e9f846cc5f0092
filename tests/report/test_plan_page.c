/* A plan's page, from numbers made here: every section is there, nothing is asked for from
 * elsewhere, text is never markup, and the largest layouts make a page of bounded size. */
#include "report/plan.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A pipeline of n_rank stages that runs F and BW of n_micro micro-batches in turn, of one layer per
 * operator. */
static pst_plan_page made(uint32_t n_rank, uint32_t n_micro, uint32_t layers) {
    pst_plan_page p = {.title = "made",
                       .grid = {n_rank, 1, 1},
                       .step_ns = 3000ull * n_micro,
                       .bound_ns = 2900ull * n_micro,
                       .gap = 0.034,
                       .n_op = n_rank * layers,
                       .n_chunk = n_rank,
                       .n_rank = n_rank,
                       .all_ranks = n_rank,
                       .n_region = 1,
                       .region_name = {"weight"},
                       .n_row = 2};
    snprintf(p.layout, sizeof p.layout, "%u stages", n_rank);
    p.op = calloc(p.n_op, sizeof *p.op);
    p.chunk = calloc(n_rank, sizeof *p.chunk);
    p.rank = calloc(n_rank, sizeof *p.rank);
    p.row = calloc(p.n_row, sizeof *p.row);
    p.trace.slice = calloc((size_t)n_rank * n_micro * 2, sizeof *p.trace.slice);
    p.trace.n_rank = n_rank;
    p.trace.end[1] = 3.0 * n_micro;
    for (uint32_t r = 0; r < n_rank; r++) {
        p.chunk[r] = (pst_plan_chunk){.stage = r,
                                      .first = r * layers,
                                      .end = (r + 1) * layers,
                                      .ns = 1000,
                                      .crossing = 4096,
                                      .recompute = "none"};
        for (uint32_t i = 0; i < layers; i++) {
            pst_plan_op *op = &p.op[r * layers + i];
            *op = (pst_plan_op){.kind = "linear", .chunk = r, .ns = 1000, .flops = 5, .bytes = 7};
            snprintf(op->name, sizeof op->name, "h.%u.mlp", r * layers + i);
        }
        pst_plan_rank *to = &p.rank[r];
        *to = (pst_plan_rank){
            .rank = r, .fixed = 1000, .total = 1300, .capacity = 1500, .region = {1000}};
        to->held = calloc(2 * n_micro, sizeof *to->held);
        to->n_held = 2 * n_micro;
        for (uint32_t m = 0; m < n_micro; m++) {
            to->held[2 * m] = (pst_plan_held){3.0 * m, 200, m == n_micro / 2 ? 100 : 50};
            to->held[2 * m + 1] = (pst_plan_held){3.0 * m + 1, 100, 0};
            for (uint32_t k = 0; k < 2; k++)
                p.trace.slice[p.trace.n++] =
                    (pst_report_slice){.start = 3.0 * m + k,
                                       .end = 3.0 * m + 1 + 2 * k,
                                       .rank = r,
                                       .chunk = r,
                                       .micro = m,
                                       .kind = k ? PST_REPORT_BW : PST_REPORT_F,
                                       .predicted = 1};
        }
        to->us[PST_PLAN_F] = n_micro;
        to->us[PST_PLAN_BW] = 2.0 * n_micro;
    }
    p.row[0] = (pst_plan_row){.pipeline = n_rank,
                              .tensor = "1",
                              .data = 1,
                              .micro_batch = 1,
                              .micro_batches = n_micro,
                              .schedule = "1f1b",
                              .step_ns = p.step_ns,
                              .peak_bytes = 1300,
                              .fits = 1,
                              .possible = 1,
                              .exact = 1};
    p.row[1] = (pst_plan_row){
        .pipeline = 1, .tensor = "64", .data = 1, .why = "heads are no multiple of 64"};
    p.n_device = n_rank + 1;
    p.device = calloc(p.n_device, sizeof *p.device);
    for (uint32_t i = 0; i <= n_rank; i++) {
        p.device[i] = (pst_plan_device){i / 2, i, i < n_rank, {i, 0, 0}, "H<1>"};
        p.device[i].rank %= n_rank;
    }
    p.n_count = 2;
    p.count = calloc(2, sizeof *p.count);
    p.count[0] = (pst_plan_count){.devices = 8, .why = "<too> large"};
    p.count[1] = (pst_plan_count){.devices = 16,
                                  .fits = 1,
                                  .chosen = 1,
                                  .layout = "4 x 2 x 2 zb-v",
                                  .step_s = 1.25,
                                  .tokens_per_s = 80000,
                                  .mfu = NAN,
                                  .days = 12.34,
                                  .device_hours = 4738,
                                  .cost = NAN,
                                  .kwh = 1234,
                                  .free_bytes = 1e9,
                                  .write_s = 7,
                                  .every_s = 600,
                                  .failures = 0.1,
                                  .effective = 0.98};
    snprintf(p.training, sizeof p.training, "7B tokens");
    return p;
}

static char *drawn(const pst_plan_page *page, size_t *bytes) {
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);
    assert_int_equal(pst_plan_page_print(page, f), PST_OK);
    fclose(f);
    return text;
}

static uint32_t count(const char *text, const char *what) {
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) n++;
    return n;
}

static void test_sections(void **state) {
    (void)state;
    static const char *const wanted[] = {"id=\"plan\"",
                                         "more memory",
                                         "id=\"numbers\"",
                                         "id=\"counts\"",
                                         "7B tokens",
                                         "&lt;too&gt; large",
                                         "<tr class=\"best\"><td class=\"n\">16</td>",
                                         "<td class=\"n\">12.3</td>",
                                         "id=\"cluster\"",
                                         "node 2, H&lt;1&gt;</span><div><i title=\"not used\">",
                                         "<i class=\"s3\" title=\"rank 3",
                                         "id=\"rows\"",
                                         "id=\"graph\"",
                                         "id=\"timeline\"",
                                         "id=\"times\"",
                                         "id=\"memory\"",
                                         "1.27 KiB",
                                         "4.00 KiB",
                                         "heads are no multiple of 64",
                                         "h.11",
                                         "within 3.4%",
                                         "class=\"limit room\"",
                                         "</html>"};
    size_t bytes;
    pst_plan_page p = made(4, 12, 3);
    p.change = "more memory";
    char *text = drawn(&p, &bytes);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strstr(text, wanted[i])) fail_msg("the page lacks %s", wanted[i]);
    assert_int_equal(count(text, "<section"), count(text, "</section>"));
    assert_int_equal(count(text, "<div"), count(text, "</div>"));
    assert_int_equal(count(text, "<figure"), 4);
    assert_null(strstr(text, "http:"));
    assert_null(strstr(text, "https:"));
    assert_null(strstr(text, "src="));
    assert_null(strstr(text, "nan"));
    free(text);
    pst_plan_page_release(&p);
}

/* Names come from graph files, run files and cluster files. */
static void test_hostile(void **state) {
    (void)state;
    static const char evil[] = "\"><script>alert(1)</script>&'";
    size_t bytes;
    pst_plan_page p = made(2, 4, 1);
    p.title = evil;
    for (uint32_t i = 0; i < p.n_op; i++)
        snprintf(p.op[i].name, sizeof p.op[i].name, "%s.%u", evil, i);
    p.op[0].kind = evil;
    p.region_name[0] = evil;
    snprintf(p.layout, sizeof p.layout, "%s", evil);
    snprintf(p.cluster, sizeof p.cluster, "%s", evil);
    snprintf(p.rank[0].device, sizeof p.rank[0].device, "%s", evil);
    snprintf(p.row[0].schedule, sizeof p.row[0].schedule, "%s", evil);
    snprintf(p.row[1].why, sizeof p.row[1].why, "%s", evil);
    char *text = drawn(&p, &bytes);
    assert_null(strstr(text, "<script>alert"));
    assert_null(strstr(text, "&'"));
    assert_true(count(text, "&lt;script&gt;alert(1)") >= 9);
    free(text);
    pst_plan_page_release(&p);
}

/* Layouts of any size make a page that a browser opens at once. */
static void test_large(void **state) {
    (void)state;
    size_t bytes;
    pst_plan_page p = made(64, 512, 20);
    char *text = drawn(&p, &bytes);
    assert_true(bytes < 3 << 20);
    assert_non_null(strstr(text, "too many passes to draw"));
    free(text);
    pst_plan_page_release(&p);
    p = made(64, 2, 20000);
    text = drawn(&p, &bytes);
    assert_true(bytes < 1 << 20);
    assert_non_null(strstr(text, "groups of layers"));
    free(text);
    pst_plan_page_release(&p);
}

/* What is held most is drawn, however many changes there are. */
static void test_peak_is_drawn(void **state) {
    (void)state;
    size_t bytes;
    pst_plan_page p = made(1, 4000, 1);
    char *text = drawn(&p, &bytes);
    assert_int_equal(count(text, "at most 1.27 KiB in use at once"), 1);
    char at[40]; /* the peak: 1,300 of 1.04 x 1,500 bytes, at one column only */
    snprintf(at, sizeof at, "V%.1fH", 1000 - 1300 / (1.04 * 1500) * 1000);
    assert_int_equal(count(text, at), 1);
    free(text);
    pst_plan_page_release(&p);
}

/* Stages without operators, ranks without times: nothing to draw is no failure. */
static void test_empty(void **state) {
    (void)state;
    size_t bytes;
    pst_plan_page p = {.title = ""};
    char *text = drawn(&p, &bytes);
    assert_non_null(strstr(text, "</html>"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sections), cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_large),    cmocka_unit_test(test_peak_is_drawn),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

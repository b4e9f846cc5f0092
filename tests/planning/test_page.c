/* What the report of a plan says of real layouts: every rank's times add up to the step, its passes
 * to what the simulator counts, nothing is held beyond its place, all that is held is given back,
 * and the largest use is the predicted peak where nothing lies idle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/arena.h"
#include "planning/page_parts.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *parallel, *train;
    uint32_t n_rank, lane;
    int full; /* one pass at a time and all slots in use at its end: the peak is reached */
} layout_case;

static const layout_case cases[] = {
    {"pipeline: 1", "", 1, 0, 1},
    {"pipeline: 2, schedule: gpipe", "", 2, 0, 0},
    {"pipeline: 4, schedule: 1f1b", "", 4, 0, 0},
    {"pipeline: 2, schedule: interleaved, chunks: 2, recompute: selective", "", 2, 0, 0},
    {"pipeline: 2, schedule: zb-h1, recompute: full", "", 2, 0, 0},
    {"pipeline: 2, tensor: 2, sequence: true, schedule: zb-v", "", 4, 0, 0},
    {"pipeline: 2, data: 2, zero: 0", "", 4, 0, 0},
    {"pipeline: 2, data: 2, tensor: 2, zero: 1", ", precision: bf16", 8, 0, 0},
    {"pipeline: 2, data: 2, zero: 2, post_validation: true", "", 4, 0, 0},
    {"pipeline: 2, data: 4, tensor: 2, zero: 1", "", 16, 1, 0},
    {"pipeline: 4, data: 8, tensor: 4, zero: 1, cluster: \"16x8 h100 ib:400Gb/s\"", "", 128, 1, 0},
    {"pipeline: 1, data: 80", "", 80, 0, 0},
};

static pst_prepared *prepare(const layout_case *x, pst_config **c) {
    char text[800];
    pst_prepared *p;
    snprintf(text, sizeof text,
             "name: page\nmodel: {kind: gpt, layers: 6, heads: 4, channels: 32, context: 24, "
             "vocabulary: 256}\n"
             "data: {kind: text, paths: [x]}\ntrain: {batch: 80, micro_batch: 1%s}\nparallel: "
             "{device: timed, %s}\n",
             x->train, x->parallel);
    if (pst_config_parse(text, "test", NULL, 0, c) != PST_OK) fail_msg("%s\n%s", pst_error(), text);
    pst_prepare_options options = {.n_rank = x->n_rank,
                                   .threads = 1,
                                   .isa = pst_cpu_isa(),
                                   .n_eval_micro = 80,
                                   .lane = x->lane};
    if (pst_prepare(*c, &options, &p) != PST_OK) fail_msg("%s\n%s", pst_error(), text);
    return p;
}

static void check_rank(const layout_case *x, const pst_prepared *p, const pst_plan_rank *r) {
    double sum = 0, step = (double)p->timing->step_ns * 1e-3, passes = 0;
    uint64_t most = 0;
    for (int k = 0; k < PST_PLAN_TIME_COUNT; k++) {
        assert_true(r->us[k] >= 0);
        sum += r->us[k];
        if (k <= PST_PLAN_EXCHANGE) passes += r->us[k];
    }
    if (fabs(sum - step) > 1e-6 * step)
        fail_msg("%s: rank %u: %.3f us of %.3f", x->parallel, r->rank, sum, step);
    if (fabs(passes - (double)p->timing->busy_ns[r->rank] * 1e-3) > 1e-6 * step)
        fail_msg("%s: rank %u: passes %.3f us", x->parallel, r->rank, passes);
    for (size_t i = 0; i < r->n_held; i++) {
        const pst_plan_held *h = &r->held[i];
        if (h->slots > pst_align(r->region[PST_REGION_SLOT]) ||
            h->scratch > r->region[PST_REGION_SCRATCH])
            fail_msg("%s: rank %u: %zu: %lu of %lu in slots, %lu of %lu scratch", x->parallel,
                     r->rank, i, h->slots, r->region[PST_REGION_SLOT], h->scratch,
                     r->region[PST_REGION_SCRATCH]);
        assert_true(!i || h->us > r->held[i - 1].us);
        if (r->fixed + h->slots + h->scratch > most) most = r->fixed + h->slots + h->scratch;
    }
    assert_true(r->held[r->n_held - 1].slots == 0 && r->held[r->n_held - 1].scratch == 0);
    assert_true(most <= r->total && most > r->fixed);
    if (getenv("PST_PAGE"))
        printf("%s: rank %u: %lu of %lu\n", x->parallel, r->rank, most, r->total);
    if (x->full) assert_int_equal(most, r->total);
}

static void check_graph(const pst_prepared *p, const pst_plan_page *page) {
    uint64_t parameters = 0, ns = 0, all = 0;
    assert_int_equal(page->n_op, p->graph->n_node);
    assert_int_equal(page->chunk[page->n_chunk - 1].end, page->n_op);
    for (uint32_t c = 0; c < page->n_chunk; c++) {
        assert_true(page->chunk[c].end > page->chunk[c].first);
        assert_true((page->chunk[c].crossing > 0) == (c + 1 < page->n_chunk));
        parameters += page->chunk[c].parameters;
        for (uint32_t k = 0; k < 4; k++) all += p->cut->chunk[c].program[k].ns;
    }
    for (uint32_t i = 0; i < page->n_op; i++) ns += page->op[i].ns;
    assert_true(parameters > 0);
    assert_int_equal(ns, all);
}

static void test_layouts(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pst_config *c;
        pst_prepared *p = prepare(&cases[i], &c);
        pst_plan_page page = {0};
        assert_int_equal(pst_plan_page_fill(p, NULL, &page), PST_OK);
        assert_int_equal(page.all_ranks, cases[i].n_rank);
        assert_true(page.n_rank <= PST_PLAN_ROWS &&
                    (page.shown != NULL) == (page.n_rank < page.all_ranks));
        for (uint32_t r = 0; r < page.n_rank; r++) check_rank(&cases[i], p, &page.rank[r]);
        check_graph(p, &page);
        pst_plan_page_release(&page);
        pst_prepared_close(p);
        pst_config_close(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

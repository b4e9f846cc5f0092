/* test: label=full timeout=120 */
/* A model like GPT-3 175B (96 blocks of 8 operators, with embedding and head) on 128 nodes of 8
 * devices, everything open: the search's gap and its memory have limits here. How long it takes is
 * printed, not asserted: docs/history/measurements-2026-11.md has it. */
#include "partition/search_case.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>

#include <cmocka.h>

enum { BLOCKS = 96, OPERATORS = 8, WIDTH = 12288, TOKENS = 2048 };

/* ns of so many operations of a sample on a device. */
static uint64_t ns_of(double flops) { return (uint64_t)(flops / 400e12 * 1e9); }

static void add_block(search_case *k, uint32_t first) {
    static const double part[OPERATORS] = {0, 3. / 12, 0.3 / 12, 1. / 12, 0, 4. / 12, 0, 4. / 12};
    double flops = 24. * TOKENS * WIDTH * (double)WIDTH;
    for (uint32_t i = 0; i < OPERATORS; i++) {
        uint32_t at = first + i;
        k->f[at] = k->b[at] = k->w[at] = ns_of(flops * part[i]) + 20000;
        k->cross[at] = TOKENS * WIDTH * 2ull * (i ? 2 : 1);
        k->stash[at] = TOKENS * WIDTH * 2ull * (i == 7 ? 4 : 2);
        k->elements[at] = (uint64_t)(12. * WIDTH * WIDTH * part[i]);
    }
}

static search_case *gpt3(void) {
    uint32_t n = BLOCKS * OPERATORS + 3;
    search_case *k = case_open(n, 128, 8);
    k->f[0] = k->w[0] = 50000;
    k->elements[0] = 51200ull * WIDTH;
    k->stash[0] = TOKENS * 4;
    for (uint32_t b = 0; b < BLOCKS; b++) add_block(k, 1 + b * OPERATORS);
    k->f[n - 2] = k->b[n - 2] = 100000;
    k->cross[n - 2] = k->stash[n - 2] = TOKENS * WIDTH * 2ull;
    k->f[n - 1] = k->b[n - 1] = k->w[n - 1] = ns_of(2. * TOKENS * WIDTH * 51200.);
    k->cross[n - 1] = TOKENS * WIDTH * 2ull;
    k->stash[n - 1] = TOKENS * 51200 * 2ull;

    k->elements[n - 1] = 51200ull * WIDTH;
    for (uint32_t i = 0; i < 128; i++) {
        k->node[i].link[PST_LEVEL_DEVICE] = (pst_cluster_link){3000, 450e9};
        k->node[i].link[PST_LEVEL_NODE] = (pst_cluster_link){10000, 50e9};
        k->node[i].node_bytes_per_s = 400e9;
    }
    for (uint32_t d = 0; d < 1024; d++) k->device[d].memory = 80ull << 30;
    k->exchange = 60000;
    k->norm_ns = 4. / 3350;
    k->step_ns = 30. / 3350;
    k->reduce_ns = 12. / 3350;
    k->problem.batch = 1536;
    k->problem.weight_bytes = 2;
    k->problem.state_bytes = 12;
    k->problem.grad_bytes = 4;
    k->problem.pipeline = CHOICES(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128);
    k->problem.tensor = CHOICES(1, 2, 4, 8);
    k->problem.data = CHOICES(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024);
    k->problem.micro_batch = CHOICES(1, 2, 4, 8);
    k->problem.chunks = CHOICES(0, 2, 3, 4, 6, 8);
    k->problem.zero = CHOICES(0, 1, 2);
    k->problem.sequence = CHOICES(0, 1);
    k->problem.all_devices = 1;
    memset(k->problem.recompute, 1, PST_RECOMPUTE_COUNT);
    uint32_t n_row;
    const pst_schedule_row *row = pst_schedule_rows(&n_row);
    k->problem.n_schedule = n_row - 1;
    for (uint32_t i = 0; i + 1 < n_row; i++) k->problem.schedule[i] = row[i].name;
    return k;
}

static void print_row(const pst_search_row *row) {
    const pst_candidate *l = row->best;
    printf("%3u x %u x %4u: ", row->pipeline, row->tensor, row->data);
    if (!l) printf("none: %s\n", row->why);
    else
        printf("%s chunks %u, micro_batch %u, zero %u, recompute %u, sequence %u, %u at once: %.3f "
               "s, bubble %.1f%%; %s\n",
               l->layout.schedule, l->layout.n_chunk, l->layout.micro_batch, l->layout.zero,
               l->layout.recompute[0], l->layout.sequence, l->in_flight[0],
               (double)l->step_ns / 1e9, 100 * l->bubble, row->why);
}

/* Of this process on its processor, which others may share. */
static double seconds_used(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

/* gap: what the best layout may be above the bound, at most. */
static void search_and_print(search_case *k, double gap, pst_search_result **result,
                             uint32_t rows) {
    pst_search_result *r;
    double start = seconds_used();
    if (pst_search(&k->problem, &r) != PST_OK) fail_msg("%s", pst_error());
    printf("%.3f s, %llu layouts, %llu simulated, gap %.2f%%\n", seconds_used() - start,
           (unsigned long long)r->n_layout, (unsigned long long)r->n_simulated, 100 * r->gap);
    for (uint32_t i = 0; i < r->n_row && i < rows; i++) print_row(&r->row[i]);
    assert_non_null(r->best);
    assert_true(r->bound_ns && r->bound_ns <= r->best->step_ns);
    assert_true(r->gap >= 0 && r->gap <= gap);
    *result = r;
}

static void everything_open(void **unused) {
    (void)unused;
    search_case *k = gpt3();
    pst_search_result *r;
    struct rusage use;
    search_and_print(k, 0.138, &r, UINT32_MAX);
    getrusage(RUSAGE_SELF, &use);
    printf("%ld MiB\n", use.ru_maxrss / 1024);
    assert_true(use.ru_maxrss < 500 << 10);
    pst_search_result_close(r);
    case_close(k);
}

/* Every other node half as fast, every fourth with half the memory: at least as good as with all of
 * them like the worst. */
static void mixed_devices(void **unused) {
    (void)unused;
    search_case *k = gpt3();
    pst_search_result *mixed, *worst;
    for (uint32_t d = 0; d < 1024; d++) {
        if (d / 8 % 2) k->device[d].speed = 0.5;
        if (d / 8 % 4 == 3) k->device[d].memory /= 2;
    }
    search_and_print(k, 0.121, &mixed, 6);
    for (uint32_t d = 0; d < 1024; d++) {
        k->device[d].speed = 0.5;
        k->device[d].memory = 40ull << 30;
    }
    search_and_print(k, 0.135, &worst, 3);
    assert_true(mixed->best->step_ns < worst->best->step_ns);
    pst_search_result_close(mixed);
    pst_search_result_close(worst);
    case_close(k);
}

/* Chunks of one per stage alone: the bound is that of cuts, within 1.9 % of what is found. */
static void one_chunk_per_stage(void **unused) {
    (void)unused;
    search_case *k = gpt3();
    pst_search_result *r;
    k->problem.n_schedule = 3;
    k->problem.schedule[0] = "1f1b";
    k->problem.schedule[1] = "zb-h1";
    k->problem.schedule[2] = "zb-h2";
    search_and_print(k, 0.019, &r, 6);
    pst_search_result_close(r);
    case_close(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(everything_open),
                                       cmocka_unit_test(mixed_devices),
                                       cmocka_unit_test(one_chunk_per_stage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

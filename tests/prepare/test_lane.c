/* One pipeline of a job, prepared on its own: its memory is that of the whole job to the byte, and
 * its step takes as long; with replicas, whose exchange it only summarises, nearly so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/rng.h"
#include "prepare/prepare.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 60 };

typedef struct {
    uint32_t pipeline, tensor, data, micro, batch;
    uint32_t per_node; /* devices of a node; 0: no cluster */
    char text[900];
} job_case;

static char cluster_file[] = "/tmp/penstock-lane-XXXXXX";

static uint64_t state = 1;

static uint32_t draw(uint32_t from, uint32_t to) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return from + (uint32_t)(state >> 33) % (to - from + 1);
}

static const char *any(const char *const *of, uint32_t n) { return of[draw(0, n - 1)]; }

static job_case random_case(void) {
    static const char *const schedules[] = {"gpipe", "1f1b", "interleaved",
                                            "zb-h1", "zb-v", "1f1b-early"};
    static const char *const recompute[] = {"none", "selective", "full", "{full: 1}"};
    job_case x = {.pipeline = draw(1, 4), .tensor = draw(1, 4), .data = draw(1, 4)};
    uint32_t micros = x.pipeline * draw(1, 3) * x.data; /* as interleaved wants it */
    x.micro = draw(1, 2);
    x.batch = micros * x.micro;
    const char *schedule = any(schedules, 6), *precision = draw(0, 1) ? "fp32" : "fp16";
    x.per_node = 0;
    if (!draw(0, 1)) x.per_node = draw(0, 1) ? x.tensor : x.tensor * x.data;
    if (x.per_node == x.tensor && x.data == 4) x.per_node *= 2; /* a two-level exchange */
    const uint32_t zero = draw(0, 2);
    const char *compress = zero == 2 || x.batch % 3 ? "none" : "int8";
    const int down = zero == 1 && x.batch % 2 == 0 && !strcmp(precision, "fp32");
    int post = draw(0, 3) == 0 && strcmp(precision, "fp16") != 0,
        sequence = draw(0, 1) && x.tensor > 1;
    snprintf(
        x.text, sizeof x.text,
        "model: {kind: gpt, layers: %u, heads: 12, channels: %u, context: 24, vocabulary: %u}\n"
        "data: {kind: text, paths: [x]}\n"
        "train: {batch: %u, micro_batch: %u, precision: %s, residual: %s}\n"
        "parallel: {device: timed, pipeline: %u, tensor: %u, data: %u, zero: %u, schedule: %s, "
        "recompute: %s, "
        "post_validation: %s, sequence: %s, cluster: \"%s\", compress: {up: %s, down: %s, links: "
        "all}}\n",
        8 + draw(0, 3), draw(0, 1) ? 48 : 600, draw(0, 1) ? 256 : 6001, x.batch, x.micro, precision,
        x.batch % 2 ? "fp32" : "same", x.pipeline, x.tensor, x.data, zero, schedule,
        any(recompute, 4), post ? "true" : "false", sequence ? "true" : "false",
        x.per_node ? cluster_file : "", compress, down ? "int4" : "none");
    return x;
}

static pst_prepared *prepare(const job_case *x, const pst_config *c, uint32_t lane) {
    pst_prepared *p;
    pst_prepare_options options = {.n_rank = x->pipeline * x->tensor * x->data,
                                   .threads = 1,
                                   .isa = pst_cpu_isa(),
                                   .n_eval_micro = x->batch / x->micro,
                                   .lane = lane};
    if (pst_prepare(c, &options, &p) != PST_OK) fail_msg("%s\n%s", pst_error(), x->text);
    return p;
}

static void same_memory(const job_case *x, const pst_prepared *whole, const pst_prepared *lane,
                        uint32_t rank) {
    const pst_memory_map *a = whole->memory[rank], *b = lane->memory[rank];
    if (a->total != b->total)
        fail_msg("rank %u: %lu bytes, %lu\n%s", rank, a->total, b->total, x->text);
    assert_memory_equal(a->start, b->start, sizeof a->start);
    assert_memory_equal(a->bytes, b->bytes, sizeof a->bytes);
    assert_memory_equal(a->weight, b->weight, whole->graph->n_param * sizeof *a->weight);
    assert_memory_equal(a->grad[0], b->grad[0], whole->graph->n_param * sizeof **a->grad);
    assert_int_equal(a->n_gradient, b->n_gradient);
}

/* Nodes whose NICs the ranks of a stage or of a tensor group share. */
static void write_cluster(const job_case *x) {
    FILE *f = fopen(cluster_file, "w");
    assert_non_null(f);
    fprintf(f,
            "links: {ib: {bandwidth: %uGb/s, latency: 20us}}\nnodes: [{count: %u, devices: "
            "[{count: %u}]}]\n",
            draw(1, 20), x->pipeline * x->tensor * x->data / (x->per_node ? x->per_node : 1),
            x->per_node ? x->per_node : 1);
    fclose(f);
}

/* By how much the lane's step is longer. */
static double compare(const job_case *x, uint32_t replica) {
    pst_config *c = NULL;
    if (pst_config_parse(x->text, "test", NULL, 0, &c) != PST_OK)
        fail_msg("%s\n%s", pst_error(), x->text);
    pst_prepared *whole = prepare(x, c, 0), *lane = prepare(x, c, 1 + replica);
    for (uint32_t s = 0; s < x->pipeline; s++)
        same_memory(x, whole, lane, pst_grid_rank(whole->grid, s, replica, 0));
    double longer = (double)lane->timing->step_ns / (double)whole->timing->step_ns - 1;
    pst_prepared_close(whole);
    pst_prepared_close(lane);
    pst_config_close(c);
    return longer;
}

static void lanes_are_as_in_the_whole(void **unused) {
    (void)unused;
    double most = 0, sum = 0;
    uint32_t n = 0;
    assert_true(mkstemp(cluster_file) >= 0);
    for (uint32_t i = 0; i < CASES; i++) {
        job_case x = random_case();
        write_cluster(&x);
        double longer = compare(&x, draw(0, x.data - 1));
        if (getenv("PST_LANE")) printf("%+.4f %s", longer, x.text);
        int even = x.tensor == 1 || strstr(x.text, "vocabulary: 256");
        /* tensor ranks that share a NIC stand for each other */
        int same = x.data == 1 && (x.tensor == 1 || !x.per_node);
        /* Of parts that are not equal the first rank has the largest, and it does not wait for the
         * norm, which it gathers; the lane has the time of that part, and waits. */
        if (same && fabs(longer) > (even ? 0 : 2e-3))
            fail_msg("the step takes %+g as long\n%s", longer, x.text);
        if (!same) {
            most = fmax(most, fabs(longer));
            sum += fabs(longer);
            n++;
        }
    }
    remove(cluster_file);
    print_message("%u cases with replicas: off by %.2f%% on average, by %.2f%% at most\n", n,
                  100 * sum / n, 100 * most);
    /* docs/history/measurements-2026-11.md; 32 % with packed gradients on slow links */
    assert_true(most < 0.34 && sum / n < 0.04);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lanes_are_as_in_the_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

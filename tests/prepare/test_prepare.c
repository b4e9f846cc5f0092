/* From a run file to layouts: what the ranks hold adds up to one model, the advice for too little
 * memory fits when it is followed, and contradictions are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/status.h"
#include "prepare/prepare.h"
#include <stdio.h>
#include <string.h>

#define DATA "data: {kind: text, paths: [x]}\n"
#define SMALL                                                                                      \
    "model: {kind: gpt, layers: 4, heads: 4, channels: 64, context: 64}\n" DATA                    \
    "train: {batch: 24, micro_batch: 6}\n"

static pst_config *parse(const char *yaml, const char *const *override, size_t n) {
    pst_config *c = NULL;
    if (pst_config_parse(yaml, "test", override, n, &c) != PST_OK) fail_msg("%s", pst_error());
    return c;
}

static pst_status prepare(const pst_config *c, uint32_t n_rank, pst_prepared **p) {
    pst_prepare_options options = {.n_rank = n_rank,
                                   .threads = 1,
                                   .isa = pst_cpu_isa(),
                                   .n_eval_micro =
                                       (uint32_t)(c->train.batch / c->train.micro_batch)};
    return pst_prepare(c, &options, p);
}

/* Weights and AdamW state of all ranks: one model, and once more the table that the first and the
 * last rank share. */
static void one_model(const char *yaml, uint32_t n_rank) {
    pst_config *c = parse(yaml, NULL, 0);
    pst_prepared *p;
    uint64_t elements = 0, bytes = 0;
    if (prepare(c, n_rank, &p) != PST_OK) fail_msg("%s", pst_error());
    for (uint32_t i = 0; i < p->graph->n_param; i++)
        elements += pst_param_elements(p->graph->param + i);
    for (uint32_t r = 0; r < n_rank; r++)
        bytes += p->memory[r]->bytes[PST_REGION_WEIGHT] + p->memory[r]->bytes[PST_REGION_STATE];
    uint64_t shared =
        n_rank > 1 ? (uint64_t)p->model_config.vocabulary * p->model_config.channels : 0;
    assert_int_equal(bytes, 3 * sizeof(float) * (elements + shared));
    pst_prepared_close(p);
    pst_config_close(c);
}

static void test_one_model(void **state) {
    (void)state;
    const char *gpt2 = "model: {kind: gpt, preset: gpt2, vocabulary: 50257}\n" DATA
                       "train: {batch: 8, micro_batch: 1}\n";
    for (uint32_t n = 1; n <= 4; n++) one_model(gpt2, n);
    one_model(SMALL, 3);
}

/* Follows the advice in the message; the run then fits into `limit`. 0: there was none. */
static int follow(const char *text, const char *schedule, uint64_t limit) {
    char first[64], second[64];
    const char *override[2] = {first, second};
    size_t n = 1;
    uint32_t n_rank = 2;
    int micro;
    char how[16];
    pst_prepared *p;
    const char *advice = strstr(text, "; ");
    assert_non_null(advice);
    advice += 2;
    snprintf(first, sizeof first, "parallel.schedule=%s", schedule);
    if (!strncmp(advice, "no other schedule", 17)) return 0;
    if (!strncmp(advice, "parallel.schedule=1f1b would", 28))
        snprintf(first, sizeof first, "parallel.schedule=1f1b");
    else if (sscanf(advice, "parallel.recompute=%15s would fit", how) == 1) { /* {full:2}, too */
        snprintf(second, sizeof second, "parallel.recompute=%s", how);
        n = 2;
    } else if (sscanf(advice, "-n %u", &n_rank) == 1 && !strstr(advice, "train.micro_batch="))
        n = 1;
    else if (sscanf(strstr(advice, "train.micro_batch="), "train.micro_batch=%d", &micro) == 1) {
        snprintf(second, sizeof second, "train.micro_batch=%d", micro);
        n = 2;
    } else fail_msg("what does '%s' mean?", advice);
    pst_config *c = parse(SMALL, override, n);
    if (prepare(c, n_rank, &p) != PST_OK) fail_msg("%s: %s", text, pst_error());
    char said[512];
    snprintf(said, sizeof said, "%s", text);
    if (pst_prepare_fits(p, limit) != PST_OK) fail_msg("'%s', but then: %s", said, pst_error());
    pst_prepared_close(p);
    pst_config_close(c);
    return 1;
}

static void test_advice(void **state) {
    (void)state;
    static const char *const schedules[] = {"gpipe", "1f1b", "1f1b-early"};
    int advised = 0;
    for (int s = 0; s < 3; s++) {
        char override[64], text[512];
        const char *overrides[] = {override};
        pst_prepared *p;
        snprintf(override, sizeof override, "parallel.schedule=%s", schedules[s]);
        pst_config *c = parse(SMALL, overrides, 1);
        assert_int_equal(prepare(c, 2, &p), PST_OK);
        uint64_t most =
            p->memory[0]->total > p->memory[1]->total ? p->memory[0]->total : p->memory[1]->total;
        assert_int_equal(pst_prepare_fits(p, most), PST_OK);
        for (uint64_t limit = most - 1; limit > most / 12; limit -= most / 12) {
            assert_int_equal(pst_prepare_fits(p, limit), PST_ENOMEM);
            snprintf(text, sizeof text, "%s", pst_error());
            advised += follow(text, schedules[s], limit);
        }
        pst_prepared_close(p);
        pst_config_close(c);
    }
    assert_true(advised > 6);
}

static void test_contradictions(void **state) {
    (void)state;
    uint32_t n = 0;
    const char *pipeline[] = {"parallel.pipeline=3"}, *bf16[] = {"train.precision=bf16"},
               *forward[] = {"parallel.schedule=forward"};
    pst_prepared *p;
    pst_config *c = parse(SMALL, pipeline, 1);
    assert_int_equal(pst_prepare_ranks(c, 2, &n), PST_EINPUT);
    assert_int_equal(pst_prepare_ranks(c, 3, &n), PST_OK);
    assert_int_equal(pst_prepare_ranks(c, 0, &n), PST_OK);
    assert_int_equal(n, 3);
    pst_config_close(c);
    c = parse(SMALL, bf16, 1); /* on a processor without */
    const pst_prepare_options plain = {.n_rank = 1,
                                       .threads = 1,
                                       .isa = pst_cpu_isa() & ~(uint32_t)PST_ISA_AVX512_BF16,
                                       .n_eval_micro = 4};
    assert_int_equal(pst_prepare(c, &plain, &p), PST_EINPUT);
    pst_config_close(c);
    c = parse(SMALL, forward, 1);
    assert_int_equal(prepare(c, 1, &p), PST_EINPUT);
    pst_config_close(c);
    const char *passes[] = {"train.batch=1048576", "train.micro_batch=1"};
    c = parse(SMALL, passes, 2);
    assert_int_equal(prepare(c, 5, &p), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "1048576 micro-batches x 5 stages exceed the maximum"));
    pst_config_close(c);
    c = parse(SMALL, NULL, 0);
    assert_int_equal(prepare(c, 1000, &p), PST_EINPUT);
    pst_config_close(c);
}

/* A vocabulary of 2^24 and 512 channels: more elements than instructions about pieces can count.
 * Nothing of it is allocated. */
static void test_large_parameter(void **state) {
    (void)state;
    const char *override[] = {"model.vocabulary=16777216", "model.channels=512", "train.batch=2",
                              "train.micro_batch=1",       "model.layers=1",     "parallel.data=2"};
    pst_prepared *p;
    pst_config *c = parse(SMALL, override, 6);
    assert_int_equal(prepare(c, 2, &p), PST_EINPUT);
    assert_non_null(
        strstr(pst_error(), "parameter wte.weight has 8589934592 elements; expected at most 2^32"));
    pst_config_close(c);
    c = parse(SMALL, override, 5);
    if (prepare(c, 2, &p) != PST_OK) fail_msg("%s", pst_error());
    pst_prepared_close(p);
    pst_config_close(c);
}

/* A plan is followed in everything that it says, and refused when it is for another graph or number
 * of ranks. */
static void test_given_plan(void **state) {
    (void)state;
    pst_config *c = parse(SMALL, NULL, 0);
    pst_prepared *own, *p;
    assert_int_equal(prepare(c, 2, &own), PST_OK);
    pst_plan *plan = own->plan;
    uint32_t moved = plan->layout.first_item[1]++;
    plan->layout.rank_of_chunk[0] = 1;
    plan->layout.rank_of_chunk[1] = 0;
    strcpy(plan->layout.schedule, "gpipe");
    plan->layout.n_micro = 7;
    pst_prepare_options options = own->options;
    options.plan = plan;
    if (pst_prepare(c, &options, &p) != PST_OK) fail_msg("%s", pst_error());
    assert_string_equal(p->schedule->name, "gpipe");
    assert_int_equal(p->schedule->n_micro, 7);
    assert_int_equal(p->chunk_of_node[moved], 0);
    assert_int_equal(p->job->rank_of_chunk[0], 1);
    assert_int_equal(p->timing->peak_stash[0], 7);
    pst_prepared_close(p);
    options.n_rank = 3;
    assert_int_equal(pst_prepare(c, &options, &p), PST_EINPUT);
    options.n_rank = 2;
    plan->layout.micro_batch = 3;
    assert_int_equal(pst_prepare(c, &options, &p), PST_EINPUT);
    pst_prepared_close(own);
    pst_config_close(c);
}

static pst_prepared *solve(uint32_t n_rank, const char *const *override, size_t n) {
    pst_config *c = parse(SMALL, override, n);
    pst_prepared *p;
    if (prepare(c, n_rank, &p) != PST_OK) fail_msg("%s: %s", n ? override[n - 1] : "", pst_error());
    assert_string_equal(p->schedule->name, strstr(override[0], "=") + 1);
    pst_config_close(c);
    return p;
}

/* Replicas that take different numbers of micro-batches have an order each; nothing named is
 * shorter in the same memory. */
static void test_solved_replicas(void **state) {
    (void)state;
    const char *override[] = {"parallel.schedule=solved",        "parallel.data=2",
                              "parallel.replicas=[3,9]",         "train.micro_batch=2",
                              "parallel.throttle=[2,1.2,1,1.5]", "parallel.chunks=1"};
    pst_prepared *p = solve(4, override, 6);
    assert_int_equal(p->schedules[0]->n_micro, 3);
    assert_int_equal(p->schedules[1]->n_micro, 9);
    assert_string_equal(p->schedules[1]->name, "solved");
    if (!strstr(p->solved, "gap")) fail_msg("%s", p->solved);
    uint64_t step = p->timing->step_ns;
    pst_prepared_close(p);
    static const char *const named[] = {"parallel.schedule=zb-h1", "parallel.schedule=1f1b"};
    for (int i = 0; i < 2; i++) {
        override[0] = named[i];
        p = solve(4, override, 6);
        assert_true(step <= p->timing->step_ns);
        pst_prepared_close(p);
    }
}

/* A list of what is computed again says how many chunks there are, and needs no parallel.memory. */
static void test_solved_recompute(void **state) {
    (void)state;
    const char *list[] = {"parallel.schedule=solved",
                          "parallel.recompute=[full, none, none, selective]", "parallel.chunks=2"};
    for (size_t n = 2; n <= 3; n++) {
        pst_prepared *p = solve(2, list, n);
        assert_int_equal(p->plan->layout.n_chunk, 4);
        assert_int_equal(p->plan->layout.recompute[0], PST_RECOMPUTE_FULL);
        assert_int_equal(p->plan->layout.recompute[3], PST_RECOMPUTE_SELECTIVE);
        pst_prepared_close(p);
    }
    list[1] = "parallel.recompute=[full, none]";
    pst_prepared *p = solve(2, list, 2);
    assert_int_equal(p->plan->layout.n_chunk, 2);
    pst_prepared_close(p);
    pst_config *c = parse(SMALL, list, 3); /* two items, four chunks */
    assert_int_equal(prepare(c, 2, &p), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "parallel.recompute has 2 items, but there are 4 chunks"));
    pst_config_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_model),       cmocka_unit_test(test_advice),
        cmocka_unit_test(test_contradictions),  cmocka_unit_test(test_large_parameter),
        cmocka_unit_test(test_given_plan),      cmocka_unit_test(test_solved_replicas),
        cmocka_unit_test(test_solved_recompute)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

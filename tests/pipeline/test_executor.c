/* The executor: random models in random layouts give every step the very bytes that the tape
 * promises, every flush the same sums, and touch exactly the memory that was laid out; on the
 * virtual clock it is the simulator; failures name their instruction. */
#include "pipeline/emulate.h"
#include "pipeline/execute/timed.h"
#include "pipeline/simulate/simulate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* In random order, one rank at a time, instead of round robin. */
static pst_status drive_randomly(bench *b, uint64_t *state) {
    uint32_t left = b->t->n_rank, n = b->t->n_rank;
    uint8_t done[64] = {0};
    for (uint64_t idle = 0; left && idle < 100000; idle++) {
        uint32_t r = (uint32_t)(next_random(state) % n), moved = 0;
        if (done[r]) continue;
        pst_status status = pst_executor_progress(b->x[r], &moved);
        if (status == PST_OK) {
            done[r] = 1;
            left--;
        } else if (status != PST_BUSY) return status;
        if (moved) idle = 0;
    }
    return left ? pst_fail(PST_EINTERNAL, "stuck") : PST_OK;
}

static void check_outputs(const bench *b, int eval) {
    const test_case *t = b->t;
    const pst_cut *cut = eval ? t->eval_cut : t->cut;
    uint32_t n_micro = eval ? t->eval->n_micro : t->job->n_micro, found = 0;
    for (uint32_t v = 0; v < cut->tape->n_value; v++) {
        const pst_value *value = cut->tape->value + v;
        if (value->kind != PST_VALUE_TENSOR ||
            t->g->tensor[value->tensor].role != PST_TENSOR_OUTPUT)
            continue;
        for (uint32_t r = 0; r < t->n_rank; r++)
            for (uint32_t m = 0; m < n_micro && t->layout[r]->output[value->tensor] != UINT64_MAX;
                 m++, found++) {
                const int rest = !eval && t->job->rest && !m;
                assert_true(
                    holds(b->rank[r].arena + t->layout[r]->output[value->tensor] + m * value->bytes,
                          pst_cut_of(cut, rest)->tape->value[v].bytes,
                          b->ref.value[eval][(size_t)v * n_micro + m]));
            }
    }
    assert_true(found >= n_micro);
}

static void check_weights(const bench *b) {
    const test_case *t = b->t;
    for (uint32_t r = 0; r < t->n_rank; r++)
        for (uint32_t p = 0; p < t->g->n_param; p++)
            if (t->layout[r]->weight[p] != UINT64_MAX)
                assert_true(holds(b->rank[r].arena + t->layout[r]->weight[p],
                                  pst_param_bytes(t->g, t->g->param + p), b->ref.param[p]));
}

/* Four runs: training, evaluation over the same memory, training twice. */
static void run_bench(bench *b, uint64_t *state) {
    for (uint32_t run = 0; run < 4; run++) {
        int eval = run == 1;
        prepare_run(b, eval);
        MUST(next_random(state) % 2 ? drive_randomly(b, state)
                                    : pst_executor_drive(b->x, b->t->n_rank, NULL, NULL, NULL));
        check_outputs(b, eval);
        if (eval) continue;
        flush_reference(&b->ref, b->t->cut);
        check_weights(b);
    }
    for (uint32_t r = 0; r < b->t->n_rank; r++) {
        const uint64_t highest = b->rank[r].highest, total = b->t->layout[r]->total;
        if (b->t->job->rest && b->t->job->n_micro == 1) assert_true(highest <= total);
        else assert_int_equal(highest, total);
    }
}

static void every_step_reads_the_right_bytes(void **unused) {
    (void)unused;
    uint64_t seed = test_seed(1);
    for (uint32_t i = 0; i < 150; i++) {
        uint64_t state = seed * 1000 + i;
        pst_graph *g = random_graph(state);
        uint64_t answer = 0;
        for (uint32_t layout = 0; layout < 3; layout++) { /* the same model, with as many
                                                             micro-batches, laid out anew */
            uint64_t own = mix(state, layout);
            test_case t = {.g = g, .recomputes = next_random(&own) % 2, .packs = i % 2, .rests = 1};
            build_case(&t, layout ? 1 + (uint32_t)(next_random(&own) % 5) : 1,
                       (uint32_t)(next_random(&own) % CASE_KINDS), 1 + i % 7, &own);
            pst_fault_spec late = {.delay_polls = next_random(&own) % 4};
            bench b;
            open_bench(&b, &t, next_random(&own) % 2 ? &late : NULL, own);
            run_bench(&b, &own);
            if (layout && !t.packs) /* the reference follows the order of use, so must they;
                                       rounding depends on the cut */
                assert_int_equal(b.ref.answer, answer);
            answer = b.ref.answer;
            close_bench(&b);
            close_case(&t);
        }
        pst_graph_close(g);
    }
}

/* Executor on timed device, transport and clock, against the one longest-path pass. */
static void virtual_time_is_simulated_time(void **unused) {
    (void)unused;
    uint64_t seed = test_seed(2);
    for (uint32_t i = 0; i < 150; i++) {
        uint64_t state = seed * 1000 + i;
        pst_graph *g = random_graph(state);
        test_case t = random_case(g, &state);
        pst_clock clock = {.is_virtual = 1, .virtual_ns = 1000};
        pst_device *device[8];
        pst_executor *x[8];
        pst_timed_hub *hub;
        pst_timing *timing;
        MUST(pst_simulate(t.job, &timing));
        MUST(pst_timed_hub_open(t.n_rank, &clock, &hub));
        for (uint32_t r = 0; r < t.n_rank; r++) {
            pst_device_config device_config = {.threads = 1, .clock = &clock};
            MUST(pst_device_timed.open(&device_config, &device[r]));
            pst_executor_config config = {.rank = r,
                                          .device = device[r],
                                          .transport = pst_timed_hub_end(hub, r),
                                          .clock = &clock};
            MUST(pst_executor_open(&config, &x[r]));
        }
        for (uint32_t run = 0; run < 2; run++) {
            for (uint32_t r = 0; r < t.n_rank; r++) MUST(pst_executor_start(x[r], t.job, t.cut));
            MUST(pst_executor_drive(x, t.n_rank, &clock, NULL, NULL));
            for (uint32_t r = 0; r < t.n_rank; r++) {
                const pst_span *span = pst_executor_spans(x[r], NULL);
                for (uint32_t k = 0; k < t.job->list[r].n_instr; k++) {
                    assert_int_equal(span[k].start, timing->span[r][k].start);
                    assert_int_equal(span[k].end, timing->span[r][k].end);
                }
            }
        }
        for (uint32_t r = 0; r < t.n_rank; r++) {
            pst_executor_close(x[r]);
            device[r]->ops->close(device[r]);
        }
        pst_timed_hub_close(hub);
        pst_timing_close(timing);
        close_case(&t);
        pst_graph_close(g);
    }
}

/* --- failures --------------------------------------------------------------------------------- */

static test_case three_ranks(pst_graph **g) {
    uint64_t state = 3;
    *g = random_graph(42);
    test_case t = {.g = *g};
    build_case(&t, 3, 1, 4, &state);
    assert_int_equal(t.n_rank, 3);
    return t;
}

static pst_status run_with(const pst_fault_spec *fault, uint32_t fail_step) {
    pst_graph *g;
    test_case t = three_ranks(&g);
    bench b;
    open_bench(&b, &t, fault, 1);
    prepare_run(&b, 0);
    b.rank[1].fail_step = fail_step;
    pst_status status = pst_executor_drive(b.x, t.n_rank, NULL, NULL, NULL);
    close_bench(&b);
    close_case(&t);
    pst_graph_close(g);
    return status;
}

static void failures_name_their_instruction(void **unused) {
    (void)unused;
    pst_fault_spec dropped = {.drop_post = 3}, failing = {.fail_post = 2};
    assert_int_equal(run_with(NULL, 0), PST_OK);
    assert_int_equal(run_with(NULL, 2), PST_EINTERNAL);
    assert_non_null(strstr(pst_error(), "injected: step 2 fails"));
    assert_non_null(strstr(pst_error(), "rank 1 "));
    assert_int_equal(run_with(&failing, 0), PST_EPEER);
    assert_non_null(strstr(pst_error(), "injected: post 2 fails"));
    assert_int_equal(run_with(&dropped, 0), PST_EINTERNAL);
    assert_non_null(strstr(pst_error(), "deadlock: rank "));
    assert_non_null(strstr(pst_error(), " after "));
}

static pst_status give_up(void *arg) {
    return ++*(uint32_t *)arg < 5 ? PST_OK : pst_fail(PST_EPEER, "given up");
}

static void idle_may_end_the_drive(void **unused) {
    (void)unused;
    pst_graph *g;
    uint32_t asked = 0;
    test_case t = three_ranks(&g);
    bench b;
    open_bench(&b, &t, NULL, 1);
    prepare_run(&b, 0);
    assert_int_equal(pst_executor_drive(b.x, t.n_rank, NULL, give_up, &asked), PST_EPEER);
    assert_int_equal(asked, 5);
    assert_int_equal(pst_executor_start(b.x[0], t.job, t.cut), PST_EINTERNAL); /* still running */
    close_bench(&b);
    close_case(&t);
    pst_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_reads_the_right_bytes),
        cmocka_unit_test(virtual_time_is_simulated_time),
        cmocka_unit_test(failures_name_their_instruction),
        cmocka_unit_test(idle_may_end_the_drive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test: label=quick */
/* The timeline as a trace: JSON with every instruction, a process for every rank, and an arrow for
 * every message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/study.h"
#include "pipeline/trace_check.h"

static const pst_instr_cost cost = {
    .latency_ns = 2500, .norm_ns = 100, .gather_ns = 50, .step_ns = 300, .flush = 1};

/* Messages between ranks: a rank that has neighbouring chunks sends to itself, too. */
static size_t sends(const pst_job *job) {
    size_t n = 0;
    for (uint32_t r = 0; r < job->n_rank; r++)
        for (uint32_t i = 0; i < job->list[r].n_instr; i++)
            n += job->list[r].instr[i].opcode == PST_OP_SEND && job->list[r].instr[i].peer != r;
    return n;
}

static void check(const char *schedule, int predicted) {
    static const char *const host[] = {"a", "a", "b \"x\"", "b \"x\""};
    study s;
    pst_timing *t;
    char *text = NULL;
    size_t bytes, total = 0;
    assert_int_equal(study_open(&s, schedule, 4, 8, (pst_pass_ns){1000, 1500, 1500}, &cost),
                     PST_OK);
    assert_int_equal(pst_simulate(s.job, &t), PST_OK);
    FILE *out = open_memstream(&text, &bytes);
    const pst_trace_notes notes = {.title = "a \"title\"",
                                   .host = predicted ? host : NULL,
                                   .predicted = predicted ? t->span : NULL};
    assert_int_equal(pst_timeline_trace(s.job, t->span, &notes, out), PST_OK);
    fclose(out);
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);
    if (!root) fail_msg("line %d: %s", error.line, error.text);
    trace_check c = trace_holds(root, 4, predicted ? 8 : 4);
    for (uint32_t r = 0; r < 4; r++) total += s.job->list[r].n_instr;
    assert_int_equal(c.slices, total * (predicted ? 2 : 1));
    assert_int_equal(c.flows, sends(s.job) * (predicted ? 2 : 1));
    assert_non_null(strstr(text, "\"labels\":\"a \\\"title\\\"\""));
    assert_non_null(strstr(text, predicted ? "\"rank 3 (host b \\\"x\\\", stage 3)\""
                                           : "\"rank 3 (stage 3)\""));
    assert_non_null(strstr(
        text, "\"name\":\"F c0 "
              "m1\",\"cat\":\"F\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":1.000,\"dur\":1.000"));
    assert_non_null(strstr(text, "\"name\":\"receive\""));
    json_decref(root);
    free(text);
    pst_timing_close(t);
    study_close(&s);
}

static void traces_hold_every_instruction_and_message(void **state) {
    (void)state;
    uint32_t n;
    const pst_schedule_row *row = pst_schedule_rows(&n);
    for (uint32_t i = 0; i < n; i++)
        for (int predicted = 0; predicted < 2; predicted++) check(row[i].name, predicted);
}

/* A clock that is behind by more than a message takes: no arrow goes back in time. */
static void clocks_that_disagree(void **state) {
    (void)state;
    for (uint64_t behind = 0; behind < 9000; behind += 300) {
        study s;
        pst_timing *t;
        char *text = NULL;
        size_t bytes;
        assert_int_equal(study_open(&s, "1f1b", 3, 4, (pst_pass_ns){1000, 1500, 1500}, &cost),
                         PST_OK);
        assert_int_equal(pst_simulate(s.job, &t), PST_OK);
        for (uint32_t r = 0; r < 2; r++)
            for (uint32_t i = 0; i < s.job->list[r].n_instr; i++) {
                t->span[r][i].start += behind;
                t->span[r][i].end += behind;
            }
        FILE *out = open_memstream(&text, &bytes);
        assert_int_equal(pst_timeline_trace(s.job, t->span, &(pst_trace_notes){.title = ""}, out),
                         PST_OK);
        fclose(out);
        json_t *root = json_loads(text, 0, NULL);
        trace_check c = trace_holds(root, 3, 3);
        assert_true(behind ? c.flows <= sends(s.job) : c.flows == sends(s.job));
        assert_true(c.flows > 8); /* ranks 0 and 1 have one clock */
        json_decref(root);
        free(text);
        pst_timing_close(t);
        study_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_hold_every_instruction_and_message),
        cmocka_unit_test(clocks_that_disagree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

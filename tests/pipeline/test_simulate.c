/* test: label=quick */
/* The simulator: closed forms of the schedules, the timing rules one by one on lists made by hand,
 * deadlocks named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/study.h"

static const pst_instr_cost free_transfers = {0};

static void check_closed_form(const char *name, uint32_t p, uint32_t m, uint64_t f, uint64_t b,
                              uint64_t w) {
    study s;
    pst_timing *t;
    if (study_open(&s, name, p, m, (pst_pass_ns){f, b, w}, &free_transfers) != PST_OK)
        fail_msg("%s", pst_error());
    if (pst_simulate(s.job, &t) != PST_OK) fail_msg("%s", pst_error());
    uint64_t all = f + b + w, expected = (m + p - 1) * all;
    if (!strcmp(name, "1f1b-early")) expected = m * all + (p - 1) * (f + b);
    if (!strcmp(name, "forward")) expected = (m + p - 1) * f;
    if (t->step_ns != expected) {
        fail_msg("%s p=%u m=%u F=%d B=%d W=%d: %llu, not %llu", name, p, m, (int)f, (int)b, (int)w,
                 (unsigned long long)t->step_ns, (unsigned long long)expected);
    }
    assert_int_equal(t->flush_ns, 0);
    for (uint32_t r = 0; r < p; r++) {
        uint32_t stash = strcmp(name, "gpipe") && p - r < m ? p - r : m;
        assert_int_equal(t->peak_stash[r], strcmp(name, "forward") ? stash : 0);
        assert_int_equal(t->busy_ns[r], strcmp(name, "forward") ? m * all : m * f);
    }
    /* Rank 0 works first and last, so its span is the step; with 1F1B and F+B+W each, the bubble is
     * (p-1)/(m+p-1). */
    assert_int_equal(t->bubble_rank, strcmp(name, "forward") ? 0 : t->bubble_rank);
    if (strcmp(name, "forward")) {
        assert_true(t->bubble - (1 - (double)(m * all) / (double)expected) < 1e-12);
        assert_true((1 - (double)(m * all) / (double)expected) - t->bubble < 1e-12);
    }
    pst_timing_close(t);
    study_close(&s);
}

static void closed_forms(void **state) {
    (void)state;
    uint64_t seed = study_seed();
    const char *names[] = {"gpipe", "1f1b", "1f1b-early", "forward"};
    for (int k = 0; k < 4; k++) {
        for (uint32_t p = 1; p <= 16; p++) {
            for (uint32_t m = 1; m <= 21; m++) {
                uint64_t f = 1 + study_random(&seed) % 100, b = 1 + study_random(&seed) % 100;
                check_closed_form(names[k], p, m == 21 ? 33 : m, f, b,
                                  1 + study_random(&seed) % 100);
            }
            check_closed_form(names[k], p, 1 + (uint32_t)(study_random(&seed) % 60), 5, 5, 5);
        }
    }
}

/* --- lists made by hand ----------------------------------------------------------------------- */

static pst_instr pass(pst_opcode op, uint64_t ns, uint32_t dep, uint32_t n_dep) {
    return (pst_instr){.opcode = (uint8_t)op,
                       .queue = PST_Q_COMPUTE,
                       .ns = ns,
                       .dep = dep,
                       .n_dep = n_dep,
                       .param = PST_NONE,
                       .local = PST_NONE};
}
static pst_instr message(pst_opcode op, uint32_t peer, uint32_t seq, uint64_t ns, uint32_t dep,
                         uint32_t n_dep) {
    return (pst_instr){.opcode = (uint8_t)op,
                       .queue = op == PST_OP_SEND ? PST_Q_SEND : PST_Q_RECV,
                       .peer = peer,
                       .seq = seq,
                       .ns = ns,
                       .dep = dep,
                       .n_dep = n_dep,
                       .param = PST_NONE,
                       .micro = seq};
}
static void assert_span(const pst_timing *t, uint32_t rank, uint32_t i, uint64_t start,
                        uint64_t end) {
    if (t->span[rank][i].start == start && t->span[rank][i].end == end) return;
    fail_msg("rank %u instruction %u runs %d..%d, not %d..%d", rank, i, (int)t->span[rank][i].start,
             (int)t->span[rank][i].end, (int)start, (int)end);
}

/* Rendezvous: a transfer starts when both ends are issued; sends do not wait for each other;
 * computing waits for deps. */
static void timing_rules(void **state) {
    (void)state;
    pst_instr a[] = {pass(PST_OP_F, 10, 0, 0), message(PST_OP_SEND, 1, 0, 5, 0, 1),
                     message(PST_OP_SEND, 1, 1, 5, 0, 0), pass(PST_OP_F, 10, 0, 0),
                     pass(PST_OP_F, 1, 1, 1)};
    uint32_t a_dep[] = {0, 1};
    pst_instr b[] = {pass(PST_OP_F, 30, 0, 0), message(PST_OP_RECV, 0, 0, 99, 0, 1),
                     message(PST_OP_RECV, 0, 1, 99, 0, 0), pass(PST_OP_F, 2, 1, 2)};
    uint32_t b_dep[] = {0, 1, 2};
    pst_instr_list lists[] = {{5, 2, 0, 0, a, a_dep}, {4, 3, 0, 0, b, b_dep}};
    uint32_t home[] = {0, 1};
    pst_job job = {.n_rank = 2, .n_chunk = 2, .n_micro = 2, .rank_of_chunk = home, .list = lists};
    pst_timing *t;
    assert_int_equal(pst_simulate(&job, &t), PST_OK);
    assert_span(t, 0, 0, 0, 10);
    assert_span(t, 0, 1, 30, 35); /* the receiver is late; the SEND's duration counts */
    assert_span(t, 0, 2, 30, 35); /* issued behind the first, not after it has completed */
    assert_span(t, 0, 3, 10, 20);
    assert_span(t, 0, 4, 35, 36);
    assert_span(t, 1, 1, 30, 35);
    assert_span(t, 1, 3, 35, 37);
    assert_int_equal(t->step_ns, 37);
    pst_timing *again;
    assert_int_equal(pst_timing_from_spans(&job, t->span, &again), PST_OK);
    assert_int_equal(again->step_ns, 37);
    assert_true(again->bubble == t->bubble && again->bubble_rank == t->bubble_rank);
    pst_timing_close(again);
    pst_timing_close(t);
}

static pst_instr large(pst_opcode op, uint32_t peer, uint32_t channel) {
    pst_instr m = message(op, peer, 0, 15, 0, 0);
    m.channel = channel;
    m.wire_ns = m.bytes = 10;
    return m;
}

/* What leaves a rank takes turns; where it is known who shares a host, what leaves the host: at the
 * rate of all its NICs, where that is known, too. */
static void messages_take_turns(void **state) {
    (void)state;
    pst_instr a[] = {large(PST_OP_SEND, 2, 1), large(PST_OP_SEND, 2, 0), large(PST_OP_RECV, 2, 0)};
    pst_instr b[] = {large(PST_OP_SEND, 3, 0)};
    pst_instr c[] = {large(PST_OP_RECV, 0, 1), large(PST_OP_RECV, 0, 0), large(PST_OP_SEND, 0, 0)};
    pst_instr d[] = {large(PST_OP_RECV, 1, 0)};
    pst_instr_list lists[] = {{.n_instr = 3, .instr = a},
                              {.n_instr = 1, .instr = b},
                              {.n_instr = 3, .instr = c},
                              {.n_instr = 1, .instr = d}};
    uint32_t home[] = {0, 1, 2, 3}, host[] = {0, 0, 2, 2};
    pst_job job = {.n_rank = 4, .n_chunk = 4, .n_micro = 1, .rank_of_chunk = home, .list = lists};
    double nics[2][4] = {{2e9, 2e9, 2e9, 2e9}, {1e9, 1e9, 1e9, 1e9}};
    pst_timing *t;
    for (int layout = 0; layout < 4; layout++) {
        int shared = layout & 1; /* 2: two NICs for two ranks; 3: one */
        job.host = layout ? host : NULL;
        job.host_bytes_per_s = layout > 1 ? nics[layout - 2] : NULL;
        assert_int_equal(pst_simulate(&job, &t), PST_OK);
        assert_span(t, 0, 0, shared ? 20 : 10, shared ? 35 : 25); /* all were there at once: the
                                                                     lower channel goes first */
        assert_span(t, 0, 1, 0, 15);
        assert_span(t, 2, 2, 0, 15); /* the other way is free */
        assert_span(t, 3, 0, shared ? 10 : 0, shared ? 25 : 15);
        assert_int_equal(t->step_ns, shared ? 35 : 25);
        pst_timing_close(t);
    }
}

static void deadlocks_are_named(void **state) {
    (void)state;
    pst_instr a[] = {message(PST_OP_RECV, 1, 0, 1, 0, 0), pass(PST_OP_F, 1, 0, 1),
                     message(PST_OP_SEND, 1, 0, 1, 1, 1)};
    pst_instr b[] = {message(PST_OP_RECV, 0, 0, 1, 0, 0), pass(PST_OP_F, 1, 0, 1),
                     message(PST_OP_SEND, 0, 0, 1, 1, 1)};
    uint32_t dep[] = {0, 1}, home[] = {0, 1};
    pst_instr_list lists[] = {{3, 2, 0, 0, a, dep}, {3, 2, 0, 0, b, dep}};
    pst_job job = {.n_rank = 2, .n_chunk = 2, .n_micro = 1, .rank_of_chunk = home, .list = lists};
    pst_timing *t;
    assert_int_equal(pst_simulate(&job, &t), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "deadlock: "));
    assert_non_null(strstr(pst_error(), "rank 0 F c0 m0 waits for "));
    assert_non_null(strstr(pst_error(), "rank 1 SEND"));
    b[2].seq = 1;
    assert_int_equal(pst_simulate(&job, &t), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "has no matching SEND or RECV"));
    b[2].opcode = PST_OP_RECV;
    b[2].queue = PST_Q_RECV;
    b[2].seq = 0;
    assert_int_equal(pst_simulate(&job, &t), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "same channel and seq"));
}

static void transfers_and_flush_take_time(void **state) {
    (void)state;
    study s;
    pst_timing *t;
    pst_instr_cost cost = {.latency_ns = 7,
                           .bytes_per_s = 1e9,
                           .norm_ns = 11,
                           .gather_ns = 13,
                           .step_ns = 17,
                           .flush = 1};
    assert_int_equal(study_open(&s, "gpipe", 2, 1, (pst_pass_ns){100, 50, 50}, &cost), PST_OK);
    assert_int_equal(pst_simulate(s.job, &t), PST_OK);
    uint64_t message_ns = 7 + 1000; /* 1000 bytes at 1 GB/s */
    /* F, transfer, F, BW, transfer, BW on rank 0; then NORM, GATHER, the answer, STEP on rank 1. */
    uint64_t passes = 2 * 100 + 2 * 100 + 2 * message_ns;
    assert_true(t->step_ns > passes + 11 + 13 + 17);
    assert_true(t->flush_ns == t->step_ns - passes);
    pst_timing_close(t);
    study_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_forms),
        cmocka_unit_test(timing_rules),
        cmocka_unit_test(messages_take_turns),
        cmocka_unit_test(deadlocks_are_named),
        cmocka_unit_test(transfers_and_flush_take_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

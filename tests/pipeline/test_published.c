/* test: label=quick */
/* What is published of every schedule, F = B = W unless said otherwise: bubbles, bubble rates and
 * peak activations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "pipeline/check/check.h"
#include "pipeline/simulate/simulate.h"
#include <math.h>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PST_OK) fail_msg("%s", pst_error());                                         \
    } while (0)

/* Of the rank with the longest span; peak in chunks' micro-batches, times chunks per rank those of
 * a stage. */
typedef struct {
    uint64_t bubble, makespan, bound;
    uint32_t peak, last_peak;
    double rate;
} found;

static found study(const char *name, uint32_t p, uint32_t n_virtual, uint32_t m, pst_pass_ns ns) {
    pst_schedule *s;
    pst_cut *cut;
    pst_job *job;
    pst_slots *slots;
    pst_timing *t;
    pst_instr_cost cost = {0};
    MUST(pst_schedule_generate(name, p, n_virtual, m, &s));
    MUST(pst_schedule_check(s));
    MUST(pst_cut_synthetic(s->n_chunk, s->split, 1, ns, 64, &cut));
    MUST(pst_job_build(s, cut, &cost, &job, &slots));
    MUST(pst_job_check(job, cut, slots, PST_CHECK_TAGGED));
    MUST(pst_simulate(job, &t));
    uint32_t r = t->bubble_rank;
    found x = {.bubble = t->span_ns[r] - t->busy_ns[r], .makespan = t->step_ns, .rate = t->bubble};
    x.bound = pst_simulate_bound(job);
    for (uint32_t k = 0; k < p; k++)
        if (t->peak_stash[k] > x.peak) x.peak = t->peak_stash[k];
    x.last_peak = t->peak_stash[p - 1];
    if (x.bound > x.makespan)
        fail_msg("%s p=%u m=%u: %llu is below the bound", name, p, m,
                 (unsigned long long)x.makespan);
    pst_timing_close(t);
    pst_job_close(job);
    pst_slots_close(slots);
    pst_cut_close(cut);
    pst_schedule_close(s);
    return x;
}

static void expect(const char *name, uint32_t p, uint32_t m, found x, uint64_t bubble,
                   uint32_t peak) {
    if (x.bubble != bubble || x.peak != peak)
        fail_msg("%s p=%u m=%u: bubble %llu, not %llu; peak %u, not %u", name, p, m,
                 (unsigned long long)x.bubble, (unsigned long long)bubble, x.peak, peak);
}

/* Formulas that hold for any F, B and W. */
static void formulas(void **state) {
    (void)state;
    static const uint64_t times[][3] = {{10, 10, 10}, {20, 30, 40}, {7, 9, 2}};
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t p = 1; p <= 12; p++)
            for (uint32_t m = p; m <= 4 * p; m += p) {
                uint64_t f = times[k][0], b = times[k][1], w = times[k][2],
                         all = (p - 1) * (f + b + w);
                expect("gpipe", p, m, study("gpipe", p, 0, m, (pst_pass_ns){f, b, w}), all, m);
                found x = study("1f1b", p, 0, m, (pst_pass_ns){f, b, w});
                expect("1f1b", p, m, x, all, p);
                assert_int_equal(x.last_peak, 1);
                expect("1f1b-early", p, m, study("1f1b-early", p, 0, m, (pst_pass_ns){f, b, w}),
                       (p - 1) * (f + b), p);
                for (uint32_t v = 2; v <= 4 && p > 1; v++) /* chunks of 1/v of a stage:
                                                              (p-1)(F+B+W)/v, p + (p-1)/v */
                    expect("interleaved", p, m,
                           study("interleaved", p, v, m, (pst_pass_ns){f, b, w}), all,
                           m == p ? p * v : p * v + p - 1);
            }
}

static void zero_bubble(void **state) {
    (void)state;
    for (uint32_t p = 2; p <= 12; p++)
        for (uint32_t m = 2 * p; m <= 4 * p; m += p) {
            expect("zb-h1", p, m, study("zb-h1", p, 0, m, (pst_pass_ns){10, 10, 10}), (p - 1) * 10,
                   p);
            expect("zb-h2", p, m, study("zb-h2", p, 0, m, (pst_pass_ns){10, 10, 10}), 0, 2 * p - 1);
            expect("zb-v", p, m, study("zb-v", p, 0, m, (pst_pass_ns){10, 10, 10}), 0, 2 * p);
            /* (p'/2-1)(F&B + (B+W) - 3W) on p = p'/2 devices, where F&B = F + B; p'+1 chunks of
             * half a stage */
            expect("dualpipev", p, m, study("dualpipev", p, 0, m, (pst_pass_ns){10, 10, 10}),
                   (p - 1) * 10, 2 * p + 1);
        }
}

/* "About": the bubble within a tenth of what is said of it, the peak within one micro-batch of a
 * stage. */
static void controllable_memory(void **state) {
    (void)state;
    for (uint32_t p = 2; p <= 24; p++)
        for (uint32_t m = 4 * p; m <= 8 * p; m += 4 * p) {
            double whole = (p - 1) * 60.0;
            found half = study("v-half", p, 0, m, (pst_pass_ns){10, 10, 10}),
                  least = study("v-min", p, 0, m, (pst_pass_ns){10, 10, 10});
            if (fabs((double)half.bubble - whole / 2) > whole / 10 || half.peak > p + 2)
                fail_msg("v-half p=%u m=%u: bubble %g of 1f1b's, peak %u half stages", p, m,
                         (double)half.bubble / whole, half.peak);
            if ((double)least.bubble > whole * 2 / 3 + whole / 10 || least.peak > 2 * p / 3 + 2)
                fail_msg("v-min p=%u m=%u: bubble %g of 1f1b's, peak %u half stages", p, m,
                         (double)least.bubble / whole, least.peak);
        }
}

static void rates(void **state) {
    (void)state;
    assert_int_equal(lround(1000 * study("1f1b", 8, 0, 32, (pst_pass_ns){10, 10, 10}).rate),
                     179); /* 17.95 % */
    assert_int_equal(lround(1000 * study("interleaved", 8, 2, 32, (pst_pass_ns){10, 10, 10}).rate),
                     99);
    assert_int_equal(lround(1000 * study("interleaved", 8, 4, 32, (pst_pass_ns){10, 10, 10}).rate),
                     52);
    assert_int_equal(lround(1000 * study("zb-h1", 8, 0, 32, (pst_pass_ns){10, 10, 10}).rate), 68);
}

/* Few micro-batches, uneven last rounds, any times: all of them can be run. */
static void every_size_can_be_run(void **state) {
    (void)state;
    uint32_t rows;
    const pst_schedule_row *row = pst_schedule_rows(&rows);
    for (uint32_t k = 0; k + 1 < rows; k++)
        for (uint32_t p = 1; p <= 9; p++)
            for (uint32_t m = 1; m <= 2 * p + 3; m++)
                for (uint32_t v = row[k].n_virtual ? 0 : 1; v <= (row[k].n_virtual ? 0 : 4); v++)
                    study(row[k].name, p, v, m, (pst_pass_ns){3, 11, 5});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas),
        cmocka_unit_test(zero_bubble),
        cmocka_unit_test(controllable_memory),
        cmocka_unit_test(rates),
        cmocka_unit_test(every_size_can_be_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

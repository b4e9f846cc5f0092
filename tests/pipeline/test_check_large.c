/* test: label=full timeout=300
 * The checker passes jobs of 64 ranks and 512 micro-batches of every schedule. How long it takes is
 * printed, not asserted: docs/history/measurements-2026-11.md has it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/clock.h"
#include "pipeline/study.h"

enum { RANKS = 64, MICROS = 512 };

static void every_schedule_passes(void **state) {
    (void)state;
    uint32_t n;
    const pst_schedule_row *row = pst_schedule_rows(&n);
    for (uint32_t i = 0; i < n; i++) {
        const pst_instr_cost cost = {.latency_ns = 1000, .flush = 1};
        study s;
        if (study_open(&s, row[i].name, RANKS, MICROS, (pst_pass_ns){5000, 5000, 5000}, &cost) !=
            PST_OK)
            fail_msg("%s", pst_error());
        uint64_t start = pst_monotonic_ns();
        if (pst_job_check(s.job, s.cut, s.slots, PST_CHECK_TAGGED) != PST_OK)
            fail_msg("%s", pst_error());
        double seconds = (double)(pst_monotonic_ns() - start) * 1e-9;
        printf("%-12s %2u ranks, %u micro-batches: %.3f s\n", row[i].name, RANKS, MICROS, seconds);
        study_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_schedule_passes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

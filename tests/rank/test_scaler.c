/* The dynamic loss scale beside torch.amp.GradScaler: runs that PyTorch made
 * (tests/parity/scaler.py record) have the same scale after every step, finite or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "rank/scaler.h"
#include <stdio.h>

static void as_recorded(void **state) {
    (void)state;
    FILE *f = fopen(PST_SOURCE_DIR "/tests/parity/fixture/scaler.txt", "r");
    char line[100];
    pst_config c = {.train.precision = "fp16"};
    pst_scaler s = {0};
    int runs = 0, finite[2] = {0};
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        double start, backoff, scale;
        int interval, is_finite;
        if (sscanf(line, "run %lf %d %lf", &start, &interval, &backoff) == 3) {
            c.train.loss_scale_start = start;
            c.train.loss_scale_interval = interval;
            c.train.loss_scale_backoff = backoff;
            pst_scaler_open(&c, &s);
            runs++;
            continue;
        }
        assert_int_equal(sscanf(line, "%d %lf", &is_finite, &scale), 2);
        assert_in_range(is_finite, 0, 1);
        assert_int_equal(pst_scaler_step(&s, &c, is_finite), !is_finite);
        finite[is_finite]++;
        if (s.scale != scale)
            fail_msg("run %d, step %d: %g, GradScaler has %g", runs, finite[0] + finite[1], s.scale,
                     scale);
    }
    fclose(f);
    assert_int_equal(runs, 3);
    assert_int_equal(finite[0] + finite[1], 180);
    assert_true(finite[0] > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_recorded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

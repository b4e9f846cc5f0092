/* test: label=soak timeout=900 serial
 * GPT-2 124M: the program's resident memory on one and on two ranks is the predicted peak and at
 * most 32 MiB more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/runs.h"
#include "skip.h"

enum { RESIDENT_SLACK = 32 << 20 };

#define YAML                                                                                       \
    "name: run\nmodel: {kind: gpt, preset: gpt2, context: 256}\n"                                  \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/LICENSE\", \"" PST_SOURCE_DIR                 \
    "/src/base/*.c\"], validation: 0.02}\n"                                                        \
    "train: {steps: 2, batch: 4, micro_batch: 1, warmup: 0, validate_every: 1}\nparallel: "        \
    "{threads: 1}\n"                                                                               \
    "checkpoint: {every: 0}\n"

static void test_gpt2(void **state) {
    (void)state;
    for (int n = 1; n <= 2; n++) {
        char name[16], arguments[32];
        snprintf(name, sizeof name, "gpt2-%d", n);
        snprintf(arguments, sizeof arguments, "-n %d -q --canary", n);
        run_result r = run_program(PST_BINARY, YAML, name, arguments);
        assert_int_equal(r.exit_status, 0);
        assert_int_equal(r.n_rank, n);
        for (int k = 0; k < n; k++) {
            assert_int_equal(r.peak[k], r.predicted[k]);
            printf("%d ranks, rank %d: predicted %.1f MiB, resident %.1f MiB\n", n, k,
                   (double)r.predicted[k] / 1048576, (double)r.resident[k] / 1048576);
            assert_in_range(r.resident[k], 0, r.peak[k] + RESIDENT_SLACK);
        }
        run_folder_remove();
        assert_int_equal(mkdir(run_folder(), 0700), 0);
    }
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const char *sanitize = getenv("PST_SANITIZE");
    if (sanitize && *sanitize) return SKIPPED("the shadow memory of sanitizers is resident, too");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gpt2)};
    return cmocka_run_group_tests(tests, NULL, cleanup);
}

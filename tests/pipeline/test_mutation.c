/* test: label=quick */
/* The checker against exhaustive execution: random mutations of lists that are right, no wrong
 * verdict either way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "pipeline/mutation_rounds.h"

static void no_wrong_verdict(void **state) {
    (void)state;
    verdicts v = {0};
    uint32_t valid, broken;
    try_mutations(60, 12, &v);
    report_mutations(&v, &valid, &broken);
    assert_true(valid + broken >= 600 && 20 * valid > broken && broken > valid / 20);
}

static void no_wrong_verdict_on_rounds(void **state) {
    (void)state;
    verdicts v = {0};
    uint32_t valid, broken;
    try_rounds(26, 8, &v);
    report_mutations(&v, &valid, &broken);
    assert_true(valid + broken >= 150 && 20 * valid > broken && broken > valid / 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_wrong_verdict),
                                       cmocka_unit_test(no_wrong_verdict_on_rounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

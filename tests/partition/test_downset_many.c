/* test: label=full timeout=1200
 * 10,000 workloads against brute force. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "brute_force.h"

static void against_brute_force(void **unused) {
    (void)unused;
    brute_compare(test_seed(6100000), 10000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(against_brute_force)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

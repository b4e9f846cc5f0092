/* test: label=quick timeout=60 isa=any
 * Training on a device that wants gaps between rows of logits (far_gaps.h): losses, weights and
 * checkpoints have the bits of the CPU, which has no gaps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "far/far.h"
#include "skip.h"

static void odd_vocabularies(void **state) {
    (void)state;
    SAME_BITS("one", 1, "model.vocabulary=257", "parallel.post_validation=true");
    SAME_BITS("one-fp16", 1, "model.vocabulary=259", "train.precision=fp16");
    SAME_BITS("two", 2, "model.vocabulary=257", "parallel.schedule=zb-h1");
    SAME_BITS("replicas", 2, "model.vocabulary=301", "parallel.data=2", "parallel.zero=2");
    SAME_BITS("tensor", 2, "model.vocabulary=257", "parallel.tensor=2");
    SAME_BITS("again", 1, "model.vocabulary=257", "parallel.recompute=full");
    if (has_bf16("an odd vocabulary in bf16"))
        SAME_BITS("one-bf16", 1, "model.vocabulary=257", "train.precision=bf16");
}

/* Where the loss stops being finite is found among rows with gaps of NaN, and said as without. */
static void places_are_without_gaps(void **state) {
    (void)state;
    static const char *const device[] = {"cpu", "far"};
    for (int i = 0; i < 2; i++) {
        char name[32], words[200];
        snprintf(name, sizeof name, "blown-%s", device[i]);
        snprintf(words, sizeof words,
                 "parallel.device=%s model.vocabulary=257 train.lr=1e38 train.warmup=0 "
                 "train.clip=0",
                 device[i]);
        assert_int_equal(run_program(PST_BINARY, YAML, name, words).exit_status, 2);
    }
    char compare[1600];
    snprintf(compare, sizeof compare,
             "cd '%s' && for d in cpu far; do grep -o 'the first is .*' blown-$d.log >$d.said || "
             "exit 1; done; cmp cpu.said far.said",
             run_folder());
    assert_int_equal(system(compare), 0);
}

int main(void) {
    setenv("PENSTOCK_MODULE", FAR_MODULE, 1);
    setenv("FAR_GAPS", "1", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(odd_vocabularies),
                                       cmocka_unit_test(places_are_without_gaps)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    run_folder_remove();
    return failed;
}

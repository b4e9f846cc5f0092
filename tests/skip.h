/* What a test says when it, or a part of it, cannot run here: a line that ./dev test lists at its
 * end. */
#ifndef TESTS_SKIP_H
#define TESTS_SKIP_H
#include "kernels/kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEST_SKIPPED = 77 };

/* `return SKIPPED("no mpirun here");` ends main; as a statement it names a part: SKIPPED("what:
 * why") */
#define SKIPPED(...)                                                                               \
    (printf("skipped: " __VA_ARGS__), putchar('\n'), fflush(stdout), (int)TEST_SKIPPED)

/* Whether this CPU computes in bf16; says that `what` is skipped if not. */
static inline int has_bf16(const char *what) {
    const char *who = pst_cpu_no_bf16();
    if (who) (void)SKIPPED("%s: needs AVX512-BF16, which %s", what, who);
    return !who;
}

/* Lowers PENSTOCK_ISA, if that is lower than what is set outside, until isa_restore. */
static char isa_outside[32];
static inline void isa_lower(const char *level) {
    const char *outside = getenv("PENSTOCK_ISA");
    uint32_t now = pst_cpu_isa();
    snprintf(isa_outside, sizeof isa_outside, "%s", outside ? outside : "");
    if (pst_isa_lower(now, level) != now) setenv("PENSTOCK_ISA", level, 1);
}
static inline void isa_restore(void) {
    if (*isa_outside) setenv("PENSTOCK_ISA", isa_outside, 1);
    else unsetenv("PENSTOCK_ISA");
}
#endif

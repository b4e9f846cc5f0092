/* The two clocks. */
#include "base/clock.h"
#include <stddef.h>
#include <time.h>

uint64_t pst_monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t pst_thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t pst_clock_now(const pst_clock *clock) {
    return clock && clock->is_virtual ? clock->virtual_ns : pst_monotonic_ns();
}

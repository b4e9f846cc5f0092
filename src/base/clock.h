/* Time in integer nanoseconds: the monotonic clock, or a virtual clock that a simulation sets. */
#ifndef PST_BASE_CLOCK_H
#define PST_BASE_CLOCK_H
#include <stdint.h>

typedef struct {
    int is_virtual;
    uint64_t virtual_ns; /* the time if is_virtual; written only by the owner of the clock */
} pst_clock;

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t pst_monotonic_ns(void);
/* Processor time of this thread in ns. */
uint64_t pst_thread_ns(void);
/* Nanoseconds of `clock`; NULL: the monotonic clock. */
uint64_t pst_clock_now(const pst_clock *clock);
#define PST_NEVER UINT64_MAX
#endif

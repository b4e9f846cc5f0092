/* Durations of messages between two hosts by size: measured before the first step (group/link.h),
 * or read from an earlier run (measured.h). */
#ifndef PST_PREPARE_LINK_TIMES_H
#define PST_PREPARE_LINK_TIMES_H
#include "pipeline/compile/job.h"

/* One direction between two hosts: durations of messages in order of size; interpolated and
 * extrapolated linearly. */
enum { PST_LINK_SIZES = 8 };
typedef struct {
    uint32_t n;          /* 0: not measured */
    uint64_t latency_ns; /* duration of a message of a few bytes */
    uint64_t bytes[PST_LINK_SIZES], ns[PST_LINK_SIZES];
} pst_link_times;
/* Sets the durations of an instruction that sends or receives a message, by its size. */
void pst_link_times_set(const pst_link_times *link, pst_instr *message);
#endif

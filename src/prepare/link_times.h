/* How long messages between two hosts take, by their sizes: measured before the first step
 * (group/link.h), or read from an earlier run (measured.h). */
#ifndef PST_PREPARE_LINK_TIMES_H
#define PST_PREPARE_LINK_TIMES_H
#include "pipeline/compile/job.h"

/* One direction between two hosts: times of messages, sizes ascending; between them and beyond, a
 * line through two. */
enum { PST_LINK_SIZES = 8 };
typedef struct {
    uint32_t n;          /* 0: not measured */
    uint64_t latency_ns; /* of a message of hardly any bytes */
    uint64_t bytes[PST_LINK_SIZES], ns[PST_LINK_SIZES];
} pst_link_times;
/* Sets the durations of a message. */
void pst_link_times_set(const pst_link_times *link, pst_instr *message);
#endif

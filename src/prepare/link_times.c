/* See link_times.h. */
#include "prepare/link_times.h"

static uint64_t duration(const pst_link_times *l, uint64_t bytes) {
    uint32_t i = 1;
    if (!l->n) return 0;
    while (i + 1 < l->n && l->bytes[i] < bytes) i++;
    if (l->n == 1 || (bytes <= l->bytes[0])) return l->ns[0];
    double slope =
        ((double)l->ns[i] - (double)l->ns[i - 1]) / (double)(l->bytes[i] - l->bytes[i - 1]);
    double ns =
        (double)l->ns[i - 1] + (slope > 0 ? slope : 0) * ((double)bytes - (double)l->bytes[i - 1]);
    return ns > 0 ? (uint64_t)ns : 0;
}

void pst_link_times_set(const pst_link_times *l, pst_instr *message) {
    message->ns = duration(l, message->bytes);
    message->wire_ns = message->ns > l->latency_ns ? message->ns - l->latency_ns : 0;
}

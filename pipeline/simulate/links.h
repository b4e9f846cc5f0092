/* Links that messages share: the messages that a rank sends take turns, and so do those that it
 * receives. Between hosts, so do those of all ranks of a host: without other figures at a rank's
 * rate; else each rank's own NIC has its rate, and then all NICs of the host together, so that
 * ranks with NICs of their own do not slow each other down. Used by the simulator and the timed
 * transport, which have to agree to the nanosecond. */
#ifndef PST_PIPELINE_SIMULATE_LINKS_H
#define PST_PIPELINE_SIMULATE_LINKS_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

/* A message whose two ends were both issued at at_ns. It takes ns, of which wire_ns are for its
 * bytes: these follow the bytes of earlier messages of the sender, and of the receiver. */
typedef struct {
    uint32_t from, to, channel, seq;
    uint64_t at_ns, ns, wire_ns, bytes;
    uint64_t end_ns; /* out */
    uint64_t id;     /* set by the caller, not read here */
} pst_link_message;

typedef struct {
    uint32_t n_rank, n_waiting;
    size_t room;
    const uint32_t *host;           /* [n_rank] borrowed, as in pst_job */
    const double *host_bytes_per_s; /* [n_rank] borrowed, as in pst_job */
    /* [3 x n_rank] when the last byte so far was sent, or received: within a host, and between
     * hosts by rank, and by host */
    uint64_t *out_ns, *in_ns;
    pst_link_message *waiting; /* added, but without an end */
} pst_links;

/* These functions fail with ENOMEM only. */
pst_status pst_links_open(uint32_t n_rank, const uint32_t *host, const double *host_bytes_per_s,
                          pst_links *links);
void pst_links_close(pst_links *links);
/* at_ns: not before that of the previous message. */
pst_status pst_links_add(pst_links *links, const pst_link_message *message);
/* To be called when no further message can have the same at_ns: then they are ordered by (channel,
 * seq, from, to), independently of the order of calls. Sets end_ns of waiting[0..n), which stay
 * until the next add, and returns n. */
uint32_t pst_links_settle(pst_links *links);
#endif

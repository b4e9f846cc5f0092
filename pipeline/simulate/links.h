/* Links that messages share. The messages that a rank sends follow each other, and so do the
 * messages that it receives. Between hosts, all messages that the ranks of a host send, or receive,
 * also share the host's link: it has the bandwidth of one rank's link, or, if host_bytes_per_s is
 * given, of all NICs of the host together, so that ranks with separate NICs do not slow each other
 * down. The simulator and the timed transport use these functions, because their results must be
 * equal. */
#ifndef PST_PIPELINE_SIMULATE_LINKS_H
#define PST_PIPELINE_SIMULATE_LINKS_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

/* A message with both SEND and RECV issued at time at_ns. It takes `ns`, of which wire_ns are for
 * the bytes; the bytes follow those of earlier messages of the sender and of the receiver. */
typedef struct {
    uint32_t from, to, channel, seq;
    uint64_t at_ns, ns, wire_ns, bytes;
    uint64_t end_ns; /* result: end of the message */
    uint64_t id;     /* for the caller; not used here */
} pst_link_message;

typedef struct {
    uint32_t n_rank, n_waiting;
    size_t room;
    const uint32_t *host;           /* [n_rank] borrowed, as in pst_job */
    const double *host_bytes_per_s; /* [n_rank] borrowed, as in pst_job */
    /* [3 x n_rank] time at which the last byte so far was sent, or received: within a host, between
     * hosts per rank, and between hosts per host */
    uint64_t *out_ns, *in_ns;
    pst_link_message *waiting; /* [n_waiting] messages that were added and have no end_ns yet */
} pst_links;

/* These functions fail with ENOMEM only. */
pst_status pst_links_open(uint32_t n_rank, const uint32_t *host, const double *host_bytes_per_s,
                          pst_links *links);
void pst_links_close(pst_links *links);
/* Adds a message. at_ns must not be less than that of the previous message. */
pst_status pst_links_add(pst_links *links, const pst_link_message *message);
/* Computes end_ns of all waiting messages, in the order of (channel, seq, from, to), independently
 * of the order of calls, and returns their number n. waiting[0..n) stays valid until the next add.
 * Call it when no further message can have the same at_ns. */
uint32_t pst_links_settle(pst_links *links);
#endif

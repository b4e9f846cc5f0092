/* Links that messages share: what a rank sends takes turns, and what comes to it; between hosts,
 * what all ranks of a host do: at a rank's rate where nothing else is said, else behind each rank's
 * own NIC at the rate of all NICs of the host together, so that as many ranks as there are NICs do
 * not stand in each other's way. For the simulator and the timed transport, which have to agree to
 * the nanosecond. */
#ifndef PST_PIPELINE_SIMULATE_LINKS_H
#define PST_PIPELINE_SIMULATE_LINKS_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

/* A message both of whose ends were there at at_ns. It takes ns, of which wire_ns are its bytes':
 * these stand behind those that leave the one end before, and behind those that come to the
 * other. */
typedef struct {
    uint32_t from, to, channel, seq;
    uint64_t at_ns, ns, wire_ns, bytes;
    uint64_t end_ns; /* out */
    uint64_t id;     /* the caller's */
} pst_link_message;

typedef struct {
    uint32_t n_rank, n_waiting;
    size_t room;
    const uint32_t *host;           /* [n_rank] borrowed, as in pst_job */
    const double *host_bytes_per_s; /* [n_rank] borrowed, as in pst_job */
    uint64_t *out_ns, *in_ns;  /* [3 x n_rank] when the last byte so far has left, or come: within a
                                  host, and between  hosts by rank, and by host */
    pst_link_message *waiting; /* added, not settled */
} pst_links;

/* Every function here: ENOMEM or nothing. */
pst_status pst_links_open(uint32_t n_rank, const uint32_t *host, const double *host_bytes_per_s,
                          pst_links *links);
void pst_links_close(pst_links *links);
/* at_ns: not below that of the message before. */
pst_status pst_links_add(pst_links *links, const pst_link_message *message);
/* When no further one can come with the same at_ns: their order is that of (channel, seq, from,
 * to), whoever came first. Sets end_ns of waiting[0..n), which stay until the next add, and returns
 * n. */
uint32_t pst_links_settle(pst_links *links);
#endif

/* Collectives over any transport, among a group of its ranks, as non-blocking state machines. Every
 * rank of the group starts the same collectives in the same order, and calls pst_coll_test until
 * each is done. The algorithm depends on kind, size, group and hosts only
 * (comm/collective/choose.c), so all ranks choose the same one. Each algorithm adds in an order
 * that depends on the size, the group and the index of the element, never on the order of arrival:
 * all ranks get the same bits in every run. */
#ifndef PST_COMM_COLLECTIVE_COLLECTIVE_H
#define PST_COMM_COLLECTIVE_COLLECTIVE_H
#include "base/dtype.h"
#include "base/position.h"
#include "base/transport.h"

typedef enum {
    PST_COLL_BARRIER,
    PST_COLL_BROADCAST,
    PST_COLL_ALL_GATHER,
    PST_COLL_ALL_REDUCE,
    PST_COLL_REDUCE_SCATTER,
    PST_COLL_ALL_TO_ALL,
    PST_COLL_KINDS
} pst_coll_kind;

/* The collectives of one rank in one group. Allocates all memory when it is opened. One thread at a
 * time. */
typedef struct pst_coll pst_coll;
/* members: [n] transport ranks of the group, including this one, in the same order on all ranks
 * (copied); NULL: all ranks. channel: at least PST_CHANNEL_COLLECTIVE; groups that have a rank in
 * common need different channels. t is borrowed. ENOMEM. */
pst_status pst_coll_open(pst_transport *t, const uint32_t *members, uint32_t n, uint32_t channel,
                         pst_coll **coll);
void pst_coll_close(pst_coll *coll);
/* host[rank]: number of the host of each transport rank, equal on all ranks. Without this call all
 * ranks are assumed to be on one host. To be called before the first collective. */
pst_status pst_coll_hosts(pst_coll *c, const uint32_t *host);
/* Sets up shared memory, which makes all-reduces faster, if the members are on one host and can map
 * it. This is a collective: all members call it and then pst_coll_test. To be called after
 * pst_coll_hosts and before any other collective. */
pst_status pst_coll_share(pst_coll *c);
/* pst_coll_watch: from now on collectives publish their state to *position, which is borrowed and
 * not shared with other writers. pst_coll_place: the source line that calls the next collectives,
 * for messages about hangs; the strings are borrowed. */
void pst_coll_watch(pst_coll *coll, pst_position *position);
void pst_coll_place(pst_coll *coll, const char *file, const char *function, uint32_t line);

/* Starts a collective, in place; one at a time per pst_coll. `root` is an index in the group.
 * BROADCAST: `bytes` at mem, from root. ALL_REDUCE: sums of F32 or F64 (dtype), `bytes` in total.
 * The others use n*bytes at mem, part r at mem + r*bytes. ALL_GATHER: every member gets all parts.
 * REDUCE_SCATTER: this member's own part becomes the sum, the other parts are undefined.
 * ALL_TO_ALL: part r is sent to member r and replaced by the part that r has for this member. */
pst_status pst_coll_start(pst_coll *c, pst_coll_kind kind, void *mem, uint64_t bytes,
                          pst_dtype dtype, uint32_t root);
/* ALL_GATHER and REDUCE_SCATTER with parts of different sizes: part_bytes[n], which may be 0; the
 * parts follow one another at mem. */
pst_status pst_coll_start_parts(pst_coll *c, pst_coll_kind kind, void *mem,
                                const uint64_t *part_bytes, pst_dtype dtype);
/* OK: done. BUSY: call again after the transport has made progress. After a failure every later
 * call fails too. */
pst_status pst_coll_test(pst_coll *c);
/* Ends the collective under way, because a peer is lost; every later call fails with `status`. */
void pst_coll_break(pst_coll *c, pst_status status);
/* The message (base/position.h) for which sender and receiver gave different sizes; 0: none. */
uint64_t pst_coll_mismatch(const pst_coll *c);
const char *pst_coll_name(pst_coll_kind kind);

/* Fills candidate[] with the predicted durations of all algorithms for a collective of `bytes`
 * bytes in total; the chosen one comes first. Returns their number. */
typedef struct {
    const char *name;
    double us;          /* predicted; meaningless when rejected */
    const char *reject; /* why the algorithm is not usable; NULL: it is */
} pst_coll_candidate;
enum { PST_COLL_CANDIDATES = 8 };
uint32_t pst_coll_candidates(const pst_coll *c, pst_coll_kind kind, uint64_t bytes,
                             pst_coll_candidate candidate[PST_COLL_CANDIDATES]);
/* From now on uses this algorithm for all collectives that it supports; NULL: the cost model
 * chooses. To be called with the same name on all ranks. EINPUT: no such algorithm. */
pst_status pst_coll_force(pst_coll *c, const char *algorithm);
#endif

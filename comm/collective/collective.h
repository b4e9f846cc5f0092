/* Collectives over any transport, among a group of its ranks, as non-blocking state machines. Every
 * rank of the group starts the same ones in the same order and drives them with test. How one goes
 * is a row of a table (comm/collective/choose.c), chosen by kind, size, group and hosts, so alike
 * on all ranks; in each, sums are added in an order that depends on the size, the group and the
 * place of the element only, never on what arrived first: all ranks get the same bits, every
 * time. */
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

/* per rank and group: its sequence number and all the memory it ever needs */
typedef struct pst_coll pst_coll;
/* members: the group's n ranks of the transport, this one among them, the same list on all
 * (copied); NULL: all ranks. Groups with a rank in common need channels of their own, from
 * PST_CHANNEL_COLLECTIVE on. */
pst_status pst_coll_open(pst_transport *t, const uint32_t *members, uint32_t n, uint32_t channel,
                         pst_coll **coll);
void pst_coll_close(pst_coll *coll);
/* host[rank] of every rank of the transport, as numbers; all are on one host otherwise. Before the
 * first start, the same on all ranks. */
pst_status pst_coll_hosts(pst_coll *c, const uint32_t *host);
/* Gives the group memory that its members share, where they are on one host and it can be had:
 * all-reduces are faster then. Itself a collective: started by all, driven with test. Before the
 * first other one, after hosts. */
pst_status pst_coll_share(pst_coll *c);
/* Where collectives say what they do and wait for; borrowed, and one coll's alone. place: of the
 * call that starts the next ones, in the sources; its texts are borrowed, too. */
void pst_coll_watch(pst_coll *coll, pst_position *position);
void pst_coll_place(pst_coll *coll, const char *file, const char *function, uint32_t line);

/* In place, one at a time per coll; `rank` is the index in the group, as is root. BROADCAST:
 * `bytes` at mem from root. ALL_REDUCE: sum of F32 or F64 (dtype), bytes in total. Of size*bytes at
 * mem, part r at mem + r*bytes: ALL_GATHER: each rank's part becomes everybody's. REDUCE_SCATTER:
 * part `rank` becomes its sum, the others are undefined. ALL_TO_ALL: part r goes to rank r and is
 * replaced by what r has for this one. */
pst_status pst_coll_start(pst_coll *c, pst_coll_kind kind, void *mem, uint64_t bytes,
                          pst_dtype dtype, uint32_t root);
/* ALL_GATHER and REDUCE_SCATTER with parts of different sizes, [size] bytes, 0 among them, one
 * after another at mem. */
pst_status pst_coll_start_parts(pst_coll *c, pst_coll_kind kind, void *mem,
                                const uint64_t *part_bytes, pst_dtype dtype);
/* OK: done. BUSY: ask again, once the transport has moved. A failure stays: every later call says
 * it again. */
pst_status pst_coll_test(pst_coll *c);
/* Gives up what is under way because a peer is lost; every later call fails with `status`. */
void pst_coll_break(pst_coll *c, pst_status status);
/* The message (base/position.h) whose two ends disagreed about its size, 0: there was none. */
uint64_t pst_coll_mismatch(const pst_coll *c);
const char *pst_coll_name(pst_coll_kind kind);

/* What the cost model says of each algorithm for `bytes` in total, the first being the one
 * taken. */
typedef struct {
    const char *name;
    double us;          /* predicted; of no meaning when rejected */
    const char *reject; /* NULL: it can */
} pst_coll_candidate;
enum { PST_COLL_CANDIDATES = 8 };
uint32_t pst_coll_candidates(const pst_coll *c, pst_coll_kind kind, uint64_t bytes,
                             pst_coll_candidate candidate[PST_COLL_CANDIDATES]);
/* From now on this algorithm where it can; NULL: the cost model's again. The same on all ranks.
 * EINPUT: no such one. */
pst_status pst_coll_force(pst_coll *c, const char *algorithm);
#endif

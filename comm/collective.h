/* Collectives over any transport, as non-blocking state machines on a fixed binomial tree rooted at rank 0: the order of
 * additions depends on the number of ranks only. Start on every rank in the same order; drive with test. */
#ifndef PST_COMM_COLLECTIVE_H
#define PST_COMM_COLLECTIVE_H
#include "base/dtype.h"
#include "base/position.h"
#include "base/transport.h"

typedef enum { PST_COLL_BARRIER, PST_COLL_BROADCAST, PST_COLL_ALL_GATHER, PST_COLL_ALL_REDUCE } pst_coll_kind;
typedef struct pst_coll pst_coll;          /* per rank: its sequence number and scratch */
pst_status pst_coll_open(pst_transport *t, pst_coll **coll);
void pst_coll_close(pst_coll *coll);
/* Where collectives say what they do and wait for; borrowed. place: of the call that starts the next ones, in the
 * sources; its texts are borrowed, too. */
void pst_coll_watch(pst_coll *coll, pst_position *position);
void pst_coll_place(pst_coll *coll, const char *file, const char *function, uint32_t line);
/* BROADCAST: `bytes` at mem from root. ALL_GATHER: each rank's `bytes` at mem + rank*bytes become everybody's
 * size*bytes. ALL_REDUCE: sum of F32 or F64 (dtype), bytes in total. One at a time per coll. */
pst_status pst_coll_start(pst_coll *c, pst_coll_kind kind, void *mem, uint64_t bytes, pst_dtype dtype, uint32_t root);
/* OK: done. BUSY: ask again. A failure stays: every later call says it again. */
pst_status pst_coll_test(pst_coll *c);
/* Gives up what is under way because a peer is lost; every later call fails with `status`. */
void pst_coll_break(pst_coll *c, pst_status status);
/* The message (base/position.h) whose two ends disagreed about its size, 0: there was none. */
uint64_t pst_coll_mismatch(const pst_coll *c);
const char *pst_coll_name(pst_coll_kind kind);
#endif

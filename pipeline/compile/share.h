/* Shares: which replica answers for which part of each parameter. It adds up the replicas'
 * gradients there, counts it in the norm and, with a sharded optimizer, is the only one that
 * updates it. Parts are contiguous, begin at multiples of PST_PIECE elements, and are as even as
 * pieces allow among the replicas of the stage that has the parameter's first use.
 *
 * With gradients shared out, too (zero 2), a parameter's gradient leaves after every micro-batch,
 * and whoever answers for a part has an accumulator of that part alone. Some have whole
 * accumulators all the same: parameters of several uses, those that tensor ranks add up at the end,
 * and those whose gradient is written by the operator that also writes one of these. */
#ifndef PST_PIPELINE_COMPILE_SHARE_H
#define PST_PIPELINE_COMPILE_SHARE_H
#include "pipeline/compile/cut.h"
#include "pipeline/layout/grid.h"

/* Elements. Norms are sums over pieces, in order, in every layout; what replicas exchange at once
 * is a piece, or several of an owner's that lie together (pst_share.message). */
enum { PST_PIECE = 256 << 10 };

typedef struct {
    uint32_t n_param, n_replica;
    uint64_t message; /* elements of a message at most, a multiple of PST_PIECE: that, at first */
    uint64_t *bound; /* [n_param][n_replica + 1] elements: replica k has [bound[k], bound[k + 1]) */
    uint8_t *whole;  /* [n_param] 1: whole accumulators with zero 2, too */
    uint32_t *pieces; /* [n_stage][n_replica] of parameters whose first use lies on the stage */
} pst_share;

/* stage_of_chunk: [cut->n_chunk]. A cut without a graph has no parameters. ENOMEM; EINPUT when a
 * parameter is too large for several replicas. */
pst_status pst_share_build(const pst_cut *cut, const uint32_t *stage_of_chunk, uint32_t n_stage,
                           uint32_t n_replica, pst_share **share);
void pst_share_close(pst_share *share);

static inline uint64_t pst_share_from(const pst_share *s, uint32_t param, uint32_t replica) {
    return s->bound[(size_t)param * (s->n_replica + 1) + replica];
}
static inline uint64_t pst_share_to(const pst_share *s, uint32_t param, uint32_t replica) {
    return s->bound[(size_t)param * (s->n_replica + 1) + replica + 1];
}
/* Elements [from, from + n) of a parameter that travel together, and the replica that answers for
 * them. */
typedef struct {
    uint32_t param, owner;
    uint64_t from, n;
} pst_piece;
/* The piece behind *at, of the same parameter; the first one where only `param` is set. 0: there is
 * none. */
static inline int pst_share_next(const pst_share *s, pst_piece *at) {
    at->from += at->n;
    while (at->owner < s->n_replica && at->from >= pst_share_to(s, at->param, at->owner))
        at->owner++;
    if (at->owner == s->n_replica) return 0;
    uint64_t left = pst_share_to(s, at->param, at->owner) - at->from;
    at->n = left < s->message ? left : s->message;
    return 1;
}
/* The one of at->param that begins at at->from; 0: none does. */
int pst_share_find(const pst_share *s, pst_piece *at);
/* Messages of n elements of an owner. */
static inline uint32_t pst_share_messages(const pst_share *s, uint64_t n) {
    return (uint32_t)((n + s->message - 1) / s->message);
}
/* Of n elements; 0 has none. */
static inline uint32_t pst_pieces(uint64_t n) {
    return (uint32_t)((n + PST_PIECE - 1) / PST_PIECE);
}
/* Messages of a parameter, as replicas share it. */
uint32_t pst_share_count(const pst_share *s, uint32_t param);
/* Pieces of all parameters of a replica whose first use lies on `stage`. */
static inline uint32_t pst_share_pieces(const pst_share *s, uint32_t stage, uint32_t replica) {
    return s->pieces[(size_t)stage * s->n_replica + replica];
}

/* Replica sums are added as a binary tree over replica indices: [lo, hi) is [lo, split) + [split,
 * hi). */
static inline uint32_t pst_share_split(uint32_t lo, uint32_t hi) {
    uint32_t half = 1;
    while (2 * half < hi - lo) half *= 2;
    return lo + half;
}
#endif

/* Shares: which replica owns which part of each parameter. The owner reduces the replicas'
 * gradients there, counts them in the norm and, with a sharded optimizer, is the only one that
 * updates the part. Parts are contiguous, begin at multiples of PST_PIECE elements, and are divided
 * as evenly as possible among the replicas of the stage with the parameter's first use.
 *
 * With sharded gradients (zero 2), gradients are sent after every micro-batch, and an owner has an
 * accumulator of its own part only. Unsharded accumulators remain for parameters with several uses,
 * for those that tensor ranks reduce at the end, and for those whose gradient is written by the
 * same operator as one of these. */
#ifndef PST_PIPELINE_COMPILE_SHARE_H
#define PST_PIPELINE_COMPILE_SHARE_H
#include "pipeline/compile/cut.h"
#include "pipeline/layout/grid.h"

/* In elements. Norms are sums over pieces, in order, in every layout. A message between replicas
 * has one piece, or several adjacent ones of an owner (pst_share.message). */
enum { PST_PIECE = 256 << 10 };

typedef struct {
    uint32_t n_param, n_replica;
    /* largest message in elements, a multiple of PST_PIECE; initially one piece */
    uint64_t message;
    /* [n_param][n_replica + 1] in elements: replica k owns [bound[k], bound[k + 1]) */
    uint64_t *bound;
    uint8_t *whole;   /* [n_param] 1: unsharded accumulators even with zero 2 */
    uint32_t *pieces; /* [n_stage][n_replica] of parameters whose first use is on the stage */
} pst_share;

/* stage_of_chunk: [cut->n_chunk]. A cut without a graph has no parameters. ENOMEM; EINPUT: a
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
/* Elements [from, from + n) of a parameter that are sent together, and the replica that owns them.
 */
typedef struct {
    uint32_t param, owner;
    uint64_t from, n;
} pst_piece;
/* Moves to the next piece of the parameter; to the first one if only `param` is set. 0: there is
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
/* Completes *at for the piece of at->param that begins at at->from; 0: none does. */
int pst_share_find(const pst_share *s, pst_piece *at);
/* Number of messages for n elements of an owner. */
static inline uint32_t pst_share_messages(const pst_share *s, uint64_t n) {
    return (uint32_t)((n + s->message - 1) / s->message);
}
/* Number of pieces of n elements. */
static inline uint32_t pst_pieces(uint64_t n) {
    return (uint32_t)((n + PST_PIECE - 1) / PST_PIECE);
}
/* Number of messages of a parameter, over its owners. */
uint32_t pst_share_count(const pst_share *s, uint32_t param);
/* Number of pieces that a replica owns, of all parameters whose first use is on `stage`. */
static inline uint32_t pst_share_pieces(const pst_share *s, uint32_t stage, uint32_t replica) {
    return s->pieces[(size_t)stage * s->n_replica + replica];
}

/* Replica sums are a binary tree over replica indices: [lo, hi) is [lo, split) + [split, hi). */
static inline uint32_t pst_share_split(uint32_t lo, uint32_t hi) {
    uint32_t half = 1;
    while (2 * half < hi - lo) half *= 2;
    return lo + half;
}
#endif

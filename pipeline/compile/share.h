/* Shards: which replica or server owns which part of each parameter. The owner reduces the
 * gradients of all replicas for this part and counts them in the norm; with a sharded optimizer,
 * only the owner updates the part. Parts are contiguous, begin at multiples of PST_PIECE elements,
 * and are distributed in proportion to the owners' weights among the owners (pst_grid) of the stage
 * with the parameter's first use; a parameter that is updated as a whole (pst_param.whole) has one
 * owner.
 *
 * With sharded gradients (zero 2), gradients are sent after every micro-batch, and an owner has an
 * accumulator for the owned part only. Parameters keep unsharded accumulators if they have several
 * uses, if tensor ranks reduce their gradients at the end of the step, or if one operator writes
 * their gradient together with that of such a parameter. */
#ifndef PST_PIPELINE_COMPILE_SHARE_H
#define PST_PIPELINE_COMPILE_SHARE_H
#include "pipeline/compile/cut.h"
#include "pipeline/layout/grid.h"

/* Number of elements of a piece. In every layout the norm is the sum over pieces in the same order.
 * A message between replicas has one piece, or several adjacent pieces of one owner
 * (pst_share.message). */
enum { PST_PIECE = 256 << 10 };

typedef struct {
    uint32_t n_param, n_owner; /* replicas first, then servers */
    /* maximum elements per message, PST_PIECE times or divided by a whole number; initially one
     * piece */
    uint64_t message;
    /* [n_param][n_owner + 1] owner k has elements [bound[k], bound[k + 1]) of a parameter */
    uint64_t *bound;
    uint8_t *whole; /* [n_param] 1: the parameter keeps unsharded accumulators with zero 2 */
    /* [n_stage][n_owner] number of owned pieces of the parameters with their first use on the
     * stage */
    uint32_t *pieces;
} pst_share;

/* The owners of each stage. weight: [n_stage][n_owner] what an owner gets, in proportion to the sum
 * over the stage's owners, which is above 0; NULL: all get the same. */
typedef struct {
    uint32_t n_stage, n_owner;
    const uint32_t *weight;
} pst_share_owners;
/* Distributes the parameters among the owners. stage_of_chunk: [cut->n_chunk]. A synthetic cut has
 * no parameters. The caller frees *share with pst_share_close. EINPUT: a parameter has more than
 * 2^32 elements and there are several owners; ENOMEM. */
pst_status pst_share_build(const pst_cut *cut, const uint32_t *stage_of_chunk,
                           const pst_share_owners *owners, pst_share **share);
/* Divides every part of `of` again, among equal owners, into.n_owner = n: owner k of part m is
 * number m x n + k of *share. stage_of_chunk, EINPUT and ENOMEM as above. */
pst_status pst_share_divide(const pst_share *of, const pst_cut *cut, const uint32_t *stage_of_chunk,
                            pst_share_owners into, pst_share **share);
void pst_share_close(pst_share *share);

/* Return the first element, and the end, of an owner's part of a parameter. */
static inline uint64_t pst_share_from(const pst_share *s, uint32_t param, uint32_t owner) {
    return s->bound[(size_t)param * (s->n_owner + 1) + owner];
}
static inline uint64_t pst_share_to(const pst_share *s, uint32_t param, uint32_t owner) {
    return s->bound[(size_t)param * (s->n_owner + 1) + owner + 1];
}
/* A message between owners: elements [from, from + n) of a parameter, and who owns them. */
typedef struct {
    uint32_t param, owner;
    uint64_t from, n;
} pst_piece;
/* Sets *at to the next message of the parameter, or to the first one if only at->param is set.
 * Returns 0 if there is none. */
static inline int pst_share_next(const pst_share *s, pst_piece *at) {
    at->from += at->n;
    while (at->owner < s->n_owner && at->from >= pst_share_to(s, at->param, at->owner)) at->owner++;
    if (at->owner == s->n_owner) return 0;
    uint64_t left = pst_share_to(s, at->param, at->owner) - at->from;
    at->n = left < s->message ? left : s->message;
    return 1;
}
/* Sets owner and n of *at for the message of at->param that begins with element at->from. Returns 0
 * if no message begins there. */
int pst_share_find(const pst_share *s, pst_piece *at);
/* Returns the number of messages for n elements of one owner. */
static inline uint32_t pst_share_messages(const pst_share *s, uint64_t n) {
    return (uint32_t)((n + s->message - 1) / s->message);
}
/* Returns a number of elements at whose multiples all messages of a parameter begin, and how many
 * such parts a parameter of n elements has: to find messages by their first element. */
static inline uint64_t pst_share_grain(const pst_share *s) {
    return s->message < PST_PIECE ? s->message : PST_PIECE;
}
static inline uint32_t pst_share_grains(const pst_share *s, uint64_t n) {
    return (uint32_t)((n + pst_share_grain(s) - 1) / pst_share_grain(s));
}
/* Returns the number of pieces of n elements. */
static inline uint32_t pst_pieces(uint64_t n) {
    return (uint32_t)((n + PST_PIECE - 1) / PST_PIECE);
}
/* Returns the number of messages of a parameter, over all owners. */
uint32_t pst_share_count(const pst_share *s, uint32_t param);
/* Returns the number of pieces that an owner has, of all parameters with their first use on
 * `stage`. */
static inline uint32_t pst_share_pieces(const pst_share *s, uint32_t stage, uint32_t owner) {
    return s->pieces[(size_t)stage * s->n_owner + owner];
}

/* Reductions over replicas follow a binary tree over replica indices: the sum over [lo, hi) is the
 * sum over [lo, split) plus the sum over [split, hi). Returns split. */
static inline uint32_t pst_share_split(uint32_t lo, uint32_t hi) {
    uint32_t half = 1;
    while (2 * half < hi - lo) half *= 2;
    return lo + half;
}
#endif

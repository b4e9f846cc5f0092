/* The order in which a training split is read: a pure function of (seed, sample number), so that a
 * position is one number and how many ranks read it makes no difference. */
#ifndef PST_DATA_ORDER_H
#define PST_DATA_ORDER_H
#include <stdint.h>

/* An epoch is `windows` windows of `context` tokens that do not overlap, each with a target behind
 * its last token, read in a shuffled order. Every epoch starts at another shift, so that window
 * edges fall elsewhere. All epochs have the same number of windows, which makes the epoch of a
 * sample a division: what a shift leaves over at the end (less than two windows) waits for the next
 * epoch. */
typedef struct {
    uint64_t seed, tokens, windows, shifts; /* shifts: the shift is in [0, shifts) */
    uint32_t context;
} pst_order;

/* windows is 0 when there are fewer than context + 1 tokens. */
pst_order pst_order_make(uint64_t seed, uint64_t tokens, uint32_t context);
/* The token at which sample `index` (0, 1, ... without end) starts; needs windows > 0. */
uint64_t pst_order_start(const pst_order *order, uint64_t index);

/* Of n things, the one that is sample `index`: every epoch has all of them, in another order. Needs
 * n > 0. */
uint64_t pst_order_shuffled(uint64_t seed, uint64_t n, uint64_t index);
#endif

/* The order of training samples: a pure function of (seed, sample number), so that a position is
 * one number and does not depend on the number of ranks. */
#ifndef PST_DATA_ORDER_H
#define PST_DATA_ORDER_H
#include <stdint.h>

/* An epoch consists of `windows` non-overlapping windows of `context` tokens, each with a target
 * after its last token, in a shuffled order. Every epoch shifts the windows by another number of
 * tokens, so that the edges of windows differ. All epochs have the same number of windows, so that
 * a division gives a sample's epoch; tokens left over at the end (less than two windows) are read
 * in other epochs. */
typedef struct {
    uint64_t seed, tokens, windows, shifts; /* the shift is in [0, shifts) */
    uint32_t context;
} pst_order;

/* In the result, windows is 0 if there are fewer than context + 1 tokens. */
pst_order pst_order_make(uint64_t seed, uint64_t tokens, uint32_t context);
/* The first token of sample `index` (0, 1, ... without end); needs windows > 0. */
uint64_t pst_order_start(const pst_order *order, uint64_t index);

/* The item of sample `index`: every epoch has all n items, each time in another order. Needs n > 0.
 */
uint64_t pst_order_shuffled(uint64_t seed, uint64_t n, uint64_t index);
#endif

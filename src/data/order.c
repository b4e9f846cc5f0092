/* Shuffled epochs of shifted windows. */
#include "data/order.h"
#include "base/rng.h"

pst_order pst_order_make(uint64_t seed, uint64_t tokens, uint32_t context) {
    pst_order o = {.seed = seed, .tokens = tokens, .context = context};
    if (context == 0 || tokens <= context) return o;
    o.windows = (tokens - context) / context; /* the largest shift, context - 1, must fit after them
                                               */
    if (o.windows == 0)
        o.windows = 1; /* less than two windows of text: shift only as far as there is text */
    uint64_t left = tokens - 1 - o.windows * context;
    o.shifts = left + 1 < context ? left + 1 : context;
    return o;
}

/* A 64-bit random number per (seed, name, epoch). */
static uint64_t epoch_number(uint64_t seed, const char *name, uint64_t epoch) {
    uint32_t word[4];
    pst_rng_words(pst_rng_key(seed, name), 0, epoch, word);
    return (uint64_t)word[1] << 32 | word[0];
}

uint64_t pst_order_shuffled(uint64_t seed, uint64_t n, uint64_t index) {
    return pst_rng_permute(epoch_number(seed, "data.order", index / n), n, index % n);
}

uint64_t pst_order_start(const pst_order *o, uint64_t index) {
    uint64_t shift = epoch_number(o->seed, "data.shift", index / o->windows) % o->shifts;
    return shift + pst_order_shuffled(o->seed, o->windows, index) * o->context;
}

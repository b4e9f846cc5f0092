/* Which tokens of a sample a model for masked tokens predicts (Devlin et al. 2019): 15 % are
 * targets, at least one; of these 80 % become the mask, 10 % a random token, and 10 % stay. */
#ifndef PST_DATA_MASK_H
#define PST_DATA_MASK_H
#include "data/data.h"

typedef struct {
    int32_t mask;        /* the token that hides another one */
    int32_t never[2];    /* tokens that are no targets, such as [CLS]; -1: none */
    uint32_t vocabulary; /* random tokens are below */
} pst_mask;

/* The key of a split's choices, which depend on it and the sample's number only: they differ in
 * each epoch of the training split, and never change in the validation split. */
uint64_t pst_mask_key(uint64_t seed, pst_split split);
/* Chooses among n tokens: targets[i] is the token at i, or -1. */
void pst_mask_apply(const pst_mask *m, uint64_t key, uint64_t sample, uint64_t n, int32_t *tokens,
                    int32_t *targets);
/* The number of targets that pst_mask_apply gives; tokens NULL: none of them is in `never`. */
uint64_t pst_mask_count(const pst_mask *m, uint64_t key, uint64_t sample, uint64_t n,
                        const int32_t *tokens);
#endif

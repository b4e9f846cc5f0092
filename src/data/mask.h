/* Which tokens of a sample a model for masked tokens predicts (Devlin et al. 2019): 15 % are
 * targets, at least one; of these 80 % become the mask, 10 % a random token, and 10 % stay. And the
 * fields of such samples. */
#ifndef PST_DATA_MASK_H
#define PST_DATA_MASK_H
#include "data/data.h"

typedef struct {
    int32_t mask;        /* the token that hides another one */
    int32_t never[2];    /* tokens that are no targets, such as [CLS]; -1: none */
    uint32_t vocabulary; /* random tokens are below */
    /* 0: each token is chosen with a probability of 15 %; else exactly 15 % of them are, rounded,
     * but at most so many */
    uint32_t most;
    /* [vocabulary] 1: the token continues the word of the token before it, with which it is masked;
     * needs `most`. NULL: tokens are masked one by one */
    const uint8_t *continues;
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

/* Of samples of `context` tokens: "tokens", "targets" (-1: none), "lengths" [1], the number of
 * tokens that are not padding; with `predictions`, which targets then has, "positions" of the
 * targets (-1: none); with `types`, "types": 1 for the tokens of segment B, else 0; with `pairs`,
 * "next_sentence" [1]: 0: segment B follows segment A, 1: it does not. */
typedef struct {
    uint32_t context, predictions;
    int types, pairs;
} pst_mask_fields;
pst_mask_fields pst_mask_fields_of(const pst_data_config *c);
uint32_t pst_mask_list_fields(const pst_mask_fields *f, pst_data_field out[PST_DATA_FIELDS]);
/* A sample without masks: its number, its tokens, and of these the ones before segment B (all of
 * them, if there is none). */
typedef struct {
    uint64_t index, n, first;
    int follows; /* 1: segment B follows segment A */
} pst_mask_sample;
/* Hides tokens of a sample and fills all fields; out[0] begins with its tokens. all: [context],
 * overwritten. */
void pst_mask_fill(const pst_mask *m, const pst_mask_fields *f, uint64_t key,
                   const pst_mask_sample *sample, int32_t *all, int32_t *const *out);
#endif

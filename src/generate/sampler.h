/* Chooses a token from logits. The steps, in this order: the repetition penalty, the temperature,
 * then top-k, top-p and min-p, each among the tokens that the step before has left; last, a draw
 * from the rest by its probabilities. */
#ifndef PST_GENERATE_SAMPLER_H
#define PST_GENERATE_SAMPLER_H
#include "tokenizer/tokenizer.h"

typedef struct {
    /* divides the logits; 0: the most likely token, without a draw */
    double temperature;
    uint64_t top_k; /* the k most likely tokens, and those equal to the last of them; 0: all */
    /* the fewest most likely tokens whose probabilities add up to at least this (Holtzman et al.
     * 2020); 0 or 1: all */
    double top_p;
    double min_p; /* tokens with at least this fraction of the largest probability; 0: all */
    /* logits of tokens that occur are divided by it if positive, else multiplied (Keskar et al.
     * 2019); 0 or 1: not */
    double repetition;
} pst_sampling;

typedef struct {
    pst_sampling how;
    uint32_t n;      /* tokens that may be chosen: ids 0 to n - 1 that the tokenizer has */
    uint8_t *has;    /* [n] */
    uint8_t *seen;   /* [n] 0 between calls */
    float *logit;    /* [n] */
    float *weight;   /* [n] probabilities, times a factor */
    uint32_t *order; /* [n] */
} pst_sampler;

/* vocabulary: logits of a model. ENOMEM. */
pst_status pst_sampler_open(const pst_sampling *how, const pst_tokenizer *tokenizer,
                            uint32_t vocabulary, pst_sampler *out);
void pst_sampler_close(pst_sampler *s);
/* u in [0, 1) selects a token; token[0..n_token): what precedes it. Deterministic. */
int32_t pst_sampler_draw(pst_sampler *s, const float *logits, const int32_t *token,
                         uint64_t n_token, double u);
#endif

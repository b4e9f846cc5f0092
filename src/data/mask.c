/* See mask.h. */
#include "data/mask.h"
#include "base/rng.h"

/* Shares as thresholds of 32-bit random words. */
#define CHOSEN 644245094u    /* 15 % */
#define MASKED 3435973837u   /* 80 % */
#define REPLACED 3865470566u /* 90 %: another 10 % */

uint64_t pst_mask_key(uint64_t seed, pst_split split) {
    return pst_rng_key(seed, split == PST_SPLIT_TRAIN ? "data.mask" : "data.mask.validation");
}

static int is_candidate(const pst_mask *m, int32_t token) {
    return token != m->never[0] && token != m->never[1];
}

static void hide(const pst_mask *m, const uint32_t word[4], int32_t *token, int32_t *target) {
    *target = *token;
    if (word[1] < MASKED) *token = m->mask;
    else if (word[1] < REPLACED) *token = (int32_t)(word[2] % m->vocabulary);
}

/* Hides one of the candidates. */
static void hide_one(const pst_mask *m, const uint32_t word[4], uint64_t candidates,
                     int32_t *tokens, int32_t *targets) {
    uint64_t left = word[0] % candidates, i = 0;
    while (!is_candidate(m, tokens[i]) || left--) i++;
    hide(m, word, tokens + i, targets + i);
}

void pst_mask_apply(const pst_mask *m, uint64_t key, uint64_t sample, uint64_t n, int32_t *tokens,
                    int32_t *targets) {
    uint32_t word[4];
    uint64_t candidates = 0;
    int any = 0;
    for (uint64_t i = 0; i < n; i++) {
        targets[i] = -1;
        if (!is_candidate(m, tokens[i])) continue;
        candidates++;
        pst_rng_words(key, sample, i, word);
        if (word[0] < CHOSEN) {
            hide(m, word, tokens + i, targets + i);
            any = 1;
        }
    }
    if (any || !candidates) return;
    pst_rng_words(key, sample, UINT64_MAX, word);
    hide_one(m, word, candidates, tokens, targets);
}

uint64_t pst_mask_count(const pst_mask *m, uint64_t key, uint64_t sample, uint64_t n,
                        const int32_t *tokens) {
    uint64_t count = 0, candidates = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t word[4];
        if (tokens && !is_candidate(m, tokens[i])) continue;
        candidates++;
        pst_rng_words(key, sample, i, word);
        count += word[0] < CHOSEN;
    }
    return count || !candidates ? count : 1;
}

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

static uint64_t count_candidates(const pst_mask *m, uint64_t n, const int32_t *tokens) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < n; i++) count += !tokens || is_candidate(m, tokens[i]);
    return count;
}

/* 15 %, rounded. */
static uint64_t share_of(const pst_mask *m, uint64_t candidates) {
    uint64_t share = (candidates * 15 + 50) / 100;
    if (!share) share = candidates > 0;
    return share < m->most ? share : m->most;
}

/* Each choice of `wanted` candidates is equally probable. */
static void hide_share(const pst_mask *m, uint64_t key, uint64_t sample, uint64_t n,
                       int32_t *tokens, int32_t *targets) {
    uint64_t left = count_candidates(m, n, tokens), wanted = share_of(m, left);
    for (uint64_t i = 0; i < n && wanted; i++) {
        uint32_t word[4];
        if (!is_candidate(m, tokens[i])) continue;
        pst_rng_words(key, sample, i, word);
        if ((uint64_t)word[0] * left < wanted << 32) {
            hide(m, word, tokens + i, targets + i);
            wanted--;
        }
        left--;
    }
}

/* --- whole words ------------------------------------------------------------------------------ */

enum { CHOSEN_WORD = -2 }; /* in targets, until the token is hidden */

static int begins_word(const pst_mask *m, const int32_t *tokens, uint64_t i) {
    if (!is_candidate(m, tokens[i])) return 0;
    const int continues = (uint32_t)tokens[i] < m->vocabulary && m->continues[tokens[i]];
    return !i || !continues || !is_candidate(m, tokens[i - 1]);
}

static uint64_t word_length(const pst_mask *m, const int32_t *tokens, uint64_t n, uint64_t i) {
    uint64_t end = i + 1;
    while (end < n && is_candidate(m, tokens[end]) && !begins_word(m, tokens, end)) end++;
    return end - i;
}

/* Unique among positions below 2^24 (SplitMix64). */
static uint64_t rank_of(uint64_t seed, uint64_t i) {
    uint64_t x = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return ((x ^ (x >> 31)) & ~UINT64_C(0xffffff)) | i;
}

/* The position of the first word of at most `most` tokens in random order after rank `*rank`, which
 * becomes its rank; n: there is none. */
static uint64_t next_word(const pst_mask *m, uint64_t seed, const int32_t *tokens, uint64_t n,
                          uint64_t most, uint64_t *rank) {
    uint64_t best = UINT64_MAX, at = n;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t own = rank_of(seed, i);
        if (own <= *rank || own >= best || !begins_word(m, tokens, i)) continue;
        if (word_length(m, tokens, n, i) > most) continue;
        best = own;
        at = i;
    }
    *rank = best;
    return at;
}

/* Chooses words in random order, as many as fit, and marks their tokens in `targets` (NULL: not);
 * returns the number of tokens. If no word fits, one is cut. */
static uint64_t choose_words(const pst_mask *m, uint64_t key, uint64_t sample, uint64_t n,
                             const int32_t *tokens, int32_t *targets) {
    const uint64_t wanted = share_of(m, count_candidates(m, n, tokens));
    uint32_t word[4];
    uint64_t count = 0, rank = 0, seed;
    pst_rng_words(key, sample, UINT64_MAX, word);
    seed = (uint64_t)word[0] << 32 | word[1];
    while (count < wanted) {
        const uint64_t at = next_word(m, seed, tokens, n, wanted - count, &rank);
        if (at == n) break;
        const uint64_t length = word_length(m, tokens, n, at);
        for (uint64_t i = at; targets && i < at + length; i++) targets[i] = CHOSEN_WORD;
        count += length;
    }
    rank = 0;
    const uint64_t first = count || !wanted ? n : next_word(m, seed, tokens, n, n, &rank);
    if (first == n) return count;
    for (uint64_t i = first; targets && i < first + wanted; i++) targets[i] = CHOSEN_WORD;
    return wanted;
}

static void hide_words(const pst_mask *m, uint64_t key, uint64_t sample, uint64_t n,
                       int32_t *tokens, int32_t *targets) {
    choose_words(m, key, sample, n, tokens, targets);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t word[4];
        if (targets[i] != CHOSEN_WORD) continue;
        pst_rng_words(key, sample, i, word);
        hide(m, word, tokens + i, targets + i);
    }
}

/* --- tokens ----------------------------------------------------------------------------------- */

/* Each candidate with the same probability, independently of the others; one if there is none. */
static void hide_some(const pst_mask *m, uint64_t key, uint64_t sample, uint64_t n, int32_t *tokens,
                      int32_t *targets) {
    uint32_t word[4];
    uint64_t candidates = 0;
    int any = 0;
    for (uint64_t i = 0; i < n; i++) {
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

void pst_mask_apply(const pst_mask *m, uint64_t key, uint64_t sample, uint64_t n, int32_t *tokens,
                    int32_t *targets) {
    for (uint64_t i = 0; i < n; i++) targets[i] = -1;
    if (m->continues) hide_words(m, key, sample, n, tokens, targets);
    else if (m->most) hide_share(m, key, sample, n, tokens, targets);
    else hide_some(m, key, sample, n, tokens, targets);
}

uint64_t pst_mask_count(const pst_mask *m, uint64_t key, uint64_t sample, uint64_t n,
                        const int32_t *tokens) {
    uint64_t count = 0, candidates = count_candidates(m, n, tokens);
    if (m->continues) return choose_words(m, key, sample, n, tokens, NULL);
    if (m->most) return share_of(m, candidates);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t word[4];
        if (tokens && !is_candidate(m, tokens[i])) continue;
        pst_rng_words(key, sample, i, word);
        count += word[0] < CHOSEN;
    }
    return count || !candidates ? count : 1;
}

/* --- fields ----------------------------------------------------------------------------------- */

pst_mask_fields pst_mask_fields_of(const pst_data_config *c) {
    return (pst_mask_fields){c->context, c->predictions, c->types, c->pairs};
}

uint32_t pst_mask_list_fields(const pst_mask_fields *f, pst_data_field out[PST_DATA_FIELDS]) {
    uint32_t n = 3;
    out[0] = (pst_data_field){"tokens", f->context};
    out[1] = (pst_data_field){"targets", f->predictions ? f->predictions : f->context};
    out[2] = (pst_data_field){"lengths", 1};
    if (f->predictions) out[n++] = (pst_data_field){"positions", f->predictions};
    if (f->types) out[n++] = (pst_data_field){"types", f->context};
    if (f->pairs) out[n++] = (pst_data_field){"next_sentence", 1};
    return n;
}

/* The targets of all positions -> their positions, in order, and the targets alone. */
static void pack(const pst_mask_fields *f, const int32_t *all, int32_t *targets,
                 int32_t *positions) {
    uint32_t k = 0;
    for (uint32_t i = 0; i < f->context; i++) {
        if (all[i] < 0) continue;
        targets[k] = all[i];
        positions[k++] = (int32_t)i;
    }
    for (; k < f->predictions; k++) targets[k] = positions[k] = -1;
}

void pst_mask_fill(const pst_mask *m, const pst_mask_fields *f, uint64_t key,
                   const pst_mask_sample *sample, int32_t *all, int32_t *const *out) {
    int32_t *tokens = out[0], *targets = f->predictions ? all : out[1];
    uint32_t next = 3;
    pst_mask_apply(m, key, sample->index, sample->n, tokens, targets);
    for (uint64_t i = sample->n; i < f->context; i++) {
        tokens[i] = 0;
        targets[i] = -1;
    }
    out[2][0] = (int32_t)sample->n;
    if (f->predictions) pack(f, all, out[1], out[next++]);
    for (uint64_t i = 0; f->types && i < f->context; i++)
        out[next][i] = i >= sample->first && i < sample->n;
    next += f->types != 0;
    if (f->pairs) out[next][0] = !sample->follows;
}

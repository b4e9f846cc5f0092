/* Philox4x32-10 and the distributions drawn from it. The tests compare it with the published
 * known-answer vectors. */
#include "base/rng.h"
#include "base/hash.h"
#include <math.h>
#include <string.h>

enum { PHILOX_ROUNDS = 10, FEISTEL_ROUNDS = 6 };
static const uint32_t PHILOX_M0 = 0xD2511F53, PHILOX_M1 = 0xCD9E8D57; /* multipliers */
/* Key steps (Weyl sequence). */
static const uint32_t PHILOX_W0 = 0x9E3779B9, PHILOX_W1 = 0xBB67AE85;

void pst_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0],
             k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t pst_rng_key(uint64_t seed, const char *name) {
    return pst_hash64(name, strlen(name), seed);
}

void pst_rng_words(uint64_t key, uint64_t hi, uint64_t lo, uint32_t out[4]) {
    const uint32_t counter[4] = {(uint32_t)lo, (uint32_t)(lo >> 32), (uint32_t)hi,
                                 (uint32_t)(hi >> 32)};
    const uint32_t halves[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    pst_philox4x32(counter, halves, out);
}

float pst_rng_uniform(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }

/* Elements 4 k to 4 k + 3. */
static void normal_four(uint64_t key, float mean, float std, uint64_t k, float out[4]) {
    uint32_t word[4];
    pst_rng_words(key, 0, k, word);
    for (int j = 0; j < 4; j += 2) {
        /* the argument is in (0, 1] */
        double radius = sqrt(-2.0 * log(((double)word[j] + 1.0) * 0x1p-32));
        double angle = 6.283185307179586 * ((double)word[j + 1] * 0x1p-32);
        out[j] = (float)(mean + std * (radius * cos(angle)));
        out[j + 1] = (float)(mean + std * (radius * sin(angle)));
    }
}

void pst_rng_normal_from(uint64_t key, float mean, float std, uint64_t from, float *out,
                         uint64_t n) {
    for (uint64_t done = 0, count; done < n; done += count) {
        float four[4];
        uint64_t at = from + done, skip = at % 4;
        normal_four(key, mean, std, at / 4, four);
        count = 4 - skip < n - done ? 4 - skip : n - done;
        memcpy(out + done, four + skip, count * sizeof *out);
    }
}

void pst_rng_normal(uint64_t key, float mean, float std, float *out, uint64_t n) {
    pst_rng_normal_from(key, mean, std, 0, out, n);
}

/* A balanced Feistel network permutes the 2*half-bit numbers, whatever its round function is. */
static uint64_t feistel(uint64_t key, unsigned half, uint64_t value) {
    uint64_t mask = ((uint64_t)1 << half) - 1, left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
        uint32_t word[4];
        pst_rng_words(key, round, right, word);
        uint64_t next = left ^ (word[0] & mask); /* half <= 32 */
        left = right;
        right = next;
    }
    return left << half | right;
}

uint64_t pst_rng_permute(uint64_t key, uint64_t n, uint64_t position) {
    if (n < 2 || position >= n)
        return position; /* cycle walking ends for certain only from inside [0, n) */
    unsigned half = 1;
    while (half < 32 && ((uint64_t)1 << 2 * half) < n) half++;
    /* fewer than 4 rounds on average: the domain is smaller than 4n */
    do position = feistel(key, half, position);
    while (position >= n);
    return position;
}

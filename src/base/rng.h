/* Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as
 * 1, 2, 3", SC11). A number depends on key and counter only, never on rank, thread or order of
 * calls. */
#ifndef PST_BASE_RNG_H
#define PST_BASE_RNG_H
#include <stdint.h>

/* out[0..4) = Philox4x32-10(counter[0..4), key[0..2)). */
void pst_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* The 64-bit key of a named stream: XXH64 of name with seed. */
uint64_t pst_rng_key(uint64_t seed, const char *name);
/* Four words of stream `key` at position (hi, lo). */
void pst_rng_words(uint64_t key, uint64_t hi, uint64_t lo, uint32_t out[4]);
/* Uniform in [0, 1) with 24 bits. */
float pst_rng_uniform(uint32_t word);
/* n numbers of Normal(mean, std), from element `from` of the stream: out[i] is element from + i,
 * computed from position (0, (from + i)/4); Box-Muller in double. */
void pst_rng_normal_from(uint64_t key, float mean, float std, uint64_t from, float *out,
                         uint64_t n);
/* pst_rng_normal_from with from = 0. For tests. */
void pst_rng_normal(uint64_t key, float mean, float std, float *out, uint64_t n);
/* A bijection of [0, n) selected by key (Feistel network with cycle walking over Philox): position
 * -> item. */
uint64_t pst_rng_permute(uint64_t key, uint64_t n, uint64_t position);
#endif

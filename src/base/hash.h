/* Hash functions for everything that penstock identifies by content. */
#ifndef PST_BASE_HASH_H
#define PST_BASE_HASH_H
#include <stddef.h>
#include <stdint.h>
/* XXH64 of `bytes` bytes, with `seed`: for names, for fields (the hash of one field is the seed of
 * the next), and for the weights hash in metrics.jsonl. */
uint64_t pst_hash64(const void *data, size_t bytes, uint64_t seed);

/* XXH3 with 64 bits, for the contents of checkpoints. */
uint64_t pst_hash_bytes(const void *data, size_t bytes);

/* XXH3 of data that is added in parts. open returns NULL if there is no memory; close frees the
 * hasher; reset starts a new hash. */
typedef struct pst_hasher pst_hasher;
pst_hasher *pst_hasher_open(void);
void pst_hasher_close(pst_hasher *hasher);
void pst_hasher_reset(pst_hasher *hasher);
void pst_hasher_add(pst_hasher *hasher, const void *data, size_t bytes);
uint64_t pst_hasher_value(const pst_hasher *hasher);
#endif

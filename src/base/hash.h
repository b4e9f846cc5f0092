/* Hash functions for everything that penstock identifies by content. */
#ifndef PST_BASE_HASH_H
#define PST_BASE_HASH_H
#include <stddef.h>
#include <stdint.h>
/* XXH64: names, fields (chained through `seed`), and weights, as metrics.jsonl documents. */
uint64_t pst_hash64(const void *data, size_t bytes, uint64_t seed);

/* XXH3 (64 bits): the contents of checkpoints; as fast as memory. */
uint64_t pst_hash_bytes(const void *data, size_t bytes);

/* The same for data in parts. NULL: no memory. */
typedef struct pst_hasher pst_hasher;
pst_hasher *pst_hasher_open(void);
void pst_hasher_close(pst_hasher *hasher);
void pst_hasher_reset(pst_hasher *hasher);
void pst_hasher_add(pst_hasher *hasher, const void *data, size_t bytes);
uint64_t pst_hasher_value(const pst_hasher *hasher);
#endif

/* XXH64, the hash of everything that penstock names by content. */
#ifndef PST_BASE_HASH_H
#define PST_BASE_HASH_H
#include <stddef.h>
#include <stdint.h>
uint64_t pst_hash64(const void *data, size_t bytes, uint64_t seed);
#endif

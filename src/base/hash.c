/* XXH64 from libxxhash. */
#include "base/hash.h"
#include <xxhash.h>

uint64_t pst_hash64(const void *data, size_t bytes, uint64_t seed) { return XXH64(data, bytes, seed); }

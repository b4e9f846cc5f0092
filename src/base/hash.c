/* XXH64 and XXH3 from libxxhash; XXH3 with the widest vectors of the CPU. */
#include "base/hash.h"
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#endif

uint64_t pst_hash64(const void *data, size_t bytes, uint64_t seed) {
    return XXH64(data, bytes, seed);
}

uint64_t pst_hash_bytes(const void *data, size_t bytes) { return XXH3_64bits(data, bytes); }

static XXH3_state_t *state_of(const pst_hasher *hasher) {
    return (XXH3_state_t *)(uintptr_t)hasher;
}

pst_hasher *pst_hasher_open(void) {
    XXH3_state_t *state = XXH3_createState();
    if (state) XXH3_64bits_reset(state);
    return (pst_hasher *)state;
}

void pst_hasher_close(pst_hasher *hasher) { XXH3_freeState(state_of(hasher)); }

void pst_hasher_reset(pst_hasher *hasher) { XXH3_64bits_reset(state_of(hasher)); }

void pst_hasher_add(pst_hasher *hasher, const void *data, size_t bytes) {
    XXH3_64bits_update(state_of(hasher), data, bytes);
}

uint64_t pst_hasher_value(const pst_hasher *hasher) { return XXH3_64bits_digest(state_of(hasher)); }

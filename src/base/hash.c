/* XXH64 from libxxhash. */
#include "base/hash.h"
#include <xxhash.h>

uint64_t pst_hash64(const void *data, size_t bytes, uint64_t seed) { return XXH64(data, bytes, seed); }

static XXH64_state_t *state_of(const pst_hasher *hasher) { return (XXH64_state_t *)(uintptr_t)hasher; }

pst_hasher *pst_hasher_open(void) {
    XXH64_state_t *state = XXH64_createState();
    if (state) XXH64_reset(state, 0);
    return (pst_hasher *)state;
}

void pst_hasher_close(pst_hasher *hasher) { XXH64_freeState(state_of(hasher)); }

void pst_hasher_reset(pst_hasher *hasher) { XXH64_reset(state_of(hasher), 0); }

void pst_hasher_add(pst_hasher *hasher, const void *data, size_t bytes) { XXH64_update(state_of(hasher), data, bytes); }

uint64_t pst_hasher_value(const pst_hasher *hasher) { return XXH64_digest(state_of(hasher)); }

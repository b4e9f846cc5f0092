/* A hash index from names to entries of an array that only grows, or loses its newest entries.
 * Entries are structs whose first member is their name. */
#ifndef PST_GRAPH_NAMES_H
#define PST_GRAPH_NAMES_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

/* All members zero: an empty index. The owner frees slot. */
typedef struct {
    uint32_t *slot; /* [n_slot] index of an entry + 1, 0: free; may refer to removed entries */
    uint32_t n_slot, n_used;
} pst_names;

typedef struct {
    const void *entry;
    size_t bytes; /* size of an entry */
    uint32_t n;
} pst_named;

/* Returns the entry with this name; UINT32_MAX if there is none. */
uint32_t pst_names_find(const pst_names *x, pst_named array, const char *name);
/* Makes room for one more name; ENOMEM. */
pst_status pst_names_reserve(pst_names *x, pst_named array);
/* Adds entry n - 1 of the array; needs a call of pst_names_reserve first. */
void pst_names_add(pst_names *x, pst_named array);
#endif

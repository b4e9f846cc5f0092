/* Which entry of an array has this name? An index beside an array that only grows, or loses what it
 * gained last. The entries are structures that begin with their name. */
#ifndef PST_GRAPH_NAMES_H
#define PST_GRAPH_NAMES_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

/* Zeroed: empty. slot is owned: free it. */
typedef struct {
    uint32_t *slot; /* [n_slot] entry + 1, 0 when free; may name entries that are gone */
    uint32_t n_slot, n_used;
} pst_names;

typedef struct {
    const void *entry;
    size_t bytes; /* of an entry */
    uint32_t n;
} pst_named;

/* UINT32_MAX when there is none. */
uint32_t pst_names_find(const pst_names *x, pst_named array, const char *name);
/* Makes room for one more name besides the array's; ENOMEM. */
pst_status pst_names_reserve(pst_names *x, pst_named array);
/* Entry n - 1 of the array is new; there is room for it. */
void pst_names_add(pst_names *x, pst_named array);
#endif

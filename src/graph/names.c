/* See names.h. Open addressing. The slot of a removed entry is skipped, since its number is too
 * large or belongs to another name; it disappears when the table grows. */
#include "graph/names.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

static const char *name_of(pst_named array, uint32_t i) {
    return (const char *)array.entry + i * array.bytes;
}

static uint32_t first_slot(const pst_names *x, const char *name) {
    return (uint32_t)pst_hash64(name, strlen(name), 0) & (x->n_slot - 1);
}

uint32_t pst_names_find(const pst_names *x, pst_named array, const char *name) {
    if (!x->n_slot) return UINT32_MAX;
    for (uint32_t s = first_slot(x, name); x->slot[s]; s = (s + 1) & (x->n_slot - 1)) {
        uint32_t i = x->slot[s] - 1;
        if (i < array.n && !strcmp(name_of(array, i), name)) return i;
    }
    return UINT32_MAX;
}

void pst_names_add(pst_names *x, pst_named array) {
    uint32_t s = first_slot(x, name_of(array, array.n - 1));
    while (x->slot[s]) s = (s + 1) & (x->n_slot - 1);
    x->slot[s] = array.n;
    x->n_used++;
}

pst_status pst_names_reserve(pst_names *x, pst_named array) {
    if (2 * (x->n_used + 1) <= x->n_slot) return PST_OK;
    pst_names more = {.n_slot = 64};
    while (more.n_slot < 4 * (array.n + 1)) more.n_slot *= 2;
    more.slot = calloc(more.n_slot, sizeof *more.slot);
    if (!more.slot) return pst_fail(PST_ENOMEM, "no memory for an index of %u names", array.n);
    for (uint32_t n = array.n, i = 1; i <= n; i++) {
        array.n = i;
        pst_names_add(&more, array);
    }
    free(x->slot);
    *x = more;
    return PST_OK;
}

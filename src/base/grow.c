/* See grow.h. */
#include "base/grow.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

pst_status pst_grow_to(void *array, size_t size, size_t capacity, const char *what) {
    void *old, *moved;
    memcpy(&old, array, sizeof old);
    moved = capacity <= PTRDIFF_MAX / size ? realloc(old, capacity * size) : NULL;
    if (!moved) return pst_no_memory(what);
    memcpy(array, &moved, sizeof moved);
    return PST_OK;
}

pst_status pst_grow(void *array, size_t size, size_t n, size_t *capacity, const char *what) {
    if (n < *capacity) return PST_OK;
    size_t more = *capacity ? 2 * *capacity : 32;
    PST_TRY(pst_grow_to(array, size, more, what));
    *capacity = more;
    return PST_OK;
}

/* See grow.h. */
#include "base/grow.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

pst_status pst_grow(void *array, size_t size, size_t n, size_t *room, const char *what) {
    void *old, *moved;
    if (n < *room) return PST_OK;
    size_t more = *room ? 2 * *room : 32;
    memcpy(&old, array, sizeof old);
    moved = more <= PTRDIFF_MAX / size ? realloc(old, more * size) : NULL;
    if (!moved) return pst_no_memory(what);
    memcpy(array, &moved, sizeof moved);
    *room = more;
    return PST_OK;
}

/* See grow.h. */
#include "base/grow.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

pst_status pst_grow_to(void *array, size_t size, size_t room, const char *what) {
    void *old, *moved;
    memcpy(&old, array, sizeof old);
    moved = room <= PTRDIFF_MAX / size ? realloc(old, room * size) : NULL;
    if (!moved) return pst_no_memory(what);
    memcpy(array, &moved, sizeof moved);
    return PST_OK;
}

pst_status pst_grow(void *array, size_t size, size_t n, size_t *room, const char *what) {
    if (n < *room) return PST_OK;
    size_t more = *room ? 2 * *room : 32;
    PST_TRY(pst_grow_to(array, size, more, what));
    *room = more;
    return PST_OK;
}

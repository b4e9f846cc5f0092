/* Arrays that grow one element at a time. */
#ifndef PST_BASE_GROW_H
#define PST_BASE_GROW_H
#include "base/status.h"
#include <stddef.h>

/* Makes room for one more behind the n elements of `size` bytes that *(TYPE **)array has; *room:
 * for how many there is, doubled when it is used up. ENOMEM: "no memory WHAT". */
pst_status pst_grow(void *array, size_t size, size_t n, size_t *room, const char *what);
/* The step of it, for arrays that have one room together: *(TYPE **)array gets room for so many. */
pst_status pst_grow_to(void *array, size_t size, size_t room, const char *what);
#endif

/* Arrays that grow one element at a time. */
#ifndef PST_BASE_GROW_H
#define PST_BASE_GROW_H
#include "base/status.h"
#include <stddef.h>

/* Makes sure that *(TYPE **)array, with n elements of `size` bytes, can hold one more; *capacity:
 * the number of allocated elements, doubled when it is used up. ENOMEM: "no memory WHAT". */
pst_status pst_grow(void *array, size_t size, size_t n, size_t *capacity, const char *what);
/* For several arrays with one common capacity: reallocates *(TYPE **)array to `capacity` elements
 * of `size` bytes. */
pst_status pst_grow_to(void *array, size_t size, size_t capacity, const char *what);
#endif

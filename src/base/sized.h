/* Structures of the public interface begin with a size_t: their size as the caller's compiler saw
 * it. They grow at their end only, so a caller of an earlier version knows fewer members, a caller
 * of a later version more. They have no padding at the end, because it would be copied as if it
 * were the next member. */
#ifndef PST_BASE_SIZED_H
#define PST_BASE_SIZED_H
#include "base/status.h"
#include <stddef.h>

/* Copies the caller's `from` to `into`, of `bytes`; members that the caller does not know become 0.
 * EINPUT, with `where` (the function): NULL, no size, or a member is set that this version does not
 * know. */
pst_status pst_sized_take(const char *where, const void *from, void *into, size_t bytes);
/* The other direction: copies `from`, of `bytes`, to the caller's structure, as far as its size
 * allows. EINPUT: NULL, or no size. */
pst_status pst_sized_give(const char *where, const void *from, size_t bytes, void *into);
#endif

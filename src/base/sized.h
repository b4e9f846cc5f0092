/* Structures of the public interface begin with a size_t: their size as the caller's compiler saw
 * it. They grow at their end only, so the structure of a caller compiled for an earlier version has
 * fewer members, and for a later version more. They have no padding at the end, because it would be
 * copied as if it were the next member. */
#ifndef PST_BASE_SIZED_H
#define PST_BASE_SIZED_H
#include "base/status.h"
#include <stddef.h>

/* Copies the caller's structure `from` to `into`, which has `bytes` bytes; members that the
 * caller's version lacks become 0. EINPUT, with the function's name `where`: `from` is NULL or has
 * no size, or sets a member that this version lacks. */
pst_status pst_sized_take(const char *where, const void *from, void *into, size_t bytes);
/* Copies `from`, which has `bytes` bytes, to the caller's structure `into`, up to the size of that
 * structure. EINPUT: `into` is NULL or has no size. */
pst_status pst_sized_give(const char *where, const void *from, size_t bytes, void *into);
#endif

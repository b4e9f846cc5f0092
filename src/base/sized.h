/* Structures of the public interface begin with a size_t, their size as the caller's compiler saw
 * it, and grow at their end only: a caller of an earlier version knows less of one, a caller of a
 * later version more. They end without padding, which would be copied as if it were the next
 * member. */
#ifndef PST_BASE_SIZED_H
#define PST_BASE_SIZED_H
#include "base/status.h"
#include <stddef.h>

/* Copies `from` into `into`, of `bytes`; what the caller does not know is 0. EINPUT, with `where`
 * (the function): NULL, no size, or something set that this version does not know. */
pst_status pst_sized_take(const char *where, const void *from, void *into, size_t bytes);
/* The other way: no more of `from`, of `bytes`, than the caller has room for. EINPUT: NULL, or no
 * size. */
pst_status pst_sized_give(const char *where, const void *from, size_t bytes, void *into);
#endif

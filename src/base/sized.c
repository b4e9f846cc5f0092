/* See sized.h. */
#include "base/sized.h"
#include <string.h>

static pst_status size_of(const char *where, const void *given, size_t *size) {
    if (!given) return pst_fail(PST_EINPUT, "%s: the structure is NULL", where);
    memcpy(size, given, sizeof *size);
    if (*size >= sizeof *size) return PST_OK;
    return pst_fail(PST_EINPUT, "%s: the member size is not set; set it to sizeof the structure",
                    where);
}

pst_status pst_sized_take(const char *where, const void *from, void *into, size_t bytes) {
    size_t size = 0;
    PST_TRY(size_of(where, from, &size));
    for (size_t i = bytes; i < size; i++)
        if (((const unsigned char *)from)[i])
            return pst_fail(PST_EINPUT,
                            "%s: a member is set that this version of the library does not have; "
                            "use a newer library",
                            where);
    memset(into, 0, bytes);
    memcpy(into, from, size < bytes ? size : bytes);
    return PST_OK;
}

pst_status pst_sized_give(const char *where, const void *from, size_t bytes, void *into) {
    size_t size = 0;
    PST_TRY(size_of(where, into, &size));
    const size_t head = sizeof size;
    size_t all = size < bytes ? size : bytes;
    memcpy((char *)into + head, (const char *)from + head, all - head);
    return PST_OK;
}

/* How penstock's own code reports errors: the function that detects the error says why, its callers
 * add where. */
#ifndef PST_BASE_STATUS_H
#define PST_BASE_STATUS_H
#include "penstock/status.h"

/* Sets this thread's error message and returns `status`, for `return pst_fail(PST_EINPUT, ...)`.
 * Replaces an earlier message. */
pst_status pst_fail(pst_status status, const char *fmt, ...) PST_PRINTF(2, 3);

/* Puts "<text>: " in front of this thread's message and returns `status`; for callers that know
 * where the error is. */
pst_status pst_fail_in(pst_status status, const char *fmt, ...) PST_PRINTF(2, 3);

#ifdef __clang_analyzer__ /* the static analyzer does not read status.c; both return `status` */
#define pst_fail(status, ...) ((pst_fail)((status), __VA_ARGS__), (status))
#define pst_fail_in(status, ...) ((pst_fail_in)((status), __VA_ARGS__), (status))
#endif

/* ENOMEM: "no memory WHAT", with a WHAT such as "to plan" or "for a graph". */
static inline pst_status pst_no_memory(const char *what) {
    return pst_fail(PST_ENOMEM, "no memory %s", what);
}

/* The status for a failed system call: ENOMEM: memory, descriptors, processes or disk space are
 * used up, or the disk failed; EINPUT: any other error, such as a missing file or permission. */
pst_status pst_status_of_errno(int error);

/* Clears this thread's message. */
void pst_error_clear(void);

#define PST_TRY(call)                                                                              \
    do {                                                                                           \
        pst_status try_status_ = (call);                                                           \
        if (try_status_ != PST_OK) return try_status_;                                             \
    } while (0)
#endif

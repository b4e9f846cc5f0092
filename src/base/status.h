/* How penstock's own code reports errors: the function that first decides says why, callers add
 * where. */
#ifndef PST_BASE_STATUS_H
#define PST_BASE_STATUS_H
#include "penstock/status.h"

/* Records the message as this thread's error and returns `status`, so that `return
 * pst_fail(PST_EINPUT, ...)` reads as one sentence. Replaces any earlier message. */
pst_status pst_fail(pst_status status, const char *fmt, ...) PST_PRINTF(2, 3);

/* Puts "<text>: " in front of this thread's message and returns `status` (for callers that know
 * where). */
pst_status pst_fail_in(pst_status status, const char *fmt, ...) PST_PRINTF(2, 3);

#ifdef __clang_analyzer__ /* which does not look into other files: both return the status that     \
                             they are given */
#define pst_fail(status, ...) ((pst_fail)((status), __VA_ARGS__), (status))
#define pst_fail_in(status, ...) ((pst_fail_in)((status), __VA_ARGS__), (status))
#endif

/* ENOMEM: "no memory WHAT", such as "to plan" or "for a graph". */
static inline pst_status pst_no_memory(const char *what) {
    return pst_fail(PST_ENOMEM, "no memory %s", what);
}

/* For a call of the system that failed: ENOMEM when memory, descriptors, processes or the disk ran
 * out or the disk failed; else EINPUT, for it was asked for something that is not there or not
 * allowed. */
pst_status pst_status_of_errno(int error);

/* Clears this thread's message. */
void pst_error_clear(void);

#define PST_TRY(call)                                                                              \
    do {                                                                                           \
        pst_status try_status_ = (call);                                                           \
        if (try_status_ != PST_OK) return try_status_;                                             \
    } while (0)
#endif

/* Status codes of all penstock functions, and the message of the last failure. The exit status of
 * the program follows from the status code: 0 success, 2 wrong input, 3 a rank or link failed, 4
 * out of resources, 5 internal error. */
#ifndef PENSTOCK_STATUS_H
#define PENSTOCK_STATUS_H

/* X(name, exit status, text) */
/* clang-format off */
#define PST_STATUS_LIST(X) \
    X(OK, 0, "ok") \
    X(BUSY, 5, "in progress: ask again") \
    X(EINPUT, 2, "wrong input") \
    X(EPEER, 3, "a rank or link failed") \
    X(ENOMEM, 4, "out of resources") \
    X(EINTERNAL, 5, "internal error")
/* clang-format on */

typedef enum {
#define PST_STATUS_ENUM(name, exit, text) PST_##name,
    PST_STATUS_LIST(PST_STATUS_ENUM)
#undef PST_STATUS_ENUM
} pst_status;

#if defined(__GNUC__)
#define PST_API __attribute__((visibility("default")))
#define PST_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PST_API
#define PST_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Returns a short static text for a status, never NULL. Any thread. */
PST_API const char *pst_status_text(pst_status status);

/* Returns the exit status of the program for a status code. Any thread. */
PST_API int pst_status_exit(pst_status status);

/* Returns the message of the last failed call on this thread: one line without newline, never NULL,
 * valid until the next failure on this thread. */
PST_API const char *pst_error(void);

#ifdef __cplusplus
}
#endif
#endif

/* Status texts, and the error message of each thread in a fixed buffer, so that reporting a failure
 * needs no memory. A longer message is truncated; control characters (a newline in a file name)
 * become spaces, so that it stays one line. */
#include "base/status.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TRAIL_BYTES = 4096 };
static _Thread_local char trail[TRAIL_BYTES];

const char *pst_status_text(pst_status status) {
    switch (status) {
#define STATUS_TEXT(name, exit, text)                                                              \
    case PST_##name: return text;
        PST_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

int pst_status_exit(pst_status status) {
    switch (status) {
#define STATUS_EXIT(name, exit, text)                                                              \
    case PST_##name: return exit;
        PST_STATUS_LIST(STATUS_EXIT)
#undef STATUS_EXIT
    }
    return 5;
}

pst_status pst_status_of_errno(int error) {
    static const int scarce[] = {ENOMEM, EMFILE, ENFILE, EAGAIN, ENOSPC, EDQUOT, EFBIG, EIO};
    for (size_t i = 0; i < sizeof scarce / sizeof *scarce; i++)
        if (error == scarce[i]) return PST_ENOMEM;
    return PST_EINPUT;
}

const char *pst_error(void) { return trail; }

void pst_error_clear(void) { trail[0] = 0; }

static void keep(const char *text) {
    size_t n = strnlen(text, TRAIL_BYTES - 1);
    for (size_t i = 0; i < n; i++)
        trail[i] = (unsigned char)text[i] < ' ' || text[i] == 127 ? ' ' : text[i];
    trail[n] = 0;
}

pst_status(pst_fail)(pst_status status, const char *fmt, ...) {
    char text[TRAIL_BYTES]; /* not in place: the arguments may point into the message */
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    keep(text);
    return status;
}

pst_status(pst_fail_in)(pst_status status, const char *fmt, ...) {
    char text[TRAIL_BYTES];
    va_list args;
    va_start(args, fmt);
    int used = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (used >= 0 && used < TRAIL_BYTES - 3)
        snprintf(text + used, sizeof text - (size_t)used, ": %.*s", TRAIL_BYTES - 3 - used, trail);
    keep(text);
    return status;
}

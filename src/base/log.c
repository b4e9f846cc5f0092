/* Log lines on stderr. A line is formatted in a local buffer and written in one write, so lines of
 * several ranks and threads stay whole. */
#include "base/log.h"
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static _Atomic int log_level = PST_LOG_INFO;
static _Atomic int log_rank = -1;

void pst_log_set_level(pst_log_level level) {
    atomic_store_explicit(&log_level, (int)level, memory_order_relaxed);
}

pst_log_level pst_log_get_level(void) {
    return (pst_log_level)atomic_load_explicit(&log_level, memory_order_relaxed);
}

void pst_log_set_rank(int rank) { atomic_store_explicit(&log_rank, rank, memory_order_relaxed); }

void pst_log(pst_log_level level, const char *fmt, ...) {
    static const char *const prefix[] = {"error: ", "warning: ", "", "debug: "};
    if (level > pst_log_get_level() || (unsigned)level > PST_LOG_DEBUG) return;
    char line[4096];
    int rank = atomic_load_explicit(&log_rank, memory_order_relaxed), keep_errno = errno;
    int used = rank < 0 ? 0 : snprintf(line, sizeof line, "[%d] ", rank);
    used += snprintf(line + used, sizeof line - (size_t)used, "%s", prefix[level]);
    va_list args;
    va_start(args, fmt);
    int body = vsnprintf(line + used, sizeof line - (size_t)used, fmt, args);
    va_end(args);
    size_t bytes = (size_t)used + (size_t)(body > 0 ? body : 0);
    if (bytes > sizeof line - 1) bytes = sizeof line - 1;
    line[bytes++] = '\n'; /* replaces the terminating zero */
    ssize_t written = write(STDERR_FILENO, line, bytes);
    (void)written; /* if stderr is closed, there is nowhere else to report */
    errno = keep_errno;
}

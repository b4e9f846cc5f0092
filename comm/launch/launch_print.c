/* Lines of a launcher on stderr, each in one write: to the user, or to the launcher that started
 * it. */
#include "comm/launch/launch_parts.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void pst_launch_print(const char *format, ...) {
    char line[PAGE_VERDICT + 512] = "penstock: ";
    va_list args;
    va_start(args, format);
    vsnprintf(line + 10, sizeof line - 12, format, args);
    va_end(args);
    strcat(line, "\n");
    ssize_t written = write(STDERR_FILENO, line, strlen(line));
    (void)written; /* if stderr is closed, there is nowhere else to report */
}

void pst_launch_host_report(const char *format, ...) {
    char line[PAGE_VERDICT + 256] = PST_LAUNCH_MARK;
    const size_t mark = sizeof PST_LAUNCH_MARK - 1;
    va_list args;
    va_start(args, format);
    vsnprintf(line + mark, sizeof line - mark - 1, format, args);
    va_end(args);
    for (char *at = line; *at; at++)
        if (*at == '\n') *at = ' ';
    strcat(line, "\n");
    ssize_t written = write(STDERR_FILENO, line, strlen(line));
    (void)written;
}

/* Files that are printed to, opened and closed with one text and one status for what goes wrong;
 * whole files in memory. */
#ifndef PST_BASE_FILE_H
#define PST_BASE_FILE_H
#include "base/status.h"
#include <stdio.h>

/* Makes PATH.new (*fresh, the caller's) for writing, in place of whatever had that name, and never
 * through a link. EINPUT for a path at which there can be none, ENOMEM for a full disk. */
pst_status pst_file_create_beside(const char *path, char **fresh, FILE **f);
/* Closes it; `status`: of what was printed into it. What could not be written whole is removed,
 * except where it is no file (a pipe, /dev/full). Returns the first failure; that of the stream
 * names path and reason, whatever was said before. */
pst_status pst_file_close(FILE *f, const char *path, pst_status status);
/* Replaces a file with what is printed, in one step: who has it open, and whoever looks after an
 * interrupt (SIGINT, SIGTERM and SIGHUP wait in this thread), sees the old one or the new one. What
 * is there and no file (/dev/stdout, a pipe) is written to. */
typedef pst_status (*pst_file_printer)(const void *what, FILE *out);
pst_status pst_file_replace(const char *path, pst_file_printer print, const void *what);
/* The same for a name that the program has chosen, such as report.html in a run's folder: a link of
 * that name is replaced by the file, and what it leads to stays as it is. pst_file_replace is for
 * names that the user gives, and writes where a link leads. */
pst_status pst_file_replace_own(const char *path, pst_file_printer print, const void *what);
/* All bytes of a file and a zero behind them, to be freed by the caller. EINPUT when it cannot be
 * read or has more than `most`; every message begins with the path. */
pst_status pst_file_read(const char *path, size_t most, char **text, size_t *bytes);
/* Reads a file as pst_file_read does, gives what is in it to `parse` with its path and `what`, and
 * frees it. Returns what went wrong first. */
typedef pst_status (*pst_file_parser)(const char *text, size_t bytes, const char *path, void *what);
pst_status pst_file_parse(const char *path, size_t most, pst_file_parser parse, void *what);
#endif

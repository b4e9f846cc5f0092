/* Writing files with one error message and one status for all failures; reading whole files into
 * memory. */
#ifndef PST_BASE_FILE_H
#define PST_BASE_FILE_H
#include "base/status.h"
#include <stdio.h>

/* EINPUT if there is a file at the path, which only --force replaces. */
pst_status pst_file_check_new(const char *path);
/* Creates PATH.new (*new_path, the caller frees it) for writing; replaces an existing file of that
 * name, and never follows a link. EINPUT for an invalid path, ENOMEM for a full disk. */
pst_status pst_file_create_beside(const char *path, char **new_path, FILE **f);
/* Closes a file; `status`: the result of writing its contents. On failure a regular file is removed
 * (not a pipe or /dev/full). Returns the first failure; a failure of the stream gives a message
 * with path and reason. */
pst_status pst_file_close(FILE *f, const char *path, pst_status status);
/* Replaces the file `path` atomically by the output of print(what, out): other processes see the
 * old or the new file, never a part of it, also after an interrupt (this thread blocks SIGINT,
 * SIGTERM and SIGHUP meanwhile). If `path` is not a regular file (/dev/stdout, a pipe), the output
 * is written to it directly. */
typedef pst_status (*pst_file_printer)(const void *what, FILE *out);
pst_status pst_file_replace(const char *path, pst_file_printer print, const void *what);
/* Like pst_file_replace, for a name chosen by the program, such as report.html in a run's folder: a
 * link of that name is replaced by the file, and the target of the link stays unchanged.
 * pst_file_replace is for names from the user, and writes to the target of a link. */
pst_status pst_file_replace_own(const char *path, pst_file_printer print, const void *what);
/* Reads all bytes of a file and adds a terminating zero; the caller frees *text. EINPUT if the file
 * cannot be read or has more than `max_bytes` bytes; every message begins with the path. */
pst_status pst_file_read(const char *path, size_t max_bytes, char **text, size_t *bytes);
/* Reads a file as pst_file_read does, passes the contents, the path and `what` to `parse`, and
 * frees the contents. Returns the first failure. */
typedef pst_status (*pst_file_parser)(const char *text, size_t bytes, const char *path, void *what);
pst_status pst_file_parse(const char *path, size_t max_bytes, pst_file_parser parse, void *what);
#endif

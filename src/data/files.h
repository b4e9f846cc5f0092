/* Expands a list of paths (files, folders and globs) into one ordered list of files without
 * duplicates. */
#ifndef PST_DATA_FILES_H
#define PST_DATA_FILES_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *path;
    uint64_t bytes;
} pst_file;
typedef struct {
    pst_file *file;
    uint32_t n;
    size_t cap;
} pst_file_list;

/* Expands n paths in order; files of one path are sorted by name (strcmp of the whole path), so
 * that the list does not depend on the file system. A folder means every file below it, without
 * hidden entries and links to folders. In a glob `*`, `?` and `[...]` match within one folder
 * and never a leading dot; `**` as a whole component matches any number of folders; a trailing
 * `**` every file below. A path that exists is taken literally. If a file is found twice (by its
 * real path), the first one stays. EINPUT names a path that matches nothing or cannot be read.
 * The caller owns the list. */
pst_status pst_files_expand(char *const *path, uint32_t n, pst_file_list *list);
void pst_files_free(pst_file_list *list);
/* The format of a compressed file, by its first bytes: "gzip" or "Zstandard"; NULL: it is not
 * compressed, or cannot be read. */
const char *pst_files_format(const char *path);
#endif

/* Which files a list of paths means: files, folders and globs become one ordered list without
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

/* Expands n paths in their order; within one path, files are sorted by name (strcmp of the whole
 * path), so that the list does not depend on the file system. A folder means every file below it;
 * hidden entries and linked folders are left out. In a glob `*`, `?` and `[...]` match within one
 * folder and never a leading dot; `**` as a whole component matches any number of folders; a
 * trailing `**` every file below. A path that exists is taken literally. A file reached twice (by
 * its real path) is kept where it came first. EINPUT: a path that matches nothing, or what cannot
 * be read, by name. The list is the caller's. */
pst_status pst_files_expand(char *const *path, uint32_t n, pst_file_list *list);
void pst_files_free(pst_file_list *list);
#endif

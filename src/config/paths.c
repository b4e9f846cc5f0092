/* Relative paths in a run file: a path whose first name exists in the run file's folder starts
 * there. */
#include "config/rows.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Length of the path up to its first name, leading "." and ".." included; 0 if that is a pattern
 * or the path is absolute. */
static size_t first_name(const char *path) {
    const char *at = path;
    while (*at == '.') {
        size_t dots = strspn(at, ".");
        if (dots > 2 || (at[dots] && at[dots] != '/')) break;
        at += dots;
        at += strspn(at, "/");
    }
    size_t n = strcspn(at, "/");
    return *path == '/' || strcspn(at, "*?[") < n ? 0 : (size_t)(at - path) + n;
}

/* *moved: the absolute path, owned by the caller; NULL if the path stays as it is. */
static pst_status beside(const char *path, const char *folder, char **moved) {
    char *first, *real = NULL;
    size_t n = first_name(path);
    *moved = NULL;
    if (!n) return PST_OK;
    if (asprintf(&first, "%s%.*s", folder, (int)n, path) < 0)
        return pst_fail(PST_ENOMEM, "no memory for a path");
    int there = access(first, F_OK) == 0;
    free(first);
    if (!there || !(real = realpath(folder, NULL)))
        return PST_OK; /* the first name does not exist in the run file's folder */
    if (asprintf(moved, "%s/%s", real, path) < 0) *moved = NULL;
    free(real);
    return *moved ? PST_OK : pst_fail(PST_ENOMEM, "no memory for a path");
}

pst_status pst_row_resolve_paths(const pst_row *row, pst_config *config, const char *folder) {
    int list = pst_row_is_list(row);
    char **items =
        list ? *(char ***)((char *)config + row->offset) : (char **)((char *)config + row->offset);
    uint32_t n = list ? *(uint32_t *)((char *)config + row->count) : 1;
    for (uint32_t i = 0; i < n; i++) {
        char *moved, *whole = NULL;
        if (!*items[i]) continue;
        size_t name = row->type == PST_ROW_NAMED ? strcspn(items[i], "=") + 1 : 0;
        PST_TRY(beside(items[i] + name, folder, &moved));
        if (moved && name) {
            int made = asprintf(&whole, "%.*s%s", (int)name, items[i], moved);
            free(moved);
            if (made < 0) return pst_fail(PST_ENOMEM, "no memory for a path");
            moved = whole;
        }
        /* the folder's path may not be UTF-8 */
        pst_status status = moved ? pst_row_check_text(row, moved) : PST_OK;
        if (status != PST_OK) free(moved);
        if (status != PST_OK) return status;
        if (!moved) continue;
        free(items[i]);
        items[i] = moved;
    }
    return PST_OK;
}

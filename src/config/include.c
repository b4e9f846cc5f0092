/* Run files that others include, and the text of a run file. */
#include "base/grow.h"
#include "config/rows.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 1 << 20 }; /* a run file has a few hundred bytes */

pst_status pst_run_file_fits(const char *path, size_t bytes) {
    if (bytes <= FILE_BYTES) return PST_OK;
    return pst_fail(PST_EINPUT, "%s: the file is larger than 1 MiB, so it is not a run file", path);
}

static pst_status read_text(const char *path, FILE *in, char *text, size_t *bytes) {
    *bytes = fread(text, 1, FILE_BYTES + 1, in);
    if (ferror(in))
        return pst_fail(PST_EINPUT, "cannot read run file %s: %s", path, strerror(errno));
    return pst_run_file_fits(path, *bytes);
}

pst_status pst_run_file_text(const char *path, char **text, size_t *bytes) {
    FILE *in = fopen(path, "rb");
    if (!in)
        return pst_fail(pst_status_of_errno(errno), "cannot open run file %s: %s", path,
                        strerror(errno));
    char *read = malloc(FILE_BYTES + 1);
    pst_status status = read ? read_text(path, in, read, bytes)
                             : pst_fail(PST_ENOMEM, "no memory to read %s", path);
    fclose(in);
    if (status == PST_OK) *text = read;
    else free(read);
    return status;
}

/* Two names of one file. */
static int same_file(const char *a, const char *b) {
    char x[PATH_MAX], y[PATH_MAX];
    return realpath(a, x) && realpath(b, y) && !strcmp(x, y);
}

static pst_status refuse_cycle(const pst_run_file *by, const char *path) {
    for (const pst_run_file *f = by; f; f = f->includer)
        if (same_file(f->name, path))
            return pst_fail(PST_EINPUT, "%s includes itself%s%s", path, f == by ? "" : " through ",
                            f == by ? "" : by->name);
    return PST_OK;
}

/* The path of `name`, relative to the folder of `by`; kept until the reading ends. */
static pst_status keep_path(pst_reading *reading, const char *by, const char *name,
                            const char **path) {
    const char *slash = strrchr(by, '/');
    int folder = *name == '/' || !slash ? 0 : (int)(slash - by + 1);
    char *made = NULL;
    PST_TRY(pst_grow_to(&reading->included, sizeof *reading->included, reading->n_included + 1,
                        "to read a run file"));
    if (asprintf(&made, "%.*s%s", folder, by, name) < 0)
        return pst_fail(PST_ENOMEM, "no memory to read a run file");
    reading->included[reading->n_included++] = made;
    *path = made;
    return PST_OK;
}

pst_status pst_include_open(pst_reading *reading, const pst_run_file *by, const char *name,
                            const char **path) {
    PST_TRY(keep_path(reading, by->name, name, path));
    return refuse_cycle(by, *path);
}

void pst_include_close(pst_reading *reading) {
    for (size_t i = 0; i < reading->n_included; i++) free(reading->included[i]);
    free(reading->included);
    reading->included = NULL;
    reading->n_included = 0;
}

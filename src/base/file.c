/* See file.h. */
#include "base/file.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

pst_status pst_file_create(const char *path, FILE **f) {
    FILE *opened = fopen(path, "we");
    if (!opened) return pst_fail(pst_status_of_errno(errno), "cannot write %s: %s", path, strerror(errno));
    *f = opened;
    return PST_OK;
}

pst_status pst_file_close(FILE *f, const char *path, pst_status status) {
    struct stat st;
    int file = fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode);
    int error = ferror(f) ? errno : 0; /* nothing that succeeds resets it */
    if (ferror(f) && !error) error = EIO;
    if (fclose(f) != 0 && !error) error = errno;
    if (error) status = pst_fail(pst_status_of_errno(error), "cannot write %s: %s", path, strerror(error));
    if (status != PST_OK && file) unlink(path);
    return status;
}

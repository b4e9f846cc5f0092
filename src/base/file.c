/* See file.h. */
#include "base/file.h"
#include <errno.h>
#include <stdlib.h>
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

static pst_status read_all(FILE *in, const char *path, size_t most, char **text, size_t *bytes) {
    size_t room = 0, used = 0, got;
    do {
        if (used == room) {
            room = room ? 2 * room : 65536;
            char *more = realloc(*text, room);
            if (!more) return pst_fail(PST_ENOMEM, "%s: no memory to read it", path);
            *text = more;
        }
        got = fread(*text + used, 1, room - used, in);
        used += got;
        if (used > most) return pst_fail(PST_EINPUT, "%s: larger than %zu bytes", path, most);
    } while (got);
    if (ferror(in)) return pst_fail(PST_EINPUT, "%s: %s", path, strerror(errno));
    *bytes = used;
    return PST_OK;
}

pst_status pst_file_read(const char *path, size_t most, char **text, size_t *bytes) {
    char *made = NULL;
    FILE *in = fopen(path, "rb");
    if (!in) return pst_fail(pst_status_of_errno(errno), "%s: %s", path, strerror(errno));
    pst_status status = read_all(in, path, most, &made, bytes);
    fclose(in);
    if (status == PST_OK) *text = made;
    else free(made);
    return status;
}

/* See file.h. */
#include "base/file.h"
#include <errno.h>
#include <signal.h>
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

static pst_status print_into(const char *path, pst_file_printer print, const void *what) {
    FILE *f = NULL;
    PST_TRY(pst_file_create(path, &f));
    return pst_file_close(f, path, print(what, f));
}

/* Where a link leads, the file is. */
static pst_status replace(const char *path, pst_file_printer print, const void *what) {
    char *real = realpath(path, NULL), *fresh = NULL;
    const char *at = real ? real : path;
    pst_status status = real || errno != ENOMEM ? PST_OK : pst_fail(PST_ENOMEM, "no memory to write %s", path);
    if (status == PST_OK && asprintf(&fresh, "%s.new", at) < 0)
        fresh = NULL, status = pst_fail(PST_ENOMEM, "no memory to write %s", path);
    if (status == PST_OK) status = print_into(fresh, print, what);
    if (status == PST_OK && rename(fresh, at) != 0) {
        status = pst_fail(pst_status_of_errno(errno), "cannot write %s: %s", path, strerror(errno));
        unlink(fresh);
    }
    free(real), free(fresh);
    return status;
}

pst_status pst_file_replace(const char *path, pst_file_printer print, const void *what) {
    struct stat st;
    sigset_t ends, before;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return print_into(path, print, what);
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT), sigaddset(&ends, SIGTERM), sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    pst_status status = replace(path, print, what);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
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

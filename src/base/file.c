/* See file.h. */
#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

pst_status pst_file_check_new(const char *path) {
    if (access(path, F_OK)) return PST_OK;
    return pst_fail(PST_EINPUT, "%s already exists; use --force to replace it", path);
}

static pst_status cannot_write(const char *path, int error) {
    return pst_fail(pst_status_of_errno(error), "cannot write %s: %s", path, strerror(error));
}

pst_status pst_file_close(FILE *f, const char *path, pst_status status) {
    struct stat st;
    int file = fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode);
    int error = ferror(f) ? errno : 0; /* success does not reset errno */
    if (ferror(f) && !error) error = EIO;
    if (fclose(f) != 0 && !error) error = errno;
    if (error)
        status = pst_fail(pst_status_of_errno(error), "cannot write %s: %s", path, strerror(error));
    if (status != PST_OK && file) unlink(path);
    return status;
}

static pst_status print_into(const char *path, pst_file_printer print, const void *what) {
    FILE *f = fopen(path, "we");
    if (!f) return cannot_write(path, errno);
    return pst_file_close(f, path, print(what, f));
}

/* Removes a file that a killed process may have left; O_EXCL refuses a file that another process
 * creates meanwhile. */
static FILE *open_new(const char *path) {
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    int error = errno;
    if (fd >= 0 && !f) close(fd);
    errno = error;
    return f;
}

pst_status pst_file_create_beside(const char *path, char **new_path, FILE **f) {
    char *name = NULL;
    if (asprintf(&name, "%s.new", path) < 0)
        return pst_fail(PST_ENOMEM, "no memory to write %s", path);
    FILE *opened = open_new(name);
    if (!opened) {
        pst_status status = cannot_write(path, errno);
        free(name);
        return status;
    }
    *new_path = name;
    *f = opened;
    return PST_OK;
}

/* Replaces whatever has this name. */
static pst_status replace_name(const char *path, pst_file_printer print, const void *what) {
    char *new_path = NULL;
    FILE *f = NULL;
    PST_TRY(pst_file_create_beside(path, &new_path, &f));
    pst_status status = pst_file_close(f, new_path, print(what, f));
    if (status == PST_OK && rename(new_path, path) != 0) {
        status = cannot_write(path, errno);
        unlink(new_path);
    }
    free(new_path);
    return status;
}

/* The file that a name leads to, through links; the caller frees it. A link to nothing gets an
 * empty file: *made is 1. NULL with errno: the link cannot be followed. */
static char *target_of(const char *path, int *made) {
    struct stat st;
    *made = 0;
    if (lstat(path, &st) != 0 || !S_ISLNK(st.st_mode)) return strdup(path);
    if (access(path, F_OK) != 0) {
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0) return NULL;
        close(fd);
        *made = 1;
    }
    return realpath(path, NULL);
}

static pst_status replace_target(const char *path, pst_file_printer print, const void *what) {
    int made;
    char *target = target_of(path, &made);
    if (!target) return cannot_write(path, errno);
    pst_status status = replace_name(target, print, what);
    if (status != PST_OK && made) unlink(target);
    free(target);
    return status;
}

/* Blocks signals that end the process until the replacement is complete. */
static pst_status uninterrupted(const char *path, pst_file_printer print, const void *what,
                                pst_status (*replace)(const char *path, pst_file_printer print,
                                                      const void *what)) {
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    pst_status status = replace(path, print, what);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

pst_status pst_file_replace(const char *path, pst_file_printer print, const void *what) {
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return print_into(path, print, what);
    return uninterrupted(path, print, what, replace_target);
}

pst_status pst_file_replace_own(const char *path, pst_file_printer print, const void *what) {
    return uninterrupted(path, print, what, replace_name);
}

static pst_status read_all(FILE *in, const char *path, size_t max_bytes, char **text,
                           size_t *bytes) {
    size_t capacity = 0, used = 0, got;
    do {
        if (used == capacity) {
            capacity = capacity ? 2 * capacity : 65536;
            char *more = realloc(*text, capacity);
            if (!more) return pst_fail(PST_ENOMEM, "%s: no memory to read the file", path);
            *text = more;
        }
        got = fread(*text + used, 1, capacity - used, in);
        used += got;
        if (used > max_bytes)
            return pst_fail(PST_EINPUT, "%s: the file is larger than the limit of %zu bytes", path,
                            max_bytes);
    } while (got);
    if (ferror(in)) return pst_fail(PST_EINPUT, "%s: %s", path, strerror(errno));
    (*text)[used] = 0; /* there is space: the last fread asked for more bytes and got none */
    *bytes = used;
    return PST_OK;
}

pst_status pst_file_read(const char *path, size_t max_bytes, char **text, size_t *bytes) {
    char *made = NULL;
    FILE *in = fopen(path, "rb");
    if (!in) return pst_fail(pst_status_of_errno(errno), "%s: %s", path, strerror(errno));
    pst_status status = read_all(in, path, max_bytes, &made, bytes);
    fclose(in);
    if (status == PST_OK) *text = made;
    else free(made);
    return status;
}

pst_status pst_file_parse(const char *path, size_t max_bytes, pst_file_parser parse, void *what) {
    char *text;
    size_t bytes;
    PST_TRY(pst_file_read(path, max_bytes, &text, &bytes));
    pst_status status = parse(text, bytes, path, what);
    free(text);
    return status;
}

/* See piece_file.h. Tokens, then the lengths of documents (8 bytes each), then the record. */
#include "data/piece_file.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/hash.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 1 << 14 };
static const char magic[8] = "PSTPIECE", to_encode[] = "to encode text";

struct pst_piece_writer {
    char *path, *new_path;
    FILE *f; /* holds the lock */
    pst_hasher *hasher;
    uint32_t bytes; /* per token */
    pst_piece_record record;
    uint64_t *length;
    size_t capacity;
};

static pst_status cannot(const char *what, const char *path) {
    return pst_fail(pst_status_of_errno(errno), "cannot %s %s: %s", what, path, strerror(errno));
}

/* --- writing ---------------------------------------------------------------------------------- */

static void release(pst_piece_writer *w) {
    if (!w) return;
    if (w->f) fclose(w->f);
    if (w->hasher) pst_hasher_close(w->hasher);
    free(w->path);
    free(w->new_path);
    free(w->length);
    free(w);
}

/* 1: the file that was opened and locked still has its name, and the piece is not finished: another
 * process may have renamed it since. */
static int is_ours(const pst_piece_writer *w, int fd) {
    struct stat opened, named;
    return access(w->path, F_OK) && !fstat(fd, &opened) && !stat(w->new_path, &named) &&
           opened.st_ino == named.st_ino;
}

/* *claimed 0: it belongs to another process, or the folder has been removed: all is finished. */
static pst_status open_locked(pst_piece_writer *w, int *claimed) {
    int fd = open(w->new_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    *claimed = 0;
    if (fd < 0) return errno == ENOENT ? PST_OK : cannot("write", w->new_path);
    int locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (!locked || !is_ours(w, fd)) {
        pst_status status =
            locked || errno == EWOULDBLOCK || errno == EINTR ? PST_OK : cannot("lock", w->new_path);
        close(fd);
        return status;
    }
    if (ftruncate(fd, 0) || !(w->f = fdopen(fd, "wb"))) {
        pst_status status = cannot("write", w->new_path);
        close(fd);
        return status;
    }
    *claimed = 1;
    return PST_OK;
}

pst_status pst_piece_file_claim(const char *path, uint64_t key, uint32_t bytes_per_token,
                                pst_piece_writer **out) {
    pst_piece_writer *w = calloc(1, sizeof *w);
    int claimed = 0;
    *out = NULL;
    if (!w) return pst_no_memory(to_encode);
    w->bytes = bytes_per_token;
    w->record.key = key;
    memcpy(w->record.magic, magic, sizeof magic);
    w->path = strdup(path);
    if (asprintf(&w->new_path, "%s.new", path) < 0) w->new_path = NULL;
    w->hasher = pst_hasher_open();
    pst_status status = w->path && w->new_path && w->hasher ? PST_OK : pst_no_memory(to_encode);
    if (status == PST_OK) status = open_locked(w, &claimed);
    if (claimed) *out = w;
    else release(w);
    return status;
}

static pst_status put(pst_piece_writer *w, const void *what, size_t bytes) {
    if (bytes && fwrite(what, bytes, 1, w->f) != 1) return cannot("write", w->new_path);
    pst_hasher_add(w->hasher, what, bytes);
    return PST_OK;
}

pst_status pst_piece_file_add(pst_piece_writer *w, const int32_t *id, size_t n) {
    uint16_t small[BLOCK];
    for (size_t done = 0, now; w->bytes == 2 && done < n; done += now) {
        now = n - done < BLOCK ? n - done : BLOCK;
        for (size_t i = 0; i < now; i++) small[i] = (uint16_t)id[done + i];
        PST_TRY(put(w, small, now * sizeof *small));
    }
    if (w->bytes == 4) PST_TRY(put(w, id, n * sizeof *id));
    w->record.tokens += n;
    w->record.open += n;
    return PST_OK;
}

pst_status pst_piece_file_end_document(pst_piece_writer *w) {
    PST_TRY(pst_grow(&w->length, sizeof *w->length, w->record.documents, &w->capacity, to_encode));
    w->length[w->record.documents++] = w->record.open;
    w->record.open = 0;
    return PST_OK;
}

pst_status pst_piece_file_finish(pst_piece_writer *w, uint64_t skipped, int ended,
                                 pst_status status) {
    if (status == PST_OK) status = put(w, w->length, w->record.documents * sizeof *w->length);
    w->record.skipped = skipped;
    w->record.ended = (uint64_t)ended;
    w->record.hash = pst_hasher_value(w->hasher);
    if (status == PST_OK && (fwrite(&w->record, sizeof w->record, 1, w->f) != 1 || fflush(w->f)))
        status = cannot("write", w->new_path);
    /* while it is locked: nobody else may have begun it */
    if (status == PST_OK && rename(w->new_path, w->path)) status = cannot("rename", w->new_path);
    if (status != PST_OK) unlink(w->new_path);
    release(w);
    return status;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int is_whole(const pst_piece_record *r, uint64_t key, uint32_t bytes_per_token, off_t size) {
    uint64_t all = (uint64_t)size - sizeof *r;
    return !memcmp(r->magic, magic, sizeof magic) && r->key == key &&
           r->tokens <= all / bytes_per_token && r->documents <= all / sizeof(uint64_t) &&
           all == r->tokens * bytes_per_token + r->documents * sizeof(uint64_t);
}

static int read_record(int fd, uint64_t key, uint32_t bytes_per_token, pst_piece_record *r) {
    struct stat st;
    return !fstat(fd, &st) && st.st_size >= (off_t)sizeof *r &&
           pread(fd, r, sizeof *r, st.st_size - (off_t)sizeof *r) == sizeof *r &&
           is_whole(r, key, bytes_per_token, st.st_size);
}

pst_status pst_piece_file_find(const char *path, uint64_t key, uint32_t bytes_per_token, int *done,
                               pst_piece_record *record) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *done = 0;
    if (fd < 0) return errno == ENOENT ? PST_OK : cannot("read", path);
    *done = read_record(fd, key, bytes_per_token, record);
    close(fd);
    if (!*done && unlink(path) && errno != ENOENT) return cannot("remove", path);
    return PST_OK;
}

/* The hash of all but the record; leaves the stream at its start. */
static int hash_of(FILE *f, uint64_t bytes, uint64_t *hash) {
    char block[BLOCK];
    pst_hasher *h = pst_hasher_open();
    size_t now = 1;
    for (; h && bytes && now; bytes -= now) {
        now = fread(block, 1, bytes < BLOCK ? (size_t)bytes : BLOCK, f);
        pst_hasher_add(h, block, now);
    }
    if (h) *hash = pst_hasher_value(h);
    if (h) pst_hasher_close(h);
    rewind(f);
    return h && !bytes;
}

pst_status pst_piece_file_open(const char *path, uint64_t key, uint32_t bytes_per_token,
                               pst_piece_record *record, uint64_t **length, FILE **f) {
    uint64_t hash = 0;
    if (!(*f = fopen(path, "rbe"))) return cannot("read", path);
    int good = read_record(fileno(*f), key, bytes_per_token, record);
    uint64_t tokens = good ? record->tokens * bytes_per_token : 0;
    uint64_t lengths = good ? record->documents * sizeof **length : 0;
    *length = malloc(lengths + 1);
    good = good && *length && hash_of(*f, tokens + lengths, &hash) && hash == record->hash &&
           pread(fileno(*f), *length, lengths, (off_t)tokens) == (ssize_t)lengths;
    if (good) return PST_OK;
    free(*length);
    fclose(*f);
    return pst_fail(PST_EINPUT, "%s is damaged", path);
}

/* See text_file.h. Memory does not depend on what a compressed file expands to. */
#include "tokenizer/text_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { BLOCK = 1 << 16, RECENT = 8 * BLOCK, MOST_TIMES = 200 };
static const uint64_t FREE_BYTES = 64 << 20; /* that any compressed file may expand to */

struct pst_text_file {
    char *path;
    int fd;
    uint64_t at, stored; /* bytes of text, and of the file, that have been taken */
    gzFile gzip;         /* NULL: not compressed by gzip; owns a file descriptor of its own */
    ZSTD_DStream *zstd;  /* NULL: not compressed by Zstandard */
    uint8_t *block;      /* [BLOCK] of compressed data for zstd, not yet taken: */
    ZSTD_inBuffer in;
    size_t hint; /* 0: a frame has ended */
    /* The text that was decompressed last, and where it begins: who reads one piece after another
     * goes back a little. */
    uint8_t *recent; /* [RECENT] */
    size_t n_recent;
    uint64_t recent_at;
};

static pst_status cannot_read(const pst_text_file *f, const char *why) {
    return pst_fail(PST_EINPUT, "%s: %s", f->path, why);
}

const char *pst_text_file_format(const uint8_t *first, size_t n) {
    if (n >= 2 && !memcmp(first, "\x1f\x8b", 2)) return "gzip";
    if (n >= 4 && !memcmp(first, "\x28\xb5\x2f\xfd", 4)) return "Zstandard";
    return NULL;
}

/* --- opening ---------------------------------------------------------------------------------- */

static pst_status open_gzip(pst_text_file *f) {
    int fd = open(f->path, O_RDONLY | O_CLOEXEC); /* gzclose closes it */
    f->gzip = fd < 0 ? NULL : gzdopen(fd, "rb");
    if (f->gzip) return PST_OK;
    if (fd < 0) return pst_fail(pst_status_of_errno(errno), "%s: %s", f->path, strerror(errno));
    close(fd);
    return pst_no_memory("to decompress a file");
}

static pst_status open_zstd(pst_text_file *f) {
    f->zstd = ZSTD_createDStream();
    f->block = malloc(BLOCK);
    f->in = (ZSTD_inBuffer){f->block, 0, 0};
    return f->zstd && f->block ? PST_OK : pst_no_memory("to decompress a file");
}

static pst_status open_format(pst_text_file *f) {
    uint8_t first[PST_TEXT_FILE_FIRST];
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    ssize_t n = f->fd < 0 ? -1 : pread(f->fd, first, sizeof first, 0);
    if (n < 0 && errno == ESPIPE) return PST_OK; /* a pipe is text as it is */
    if (n < 0) return pst_fail(pst_status_of_errno(errno), "%s: %s", f->path, strerror(errno));
    const char *format = pst_text_file_format(first, (size_t)n);
    if (!format) return PST_OK;
    if (!(f->recent = malloc(RECENT))) return pst_no_memory("to decompress a file");
    return *format == 'g' ? open_gzip(f) : open_zstd(f);
}

pst_status pst_text_file_open(const char *path, pst_text_file **out) {
    pst_text_file *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(path))) {
        free(f);
        return pst_no_memory("to read text");
    }
    pst_status status = open_format(f);
    if (status == PST_OK) *out = f;
    else pst_text_file_close(f);
    return status;
}

void pst_text_file_close(pst_text_file *f) {
    if (!f) return;
    if (f->gzip) gzclose_r(f->gzip);
    if (f->fd >= 0) close(f->fd);
    ZSTD_freeDStream(f->zstd);
    free(f->block);
    free(f->recent);
    free(f->path);
    free(f);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Of the file as it is stored. */
static pst_status read_stored(pst_text_file *f, void *out, size_t n, size_t *got) {
    ssize_t now;
    do now = read(f->fd, out, n);
    while (now < 0 && errno == EINTR);
    if (now < 0) return pst_fail(pst_status_of_errno(errno), "%s: %s", f->path, strerror(errno));
    *got = (size_t)now;
    f->stored += *got;
    return PST_OK;
}

static pst_status read_gzip(pst_text_file *f, void *out, size_t n, size_t *got) {
    int error, now = gzread(f->gzip, out, n < INT32_MAX ? (unsigned)n : INT32_MAX);
    const char *why = gzerror(f->gzip, &error);
    if (now < 0 || (error != Z_OK && error != Z_STREAM_END)) {
        const char *colon = strstr(why, ": "); /* zlib names the file too, as it knows it */
        if (colon) why = colon + 2;
        return cannot_read(f, error == Z_ERRNO ? strerror(errno) : why);
    }
    *got = (size_t)now;
    f->stored = (uint64_t)gzoffset(f->gzip);
    return PST_OK;
}

static pst_status read_zstd(pst_text_file *f, void *out, size_t n, size_t *got) {
    ZSTD_outBuffer to = {out, n, 0};
    while (!to.pos) {
        if (f->in.pos == f->in.size) {
            PST_TRY(read_stored(f, f->block, BLOCK, &f->in.size));
            f->in.pos = 0;
            if (!f->in.size && f->hint) return cannot_read(f, "the compressed data ends too early");
            if (!f->in.size) break;
        }
        f->hint = ZSTD_decompressStream(f->zstd, &to, &f->in);
        if (ZSTD_isError(f->hint)) return cannot_read(f, ZSTD_getErrorName(f->hint));
    }
    *got = to.pos;
    return PST_OK;
}

static pst_status check_size(const pst_text_file *f) {
    uint64_t bytes = f->recent_at + f->n_recent;
    if (bytes <= FREE_BYTES || bytes / MOST_TIMES <= f->stored) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "%s: the compressed data expands to more than %d times its size, which no text "
                    "does; decompress the file first if this is meant",
                    f->path, MOST_TIMES);
}

/* Decompresses the next block. */
static pst_status expand(pst_text_file *f, size_t *got) {
    if (f->n_recent + BLOCK > RECENT) {
        memmove(f->recent, f->recent + RECENT / 2, f->n_recent - RECENT / 2);
        f->n_recent -= RECENT / 2;
        f->recent_at += RECENT / 2;
    }
    uint8_t *to = f->recent + f->n_recent;
    PST_TRY(f->gzip ? read_gzip(f, to, BLOCK, got) : read_zstd(f, to, BLOCK, got));
    f->n_recent += *got;
    return check_size(f);
}

static pst_status read_expanded(pst_text_file *f, void *out, size_t n, size_t *got) {
    size_t before = (size_t)(f->at - f->recent_at), now = 1;
    if (before == f->n_recent) {
        PST_TRY(expand(f, &now));
        before = (size_t)(f->at - f->recent_at);
    }
    *got = f->n_recent - before < n ? f->n_recent - before : n;
    memcpy(out, f->recent + before, *got);
    return PST_OK;
}

pst_status pst_text_file_read(pst_text_file *f, void *out, size_t n, size_t *got) {
    size_t now = 1;
    *got = 0;
    while (*got < n && now) {
        uint8_t *to = (uint8_t *)out + *got;
        PST_TRY(f->recent ? read_expanded(f, to, n - *got, &now)
                          : read_stored(f, to, n - *got, &now));
        *got += now;
        f->at += now;
    }
    return PST_OK;
}

static pst_status rewind_file(pst_text_file *f) {
    f->at = f->stored = f->recent_at = 0;
    f->n_recent = f->hint = f->in.pos = f->in.size = 0;
    if (f->zstd) ZSTD_initDStream(f->zstd);
    int failed = f->gzip ? gzrewind(f->gzip) != 0 : lseek(f->fd, 0, SEEK_SET) < 0;
    return failed ? cannot_read(f, "it cannot be read from its start again") : PST_OK;
}

pst_status pst_text_file_seek(pst_text_file *f, uint64_t at) {
    if (at == f->at) return PST_OK;
    if (!f->recent) {
        if (lseek(f->fd, (off_t)at, SEEK_SET) < 0) return cannot_read(f, strerror(errno));
        f->at = f->stored = at;
        return PST_OK;
    }
    if (at < f->recent_at) PST_TRY(rewind_file(f));
    for (size_t got = 1; got && f->recent_at + f->n_recent < at;) PST_TRY(expand(f, &got));
    f->at = at < f->recent_at + f->n_recent ? at : f->recent_at + f->n_recent;
    return PST_OK;
}

uint64_t pst_text_file_stored(const pst_text_file *f) { return f->stored; }

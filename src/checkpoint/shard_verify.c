/* Reads a shard back while it is written: with direct I/O directly behind the writers, else
 * after the sync and after dropping the page cache. What is read must have the hash of what was
 * written. */
#include "checkpoint/shard_parts.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const uint64_t PATIENCE_NS = 100000000;

/* 1 if the file's bytes up to `to` can be read back; 0: the round failed. */
static int await(pst_shard *s, uint64_t to, int after_sync) {
    pthread_mutex_lock(&s->lock);
    while (s->status == PST_OK && (after_sync ? !s->synced : s->written < to))
        pst_shard_wait_until(s, pst_monotonic_ns() + PATIENCE_NS);
    int good = s->status == PST_OK;
    pthread_mutex_unlock(&s->lock);
    return good;
}

/* Direct reads need whole blocks and may return more than requested, up to the end of the piece. */
static pst_status read_at(const pst_shard *s, uint64_t at, uint64_t bytes, uint8_t *buffer) {
    uint64_t align = s->direct >= 0 ? s->align : 1, whole = (bytes + align - 1) / align * align,
             done = 0;
    int fd = s->direct >= 0 ? s->direct : s->fd;
    while (done < bytes) {
        ssize_t n = pread(fd, buffer + done, whole - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return pst_fail(PST_ENOMEM, "cannot read %s back: %s", s->path, strerror(errno));
        if (n == 0)
            return pst_fail(PST_ENOMEM, "cannot read %s back: the file is too short", s->path);
        done += (uint64_t)n;
    }
    return PST_OK;
}

static pst_status compare(pst_shard *s, const uint8_t *data, uint64_t bytes) {
    while (bytes || (s->read_next < s->n && s->tensor[s->read_next].bytes == 0)) {
        const pst_shard_tensor *t = &s->tensor[s->read_next];
        uint64_t left = t->bytes - s->read_offset, n = left < bytes ? left : bytes;
        pst_hasher_add(s->reading, data, n);
        data += n;
        bytes -= n;
        s->read_offset += n;
        if (s->read_offset < t->bytes) continue;
        uint64_t hash = pst_hasher_value(s->reading);
        if (hash != t->hash)
            return pst_fail(PST_ENOMEM,
                            "%s: tensor %s is damaged on the disk: the hash of the bytes read back "
                            "is %016" PRIx64 ", expected %016" PRIx64,
                            s->path, t->name, hash, t->hash);
        pst_hasher_reset(s->reading);
        s->read_next++;
        s->read_offset = 0;
    }
    return PST_OK;
}

static pst_status compare_header(const pst_shard *s, uint8_t *buffer) {
    for (uint64_t at = 0; at < s->header_bytes; at += s->piece) {
        uint64_t n = s->header_bytes - at < s->piece ? s->header_bytes - at : s->piece;
        PST_TRY(read_at(s, at, n, buffer));
        if (memcmp(buffer, s->header + at, n))
            return pst_fail(PST_ENOMEM, "%s: the header is damaged on the disk", s->path);
    }
    return PST_OK;
}

/* If the page cache is used, reading waits for the sync: earlier reads would delay the writers.
 * Cached pages are dropped, so that the bytes come from the disk. Without direct I/O, writing to
 * the disk starts as soon as there is something to write. */
static int await_sync(pst_shard *s, uint64_t at) {
    for (uint64_t to; s->direct < 0 && at < s->end; at = to) {
        to = s->end - at < s->piece ? s->end : at + s->piece;
        if (!await(s, to, 0)) return 0;
        sync_file_range(s->fd, (off_t)at, (off_t)(to - at), SYNC_FILE_RANGE_WRITE);
    }
    if (!await(s, 0, 1)) return 0;
    posix_fadvise(s->fd, 0, 0, POSIX_FADV_DONTNEED);
    return 1;
}

/* 1 if [s->read, to) can be read back. */
static int await_piece(pst_shard *s, uint64_t to) {
    if (s->after_sync) return 1;
    if (!await(s, s->read + 1, 0)) return 0; /* the file is open */
    if (s->direct >= 0 && !await(s, to, 0)) return 0;
    pthread_mutex_lock(&s->lock);
    s->after_sync = s->late || s->direct < 0;
    pthread_mutex_unlock(&s->lock);
    return s->after_sync ? await_sync(s, s->read) : 1;
}

int pst_shard_verify(pst_shard *s, void *buffer) {
    pst_status status;
    uint64_t at = s->read, to = s->end - at < s->piece ? s->end : at + s->piece;
    if (at == s->end) {
        if (!await(s, 0, 1)) return 0;
        status = compare_header(s, buffer);
    } else {
        if (!await_piece(s, to)) return 0;
        status = read_at(s, at, to - at, buffer);
        if (status == PST_OK) status = compare(s, buffer, to - at);
    }
    s->read = to;
    if (status != PST_OK) pst_shard_fail(s, status);
    return status == PST_OK && at < s->end;
}

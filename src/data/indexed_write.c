/* Writing Megatron's indexed data set; see indexed.h. */
#include "base/file.h"
#include "base/grow.h"
#include "data/indexed.h"
#include "data/indexed_format.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 4096, SMALL_VOCABULARY = 65500 };

struct pst_indexed_writer {
    char *bin, *idx, *bin_new; /* names */
    FILE *f;
    uint32_t bytes;  /* per token */
    int32_t *length; /* [n] of documents */
    size_t n, capacity;
    uint64_t tokens; /* of the document that has not ended */
};

static pst_status cannot_write(const char *path) {
    return pst_fail(pst_status_of_errno(errno), "cannot write %s: %s", path, strerror(errno));
}

static void release(pst_indexed_writer *w) {
    free(w->bin);
    free(w->idx);
    free(w->bin_new);
    free(w->length);
    free(w);
}

uint32_t pst_indexed_bytes(uint32_t vocabulary) { return vocabulary < SMALL_VOCABULARY ? 2 : 4; }

pst_status pst_indexed_create(const char *prefix, uint32_t vocabulary, pst_indexed_writer **out) {
    pst_indexed_writer *w = calloc(1, sizeof *w);
    if (!w) return pst_no_memory("to write tokens");
    w->bytes = pst_indexed_bytes(vocabulary);
    pst_status status = PST_OK;
    if (asprintf(&w->bin, "%s.bin", prefix) < 0) w->bin = NULL;
    if (asprintf(&w->idx, "%s.idx", prefix) < 0) w->idx = NULL;
    if (!w->bin || !w->idx) status = pst_no_memory("to write tokens");
    if (status == PST_OK) status = pst_file_create_beside(w->bin, &w->bin_new, &w->f);
    if (status != PST_OK) {
        release(w);
        return status;
    }
    *out = w;
    return PST_OK;
}

pst_status pst_indexed_add(pst_indexed_writer *w, const int32_t *token, size_t n) {
    uint16_t small[PIECE];
    for (size_t done = 0, now; done < n; done += now) {
        now = n - done < PIECE ? n - done : PIECE;
        const void *from = token + done;
        if (w->bytes == 2) {
            for (size_t i = 0; i < now; i++) small[i] = (uint16_t)token[done + i];
            from = small;
        }
        if (fwrite(from, w->bytes, now, w->f) != now) return cannot_write(w->bin_new);
    }
    w->tokens += n;
    return PST_OK;
}

pst_status pst_indexed_copy(pst_indexed_writer *w, FILE *from, uint64_t n) {
    uint8_t block[4 * PIECE];
    for (uint64_t left = n, now; left; left -= now) {
        now = left < PIECE ? left : PIECE;
        if (fread(block, w->bytes, now, from) != now)
            return pst_fail(PST_EINPUT, "%s: tokens to copy are missing", w->bin);
        if (fwrite(block, w->bytes, now, w->f) != now) return cannot_write(w->bin_new);
    }
    w->tokens += n;
    return PST_OK;
}

pst_status pst_indexed_end_at(pst_indexed_writer *w, uint64_t tokens) {
    if (tokens > INT32_MAX)
        return pst_fail(PST_EINPUT,
                        "%s: a document has %llu tokens; the format allows %d in a sequence",
                        w->bin, (unsigned long long)tokens, INT32_MAX);
    PST_TRY(pst_grow(&w->length, sizeof *w->length, w->n, &w->capacity,
                     "for the lengths of documents"));
    w->length[w->n++] = (int32_t)tokens;
    w->tokens -= tokens;
    return PST_OK;
}

pst_status pst_indexed_end(pst_indexed_writer *w) { return pst_indexed_end_at(w, w->tokens); }

static int put(FILE *f, const void *what, size_t bytes) { return fwrite(what, bytes, 1, f) == 1; }

static pst_status print_index(const void *what, FILE *f) {
    const pst_indexed_writer *w = what;
    const uint64_t version = PST_INDEXED_VERSION, n = w->n, documents = n + 1;
    const uint8_t type = w->bytes == 2 ? PST_INDEXED_UINT16 : PST_INDEXED_INT32;
    uint64_t at = 0;
    int good = put(f, PST_INDEXED_MAGIC, PST_INDEXED_MAGIC_BYTES) && put(f, &version, 8) &&
               put(f, &type, 1) && put(f, &n, 8) && put(f, &documents, 8);
    if (good && n) good = fwrite(w->length, sizeof *w->length, n, f) == n;
    for (uint64_t i = 0; good && i < n; i++) {
        good = put(f, &at, 8);
        at += (uint64_t)w->length[i] * w->bytes;
    }
    for (uint64_t i = 0; good && i <= n; i++) good = put(f, &i, 8);
    return good ? PST_OK : cannot_write(w->idx);
}

pst_status pst_indexed_finish(pst_indexed_writer *w, pst_status status) {
    if (!w) return status;
    status = pst_file_close(w->f, w->bin_new, status);
    int closed = status == PST_OK;
    /* The index of another .bin would be worse than none. */
    if (closed && unlink(w->idx) && errno != ENOENT) status = cannot_write(w->idx);
    if (status == PST_OK && rename(w->bin_new, w->bin)) status = cannot_write(w->bin);
    if (closed && status != PST_OK) unlink(w->bin_new);
    if (status == PST_OK) status = pst_file_replace_own(w->idx, print_index, w);
    release(w);
    return status;
}

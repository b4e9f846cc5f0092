/* See tokens.h. llm.c's shards (dev/data/data_common.py): 256 numbers of 32 bits (magic, version,
 * number of tokens, zeros), then the tokens: 16 bits each for GPT-2, 32 bits for Llama 3. */
#include "data/tokens.h"
#include "base/grow.h"
#include "data/encode_record.h"
#include "data/files.h"
#include "data/indexed.h"
#include "data/mapped.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHARD_MAGIC = 20240520, SHARD_VERSION = 1, WIDE_MAGIC = 20240801, WIDE_VERSION = 7 };
enum { HEADER_BYTES = 1024 };

typedef struct {
    char *path;
    pst_indexed *indexed; /* NULL: `file` has the tokens */
    pst_mapped file;
    uint32_t skip, bytes; /* of the header; per token */
    uint64_t first, n;    /* number of the first token; number of tokens */
} source;
struct pst_tokens {
    source *source;
    size_t n, capacity;
    uint64_t total;
    uint32_t vocabulary;
};

/* --- opening ---------------------------------------------------------------------------------- */

static uint32_t u32_at(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* EINPUT: the header does not agree with the file's size. */
static pst_status read_header(source *s) {
    const uint8_t *at = s->file.byte;
    uint32_t magic = s->file.bytes >= HEADER_BYTES ? u32_at(at) : 0;
    uint64_t left = s->file.bytes;
    s->bytes = 2;
    if (magic == SHARD_MAGIC || magic == WIDE_MAGIC) {
        uint32_t expected = magic == SHARD_MAGIC ? SHARD_VERSION : WIDE_VERSION;
        s->bytes = magic == SHARD_MAGIC ? 2 : 4;
        s->skip = HEADER_BYTES;
        left -= HEADER_BYTES;
        if (u32_at(at + 4) != expected)
            return pst_fail(PST_EINPUT, "%s: version %u of llm.c's format; expected %u", s->path,
                            u32_at(at + 4), expected);
        if (left / s->bytes != u32_at(at + 8))
            return pst_fail(PST_EINPUT, "%s: the header says %u tokens, but the file has %llu",
                            s->path, u32_at(at + 8), (unsigned long long)(left / s->bytes));
    }
    const char *end = strrchr(s->path, '.');
    if (!s->skip && (!end || strcmp(end, ".bin")))
        return pst_fail(
            PST_EINPUT,
            "%s: neither an indexed data set, nor tokens of llm.c, nor a file *.bin with "
            "tokens of 16 bits",
            s->path);
    if (left % s->bytes)
        return pst_fail(PST_EINPUT, "%s: %llu bytes are not a whole number of tokens of %u bytes",
                        s->path, (unsigned long long)left, s->bytes);
    s->n = left / s->bytes;
    return PST_OK;
}

static pst_status open_source(source *s, const char *prefix) {
    if (prefix) {
        PST_TRY(pst_indexed_open(prefix, &s->indexed));
        s->n = pst_indexed_tokens(s->indexed);
        return PST_OK;
    }
    PST_TRY(pst_mapped_open(s->path, &s->file));
    return read_header(s);
}

/* prefix: of an indexed data set; NULL: path is a file of another format. */
static pst_status add_source(pst_tokens *t, const char *path, const char *prefix) {
    PST_TRY(pst_grow(&t->source, sizeof *t->source, t->n, &t->capacity, "for a list of files"));
    source *s = &t->source[t->n];
    *s = (source){.path = strdup(path), .first = t->total};
    if (!s->path) return pst_no_memory("for a path");
    t->n++; /* closed with the others from now on */
    PST_TRY(open_source(s, prefix));
    t->total += s->n;
    return PST_OK;
}

/* The bytes of `path` before `ending`; 0: it does not end in it. */
static size_t before(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    return n > m && !strcmp(path + n - m, ending) ? n - m : 0;
}
static const char *const beside_bin[2] = {".idx", PST_ENCODE_RECORD_ENDING};

/* The prefix of an indexed data set that `path` names; NULL: it names none. The caller frees. */
static char *prefix_of(const char *path) {
    size_t n = before(path, ".bin");
    for (int i = 0; !n && i < 2; i++) n = before(path, beside_bin[i]);
    if (!n) n = strlen(path);
    char *idx = NULL;
    if (asprintf(&idx, "%.*s.idx", (int)n, path) < 0) return NULL;
    if (access(idx, F_OK)) {
        free(idx);
        return NULL;
    }
    idx[n] = 0;
    return idx;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const pst_file *)a)->path, ((const pst_file *)b)->path);
}

/* *beside: 1: `path` is the index or the record of another file of the list, which is sorted. */
static pst_status find_bin(const pst_file_list *list, const char *path, int *beside) {
    *beside = 0;
    size_t n = before(path, beside_bin[0]);
    if (!n) n = before(path, beside_bin[1]);
    if (!n) return PST_OK;
    pst_file bin = {.path = NULL};
    if (asprintf(&bin.path, "%.*s.bin", (int)n, path) < 0) return pst_no_memory("for a path");
    *beside = bsearch(&bin, list->file, list->n, sizeof bin, by_path) != NULL;
    free(bin.path);
    return PST_OK;
}

/* The files that a folder, a pattern or a path stands for. A pattern may be of prefixes: if no file
 * matches, those whose .idx files match. */
static pst_status find_files(char *path, pst_file_list *list) {
    char *idx = NULL;
    pst_status status = pst_files_expand(&path, 1, list);
    if (status != PST_EINPUT || !strpbrk(path, "*?[")) return status;
    if (asprintf(&idx, "%s.idx", path) < 0) return pst_no_memory("for a path");
    status = pst_files_expand(&idx, 1, list);
    free(idx);
    return status == PST_EINPUT ? pst_files_expand(&path, 1, list) : status;
}

/* A data set with both files in the list is added once. */
static pst_status add_found(pst_tokens *t, char *path) {
    pst_file_list list = {0};
    PST_TRY(find_files(path, &list));
    pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < list.n; i++) {
        const char *found = list.file[i].path;
        int beside;
        status = find_bin(&list, found, &beside);
        char *prefix = beside ? NULL : prefix_of(found);
        if (status == PST_OK && !beside) status = add_source(t, found, prefix);
        free(prefix);
    }
    pst_files_free(&list);
    return status;
}

static pst_status add_path(pst_tokens *t, char *path) {
    char *prefix = prefix_of(path);
    pst_status status = prefix ? add_source(t, path, prefix) : add_found(t, path);
    free(prefix);
    return status;
}

pst_status pst_tokens_open(char *const *path, uint32_t n, uint32_t vocabulary, pst_tokens **out) {
    pst_tokens *t = calloc(1, sizeof *t);
    if (!t) return pst_no_memory("for files of tokens");
    t->vocabulary = vocabulary;
    for (uint32_t i = 0; i < n; i++) {
        pst_status status = add_path(t, path[i]);
        if (status == PST_OK) continue;
        pst_tokens_close(t);
        return status;
    }
    *out = t;
    return PST_OK;
}

void pst_tokens_close(pst_tokens *t) {
    if (!t) return;
    for (size_t i = 0; i < t->n; i++) {
        pst_indexed_close(t->source[i].indexed);
        pst_mapped_close(&t->source[i].file);
        free(t->source[i].path);
    }
    free(t->source);
    free(t);
}

uint64_t pst_tokens_count(const pst_tokens *t) { return t->total; }

uint64_t pst_tokens_hash(const pst_tokens *t) {
    uint64_t hash = 0;
    for (size_t i = 0; i < t->n; i++) {
        const source *s = &t->source[i];
        hash = s->indexed ? pst_indexed_hash(s->indexed, hash) : pst_mapped_hash(&s->file, hash);
    }
    return hash;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void copy(const source *s, uint64_t at, uint64_t n, int32_t *out) {
    const uint8_t *from = s->file.byte + s->skip + at * s->bytes;
    if (s->bytes == 4) {
        memcpy(out, from, n * sizeof *out);
        return;
    }
    for (uint64_t i = 0; i < n; i++) out[i] = from[2 * i] | from[2 * i + 1] << 8;
}

static pst_status read_source(const pst_tokens *t, const source *s, uint64_t at, uint64_t n,
                              int32_t *out) {
    pst_status status = PST_OK;
    if (s->indexed) status = pst_indexed_read(s->indexed, at, n, out);
    else copy(s, at, n, out);
    if (status != PST_OK) return pst_fail_in(status, "data: %s", s->path);
    uint32_t most = t->vocabulary ? t->vocabulary : (uint32_t)INT32_MAX + 1;
    for (uint64_t i = 0; i < n; i++)
        if ((uint32_t)out[i] >= most)
            return pst_fail(PST_EINPUT,
                            "data: %s: token %llu is %u, but model.vocabulary is %u: the tokens "
                            "come from another tokenizer, or the model needs a larger vocabulary",
                            s->path, (unsigned long long)(at + i), (uint32_t)out[i], t->vocabulary);
    return PST_OK;
}

/* The last source that begins at or before token `at`; empty ones have no tokens. */
static size_t source_of(const pst_tokens *t, uint64_t at) {
    size_t low = 0, high = t->n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (t->source[middle].first <= at) low = middle;
        else high = middle;
    }
    return low;
}

pst_status pst_tokens_read(const pst_tokens *t, uint64_t at, uint64_t n, int32_t *out) {
    if (at > t->total || n > t->total - at)
        return pst_fail(PST_EINTERNAL, "data: read beyond the end of the tokens");
    for (size_t i = n ? source_of(t, at) : 0; n; i++) {
        const source *s = &t->source[i];
        uint64_t here = s->first + s->n - at, take = here < n ? here : n;
        PST_TRY(read_source(t, s, at - s->first, take, out));
        out += take;
        at += take;
        n -= take;
    }
    return PST_OK;
}

/* --- looking ---------------------------------------------------------------------------------- */

enum { BLOCK = 1 << 14 }; /* tokens read at once */

/* share: number of tokens to read, at least 1; block: memory. */
static pst_status look_at(const pst_tokens *t, const source *s, uint64_t share, int32_t wanted,
                          int32_t *block, pst_tokens_seen *seen) {
    const uint64_t most = s->n < share ? s->n : share;
    const uint64_t size = most < BLOCK ? most : BLOCK;
    if (!size) return PST_OK;
    /* of a whole file the last block is not cut, but overlaps the one before */
    const uint64_t n = s->n <= share ? (s->n + size - 1) / size : share / size;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = n > 1 ? i * (s->n - size) / (n - 1) : 0;
        PST_TRY(read_source(t, s, at, size, block));
        for (uint64_t k = 0; k < size; k++) seen->found |= block[k] == wanted;
    }
    seen->n += s->n <= share ? s->n : n * size;
    return PST_OK;
}

pst_status pst_tokens_look(const pst_tokens *t, int32_t wanted, pst_tokens_seen *seen) {
    pst_status status = PST_OK;
    int32_t *block = malloc(BLOCK * sizeof *block);
    *seen = (pst_tokens_seen){0};
    if (!block) return pst_no_memory("for tokens");
    const uint64_t share = t->n < PST_TOKENS_SEEN ? PST_TOKENS_SEEN / (t->n + !t->n) : 1;
    for (size_t i = 0; status == PST_OK && i < t->n; i++)
        status = look_at(t, &t->source[i], share, wanted, block, seen);
    free(block);
    return status;
}

uint64_t pst_tokens_documents(const pst_tokens *t) {
    uint64_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        if (t->source[i].indexed) n += pst_indexed_documents(t->source[i].indexed);
    return n;
}

/* See cache.h. The lock is a file beside the data set; the system releases it when its owner
 * ends. */
#include "data/cache.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/indexed.h"
#include "tokenizer/stream.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 1 /* of the way in which text becomes tokens */, BLOCK = 1 << 20 };

typedef struct {
    const pst_data_config *c;
    const char *what;
    pst_tokenizer *tokenizer;
    pst_file_list list;
    char *folder, *prefix, *lock; /* prefix: path of the data set without .bin and .idx */
    uint64_t bytes;
} cache;

/* --- the name --------------------------------------------------------------------------------- */

static pst_status hash_file(pst_hasher *h, const pst_file *f, char *block) {
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : 1;
    while (n > 0) {
        n = read(fd, block, BLOCK);
        if (n < 0 && errno == EINTR) n = 1;
        else if (n > 0) pst_hasher_add(h, block, (size_t)n);
    }
    pst_status status = n < 0 ? pst_fail(pst_status_of_errno(errno), "data: cannot read %s: %s",
                                         f->path, strerror(errno))
                              : PST_OK;
    if (fd >= 0) close(fd);
    pst_hasher_add(h, &f->bytes, sizeof f->bytes); /* where the file ends */
    return status;
}

/* Of everything that decides the tokens. */
static pst_status hash_contents(cache *x, uint64_t *hash) {
    const uint64_t first[] = {VERSION, pst_tokenizer_hash(x->tokenizer)};
    pst_hasher *h = pst_hasher_open();
    char *block = malloc(BLOCK);
    pst_status status = h && block ? PST_OK : pst_no_memory("to read text");
    if (status == PST_OK) pst_hasher_add(h, first, sizeof first);
    for (uint32_t i = 0; status == PST_OK && i < x->list.n; i++) {
        if (pst_json_lines_is(x->list.file[i].path)) {
            pst_hasher_add(h, x->c->lines.field, strlen(x->c->lines.field) + 1);
            pst_hasher_add(h, &x->c->lines.skip, sizeof x->c->lines.skip);
        }
        status = hash_file(h, &x->list.file[i], block);
        x->bytes += x->list.file[i].bytes;
    }
    if (status == PST_OK) *hash = pst_hasher_value(h);
    if (h) pst_hasher_close(h);
    free(block);
    return status;
}

/* The caller frees. NULL: no memory. */
static char *folder_of(const pst_data_config *c) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *folder = NULL;
    int n;
    if (c->cache && *c->cache) return strdup(c->cache);
    if (base && *base == '/') n = asprintf(&folder, "%s/penstock/tokens", base);
    else if (home && *home == '/') n = asprintf(&folder, "%s/.cache/penstock/tokens", home);
    else n = asprintf(&folder, "penstock-tokens");
    return n < 0 ? NULL : folder;
}

static pst_status make_folders(char *path) {
    for (char *at = path + 1;; at++) {
        char was = *at;
        if (was && was != '/') continue;
        *at = 0;
        int failed = mkdir(path, 0777) && errno != EEXIST;
        if (failed)
            return pst_fail(pst_status_of_errno(errno), "data.cache: cannot make the folder %s: %s",
                            path, strerror(errno));
        *at = was;
        if (!was) return PST_OK;
    }
}

static pst_status find_names(cache *x) {
    uint64_t hash = 0;
    PST_TRY(hash_contents(x, &hash));
    if (!(x->folder = folder_of(x->c))) return pst_no_memory("for a path");
    PST_TRY(make_folders(x->folder));
    if (asprintf(&x->prefix, "%s/%016" PRIx64, x->folder, hash) < 0) x->prefix = NULL;
    if (asprintf(&x->lock, "%s/%016" PRIx64 ".lock", x->folder, hash) < 0) x->lock = NULL;
    return x->prefix && x->lock ? PST_OK : pst_no_memory("for a path");
}

/* --- encoding --------------------------------------------------------------------------------- */

typedef struct {
    pst_indexed_writer *writer;
    int32_t end; /* token after each document; -1: none */
} output;

static pst_status add(void *to, const int32_t *id, size_t n) {
    return pst_indexed_add(((output *)to)->writer, id, n);
}

static pst_status end_document(void *to) {
    output *o = to;
    if (o->end >= 0) PST_TRY(pst_indexed_add(o->writer, &o->end, 1));
    return pst_indexed_end(o->writer);
}

static pst_status encode_text(pst_encoder *e, const pst_file *f, output *o) {
    uint64_t bytes;
    PST_TRY(pst_encode_file(e, f->path, add, o, &bytes));
    if (bytes != f->bytes) return pst_fail(PST_EINPUT, "%s has changed while it was read", f->path);
    return end_document(o);
}

static pst_status encode_files(cache *x, pst_encoder *e, pst_indexed_writer *w) {
    output o = {w, pst_tokenizer_end(x->tokenizer)};
    const pst_documents out = {add, end_document, &o};
    uint64_t skipped = 0;
    for (uint32_t i = 0; i < x->list.n; i++) {
        const pst_file *f = &x->list.file[i];
        pst_status status = pst_json_lines_is(f->path)
                                ? pst_json_lines_encode(e, f->path, &x->c->lines, &out, &skipped)
                                : encode_text(e, f, &o);
        if (status != PST_OK) return pst_fail_in(status, "data");
    }
    if (skipped)
        pst_log(PST_LOG_WARN, "data: %llu lines of %s without text in the field \"%s\" left out",
                (unsigned long long)skipped, x->what, x->c->lines.field);
    return PST_OK;
}

static pst_status encode(cache *x) {
    char bytes[PST_BYTES_TEXT];
    pst_encoder *e = NULL;
    pst_indexed_writer *w = NULL;
    pst_log(PST_LOG_INFO, "data: encoding %s, %s, as tokens (%s), once; kept as %s.bin", x->what,
            pst_bytes_text(x->bytes, PST_BYTES, PST_GIB, 1, bytes), x->c->tokenizer, x->prefix);
    PST_TRY(pst_encoder_open(x->tokenizer, 0, &e));
    pst_status status = pst_indexed_create(x->prefix, pst_tokenizer_size(x->tokenizer), &w);
    if (status == PST_OK) status = encode_files(x, e, w);
    status = pst_indexed_finish(w, status);
    pst_encoder_close(e);
    return status;
}

/* The data set, encoded by this process or another one. */
static pst_status make(cache *x) {
    int fd = open(x->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return pst_fail(pst_status_of_errno(errno), "data.cache: cannot open %s: %s", x->lock,
                        strerror(errno));
    pst_status status = PST_OK;
    pst_indexed *there = NULL;
    while (flock(fd, LOCK_EX) && status == PST_OK)
        if (errno != EINTR)
            status = pst_fail(pst_status_of_errno(errno), "data.cache: cannot lock %s: %s", x->lock,
                              strerror(errno));
    if (status == PST_OK && pst_indexed_open(x->prefix, &there) != PST_OK) status = encode(x);
    pst_indexed_close(there);
    close(fd);
    return status;
}

static pst_status open_cache(cache *x, pst_tokens **tokens) {
    PST_TRY(find_names(x));
    PST_TRY(make(x));
    return pst_tokens_open(&x->prefix, 1, x->c->vocabulary, tokens);
}

pst_status pst_token_cache_open(const pst_data_config *c, pst_tokens **tokens,
                                pst_tokenizer **tokenizer, char what[PST_OPTIONS_TEXT]) {
    cache x = {.c = c, .what = what};
    pst_status status = pst_tokenizer_open(c->tokenizer, &x.tokenizer);
    if (status != PST_OK) return pst_fail_in(status, "data.tokenizer");
    status = pst_files_expand(c->paths, c->n_path, &x.list);
    if (status == PST_OK) {
        pst_options_describe(&x.list, what, PST_OPTIONS_TEXT);
        status = open_cache(&x, tokens);
    }
    if (status == PST_OK) *tokenizer = x.tokenizer;
    else pst_tokenizer_close(x.tokenizer);
    pst_files_free(&x.list);
    free(x.folder);
    free(x.prefix);
    free(x.lock);
    return status;
}

/* See cache.h. KEY.json records the sizes, the times and the hash of KEY.bin and KEY.idx, so that
 * files which were cut or changed later are noticed, and what every run tells about them. */
#include "data/cache.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/encode.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 1 << 18, RECORD_MOST = 4096 };

typedef struct {
    const pst_data_config *c;
    const char *what;
    pst_tokenizer *tokenizer;
    pst_file_list list;
    pst_encode_options encode;
    char *folder, *prefix, *record; /* prefix: path of the data set without .bin and .idx */
    uint64_t skipped;
} cache;

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
    uint64_t key;
    pst_status status = pst_encode_key(&x->encode, &key);
    if (status != PST_OK) return pst_fail_in(status, "data");
    if (!(x->folder = folder_of(x->c))) return pst_no_memory("for a path");
    PST_TRY(make_folders(x->folder));
    if (asprintf(&x->prefix, "%s/%016" PRIx64, x->folder, key) < 0) x->prefix = NULL;
    if (asprintf(&x->record, "%s/%016" PRIx64 ".json", x->folder, key) < 0) x->record = NULL;
    x->encode.prefix = x->prefix;
    x->encode.key = key;
    return x->prefix && x->record ? PST_OK : pst_no_memory("for a path");
}

/* --- the record ------------------------------------------------------------------------------- */

typedef struct {
    int64_t bytes, ns; /* size, and time of the last change */
    uint64_t hash;     /* of the contents */
} state;

/* Size and time; 0: there is no such file. */
static int look(const cache *x, const char *ending, char path[PATH_MAX], state *s) {
    struct stat st;
    snprintf(path, PATH_MAX, "%s%s", x->prefix, ending);
    if (stat(path, &st) || !S_ISREG(st.st_mode)) return 0;
    *s = (state){st.st_size, st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec, 0};
    return 1;
}

static int hash_contents(const char *path, uint64_t *hash) {
    FILE *f = fopen(path, "rbe");
    char *block = malloc(BLOCK);
    pst_hasher *h = pst_hasher_open();
    int good = f && block && h;
    for (size_t n = 1; good && n;) {
        n = fread(block, 1, BLOCK, f);
        pst_hasher_add(h, block, n);
        good = !ferror(f);
    }
    if (good) *hash = pst_hasher_value(h);
    if (h) pst_hasher_close(h);
    if (f) fclose(f);
    free(block);
    return good;
}

static const char *const endings[2] = {".bin", ".idx"};

static pst_status print_record(const void *what, FILE *out) {
    const cache *x = what;
    char path[PATH_MAX];
    state s[2];
    for (int i = 0; i < 2; i++)
        if (!look(x, endings[i], path, &s[i]) || !hash_contents(path, &s[i].hash))
            return pst_fail(PST_EINPUT, "data.cache: cannot read %s: %s", path, strerror(errno));
    fprintf(out, "{\"skipped\": %" PRIu64, x->skipped);
    for (int i = 0; i < 2; i++)
        fprintf(out,
                ", \"%s\": {\"bytes\": %" PRId64 ", \"ns\": %" PRId64 ", \"hash\": \"%016" PRIx64
                "\"}",
                endings[i] + 1, s[i].bytes, s[i].ns, s[i].hash);
    fprintf(out, "}\n");
    return PST_OK;
}

static pst_status complete(void *what, uint64_t skipped) {
    cache *x = what;
    x->skipped = skipped;
    return pst_file_replace_own(x->record, print_record, x);
}

/* 1: the file is the one of the record. A copy has another time, but the same contents. */
static int is_unchanged(const cache *x, const json_t *record, const char *ending) {
    const json_t *r = json_object_get(record, ending + 1);
    const char *hash = json_string_value(json_object_get(r, "hash"));
    char path[PATH_MAX];
    state s;
    if (!look(x, ending, path, &s) || !hash) return 0;
    if (json_integer_value(json_object_get(r, "bytes")) != s.bytes) return 0;
    if (json_integer_value(json_object_get(r, "ns")) == s.ns) return 1;
    return hash_contents(path, &s.hash) && strtoull(hash, NULL, 16) == s.hash;
}

/* 1: the data set is complete, and as it was written. Any thread. */
static int read_record(const cache *x, uint64_t *skipped) {
    char *text;
    size_t bytes;
    if (access(x->record, F_OK)) return 0;
    if (pst_file_read(x->record, RECORD_MOST, &text, &bytes) != PST_OK) {
        pst_error_clear();
        return 0;
    }
    json_t *record = json_loadb(text, bytes, 0, NULL);
    int good = is_unchanged(x, record, endings[0]) && is_unchanged(x, record, endings[1]);
    json_int_t lines = json_integer_value(json_object_get(record, "skipped"));
    if (good) *skipped = lines > 0 ? (uint64_t)lines : 0;
    json_decref(record);
    free(text);
    return good;
}

static int exists(void *what) {
    uint64_t skipped;
    return read_record(what, &skipped);
}

/* --- the data set ----------------------------------------------------------------------------- */

static pst_status encode(cache *x) {
    char text[PST_BYTES_TEXT];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < x->list.n; i++) bytes += x->list.file[i].bytes;
    if (!unlink(x->record) && pst_encode_shows())
        pst_log(
            PST_LOG_WARN,
            "data.cache: %s.bin or %s.idx is damaged, or was changed; the text is encoded again",
            x->prefix, x->prefix);
    if (pst_encode_shows())
        pst_log(PST_LOG_INFO, "data: encoding %s, %s, as tokens (%s), once; kept as %s.bin",
                x->what, pst_bytes_text(bytes, PST_BYTES, PST_GIB, 1, text), x->c->tokenizer,
                x->prefix);
    pst_status status = pst_encode_files(&x->encode);
    return status == PST_OK ? PST_OK : pst_fail_in(status, "data");
}

static void warn_of_skipped(const cache *x) {
    const char *lacking = x->encode.form->lacking, *s = x->skipped == 1 ? "" : "s";
    if (lacking)
        pst_log(PST_LOG_WARN, "data: %" PRIu64 " line%s of %s %s left out", x->skipped, s, x->what,
                lacking);
    else
        pst_log(PST_LOG_WARN,
                "data: %" PRIu64 " line%s of %s without text in the field \"%s\" left out",
                x->skipped, s, x->what, x->c->lines.field);
}

static pst_status find_in_cache(cache *x, char **prefix) {
    PST_TRY(find_names(x));
    if (!read_record(x, &x->skipped)) {
        PST_TRY(encode(x));
        read_record(x, &x->skipped); /* another process may have encoded */
    }
    if (x->skipped && pst_encode_shows()) warn_of_skipped(x);
    *prefix = x->prefix;
    x->prefix = NULL;
    return PST_OK;
}

pst_status pst_token_cache_find(const pst_data_config *c, const pst_encode_form *form,
                                char **prefix, pst_tokenizer **tokenizer,
                                char what[PST_OPTIONS_TEXT]) {
    cache x = {.c = c, .what = what};
    pst_status status = pst_tokenizer_open(c->tokenizer, &x.tokenizer);
    if (status != PST_OK) return pst_fail_in(status, "data.tokenizer");
    status = pst_files_expand(c->paths, c->n_path, &x.list);
    if (status == PST_OK) {
        pst_options_describe(&x.list, what, PST_OPTIONS_TEXT);
        x.encode = (pst_encode_options){.tokenizer = x.tokenizer,
                                        .files = &x.list,
                                        .form = form,
                                        .lines = c->lines,
                                        .special = form->special,
                                        .end = form->ends ? pst_tokenizer_end(x.tokenizer) : -1,
                                        .exists = exists,
                                        .complete = complete,
                                        .what = &x};
        status = find_in_cache(&x, prefix);
    }
    if (status == PST_OK) *tokenizer = x.tokenizer;
    else pst_tokenizer_close(x.tokenizer);
    pst_files_free(&x.list);
    free(x.folder);
    free(x.prefix);
    free(x.record);
    return status;
}

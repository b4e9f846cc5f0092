/* See cache.h. KEY.json is the record of KEY.bin and KEY.idx. */
#include "data/cache.h"
#include "base/bytes.h"
#include "base/log.h"
#include "data/encode.h"
#include "data/encode_record.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const pst_data_config *c;
    const char *what;
    pst_tokenizer *tokenizer;
    pst_file_list list;
    pst_encode_options encode;
    char *folder, *prefix, *record_path; /* prefix: path of the data set without .bin and .idx */
    pst_encode_record record;
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
    if (asprintf(&x->record_path, "%s/%016" PRIx64 ".json", x->folder, key) < 0)
        x->record_path = NULL;
    x->record = (pst_encode_record){.path = x->record_path, .prefix = x->prefix, .key = key};
    x->encode.prefix = x->prefix;
    x->encode.key = key;
    return x->prefix && x->record_path ? PST_OK : pst_no_memory("for a path");
}

/* --- the data set ----------------------------------------------------------------------------- */

static pst_status encode(cache *x) {
    char text[PST_BYTES_TEXT];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < x->list.n; i++) bytes += x->list.file[i].bytes;
    if (!unlink(x->record_path) && pst_encode_shows())
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

/* Says how many lines were left out. EINPUT: all of them. */
static pst_status tell_skipped(const cache *x) {
    char lacking[256], path[PATH_MAX];
    struct stat bin;
    snprintf(lacking, sizeof lacking, "without text in the field \"%.200s\"", x->c->lines.field);
    const char *are = x->encode.form->lacking ? x->encode.form->lacking : lacking;
    snprintf(path, sizeof path, "%s.bin", x->prefix);
    if (!stat(path, &bin) && !bin.st_size)
        return pst_fail(PST_EINPUT,
                        "data: all lines of %s are %s, and data.on_error: skip leaves them out",
                        x->what, are);
    if (pst_encode_shows())
        pst_log(PST_LOG_WARN, "data: %" PRIu64 " line%s of %s %s left out", x->record.skipped,
                x->record.skipped == 1 ? "" : "s", x->what, are);
    return PST_OK;
}

static pst_status find_in_cache(cache *x, char **prefix) {
    PST_TRY(find_names(x));
    if (!pst_encode_record_read(&x->record)) {
        PST_TRY(encode(x));
        pst_encode_record_read(&x->record); /* another process may have encoded */
    }
    if (x->record.skipped) PST_TRY(tell_skipped(x));
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
                                        .exists = pst_encode_record_exists,
                                        .complete = pst_encode_record_complete,
                                        .what = &x.record};
        status = find_in_cache(&x, prefix);
    }
    if (status == PST_OK) *tokenizer = x.tokenizer;
    else pst_tokenizer_close(x.tokenizer);
    pst_files_free(&x.list);
    free(x.folder);
    free(x.prefix);
    free(x.record_path);
    return status;
}

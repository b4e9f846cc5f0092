/* See options.h. */
#include "data/options.h"
#include "base/hash.h"
#include "tokenizer/tokenizer.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The size of the tokenizer at `path`, read once: planning asks for it again and again. */
static pst_status size_of(const char *path, uint32_t *size) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char *known;
    static uint32_t known_size;
    pst_tokenizer *t;
    pst_status status = PST_OK;
    pthread_mutex_lock(&lock);
    if (!known || strcmp(known, path)) {
        status = pst_tokenizer_open(path, &t);
        if (status == PST_OK) {
            free(known);
            known = strdup(path); /* NULL: it is read again */
            known_size = pst_tokenizer_size(t);
            pst_tokenizer_close(t);
        }
    }
    if (status == PST_OK) *size = known_size;
    pthread_mutex_unlock(&lock);
    return status;
}

pst_status pst_options_vocabulary(const char *tokenizer, uint32_t bytes, uint32_t *vocabulary) {
    pst_status status = PST_OK;
    if (strcmp(tokenizer, "byte")) status = size_of(tokenizer, vocabulary);
    else *vocabulary = bytes;
    return status == PST_OK ? PST_OK : pst_fail_in(status, "data.tokenizer");
}

pst_status pst_options_check(const pst_data_config *c) {
    if (!(c->validation >= 0 && c->validation < 1))
        return pst_fail(PST_EINPUT, "data.validation is %g; expected a fraction from 0 to below 1",
                        c->validation);
    if (c->context == 0) return pst_fail(PST_EINPUT, "model.context is 0; expected at least 1");
    return PST_OK;
}

pst_status pst_options_held(const pst_data_config *c, const char *what, uint64_t all,
                            const char *unit, uint64_t *held) {
    *held = c->held_out ? all : (uint64_t)((double)all * c->validation);
    if (!(c->validation > 0) || *held) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "data: %s: validation %g of %llu %ss is less than one %s; use more data or "
                    "validation: 0",
                    what, c->validation, (unsigned long long)all, unit, unit);
}

pst_status pst_options_check_lines(const pst_data_config *c) {
    pst_file_list list;
    int found = 0;
    if (!c->lines.skip && !strcmp(c->lines.field, "text")) return PST_OK;
    PST_TRY(pst_files_expand(c->paths, c->n_path, &list));
    for (uint32_t i = 0; i < list.n; i++) found |= pst_json_lines_is(list.file[i].path);
    pst_files_free(&list);
    if (found) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "%s is for files of JSON Lines, but no file of data.paths ends in .jsonl, "
                    ".jsonl.gz or .jsonl.zst",
                    c->lines.skip ? "data.on_error: skip" : "data.field");
}

uint64_t pst_options_hash(const pst_data_config *c, uint64_t tokenizer, uint64_t hash) {
    hash = pst_hash64(&c->validation, sizeof c->validation, hash);
    hash = pst_hash64(&c->context, sizeof c->context, hash);
    hash = pst_hash64(&c->seed, sizeof c->seed, hash);
    if (c->isolate) hash = pst_hash64("isolate", 7, hash);
    if (c->predictions) hash = pst_hash64(&c->predictions, sizeof c->predictions, hash);
    if (c->pairs) hash = pst_hash64("pairs", 5, hash);
    if (c->whole_words) hash = pst_hash64("words", 5, hash);
    if (tokenizer) return pst_hash64(&tokenizer, sizeof tokenizer, hash);
    return pst_hash64("byte", 4, hash);
}

void pst_options_describe(const pst_file_list *list, char *out, size_t size) {
    if (list->n == 1) snprintf(out, size, "%s", list->file[0].path);
    else
        snprintf(out, size, "%s and %u more file%s", list->file[0].path, list->n - 1,
                 list->n == 2 ? "" : "s");
}

void pst_options_describe_paths(char *const *path, uint32_t n, char out[PST_OPTIONS_TEXT]) {
    if (n == 1) snprintf(out, PST_OPTIONS_TEXT, "%s", path[0]);
    else
        snprintf(out, PST_OPTIONS_TEXT, "%s and %u more path%s", path[0], n - 1, n == 2 ? "" : "s");
}

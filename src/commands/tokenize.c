/* `penstock tokenize`: files encoded, and their ids printed or written as Megatron's indexed data
 * set. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sized.h"
#include "data/encode.h"
#include "data/encode_record.h"
#include "data/indexed.h"
#include "data/json_lines.h"
#include "penstock/run.h"
#include "tokenizer/stream.h"
#include "tokenizer/train.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const pst_tokenize_options *o;
    pst_tokenizer *t;
    pst_encoder *e;
    FILE *ids;   /* NULL: ids are not printed */
    int32_t end; /* token after each document; -1: none */
    uint64_t bytes, tokens, of_file, skipped;
    int unchanged; /* 1: the data set was there already */
} job;

/* Ids, with blanks between those of a document. */
static pst_status print_ids(job *j, const int32_t *id, size_t n) {
    char text[4096];
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        if (j->of_file + i) text[used++] = ' ';
        char digits[12];
        size_t k = sizeof digits;
        uint32_t left = (uint32_t)id[i];
        do digits[--k] = (char)('0' + left % 10);
        while (left /= 10);
        memcpy(text + used, digits + k, sizeof digits - k);
        used += sizeof digits - k;
        if (used < sizeof text - 2 * sizeof digits && i + 1 < n) continue;
        if (fwrite(text, 1, used, j->ids) != used)
            return pst_fail(PST_ENOMEM, "cannot write the ids: %s", strerror(errno));
        used = 0;
    }
    return PST_OK;
}

static pst_status take(void *to, const int32_t *id, size_t n) {
    job *j = to;
    if (j->ids) PST_TRY(print_ids(j, id, n));
    j->of_file += n;
    return PST_OK;
}

static pst_status end_document(void *to) {
    job *j = to;
    if (j->end >= 0) PST_TRY(take(j, &j->end, 1));
    if (j->ids && fputc('\n', j->ids) == EOF)
        return pst_fail(PST_ENOMEM, "cannot write the ids: %s", strerror(errno));
    j->tokens += j->of_file;
    j->of_file = 0;
    return PST_OK;
}

/* 1: the file's documents are texts in the field of its lines. */
static int has_field(const pst_tokenize_options *o, const char *path) {
    return o->field && *o->field && pst_json_lines_is(path);
}

static void warn_of_skipped(const pst_tokenize_options *o, uint64_t skipped) {
    if (skipped)
        pst_log(PST_LOG_WARN, "%" PRIu64 " line%s without text in the field \"%s\" left out",
                skipped, skipped == 1 ? "" : "s", o->field);
}

static pst_status encode(job *j, const char *path) {
    const pst_json_lines lines = {j->o->field, j->o->skip};
    const pst_documents out = {take, end_document, j};
    uint64_t bytes = 0;
    struct stat st;
    j->of_file = 0;
    if (has_field(j->o, path)) {
        const pst_line_form form = pst_json_lines_form(&lines);
        PST_TRY(pst_lines_encode(j->e, path, &form, &out, &j->skipped));
        if (stat(path, &st) == 0) j->bytes += (uint64_t)st.st_size;
        return PST_OK;
    }
    PST_TRY(pst_encode_file(j->e, path, take, j, &bytes));
    j->bytes += bytes;
    return end_document(j);
}

static pst_status open_all(job *j) {
    const pst_tokenize_options *o = j->o;
    PST_TRY(pst_tokenizer_open(o->tokenizer, &j->t));
    if (o->end && *o->end)
        PST_TRY(pst_fail_in(pst_tokenizer_special(j->t, o->end, &j->end), "%s", o->tokenizer));
    return PST_OK;
}

static void print_summary(const job *j, double seconds, FILE *out) {
    char bytes[PST_BYTES_TEXT];
    fprintf(out, "tokenizer   %s: %s, %u ids, hash %016" PRIx64 "\n", j->o->tokenizer,
            pst_tokenizer_kind(j->t), pst_tokenizer_size(j->t), pst_tokenizer_hash(j->t));
    fprintf(out, "text        %s in %zu file%s\n",
            pst_bytes_text(j->bytes, PST_BYTES, PST_GIB, 1, bytes), j->o->n_file,
            j->o->n_file == 1 ? "" : "s");
    fprintf(out, "tokens      %" PRIu64 ", %.2f bytes each\n", j->tokens,
            j->tokens ? (double)j->bytes / (double)j->tokens : 0);
    if (j->unchanged) return;
    fprintf(out, "time        %.3f s, %.1f MB/s\n", seconds,
            seconds > 0 ? (double)j->bytes / 1e6 / seconds : 0);
}

/* Ids printed, or only counted: file by file, and nothing is kept. */
static pst_status count(job *j) {
    j->tokens = j->skipped = 0;
    PST_TRY(pst_encoder_open(j->t, j->o->special, &j->e));
    for (size_t i = 0; i < j->o->n_file; i++) PST_TRY(encode(j, j->o->file[i]));
    return PST_OK;
}

/* --- a data set ------------------------------------------------------------------------------- */

static pst_status list_files(job *j, pst_file *file) {
    struct stat st;
    for (size_t i = 0; i < j->o->n_file; i++) {
        if (stat(j->o->file[i], &st))
            return pst_fail(pst_status_of_errno(errno), "%s: %s", j->o->file[i], strerror(errno));
        if (!S_ISREG(st.st_mode))
            return pst_fail(PST_EINPUT, "%s: not a file; --output needs files", j->o->file[i]);
        file[i] = (pst_file){j->o->file[i], (uint64_t)st.st_size};
        j->bytes += file[i].bytes;
    }
    return PST_OK;
}

static pst_status count_tokens(job *j) {
    pst_indexed *x;
    PST_TRY(pst_indexed_open(j->o->output, &x));
    j->tokens = pst_indexed_tokens(x);
    pst_indexed_close(x);
    return PST_OK;
}

/* Tokens that are there already are not encoded again. */
static pst_status encode_set(job *j, pst_encode_options *encode, pst_encode_record *r) {
    PST_TRY(pst_encode_key(encode, &encode->key));
    r->key = encode->key;
    if (j->o->force && unlink(r->path) && errno != ENOENT)
        return pst_fail(pst_status_of_errno(errno), "cannot remove %s: %s", r->path,
                        strerror(errno));
    j->unchanged = pst_encode_record_read(r);
    if (!j->unchanged) {
        PST_TRY(pst_encode_files(encode));
        pst_encode_record_read(r); /* another process may have completed it */
    }
    j->skipped = r->skipped;
    return count_tokens(j);
}

static pst_status write_set(job *j) {
    const pst_tokenize_options *o = j->o;
    pst_file_list list = {calloc(o->n_file, sizeof *list.file), (uint32_t)o->n_file, o->n_file};
    pst_encode_options encode = {.tokenizer = j->t,
                                 .files = &list,
                                 .form = &pst_encode_as_files,
                                 .lines = {o->field, o->skip},
                                 .special = o->special,
                                 .end = j->end,
                                 .prefix = o->output,
                                 .threads = (uint32_t)o->threads,
                                 .keep = !o->force,
                                 .exists = pst_encode_record_exists,
                                 .complete = pst_encode_record_complete};
    char *path = NULL;
    if (asprintf(&path, "%s" PST_ENCODE_RECORD_ENDING, o->output) < 0) path = NULL;
    pst_encode_record record = {.path = path, .prefix = o->output};
    encode.what = &record;
    pst_status status = list.file && path ? list_files(j, list.file) : pst_no_memory("for a list");
    if (status == PST_OK) status = encode_set(j, &encode, &record);
    free(path);
    free(list.file);
    return status;
}

static pst_status run(job *j, FILE *out) {
    int writes = j->o->output && *j->o->output;
    PST_TRY(open_all(j));
    uint64_t start = pst_monotonic_ns();
    if (writes) PST_TRY(write_set(j));
    if (!writes || j->ids) PST_TRY(count(j));
    warn_of_skipped(j->o, j->skipped);
    if (j->ids) return PST_OK;
    print_summary(j, (double)(pst_monotonic_ns() - start) * 1e-9, out);
    if (writes)
        fprintf(out, "%s   %s.bin, %s.idx\n", j->unchanged ? "unchanged" : "written  ",
                j->o->output, j->o->output);
    return PST_OK;
}

/* --- learning --------------------------------------------------------------------------------- */

static int is_wordpiece(const pst_tokenize_options *o) {
    return o->kind && !strcmp(o->kind, "wordpiece");
}

/* Where tokenizer.json or vocab.txt is written; the caller frees. */
static pst_status output_path(const pst_tokenize_options *o, char **path) {
    const char *ending = is_wordpiece(o) ? ".txt" : ".json";
    const char *name = is_wordpiece(o) ? "/vocab.txt" : "/tokenizer.json";
    const size_t n = strlen(o->output), m = strlen(ending);
    const int file = n > m && !strcmp(o->output + n - m, ending);
    if (asprintf(path, "%s%s", o->output, file ? "" : name) < 0) return pst_no_memory("for a path");
    pst_status status = o->force ? PST_OK : pst_file_check_new(*path);
    if (status != PST_OK) free(*path);
    return status;
}

/* Makes the folder if it is missing. */
static pst_status write_tokenizer(const char *output, const char *path, const pst_bpe_training *t) {
    if (strcmp(output, path) && mkdir(output, 0777) && errno != EEXIST)
        return pst_fail(pst_status_of_errno(errno), "cannot make the folder %s: %s", output,
                        strerror(errno));
    return pst_file_replace(path, pst_bpe_training_print, t);
}

typedef struct {
    pst_bpe_training *t;
    pst_json_lines lines;
} lesson;

static pst_status learn_line(const void *arg, pst_encoder *e, char *line, size_t n,
                             const pst_documents *out, uint64_t *skipped) {
    const lesson *l = arg;
    json_t *root;
    const json_t *text;
    pst_status status = PST_OK;
    (void)e;
    (void)out;
    PST_TRY(pst_json_lines_text(&l->lines, line, n, &root, &text));
    if (text)
        status = pst_bpe_training_add(l->t, json_string_value(text), json_string_length(text));
    else ++*skipped;
    json_decref(root);
    return status;
}

static pst_status read_files(const pst_tokenize_options *o, pst_bpe_training *t, uint64_t *all) {
    const lesson l = {t, {o->field, o->skip}};
    const pst_line_form form = {learn_line, &l, 0};
    uint64_t bytes, skipped = 0;
    struct stat st;
    *all = 0;
    for (size_t i = 0; i < o->n_file; i++) {
        if (has_field(o, o->file[i])) {
            PST_TRY(pst_lines_encode(NULL, o->file[i], &form, NULL, &skipped));
            bytes = stat(o->file[i], &st) == 0 ? (uint64_t)st.st_size : 0;
        } else {
            PST_TRY(pst_bpe_training_read(t, o->file[i], &bytes));
        }
        *all += bytes;
    }
    warn_of_skipped(o, skipped);
    return PST_OK;
}

static pst_status learn(const pst_tokenize_options *o, const char *path, pst_bpe_training *t,
                        FILE *out) {
    char text[PST_BYTES_TEXT];
    uint64_t start = pst_monotonic_ns(), all;
    PST_TRY(read_files(o, t, &all));
    PST_TRY(pst_bpe_training_learn(t, (uint32_t)o->vocabulary));
    PST_TRY(write_tokenizer(o->output, path, t));
    fprintf(out, "text        %s, %u different words\ntokens      %" PRId64,
            pst_bytes_text(all, PST_BYTES, PST_GIB, 1, text), pst_bpe_training_words(t),
            o->vocabulary);
    if (is_wordpiece(o)) fputs(": special tokens, characters, and parts of words\n", out);
    else fprintf(out, ": 256 bytes, %u merges, <|endoftext|>\n", pst_bpe_training_merges(t));
    fprintf(out, "time        %.3f s\nwritten     %s\n",
            (double)(pst_monotonic_ns() - start) * 1e-9, path);
    return PST_OK;
}

static pst_status train(const pst_tokenize_options *o, FILE *out) {
    pst_bpe_training *t;
    if (!o->output || !*o->output || o->vocabulary > 1 << 24)
        return pst_fail(PST_EINPUT,
                        "pst_tokenize: output is not given, or vocabulary is above 2^24");
    if (o->kind && *o->kind && !is_wordpiece(o) && strcmp(o->kind, "bpe") != 0)
        return pst_fail(PST_EINPUT, "--kind '%.40s': expected bpe or wordpiece", o->kind);
    if (o->cased && !is_wordpiece(o))
        return pst_fail(PST_EINPUT, "--cased is for --kind wordpiece; a BPE keeps all letters");
    char *path;
    PST_TRY(output_path(o, &path));
    pst_status status = is_wordpiece(o) ? pst_wordpiece_training_open(o->cased != 0, &t)
                                        : pst_bpe_training_open(&t);
    if (status == PST_OK) {
        status = learn(o, path, t, out);
        pst_bpe_training_close(t);
    }
    free(path);
    return status;
}

pst_status pst_tokenize(const pst_tokenize_options *options, FILE *out) {
    pst_tokenize_options o;
    PST_TRY(pst_sized_take("pst_tokenize", options, &o, sizeof o));
    if (o.vocabulary > 0 && o.n_file && out) return train(&o, out);
    if (!o.tokenizer || !*o.tokenizer || !o.n_file || !out)
        return pst_fail(PST_EINPUT, "pst_tokenize: tokenizer, file or out is not given");
    job j = {.o = &o, .ids = o.ids ? out : NULL, .end = -1};
    pst_status status = run(&j, out);
    pst_encoder_close(j.e);
    pst_tokenizer_close(j.t);
    return status;
}

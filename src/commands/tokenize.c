/* `penstock tokenize`: files encoded, and their ids printed or written as Megatron's indexed data
 * set. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/sized.h"
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

typedef struct {
    const pst_tokenize_options *o;
    pst_tokenizer *t;
    pst_encoder *e;
    pst_indexed_writer *writer; /* NULL: nothing is written */
    FILE *ids;                  /* NULL: ids are not printed */
    int32_t end;                /* token after each document; -1: none */
    uint64_t bytes, tokens, of_file;
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
    if (j->writer) PST_TRY(pst_indexed_add(j->writer, id, n));
    j->of_file += n;
    return PST_OK;
}

static pst_status end_document(void *to) {
    job *j = to;
    if (j->end >= 0) PST_TRY(take(j, &j->end, 1));
    if (j->writer) PST_TRY(pst_indexed_end(j->writer));
    if (j->ids && fputc('\n', j->ids) == EOF)
        return pst_fail(PST_ENOMEM, "cannot write the ids: %s", strerror(errno));
    j->tokens += j->of_file;
    j->of_file = 0;
    return PST_OK;
}

static pst_status encode(job *j, const char *path) {
    const pst_json_lines lines = {j->o->field, 0};
    const pst_documents out = {take, end_document, j};
    uint64_t bytes = 0, skipped;
    struct stat st;
    j->of_file = 0;
    if (lines.field && *lines.field && pst_json_lines_is(path)) {
        PST_TRY(pst_json_lines_encode(j->e, path, &lines, &out, &skipped));
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
    PST_TRY(pst_encoder_open(j->t, o->special, &j->e));
    if (!o->output || !*o->output) return PST_OK;
    return pst_indexed_create(o->output, pst_tokenizer_size(j->t), &j->writer);
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
    fprintf(out, "time        %.3f s, %.1f MB/s\n", seconds,
            seconds > 0 ? (double)j->bytes / 1e6 / seconds : 0);
    if (j->writer) fprintf(out, "written     %s.bin, %s.idx\n", j->o->output, j->o->output);
}

static pst_status run(job *j, FILE *out) {
    PST_TRY(open_all(j));
    uint64_t start = pst_monotonic_ns();
    for (size_t i = 0; i < j->o->n_file; i++) PST_TRY(encode(j, j->o->file[i]));
    if (!j->ids) print_summary(j, (double)(pst_monotonic_ns() - start) * 1e-9, out);
    return PST_OK;
}

/* --- learning --------------------------------------------------------------------------------- */

/* Where tokenizer.json is written; the caller frees. The folder is made if it is missing. */
static pst_status output_path(const char *output, char **path) {
    size_t n = strlen(output);
    int file = n > 5 && !strcmp(output + n - 5, ".json");
    if (!file && mkdir(output, 0777) && errno != EEXIST)
        return pst_fail(pst_status_of_errno(errno), "cannot make the folder %s: %s", output,
                        strerror(errno));
    if (asprintf(path, "%s%s", output, file ? "" : "/tokenizer.json") < 0)
        return pst_no_memory("for a path");
    return PST_OK;
}

static pst_status learn(const pst_tokenize_options *o, pst_bpe_training *t, FILE *out) {
    char text[PST_BYTES_TEXT], *path = NULL;
    uint64_t start = pst_monotonic_ns(), bytes, all = 0;
    for (size_t i = 0; i < o->n_file; i++) {
        PST_TRY(pst_bpe_training_read(t, o->file[i], &bytes));
        all += bytes;
    }
    PST_TRY(pst_bpe_training_learn(t, (uint32_t)o->vocabulary));
    PST_TRY(output_path(o->output, &path));
    pst_status status = pst_file_replace(path, pst_bpe_training_print, t);
    if (status == PST_OK)
        fprintf(out,
                "text        %s, %u different words\ntokens      %" PRId64
                ": 256 bytes, %u merges, <|endoftext|>\ntime        %.3f s\nwritten     %s\n",
                pst_bytes_text(all, PST_BYTES, PST_GIB, 1, text), pst_bpe_training_words(t),
                o->vocabulary, pst_bpe_training_merges(t),
                (double)(pst_monotonic_ns() - start) * 1e-9, path);
    free(path);
    return status;
}

static pst_status train(const pst_tokenize_options *o, FILE *out) {
    pst_bpe_training *t;
    if (!o->output || !*o->output || o->vocabulary > 1 << 24)
        return pst_fail(PST_EINPUT,
                        "pst_tokenize: output is not given, or vocabulary is above 2^24");
    PST_TRY(pst_bpe_training_open(&t));
    pst_status status = learn(o, t, out);
    pst_bpe_training_close(t);
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
    status = pst_indexed_finish(j.writer, status);
    pst_encoder_close(j.e);
    pst_tokenizer_close(j.t);
    return status;
}

/* See csv.h. */
#include "data/csv.h"
#include "base/grow.h"
#include "tokenizer/text_file.h"
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 16 };

typedef struct {
    const char *path;
    const char *byte, *end; /* what is left of the text */
    uint64_t line;
    pst_csv_record record;
} reader;

static int ends_in(const char *name, const char *ending) {
    const size_t n = strlen(name);
    const size_t m = strlen(ending);
    return n > m && !strcmp(name + n - m, ending);
}

int pst_csv_is(const char *path) {
    return ends_in(path, ".csv") || ends_in(path, ".csv.gz") || ends_in(path, ".csv.zst");
}

static pst_status read_all(const char *path, pst_text *out) {
    pst_text_file *f;
    size_t got = BLOCK;
    PST_TRY(pst_text_file_open(path, &f));
    pst_status status = PST_OK;
    while (status == PST_OK && got == BLOCK) {
        status = pst_text_room(out, BLOCK);
        if (status == PST_OK) status = pst_text_file_read(f, out->byte + out->n, BLOCK, &got);
        if (status == PST_OK) out->n += got;
    }
    pst_text_file_close(f);
    return status;
}

static pst_status fail_at(const reader *r, uint64_t line, pst_status status) {
    return pst_fail_in(status, "%s: line %llu", r->path, (unsigned long long)line);
}

static pst_status begin_field(pst_csv_record *c) {
    PST_TRY(pst_grow(&c->at, sizeof *c->at, c->n + (size_t)1, &c->capacity, "for a line of CSV"));
    c->at[c->n] = c->text.n;
    return PST_OK;
}

static pst_status end_field(pst_csv_record *c) {
    PST_TRY(pst_text_add(&c->text, "", 1));
    c->at[++c->n] = c->text.n;
    return PST_OK;
}

/* A field in quotes, from behind the first one to behind the last one. */
static pst_status read_quoted(reader *r) {
    const uint64_t began = r->line;
    for (;;) {
        const char *quote = memchr(r->byte, '"', (size_t)(r->end - r->byte));
        const char *to = quote ? quote : r->end;
        for (const char *at = r->byte; at < to; at++) r->line += *at == '\n';
        PST_TRY(pst_text_add(&r->record.text, r->byte, (size_t)(to - r->byte)));
        r->byte = to;
        if (!quote)
            return fail_at(r, began, pst_fail(PST_EINPUT, "a quote is opened, but not closed"));
        r->byte++;
        if (r->byte == r->end || *r->byte != '"') return PST_OK;
        PST_TRY(pst_text_add(&r->record.text, "\"", 1));
        r->byte++;
    }
}

static pst_status read_plain(reader *r) {
    const char *from = r->byte;
    while (r->byte < r->end && *r->byte != ',' && *r->byte != '\n') r->byte++;
    size_t n = (size_t)(r->byte - from);
    if (n && from[n - 1] == '\r' && (r->byte == r->end || *r->byte == '\n')) n--;
    return pst_text_add(&r->record.text, from, n);
}

static int ends_line(const reader *r) {
    const char *at = r->byte;
    if (at < r->end && *at == '\r') at++;
    return at == r->end || *at == '\n';
}

/* *more: the record goes on behind a comma. */
static pst_status read_field(reader *r, int *more) {
    PST_TRY(begin_field(&r->record));
    if (r->byte < r->end && *r->byte == '"') {
        r->byte++;
        PST_TRY(read_quoted(r));
        if (!ends_line(r) && *r->byte != ',')
            return fail_at(r, r->line, pst_fail(PST_EINPUT, "text behind a field in quotes"));
    } else {
        PST_TRY(read_plain(r));
    }
    PST_TRY(end_field(&r->record));
    *more = r->byte < r->end && *r->byte == ',';
    if (*more) r->byte++;
    return PST_OK;
}

static pst_status read_record(reader *r) {
    int more = 1;
    r->record.n = 0;
    r->record.text.n = 0;
    r->record.line = r->line;
    while (more) PST_TRY(read_field(r, &more));
    if (r->byte < r->end && *r->byte == '\r') r->byte++;
    if (r->byte < r->end) r->byte++;
    r->line++;
    return PST_OK;
}

static pst_status
read_records(reader *r, pst_status (*each)(void *arg, const pst_csv_record *record), void *arg) {
    while (r->byte < r->end) {
        const int blank = ends_line(r);
        PST_TRY(read_record(r));
        if (blank) continue;
        pst_status status = each(arg, &r->record);
        if (status != PST_OK) return fail_at(r, r->record.line, status);
    }
    return PST_OK;
}

pst_status pst_csv_read(const char *path, pst_status (*each)(void *arg, const pst_csv_record *r),
                        void *arg) {
    pst_text text = {0};
    reader r = {.path = path, .line = 1};
    pst_status status = read_all(path, &text);
    if (status == PST_OK && text.n) {
        r.byte = text.byte;
        r.end = text.byte + text.n;
        if (text.n >= 3 && !memcmp(r.byte, "\xef\xbb\xbf", 3)) r.byte += 3;
        status = read_records(&r, each, arg);
    }
    pst_text_free(&text);
    pst_text_free(&r.record.text);
    free(r.record.at);
    return status;
}

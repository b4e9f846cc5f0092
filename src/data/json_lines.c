/* See json_lines.h. Memory is that of the longest line, whatever a compressed file expands to. */
#include "data/json_lines.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 16, LINE_MOST = 1 << 28 };

typedef struct {
    pst_text_piece *p;
    pst_text text; /* read, from `at` on not yet taken */
    size_t at;
    uint64_t place; /* of text[at] in the file */
    uint64_t begin; /* place of the last line taken */
    int ended;
} lines;

static int ends_in(const char *name, const char *ending) {
    size_t n = strlen(name), m = strlen(ending);
    return n > m && !strcmp(name + n - m, ending);
}

int pst_json_lines_is(const char *path) {
    return ends_in(path, ".jsonl") || ends_in(path, ".jsonl.gz") || ends_in(path, ".jsonl.zst");
}

/* The number of lines of a file before byte `place`, for messages. */
static uint64_t lines_before(const char *path, uint64_t place) {
    static const uint64_t unknown = 0;
    char block[BLOCK];
    pst_text_file *f;
    uint64_t n = 0;
    if (pst_text_file_open(path, &f) != PST_OK) return unknown;
    for (size_t got = 1; place && got; place -= got) {
        size_t wanted = place < BLOCK ? (size_t)place : BLOCK;
        if (pst_text_file_read(f, block, wanted, &got) != PST_OK) got = 0;
        for (size_t i = 0; i < got; i++) n += block[i] == '\n';
    }
    pst_text_file_close(f);
    return n;
}

static pst_status fail_at(const lines *l, pst_status status, uint64_t place) {
    return pst_fail_in(status, "%s: line %llu", l->p->path,
                       (unsigned long long)lines_before(l->p->path, place) + 1);
}

static pst_status read_more(lines *l) {
    size_t got;
    if (l->at) memmove(l->text.byte, l->text.byte + l->at, l->text.n - l->at);
    l->text.n -= l->at;
    l->at = 0;
    if (l->text.n > LINE_MOST)
        return fail_at(l, pst_fail(PST_EINPUT, "more than %d MiB", LINE_MOST >> 20), l->place);
    PST_TRY(pst_text_room(&l->text, BLOCK));
    PST_TRY(pst_text_file_read(l->p->file, l->text.byte + l->text.n, BLOCK, &got));
    l->text.n += got;
    l->ended = got < BLOCK;
    return PST_OK;
}

/* The next line, without its end; *line NULL: there is none. */
static pst_status next_line(lines *l, char **line, size_t *n) {
    size_t seen = 0;
    char *end = NULL;
    *line = NULL;
    while (!end) {
        size_t left = l->text.n - l->at;
        if (left > seen) end = memchr(l->text.byte + l->at + seen, '\n', left - seen);
        if (end) break;
        seen = left;
        if (l->ended && !left) return PST_OK;
        if (l->ended) break;
        PST_TRY(read_more(l));
    }
    *line = l->text.byte + l->at;
    *n = end ? (size_t)(end - *line) : l->text.n - l->at;
    l->begin = l->place;
    l->at += *n + (end != NULL);
    l->place += *n + (end != NULL);
    return PST_OK;
}

static int is_blank(const char *line, size_t n) {
    while (n && strchr(" \t\r", line[n - 1]) && line[n - 1]) n--;
    return !n;
}

/* --- surrogates ------------------------------------------------------------------------------- */

/* The value of \\uXXXX at `at`; -1: it is not there. */
static int32_t escaped(const char *at, const char *end) {
    int32_t value = 0;
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return -1;
    for (int i = 2; i < 6; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = at[i] ? strchr(digits, at[i] | 0x20) : NULL;
        if (!digit || (at[i] < '0')) return -1;
        value = value << 4 | (int32_t)(digit - digits);
    }
    return value;
}

static int is_high(int32_t code) { return code >= 0xd800 && code < 0xdc00; }
static int is_low(int32_t code) { return code >= 0xdc00 && code < 0xe000; }

/* Replaces halves of surrogate pairs, which no text has, by U+FFFD. In strings of other programs
 * they are frequent: texts that were cut between the two. */
static void replace_halves(char *line, size_t n) {
    char *end = line + n;
    for (char *at = line; (at = memchr(at, '\\', (size_t)(end - at))) && end - at > 1;) {
        int32_t code = escaped(at, end);
        if (is_high(code) && is_low(escaped(at + 6, end))) {
            at += 12;
            continue;
        }
        if (is_high(code) || is_low(code)) memcpy(at + 2, "fffd", 4);
        at += code < 0 ? 2 : 6;
    }
}

json_t *pst_json_lines_parse(char *line, size_t n, json_error_t *error) {
    *error = (json_error_t){.text = ""};
    if (memmem(line, n, "\\u", 2)) replace_halves(line, n);
    return json_loadb(line, n, JSON_ALLOW_NUL, error);
}

/* --- documents -------------------------------------------------------------------------------- */

static pst_status encode_document(pst_encoder *e, const char *text, size_t n,
                                  const pst_documents *out) {
    pst_ids ids = {0};
    pst_status status = pst_encode(e, text, n, 1, &ids);
    if (status == PST_OK) status = out->add(out->to, ids.id, ids.n);
    pst_ids_free(&ids);
    return status == PST_OK ? out->end(out->to) : status;
}

pst_status pst_json_lines_text(const pst_json_lines *o, char *line, size_t n, json_t **root,
                               const json_t **text) {
    json_error_t error;
    *root = pst_json_lines_parse(line, n, &error);
    *text = json_object_get(*root, o->field);
    if (!json_is_string(*text)) *text = NULL;
    if (*text || o->skip) return PST_OK;
    pst_status status = *root ? pst_fail(PST_EINPUT, "no text in the field \"%s\"", o->field)
                              : pst_fail(PST_EINPUT, "not JSON: %s", error.text);
    json_decref(*root);
    return status;
}

static pst_status encode_json(const void *arg, pst_encoder *e, char *line, size_t n,
                              const pst_documents *out, uint64_t *skipped) {
    json_t *root;
    const json_t *text;
    pst_status status = PST_OK;
    PST_TRY(pst_json_lines_text(arg, line, n, &root, &text));
    if (text) status = encode_document(e, json_string_value(text), json_string_length(text), out);
    else ++*skipped;
    json_decref(root);
    return status;
}

pst_line_form pst_json_lines_form(const pst_json_lines *options) {
    return (pst_line_form){encode_json, options, 0};
}

static pst_status encode_plain(const void *arg, pst_encoder *e, char *line, size_t n,
                               const pst_documents *out, uint64_t *skipped) {
    (void)arg;
    (void)skipped;
    return encode_document(e, line, n - (line[n - 1] == '\r'), out);
}

const pst_line_form pst_line_plain = {encode_plain, NULL, 0};
const pst_line_form pst_line_bordered = {encode_plain, NULL, 1};

static pst_status encode_all(pst_encoder *e, lines *l, const pst_line_form *form,
                             const pst_documents *out) {
    char *line;
    size_t n;
    while (l->place < l->p->to) {
        PST_TRY(next_line(l, &line, &n));
        l->p->ended = !line;
        if (!line) return PST_OK;
        if (!l->begin && n >= 3 && !memcmp(line, "\xef\xbb\xbf", 3)) { /* byte order mark */
            line += 3;
            n -= 3;
        }
        if (is_blank(line, n)) {
            if (form->borders) PST_TRY(out->end(out->to));
            continue;
        }
        pst_status status = form->encode(form->arg, e, line, n, out, &l->p->skipped);
        if (status == PST_BUSY) return status;
        if (status != PST_OK) return fail_at(l, status, l->begin);
    }
    return PST_OK;
}

pst_status pst_lines_piece(pst_encoder *e, pst_text_piece *p, const pst_line_form *form,
                           const pst_documents *out) {
    lines l = {.p = p, .place = p->from ? p->from - 1 : 0};
    char *line = "";
    size_t n;
    p->ended = 0;
    pst_status status = pst_text_file_seek(p->file, l.place);
    if (status == PST_OK && p->from) status = next_line(&l, &line, &n); /* of the piece before */
    p->ended = !line;
    if (status == PST_OK && form->borders && !p->from) status = out->end(out->to);
    if (status == PST_OK && line) status = encode_all(e, &l, form, out);
    pst_text_free(&l.text);
    return status;
}

pst_status pst_lines_encode(pst_encoder *e, const char *path, const pst_line_form *form,
                            const pst_documents *out, uint64_t *skipped) {
    pst_text_piece p = {.path = path, .to = UINT64_MAX};
    PST_TRY(pst_text_file_open(path, &p.file));
    pst_status status = pst_lines_piece(e, &p, form, out);
    *skipped += p.skipped;
    pst_text_file_close(p.file);
    return status;
}

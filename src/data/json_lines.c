/* See json_lines.h. zlib passes uncompressed data through. Memory is that of the longest line,
 * whatever a compressed file expands to. */
#include "data/json_lines.h"
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <zlib.h>

enum { BLOCK = 1 << 16, LINE_MOST = 1 << 28 };

typedef struct {
    const char *path;
    gzFile file;
    pst_text text; /* read, from `at` on not yet taken */
    size_t at;
    uint64_t line;
    int ended;
} lines;

static int ends_in(const char *name, const char *ending) {
    size_t n = strlen(name), m = strlen(ending);
    return n > m && !strcmp(name + n - m, ending);
}

int pst_json_lines_is(const char *path) {
    return ends_in(path, ".jsonl") || ends_in(path, ".jsonl.gz");
}

static pst_status read_more(lines *l) {
    if (l->at) memmove(l->text.byte, l->text.byte + l->at, l->text.n - l->at);
    l->text.n -= l->at;
    l->at = 0;
    if (l->text.n > LINE_MOST)
        return pst_fail(PST_EINPUT, "%s: line %llu has more than %d MiB", l->path,
                        (unsigned long long)l->line + 1, LINE_MOST >> 20);
    PST_TRY(pst_text_room(&l->text, BLOCK));
    int error, got = gzread(l->file, l->text.byte + l->text.n, BLOCK);
    const char *why = gzerror(l->file, &error);
    if (got < 0 || (error != Z_OK && error != Z_STREAM_END))
        return pst_fail(PST_EINPUT, "%s: %s", l->path, error == Z_ERRNO ? strerror(errno) : why);
    l->text.n += (size_t)got;
    l->ended = got == 0;
    return PST_OK;
}

/* The next line, without its end; *line NULL: there is none. */
static pst_status next_line(lines *l, const char **line, size_t *n) {
    size_t seen = 0;
    const char *end = NULL;
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
    l->at += *n + (end != NULL);
    l->line++;
    return PST_OK;
}

static int is_blank(const char *line, size_t n) {
    while (n && strchr(" \t\r", line[n - 1]) && line[n - 1]) n--;
    return !n;
}

static pst_status encode_line(pst_encoder *e, const json_t *root, const json_error_t *error,
                              const char *field, const pst_documents *out) {
    const json_t *text = json_object_get(root, field);
    pst_ids ids = {0};
    if (!root) return pst_fail(PST_EINPUT, "not JSON: %s", error->text);
    if (!json_is_string(text)) return pst_fail(PST_EINPUT, "no text in the field \"%s\"", field);
    pst_status status = pst_encode(e, json_string_value(text), json_string_length(text), 1, &ids);
    if (status == PST_OK) status = out->add(out->to, ids.id, ids.n);
    pst_ids_free(&ids);
    return status == PST_OK ? out->end(out->to) : status;
}

static pst_status encode_all(pst_encoder *e, lines *l, const pst_json_lines *o,
                             const pst_documents *out, uint64_t *skipped) {
    const char *line;
    size_t n;
    for (;;) {
        PST_TRY(next_line(l, &line, &n));
        if (!line) return PST_OK;
        if (is_blank(line, n)) continue;
        json_error_t error = {.text = ""};
        json_t *root = json_loadb(line, n, JSON_ALLOW_NUL, &error);
        int wrong = !json_is_string(json_object_get(root, o->field));
        pst_status status = PST_OK;
        if (wrong && o->skip) ++*skipped;
        else status = encode_line(e, root, &error, o->field, out);
        json_decref(root);
        if (status != PST_OK)
            return pst_fail_in(status, "%s: line %llu", l->path, (unsigned long long)l->line);
    }
}

pst_status pst_json_lines_encode(pst_encoder *e, const char *path, const pst_json_lines *options,
                                 const pst_documents *out, uint64_t *skipped) {
    errno = 0;
    lines l = {.path = path, .file = gzopen(path, "rb")};
    if (!l.file)
        return pst_fail(PST_EINPUT, "%s: %s", path, errno ? strerror(errno) : "out of memory");
    pst_status status = encode_all(e, &l, options, out, skipped);
    gzclose_r(l.file);
    pst_text_free(&l.text);
    return status;
}

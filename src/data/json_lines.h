/* JSON Lines: one document per line, in a field of an object; also compressed by gzip or
 * Zstandard. */
#ifndef PST_DATA_JSON_LINES_H
#define PST_DATA_JSON_LINES_H
#include "data/piece.h"
#include <jansson.h>

/* How a line becomes a document. */
typedef struct {
    /* Encodes a line without its end, which is not blank and may be changed, or counts it as left
     * out. */
    pst_status (*encode)(const void *arg, pst_encoder *e, char *line, size_t n,
                         const pst_documents *out, uint64_t *skipped);
    const void *arg;
    int borders; /* 1: an empty document stands for each blank line, and before each file */
} pst_line_form;
/* Encodes each line of a piece that is not blank; a byte order mark at the file's start is no part
 * of it. EINPUT names file and line: wrong, or longer than 256 MiB. */
pst_status pst_lines_piece(pst_encoder *e, pst_text_piece *p, const pst_line_form *form,
                           const pst_documents *out);
/* The same of a whole file; *skipped: number of lines left out. */
pst_status pst_lines_encode(pst_encoder *e, const char *path, const pst_line_form *form,
                            const pst_documents *out, uint64_t *skipped);
/* Each line as a document, without what ends it. */
extern const pst_line_form pst_line_plain;
/* The same, with borders. */
extern const pst_line_form pst_line_bordered;
/* The line as JSON; NULL: it is none, *error says why. Half of a surrogate pair (\ud800 to \udfff
 * alone) becomes U+FFFD. The caller calls json_decref. */
json_t *pst_json_lines_parse(char *line, size_t n, json_error_t *error);

/* What to do with a line that is no JSON object, or has no such text: 0: EINPUT; 1: leave it out.
 */
typedef struct {
    const char *field;
    int skip;
} pst_json_lines;

/* 1: the name of such a file: it ends in .jsonl, .jsonl.gz or .jsonl.zst. */
int pst_json_lines_is(const char *path);
/* The text in the field of a line: *text, a string of *root, which the caller releases; NULL: the
 * line is left out. */
pst_status pst_json_lines_text(const pst_json_lines *options, char *line, size_t n, json_t **root,
                               const json_t **text);
/* The text in the field of each line as a document. */
pst_line_form pst_json_lines_form(const pst_json_lines *options);
#endif

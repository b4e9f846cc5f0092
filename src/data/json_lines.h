/* JSON Lines: one document per line, in a field of an object; also compressed by gzip or
 * Zstandard. */
#ifndef PST_DATA_JSON_LINES_H
#define PST_DATA_JSON_LINES_H
#include "data/piece.h"

/* What to do with a line that is no JSON object, or has no such text: 0: EINPUT; 1: leave it out.
 */
typedef struct {
    const char *field;
    int skip;
} pst_json_lines;

/* 1: the name of such a file: it ends in .jsonl, .jsonl.gz or .jsonl.zst. */
int pst_json_lines_is(const char *path);
/* Encodes each line of a piece as a document; empty lines are none, and neither is a byte order
 * mark at the file's start. Half of a surrogate pair (\ud800 to \udfff alone) becomes U+FFFD.
 * EINPUT names file and line: wrong, or longer than 256 MiB. */
pst_status pst_json_lines_piece(pst_encoder *e, pst_text_piece *p, const pst_json_lines *options,
                                const pst_documents *out);
/* The same of a whole file; *skipped: number of lines left out. */
pst_status pst_json_lines_encode(pst_encoder *e, const char *path, const pst_json_lines *options,
                                 const pst_documents *out, uint64_t *skipped);
#endif

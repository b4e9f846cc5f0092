/* JSON Lines: one document per line, in a field of an object; also compressed by gzip. */
#ifndef PST_DATA_JSON_LINES_H
#define PST_DATA_JSON_LINES_H
#include "tokenizer/stream.h"

/* Takes the ids of a document, and its end. */
typedef struct {
    pst_ids_sink add;
    pst_status (*end)(void *to);
    void *to;
} pst_documents;
/* What to do with a line that is no JSON object, or has no such text: 0: EINPUT; 1: leave it out.
 */
typedef struct {
    const char *field;
    int skip;
} pst_json_lines;

/* 1: the name of such a file: it ends in .jsonl or .jsonl.gz. */
int pst_json_lines_is(const char *path);
/* Encodes each line as a document; empty lines are none. *skipped: number of lines left out. EINPUT
 * names file and line: wrong, or longer than 256 MiB. */
pst_status pst_json_lines_encode(pst_encoder *e, const char *path, const pst_json_lines *options,
                                 const pst_documents *out, uint64_t *skipped);
#endif

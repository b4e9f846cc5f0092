/* Files encoded part by part: memory does not grow with their size, unless a file has no place at
 * which it can be divided. */
#ifndef PST_TOKENIZER_STREAM_H
#define PST_TOKENIZER_STREAM_H
#include "tokenizer/tokenizer.h"

/* Where a text can be divided, as pst_tokenizer_cut; takes the next part of a file. */
typedef size_t (*pst_part_cut)(const void *what, const char *text, size_t bytes);
typedef pst_status (*pst_part_sink)(void *what, const char *text, size_t bytes, int first);
/* Reads a file in parts that end where `cut` says; the last one ends with the file. *bytes: the
 * file's size. EINPUT: it cannot be read; the message names it. */
pst_status pst_read_parts(const char *path, pst_part_cut cut, pst_part_sink sink, void *what,
                          uint64_t *bytes);
/* Takes the next n ids of a document. */
typedef pst_status (*pst_ids_sink)(void *to, const int32_t *id, size_t n);
/* Encodes a whole file as one document, with the same ids as pst_encode of its contents. *bytes:
 * the file's size. EINPUT: it cannot be read; the message names it. */
pst_status pst_encode_file(pst_encoder *e, const char *path, pst_ids_sink sink, void *to,
                           uint64_t *bytes);
#endif

/* Files encoded part by part, decompressed if they are compressed (text_file.h): memory does not
 * grow with their size. */
#ifndef PST_TOKENIZER_STREAM_H
#define PST_TOKENIZER_STREAM_H
#include "tokenizer/tokenizer.h"

/* Where a text can be divided, as pst_tokenizer_cut; takes the next part of a file. */
typedef size_t (*pst_part_cut)(const void *what, const char *text, size_t bytes);
typedef pst_status (*pst_part_sink)(void *what, const char *text, size_t bytes, int first);
/* The longest text that is read without a place at which it can be divided, about, and what is said
 * of a longer one. */
enum { PST_PART_MOST = 128 << 20 };
extern const char pst_part_too_long[];
/* Reads a file in parts that end where `cut` says; the last one ends with the file. *bytes: the
 * size of its text. EINPUT: it cannot be read, or divided; the message names it. */
pst_status pst_read_parts(const char *path, pst_part_cut cut, pst_part_sink sink, void *what,
                          uint64_t *bytes);
/* Takes the next n ids of a document. */
typedef pst_status (*pst_ids_sink)(void *to, const int32_t *id, size_t n);
/* Encodes a whole file as one document, with the same ids as pst_encode of its contents. *bytes:
 * the size of its text. EINPUT as above. */
pst_status pst_encode_file(pst_encoder *e, const char *path, pst_ids_sink sink, void *to,
                           uint64_t *bytes);
#endif

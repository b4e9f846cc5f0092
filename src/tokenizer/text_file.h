/* A file of text, read from its start or from any other place; a file compressed by gzip or
 * Zstandard is decompressed. Its first bytes tell the format, not its name. */
#ifndef PST_TOKENIZER_TEXT_FILE_H
#define PST_TOKENIZER_TEXT_FILE_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct pst_text_file pst_text_file;
/* A text file is for one thread. EINPUT or ENOMEM, also below: the message begins with the path. */
pst_status pst_text_file_open(const char *path, pst_text_file **out);
void pst_text_file_close(pst_text_file *f);
/* Reads the next n bytes of text; *got < n: the text has ended. EINPUT: compressed data is damaged,
 * or expands to more than 200 times its size (beyond the first 64 MiB). */
pst_status pst_text_file_read(pst_text_file *f, void *out, size_t n, size_t *got);
/* The next read begins at byte `at` of the text, or at its end if that comes before. Compressed
 * text is read up to there, from its start again if `at` is behind. */
pst_status pst_text_file_seek(pst_text_file *f, uint64_t at);
/* Bytes of the file, as it is stored, that have been read. */
uint64_t pst_text_file_stored(const pst_text_file *f);
/* The format of compressed data with these first n bytes: "gzip" or "Zstandard"; NULL: other data.
 */
const char *pst_text_file_format(const uint8_t *first, size_t n);
enum { PST_TEXT_FILE_FIRST = 4 /* bytes that pst_text_file_format needs */ };
#endif

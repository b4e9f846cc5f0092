/* CSV as RFC 4180 says: fields are separated by commas; a field in double quotes may contain
 * commas, ends of lines and, doubled, double quotes. */
#ifndef PST_DATA_CSV_H
#define PST_DATA_CSV_H
#include "tokenizer/tokenizer.h"

/* A record: field i is text.byte[at[i]] to text.byte[at[i + 1] - 1], which a zero follows. */
typedef struct {
    uint64_t line; /* on which it begins, from 1 */
    uint32_t n;
    size_t *at; /* [n + 1] */
    size_t capacity;
    pst_text text;
} pst_csv_record;
static inline const char *pst_csv_field(const pst_csv_record *r, uint32_t i) {
    return r->text.byte + r->at[i];
}
/* Its bytes, without the zero. */
static inline size_t pst_csv_bytes(const pst_csv_record *r, uint32_t i) {
    return r->at[i + 1] - r->at[i] - 1;
}

/* 1: the name of such a file: it ends in .csv, .csv.gz or .csv.zst. */
int pst_csv_is(const char *path);
/* Calls `each` for every record that is not an empty line, the header included; its errors get file
 * and line. A byte order mark is no part of the text. EINPUT: a quote that does not end, or text
 * behind one; the file cannot be read. */
pst_status pst_csv_read(const char *path, pst_status (*each)(void *arg, const pst_csv_record *r),
                        void *arg);
#endif

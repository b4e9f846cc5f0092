/* The record of an encoded data set, a small file of JSON: the key of the encoding, and sizes,
 * times and hashes of PREFIX.bin and PREFIX.idx. It is written when both are complete; files that
 * were cut or changed later are noticed. */
#ifndef PST_DATA_ENCODE_RECORD_H
#define PST_DATA_ENCODE_RECORD_H
#include "base/status.h"
#include <stdint.h>

/* Of `tokenize`: beside PREFIX.bin and PREFIX.idx. */
#define PST_ENCODE_RECORD_ENDING ".record.json"

typedef struct {
    const char *path, *prefix; /* of the record; of the data set */
    uint64_t key;              /* pst_encode_key */
    uint64_t skipped;          /* lines that were left out */
} pst_encode_record;

/* 1: the data set is complete, of this key, and as it was written; sets r->skipped. Reads both
 * files if their times have changed. Any thread. */
int pst_encode_record_read(pst_encode_record *r);
/* The same, and writing the record, as pst_encode_options has them; what: the record. */
int pst_encode_record_exists(void *what);
pst_status pst_encode_record_complete(void *what, uint64_t skipped);
#endif

/* Values of JSON workloads, with messages that name their place. */
#ifndef PST_PARTITION_FOREIGN_IMPORT_JSON_H
#define PST_PARTITION_FOREIGN_IMPORT_JSON_H
#include "partition/foreign/import.h"
#include <jansson.h>

/* An object in the file. */
typedef struct {
    const char *where; /* the file */
    const json_t *json;
    char path[96]; /* "nodes[3]." or "" */
} pst_import_at;

/* Member `key`: a number from least to most. Missing: *to stays if it is optional. */
pst_status pst_import_number(const pst_import_at *at, const char *key, double least, double most,
                             int optional, double *to);
pst_status pst_import_integer(const pst_import_at *at, const char *key, int64_t least, int64_t most,
                              int optional, int64_t *to);
/* true, false, 1 or 0. */
pst_status pst_import_flag(const pst_import_at *at, const char *key, int *to);
/* An array of least to most values. */
pst_status pst_import_array(const pst_import_at *at, const char *key, size_t least, size_t most,
                            const json_t **to);
/* Element i of the array `key`, as an object. */
pst_status pst_import_element(const pst_import_at *at, const char *key, const json_t *array,
                              size_t i, pst_import_at *to);
/* The node with the id in `key`. */
pst_status pst_import_end(const pst_import_at *at, const char *key, const pst_import_id *ids,
                          uint32_t n, uint32_t *node);
#endif

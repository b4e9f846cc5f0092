/* Readers of JSON values; error messages name the file and the JSON path. */
#ifndef PST_PARTITION_FOREIGN_IMPORT_JSON_H
#define PST_PARTITION_FOREIGN_IMPORT_JSON_H
#include "partition/foreign/import.h"
#include <jansson.h>

/* A JSON object and its position in the file. */
typedef struct {
    const char *where; /* name of the file */
    const json_t *json;
    char path[96]; /* "nodes[3]." or "" */
} pst_import_at;

/* Reads member `key`, a number from `least` to `most`. If the member is missing: EINPUT, or, with
 * optional 1, OK and *to does not change. */
pst_status pst_import_number(const pst_import_at *at, const char *key, double least, double most,
                             int optional, double *to);
pst_status pst_import_integer(const pst_import_at *at, const char *key, int64_t least, int64_t most,
                              int optional, int64_t *to);
/* Reads member `key`: true, false, 1 or 0. */
pst_status pst_import_flag(const pst_import_at *at, const char *key, int *to);
/* Reads member `key`: an array of `least` to `most` elements. */
pst_status pst_import_array(const pst_import_at *at, const char *key, size_t least, size_t most,
                            const json_t **to);
/* Reads element i, an object, of the array that is member `key`. */
pst_status pst_import_element(const pst_import_at *at, const char *key, const json_t *array,
                              size_t i, pst_import_at *to);
/* Reads member `key`, the id of a node, and sets *node to the index of the node. ids: [n]
 * sorted. */
pst_status pst_import_end(const pst_import_at *at, const char *key, const pst_import_id *ids,
                          uint32_t n, uint32_t *node);
#endif

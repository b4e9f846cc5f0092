/* Stores the values that the ranks of a job have published, for worlds without a library that does
 * so. One thread. */
#ifndef PST_COMM_WORLD_STORE_H
#define PST_COMM_WORLD_STORE_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct pst_store_entry pst_store_entry;
typedef struct {
    pst_store_entry *first;
} pst_store; /* list, newest value first: the last put of a key is returned */

pst_status pst_store_put(pst_store *store, uint32_t rank, const char *key, const void *value,
                         size_t bytes);
/* *value is malloc'ed, the caller frees it. EINTERNAL: the rank has not published the key. */
pst_status pst_store_get(const pst_store *store, uint32_t rank, const char *key, void **value,
                         size_t *bytes);
void pst_store_clear(pst_store *store);
#endif

/* See store.h. */
#include "comm/world/store.h"
#include <stdlib.h>
#include <string.h>

struct pst_store_entry {
    pst_store_entry *next;
    uint32_t rank;
    size_t bytes;
    char *key;
    void *value;
};

static void entry_free(pst_store_entry *e) {
    free(e->key);
    free(e->value);
    free(e);
}

static void *copy_of(const void *value, size_t bytes) {
    void *copy = malloc(bytes ? bytes : 1);
    if (copy && bytes) memcpy(copy, value, bytes);
    return copy;
}

pst_status pst_store_put(pst_store *store, uint32_t rank, const char *key, const void *value,
                         size_t bytes) {
    pst_store_entry *e = calloc(1, sizeof *e);
    if (!e) return pst_fail(PST_ENOMEM, "no memory for %s", key);
    e->key = strdup(key);
    e->value = copy_of(value, bytes);
    if (!e->key || !e->value) {
        entry_free(e);
        return pst_fail(PST_ENOMEM, "no memory for %s", key);
    }
    e->rank = rank;
    e->bytes = bytes;
    e->next = store->first;
    store->first = e;
    return PST_OK;
}

pst_status pst_store_get(const pst_store *store, uint32_t rank, const char *key, void **value,
                         size_t *bytes) {
    const pst_store_entry *e = store->first;
    while (e && (e->rank != rank || strcmp(e->key, key))) e = e->next;
    if (!e) return pst_fail(PST_EINTERNAL, "rank %u has not published %s", rank, key);
    void *copy = copy_of(e->value, e->bytes);
    if (!copy) return pst_fail(PST_ENOMEM, "no memory for %s", key);
    *value = copy;
    *bytes = e->bytes;
    return PST_OK;
}

void pst_store_clear(pst_store *store) {
    while (store->first) {
        pst_store_entry *e = store->first;
        store->first = e->next;
        entry_free(e);
    }
}

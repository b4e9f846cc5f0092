/* The merges of a byte-pair encoding, and their application to one word. */
#ifndef PST_TOKENIZER_PAIRS_H
#define PST_TOKENIZER_PAIRS_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t left, right; /* ids of two neighbours; left is PST_PAIR_NONE in an empty slot */
    uint32_t rank, id;    /* lower ranks are merged first; the id of both together */
} pst_pair;
enum { PST_PAIR_NONE = -1 };
typedef struct {
    pst_pair *slot; /* [n_slot] by hash of both ids; a power of two */
    size_t n_slot, n;
} pst_pairs;

/* Adds a merge; one that exists already keeps its rank. */
pst_status pst_pairs_add(pst_pairs *p, pst_pair pair);
/* NULL: there is no such merge. */
const pst_pair *pst_pairs_find(const pst_pairs *p, uint32_t left, uint32_t right);
void pst_pairs_free(pst_pairs *p);

/* Memory for one thread that merges. */
typedef struct {
    void *memory;
    size_t capacity; /* symbols */
} pst_merge_memory;
void pst_merge_memory_free(pst_merge_memory *m);
/* Merges the n ids of a word in place: always the neighbours of the lowest rank, the leftmost of
 * equal ones, until no neighbours have a rank; *n becomes the number of ids that are left. Takes
 * n log n time. */
pst_status pst_pairs_merge(const pst_pairs *p, int32_t *id, size_t *n, pst_merge_memory *m);
#endif

/* Data sets that a run is evaluated on besides its validation split: eval.sets. */
#ifndef PST_METRICS_EVALUATE_H
#define PST_METRICS_EVALUATE_H
#include "config/config.h"
#include "data/data.h"

enum {
    PST_EVALUATE_NAME = 44
}; /* bytes of a name, at most PST_ROW_ITEM_BYTES, and its terminating zero */

typedef struct {
    char name[PST_EVALUATE_NAME];
    pst_data *data;
    double loss; /* loss and tokens of the last evaluation; NaN and 0 if there was none */
    uint64_t tokens;
} pst_evaluate_set;
typedef struct {
    uint32_t n;
    pst_evaluate_set *set; /* [n] in the run file's order */
} pst_evaluate_sets;

/* Opens files of data.kind; held_out: all of it is for evaluation. EINPUT as for pst_data_row. */
pst_status pst_evaluate_data(const pst_config *c, uint32_t context, char *const *path, uint32_t n,
                             int held_out, pst_data **data);
/* open: EINPUT names the set. close: accepts zeros, too. */
pst_status pst_evaluate_open(const pst_config *c, uint32_t context, pst_evaluate_sets *sets);
void pst_evaluate_close(pst_evaluate_sets *sets);
/* Continues `hash` with names and data of the sets. */
uint64_t pst_evaluate_hash(const pst_evaluate_sets *sets, uint64_t hash);
#endif

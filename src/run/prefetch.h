/* Reads the samples of the next training batch on a thread of its own, while a step runs. All
 * functions are for the thread that opened it. */
#ifndef PST_RUN_PREFETCH_H
#define PST_RUN_PREFETCH_H
#include "data/data.h"

typedef struct pst_prefetch pst_prefetch;
/* Samples first, first+1, ... of the training split. */
typedef struct {
    uint64_t first, n;
} pst_prefetch_batch;
/* data: borrowed; only between pst_prefetch_settle and the next pst_prefetch_start may others read
 * samples of it. most: samples of the largest batch. ENOMEM: no memory, or no thread. */
pst_status pst_prefetch_open(pst_data *data, uint64_t most, pst_prefetch **out);
/* Waits for a batch that is being read. NULL: nothing. */
void pst_prefetch_close(pst_prefetch *p);
/* Starts to read a batch; the samples of the last one are lost. */
void pst_prefetch_start(pst_prefetch *p, pst_prefetch_batch batch);
/* Waits until the batch is read, which it starts if another or no batch was started. Returns the
 * first failure of the data set. */
pst_status pst_prefetch_take(pst_prefetch *p, pst_prefetch_batch batch);
/* out[j]: field j of sample i of the batch taken; valid until the next start. */
void pst_prefetch_sample(const pst_prefetch *p, uint64_t i, int32_t *out[PST_DATA_FIELDS]);
/* Waits until nothing is being read. */
void pst_prefetch_settle(pst_prefetch *p);
#endif

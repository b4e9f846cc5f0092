/* The data that a session is given: the data tensors of its graph, and their valid values. */
#ifndef PST_RUN_SESSION_DATA_H
#define PST_RUN_SESSION_DATA_H
#include "run/trainer.h"

typedef struct pst_feed pst_feed; /* a data tensor */
typedef struct {
    uint32_t n;
    pst_feed *feed; /* [n] in the order in which they were added to the graph */
} pst_session_data;

/* The largest value that all readers of a data tensor accept; 0 and all values in between are valid
 * too. */
int32_t pst_session_data_max(const pst_graph *graph, uint32_t tensor);

pst_status pst_session_data_open(const pst_graph *graph, pst_session_data *data);
void pst_session_data_close(pst_session_data *data);
/* given[i], i < n: a batch for data tensor i. EINPUT when it is missing, or contains invalid
 * values. */
pst_status pst_session_data_check(const pst_session_data *data, const pst_trainer *t,
                                  const int32_t *const *given, uint32_t n);
/* Copies the batch to the local ranks that read it. EINTERNAL when a device fails. */
pst_status pst_session_data_copy(const pst_session_data *data, const pst_trainer *t,
                                 const int32_t *const *given);
#endif

/* Checks and copies the data that a program passes to a session: one array per data tensor of the
 * graph. */
#ifndef PST_RUN_SESSION_DATA_H
#define PST_RUN_SESSION_DATA_H
#include "run/trainer.h"

typedef struct pst_feed pst_feed; /* a data tensor of the graph and its valid values */
typedef struct {
    uint32_t n;
    pst_feed *feed; /* [n] in the order in which the data tensors were added to the graph */
} pst_session_data;

/* The largest valid value of a data tensor: all operators that read the tensor accept 0 to this
 * value. */
int32_t pst_session_data_max(const pst_graph *graph, uint32_t tensor);

pst_status pst_session_data_open(const pst_graph *graph, pst_session_data *data);
void pst_session_data_close(pst_session_data *data);
/* given[i], i < n: `samples` samples for data tensor i. EINPUT: an array is missing, or contains
 * invalid values. */
pst_status pst_session_data_check(const pst_session_data *data, const pst_trainer *t,
                                  const int32_t *const *given, uint32_t n, uint64_t samples);
/* Copies the batch to the local ranks that read it. EINTERNAL: a device failed. */
pst_status pst_session_data_copy(const pst_session_data *data, const pst_trainer *t,
                                 const int32_t *const *given);
#endif

/* What a session is fed: the data tensors of its graph, and what may stand in them. */
#ifndef PST_RUN_SESSION_DATA_H
#define PST_RUN_SESSION_DATA_H
#include "run/trainer.h"

typedef struct pst_feed pst_feed; /* a data tensor */
typedef struct {
    uint32_t n;
    pst_feed *feed; /* [n] in the order in which they were added to the graph */
} pst_session_data;

/* The largest number that every reader of a data tensor takes; all take 0 and what lies between. */
int32_t pst_session_data_most(const pst_graph *graph, uint32_t tensor);

pst_status pst_session_data_open(const pst_graph *graph, pst_session_data *data);
void pst_session_data_close(pst_session_data *data);
/* given[i], i < n: a batch for the i-th one. EINPUT when it is not there, or holds what its readers
 * do not take. */
pst_status pst_session_data_check(const pst_session_data *data, const pst_trainer *t,
                                  const int32_t *const *given, uint32_t n);
/* Into the memory of the ranks here that read it. EINTERNAL when a device fails. */
pst_status pst_session_data_copy(const pst_session_data *data, const pst_trainer *t,
                                 const int32_t *const *given);
#endif

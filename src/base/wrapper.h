/* A transport on top of another one, and functions that pass a call on to the inner transport. */
#ifndef PST_BASE_WRAPPER_H
#define PST_BASE_WRAPPER_H
#include "base/transport.h"

/* First member of the structure of a transport that wraps another one. */
typedef struct {
    pst_transport base; /* first */
    pst_transport *inner;
} pst_wrapper;

pst_wrapper pst_wrapper_of(pst_transport *inner, const pst_transport_ops *ops);
uint32_t pst_wrapper_progress(pst_transport *t);
/* As in transport.h; the inner transport may lack these functions. */
uint64_t pst_wrapper_next_ns(pst_transport *t);
pst_status pst_wrapper_arm(pst_transport *t, int *fd);
void pst_wrapper_abort(pst_transport *t);
#endif

/* Events of a device's queues: which queued work has ended, when, and which work failed. One
 * thread. */
#ifndef PST_KERNELS_CUDA_EVENTS_H
#define PST_KERNELS_CUDA_EVENTS_H
#include "kernels/cuda/cuda.h"

typedef struct pst_cuda_events pst_cuda_events;

/* Opens the events of the current CUDA device; the streams must outlive them. ENOMEM. */
pst_status pst_cuda_events_open(const cudaStream_t stream[PST_Q_COUNT], pst_cuda_events **events);
/* To be called after work was queued on `queue`. *id: an event that completes when this work and
 * all work queued there before it has ended; id NULL: no event. submit_ns: when the work was
 * queued; name: name of the work; must outlive the events. Waits if all events of the ring are
 * pending. */
pst_status pst_cuda_events_add(pst_cuda_events *e, pst_queue queue, const char *name,
                               uint64_t submit_ns, uint64_t *id);
/* The number of the next event. */
uint64_t pst_cuda_events_next(const pst_cuda_events *e);
/* As pst_device_ops.test. Events that ended before a failure still return OK. */
pst_status pst_cuda_events_test(pst_cuda_events *e, uint64_t id, uint64_t *start_ns,
                                uint64_t *end_ns);
/* The status for an error of a CUDA call that queues or waits: if the device has failed, that
 * failure with the name of the operator; else the error of this call (`what`). */
pst_status pst_cuda_events_failed(pst_cuda_events *e, cudaError_t error, const char *what);
/* 1: the device has failed, and nothing runs on it any more; sets the thread's error message
 * again. */
int pst_cuda_events_lost(const pst_cuda_events *e);
void pst_cuda_events_close(pst_cuda_events *e);
#endif

/* Which of a device's queued work has ended, when, and which of it failed. One thread uses it. */
#ifndef PST_KERNELS_CUDA_EVENTS_H
#define PST_KERNELS_CUDA_EVENTS_H
#include "kernels/cuda/cuda.h"

typedef struct pst_cuda_events pst_cuda_events;

/* For the current device; the streams must outlive it. */
pst_status pst_cuda_events_open(const cudaStream_t stream[PST_Q_COUNT], pst_cuda_events **events);
/* To be called after work was queued (since submit_ns): *id is the event of its completion, and of
 * what was queued there with id NULL since the last event. `name` must outlive the events. Waits if
 * the ring is full of pending events. */
pst_status pst_cuda_events_add(pst_cuda_events *e, pst_queue queue, const char *name,
                               uint64_t submit_ns, uint64_t *id);
/* The number that the next event gets. */
uint64_t pst_cuda_events_next(const pst_cuda_events *e);
/* As pst_device_ops.test. Events that ended before a failure still return OK. */
pst_status pst_cuda_events_test(pst_cuda_events *e, uint64_t id, uint64_t *start_ns,
                                uint64_t *end_ns);
/* The error of a call that queues or waits: an earlier failure of the device, with the name of the
 * operator that failed, or this call's own. */
pst_status pst_cuda_events_failed(pst_cuda_events *e, cudaError_t error, const char *what);
/* An error if the device has failed, after which nothing runs on it; repeats the message. */
int pst_cuda_events_lost(const pst_cuda_events *e);
void pst_cuda_events_close(pst_cuda_events *e);
#endif

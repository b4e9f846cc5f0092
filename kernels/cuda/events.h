/* Which of a device's queued work has ended, when, and which of it failed. One thread uses it. */
#ifndef PST_KERNELS_CUDA_EVENTS_H
#define PST_KERNELS_CUDA_EVENTS_H
#include "kernels/cuda/cuda.h"

typedef struct pst_cuda_events pst_cuda_events;

/* Of the current device; the streams outlive it. */
pst_status pst_cuda_events_open(const cudaStream_t stream[PST_Q_COUNT], pst_cuda_events **events);
/* To be called behind what was queued since submit_ns: names the completion of that, and of what
 * was queued there with id NULL since the last one. `name` outlives the events. Waits where so many
 * are outstanding that the ring is full. */
pst_status pst_cuda_events_add(pst_cuda_events *e, pst_queue queue, const char *name,
                               uint64_t submit_ns, uint64_t *id);
/* The number that the next one gets; those that are named are such numbers. */
uint64_t pst_cuda_events_next(const pst_cuda_events *e);
/* As pst_device_ops.test. What ended before a failure is OK still. */
pst_status pst_cuda_events_test(pst_cuda_events *e, uint64_t id, uint64_t *start_ns,
                                uint64_t *end_ns);
/* The error of a call that queues or waits: an earlier failure of the device, named with what it
 * was that failed, or this call's own. */
pst_status pst_cuda_events_failed(pst_cuda_events *e, cudaError_t error, const char *what);
/* Nonzero: the device has failed, and nothing will run on it any more; says so again. */
int pst_cuda_events_lost(const pst_cuda_events *e);
void pst_cuda_events_close(pst_cuda_events *e);
#endif

/* What the files of the runtime that is made up share. See fake.h. */
#ifndef PST_TESTS_CUDA_FAKE_PARTS_H
#define PST_TESTS_CUDA_FAKE_PARTS_H
#include "cuda/fake.h"

struct CUstream_st {
    uint64_t end_ns;
    const uint64_t *awaits;     /* not before this, NULL */
    struct CUgraph_st *capture; /* under way, NULL */
    int broken;                 /* something was asked of it that no capture takes */
};

/* What is done to memory when the clock gets there. */
typedef struct {
    uint64_t at_ns, value, bytes;
    void *to;
    const void *from; /* NULL: bytes of value, or all 8 of it */
    int whole;
} fake_effect;

/* What a call returns is kept as the last error. */
cudaError_t fake_say(cudaError_t error);
/* What every call begins with: time passes, what has come to its end is seen, and a lost device
 * says so. */
cudaError_t fake_call(void);
/* Objects that are counted, all zeros. */
cudaError_t fake_make(void **object, size_t bytes);
cudaError_t fake_drop(void *object);
/* For what has no place in a capture. */
cudaError_t fake_breaks(cudaStream_t stream);
/* When work of so many ns ends that is queued now. */
uint64_t fake_queue(cudaStream_t stream, uint64_t ns);
cudaError_t fake_later(cudaStream_t stream, fake_effect effect);
/* Nothing is under way, and no error is kept. */
void fake_time_reset(void);
/* From then on there is no device. */
void fake_lose(uint64_t at_ns, cudaError_t error);

/* fake_memory.c: whether one of these words is an address in memory that was given back. */
int fake_is_stale(const void *words, size_t bytes);
void fake_memory_reset(void);
#endif

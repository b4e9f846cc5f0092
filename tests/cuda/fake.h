/* A machine with GPUs that are not there: the calls of the runtime that kernels/cuda/ makes for its
 * device, on a clock that the test moves. What is queued has its end reckoned when it is queued and
 * its effect when the clock gets there. */
#ifndef PST_TESTS_CUDA_FAKE_H
#define PST_TESTS_CUDA_FAKE_H
#include <cuda_runtime_api.h>
#include <stdint.h>

typedef struct {
    uint64_t now;          /* ns; every question costs some */
    uint64_t tick;         /* ns that pass when the host's clock is read, beside that */
    double drift;          /* of the device's clock against it: 1e-5 is 10 ppm fast */
    int count, capability; /* GPUs, 90 for sm_90 */
    cudaError_t none;      /* what counting them says instead */
    int driver, runtime;   /* as CUDA counts, 13000 for 13.0 */
    int lt, dnn, dnn_cuda; /* versions of cuBLASLt and cuDNN; which CUDA the latter is for */
    uint64_t free_bytes, total_bytes;
    int live;          /* streams, events, blocks and handles that were made and not given back */
    int fail_at;       /* > 0: that call that makes one of these fails for want of memory */
    int no_writes;     /* streams cannot write values */
    uint32_t writes;   /* of values, that were queued */
    int no_captures;   /* streams are not captured */
    uint32_t graphs;   /* that were launched */
    cudaError_t unfit; /* why the next kernel is not launched */
    cudaError_t fails; /* the error with which the next one takes the device with it */
    cudaError_t lost;  /* once the device has failed */
    uint64_t lost_ns;
} fake_machine;
extern fake_machine fake;

/* cuBLASLt (fake_blas.c). */
typedef struct {
    uint64_t ran;         /* number of the latest algorithm: 100, 101 (which is faster) or 102 */
    uint32_t asked, sums; /* questions for algorithms; ways of adding that were allowed in the last
                             one */
    uint32_t unfit, broken; /* bits of algorithms: their proposals say that they do not run; they
                               fail when they are run */
    int idle;               /* products take their time and compute nothing */
    int fast;               /* the latest product may sum with fewer bits */
    int plain;              /* there are no products that do more than add a bias */
    uint64_t end_ns;        /* that others take longer */
    uint32_t ends;          /* of these that ran */
} fake_blas_machine;
extern fake_blas_machine fake_blas;

/* cuDNN (fake_dnn.c). */
typedef struct {
    int refuses;          /* every graph */
    int even;             /* refuses graphs in which heads share those of another operand */
    int64_t workspace;    /* bytes that a plan says it needs */
    uint32_t runs, plain; /* plans, and launches of our own kernels instead */
    int ran;              /* number of the latest plan's engine: 1 with tensor cores, 2 without; 0:
                             that adds in any order, */
    int loose;            /* which may run */
} fake_dnn_machine;
extern fake_dnn_machine fake_dnn;

void fake_reset(void); /* one H200, nothing on it */
/* A kernel that takes ns and does nothing; with an error, it takes the device with it at its
 * end. */
void fake_kernel(cudaStream_t stream, uint64_t ns, cudaError_t error);
/* A kernel that does this work: at once, and in a capture each time that its graph is launched. The
 * arguments are copied, as a kernel's parameters are: what they point to is looked at when the work
 * is done, and where that is memory that was given back, the device is lost. */
typedef void (*fake_work)(const void *arguments);
void fake_launch(cudaStream_t stream, uint64_t ns, fake_work work, const void *arguments,
                 size_t bytes);
/* These bytes may be used no more; own: they are freed by the next reset. */
void fake_retire(void *mem, size_t bytes, int own);
/* What is queued there next ends at *end_ns, which is UINT64_MAX until that is known; what follows
 * waits for it. */
void fake_await(cudaStream_t stream, const uint64_t *end_ns);
#endif

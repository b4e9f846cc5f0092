/* See fake.h. */
#include "cuda/fake.h"
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MEMORY_ALIGNMENT: the CUDA Programming Guide promises it of any memory of the runtime's. */
enum { CALL_NS = 100, EFFECTS = 65536, MEMORY_ALIGNMENT = 256 };

enum { NODES = 64 };
struct CUgraph_st {
    int n;
    struct {
        uint64_t ns;
        cudaError_t error;
    } node[NODES];
};
struct CUgraphExec_st {
    struct CUgraph_st graph;
};
struct CUstream_st {
    uint64_t end_ns;
    const uint64_t *awaits;     /* not before this, NULL */
    struct CUgraph_st *capture; /* under way, NULL */
    int broken;                 /* something was asked of it that no capture takes */
};
struct CUevent_st {
    uint64_t end_ns;
    const uint64_t *awaits;
};
typedef struct {
    uint64_t at_ns, value, bytes;
    void *to;
    const void *from; /* NULL: bytes of value, or all 8 of it */
    int whole;
} effect;

fake_machine fake;
fake_blas_machine fake_blas;
fake_dnn_machine fake_dnn;
static effect pending[EFFECTS];
static int n_pending;
static cudaError_t last; /* of the calls since it was taken */

void fake_reset(void) {
    fake = (fake_machine){.now = 5000000000000,
                          .count = 1,
                          .capability = 90,
                          .driver = 13000,
                          .runtime = 13000,
                          .free_bytes = UINT64_C(4) << 30,
                          .total_bytes = UINT64_C(5) << 30,
                          .lost_ns = UINT64_MAX};
    fake_blas = (fake_blas_machine){0};
    fake_dnn = (fake_dnn_machine){.workspace = 256};
    n_pending = 0;
    last = cudaSuccess;
}

uint64_t __wrap_pst_monotonic_ns(void);
uint64_t __wrap_pst_monotonic_ns(void) { return fake.now += CALL_NS + fake.tick; }

/* --- time ------------------------------------------------------------------------------------- */

static void apply(const effect *e) {
    if (e->at_ns >= fake.lost_ns) return;
    if (e->from) memcpy(e->to, e->from, e->bytes);
    else if (e->whole) memcpy(e->to, &e->value, 8);
    else memset(e->to, (int)e->value, e->bytes);
}

/* Errors are kept until they are taken, all that a call returns: the reference of cudaGetLastError
 * makes no exception for cudaErrorNotReady. */
static cudaError_t say(cudaError_t error) {
    if (error != cudaSuccess) last = error;
    return error;
}

/* What every call begins with: time passes, what has come to its end is seen, and a lost device
 * says so. */
static cudaError_t call(void) {
    int kept = 0;
    fake.now += CALL_NS;
    for (int i = 0; i < n_pending; i++)
        if (pending[i].at_ns > fake.now) pending[kept++] = pending[i];
        else apply(pending + i);
    n_pending = kept;
    return say(fake.now >= fake.lost_ns ? fake.lost : cudaSuccess);
}

static cudaError_t make(void **object, size_t bytes) {
    cudaError_t error = call();
    if (fake.fail_at && !--fake.fail_at) error = cudaErrorMemoryAllocation;
    if (error != cudaSuccess) return say(error);
    fake.live++;
    bytes = (bytes + MEMORY_ALIGNMENT - 1) & ~(size_t)(MEMORY_ALIGNMENT - 1);
    *object = aligned_alloc(MEMORY_ALIGNMENT, bytes);
    if (*object) memset(*object, 0, bytes);
    return *object ? cudaSuccess : say(cudaErrorMemoryAllocation);
}

static cudaError_t drop(void *object) {
    fake.live--;
    free(object);
    return call();
}

/* What stands in a capture has no place among events. */
static cudaError_t breaks(cudaStream_t s) {
    if (!s->capture) return cudaSuccess;
    s->broken = 1;
    return say(cudaErrorStreamCaptureUnsupported);
}

static uint64_t queue(cudaStream_t s, uint64_t ns) {
    if (s->end_ns < fake.now) s->end_ns = fake.now;
    return s->end_ns += ns;
}

static cudaError_t wait_until(uint64_t ns) {
    if (fake.now < ns) fake.now = ns;
    return call();
}

void fake_kernel(cudaStream_t stream, uint64_t ns, cudaError_t error) {
    struct CUgraph_st *g = stream->capture;
    if (fake.unfit) { /* the kernel is not launched, and only the last error tells */
        say(fake.unfit);
        fake.unfit = cudaSuccess;
        return;
    }
    if (g) {
        if (g->n < NODES) {
            g->node[g->n].ns = ns;
            g->node[g->n++].error = error;
        } else stream->broken = 1;
        return;
    }
    uint64_t end = queue(stream, ns);
    if (error == cudaSuccess || end >= fake.lost_ns) return;
    fake.lost_ns = end;
    fake.lost = error;
}

void fake_await(cudaStream_t stream, const uint64_t *end_ns) { stream->awaits = end_ns; }

static cudaError_t later(cudaStream_t s, effect e) {
    cudaError_t error = call();
    if (error == cudaSuccess) error = breaks(s);
    if (error != cudaSuccess || n_pending == EFFECTS) return error ? error : cudaErrorUnknown;
    e.at_ns = queue(s, e.bytes); /* a GB/s */
    pending[n_pending++] = e;
    return cudaSuccess;
}

/* --- the machine ------------------------------------------------------------------------------ */

cudaError_t cudaGetDeviceCount(int *count) {
    *count = fake.none ? 0 : fake.count;
    return fake.none ? say(fake.none) : call();
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = fake.driver;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = fake.runtime;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    return device < fake.count ? call() : say(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    (void)device;
    *value = 132;
    if (attribute == cudaDevAttrComputeCapabilityMajor) *value = fake.capability / 10;
    if (attribute == cudaDevAttrComputeCapabilityMinor) *value = fake.capability % 10;
    return call();
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *of, int device) {
    (void)device;
    *of = (struct cudaDeviceProp){.name = "Fake",
                                  .major = fake.capability / 10,
                                  .minor = fake.capability % 10,
                                  .multiProcessorCount = 132};
    return call();
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5;
    return call();
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    *free_bytes = fake.free_bytes;
    *total = fake.total_bytes;
    return call();
}
cudaError_t cudaGetLastError(void) {
    cudaError_t error = fake.now >= fake.lost_ns ? fake.lost : last;
    last = cudaSuccess;
    return error;
}
const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered"
                                            : "some error";
}

/* --- streams and events ----------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags) {
    (void)flags;
    return make((void **)s, sizeof **s);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority) {
    (void)flags;
    (void)priority;
    return make((void **)s, sizeof **s);
}
cudaError_t cudaStreamDestroy(cudaStream_t s) { return drop(s); }
cudaError_t cudaStreamSynchronize(cudaStream_t s) { return wait_until(s->end_ns); }
cudaError_t cudaStreamQuery(cudaStream_t s) {
    cudaError_t error = call();
    if (error == cudaSuccess) error = breaks(s);
    if (error) return error;
    return say(fake.now < s->end_ns ? cudaErrorNotReady : cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t event, unsigned flags) {
    (void)flags;
    if (s->end_ns < event->end_ns) s->end_ns = event->end_ns;
    return call();
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return make((void **)event, sizeof **event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return drop(event); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    (void)flags;
    return cudaEventCreate(event);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t s) {
    if (s->capture) return breaks(s);
    event->awaits = s->awaits;
    event->end_ns = queue(s, 0);
    return call();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    cudaError_t error = call();
    uint64_t end = event->awaits ? *event->awaits : event->end_ns;
    if (error) return error;
    return say(fake.now < end ? cudaErrorNotReady : cudaSuccess);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return wait_until(event->end_ns); }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
    cudaError_t error = call();
    *ms = (float)((double)(int64_t)(b->end_ns - a->end_ns) * (1 + fake.drift) / 1e6);
    if (error) return error;
    return say(fake.now < a->end_ns || fake.now < b->end_ns ? cudaErrorNotReady : cudaSuccess);
}

static CUresult write_value(CUstream s, CUdeviceptr to, cuuint64_t value, unsigned flags) {
    (void)flags;
    if (fake.no_writes) return CUDA_ERROR_NOT_SUPPORTED;
    fake.writes++;
    return (CUresult)later(s, (effect){.to = (void *)(uintptr_t)to, .value = value, .whole = 1});
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **fn, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found) {
    (void)name;
    (void)version;
    (void)flags;
    CUresult (*write)(CUstream, CUdeviceptr, cuuint64_t, unsigned) = write_value;
    memcpy(fn, &write, sizeof *fn);
    *found = cudaDriverEntryPointSuccess;
    return call();
}

/* --- graphs ----------------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode) {
    if (fake.no_captures || mode != cudaStreamCaptureModeThreadLocal)
        return say(cudaErrorStreamCaptureUnsupported);
    s->broken = 0;
    return make((void **)&s->capture, sizeof *s->capture);
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph) {
    *graph = s->capture;
    s->capture = NULL;
    if (!s->broken) return call();
    drop(*graph), *graph = NULL;
    return say(cudaErrorStreamCaptureInvalidated);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags) {
    cudaError_t error = flags ? cudaErrorInvalidValue : make((void **)exec, sizeof **exec);
    if (error == cudaSuccess) (*exec)->graph = *graph;
    return error;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t s) {
    (void)exec;
    return breaks(s) ? breaks(s) : call();
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
    const struct CUgraph_st *g = &exec->graph;
    if (s->capture) return breaks(s);
    fake.graphs++;
    for (int i = 0; i < g->n; i++) fake_kernel(s, g->node[i].ns, g->node[i].error);
    return call();
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return drop(graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return drop(exec); }

/* --- memory ----------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **mem, size_t bytes) {
    return bytes > fake.free_bytes ? say(cudaErrorMemoryAllocation) : make(mem, bytes);
}
cudaError_t cudaFree(void *mem) { return drop(mem); }
cudaError_t cudaHostAlloc(void **mem, size_t bytes, unsigned flags) {
    (void)flags;
    return make(mem, bytes);
}
cudaError_t cudaFreeHost(void *mem) { return drop(mem); }
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    (void)kind;
    memcpy(to, from, bytes);
    return call();
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s) {
    (void)kind;
    return later(s, (effect){.to = to, .from = from, .bytes = bytes});
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_distance, const void *from, size_t from_distance,
                              size_t bytes, size_t rows, enum cudaMemcpyKind kind, cudaStream_t s) {
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < rows && error == cudaSuccess; i++)
        error = cudaMemcpyAsync((uint8_t *)to + i * to_distance,
                                (const uint8_t *)from + i * from_distance, bytes, kind, s);
    return error;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t s) {
    return later(s, (effect){.to = to, .value = (uint64_t)value, .bytes = bytes});
}

/* --- libraries -------------------------------------------------------------------------------- */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *lt) {
    return make((void **)lt, 1) ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t lt) {
    drop(lt);
    return CUBLAS_STATUS_SUCCESS;
}
const char *cublasLtGetStatusString(cublasStatus_t status) {
    (void)status;
    return "some status";
}
size_t cublasLtGetVersion(void) { return 130100; }
cudnnStatus_t cudnnCreate(cudnnHandle_t *dnn) {
    return make((void **)dnn, 1) ? CUDNN_STATUS_ALLOC_FAILED : CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t dnn) {
    drop(dnn);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t dnn, cudaStream_t s) {
    (void)dnn;
    (void)s;
    return CUDNN_STATUS_SUCCESS;
}
const char *cudnnGetErrorString(cudnnStatus_t status) {
    (void)status;
    return "some status";
}
void cudnnGetLastErrorString(char *text, size_t bytes) { snprintf(text, bytes, "more words"); }
size_t cudnnGetVersion(void) { return 91900; }

/* See fake.h. */
#include "cuda/fake_parts.h"
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_NS = 100, EFFECTS = 65536 };

struct CUevent_st {
    uint64_t end_ns;
    const uint64_t *awaits;
};

fake_machine fake;
fake_blas_machine fake_blas;
fake_dnn_machine fake_dnn;
static fake_effect pending[EFFECTS];
static int n_pending;
static cudaError_t last; /* of the calls since it was taken */

void fake_time_reset(void) {
    n_pending = 0;
    last = cudaSuccess;
}

uint64_t __wrap_pst_monotonic_ns(void);
uint64_t __wrap_pst_monotonic_ns(void) { return fake.now += CALL_NS + fake.tick; }

/* --- time ------------------------------------------------------------------------------------- */

static void apply(const fake_effect *e) {
    if (e->at_ns >= fake.lost_ns) return;
    if (e->from) memcpy(e->to, e->from, e->bytes);
    else if (e->whole) memcpy(e->to, &e->value, 8);
    else memset(e->to, (int)e->value, e->bytes);
}

/* Errors are kept until they are taken, all that a call returns: the reference of cudaGetLastError
 * makes no exception for cudaErrorNotReady. */
cudaError_t fake_say(cudaError_t error) {
    if (error != cudaSuccess) last = error;
    return error;
}

/* What every call begins with: time passes, what has come to its end is seen, and a lost device
 * says so. */
cudaError_t fake_call(void) {
    int kept = 0;
    fake.now += CALL_NS;
    for (int i = 0; i < n_pending; i++)
        if (pending[i].at_ns > fake.now) pending[kept++] = pending[i];
        else apply(pending + i);
    n_pending = kept;
    return fake_say(fake.now >= fake.lost_ns ? fake.lost : cudaSuccess);
}

cudaError_t fake_make(void **object, size_t bytes) {
    cudaError_t error = fake_call();
    if (fake.fail_at && !--fake.fail_at) error = cudaErrorMemoryAllocation;
    if (error != cudaSuccess) return fake_say(error);
    fake.live++;
    *object = calloc(1, bytes);
    return cudaSuccess;
}

cudaError_t fake_drop(void *object) {
    fake.live--;
    free(object);
    return fake_call();
}

/* What stands in a capture has no place among events. */
cudaError_t fake_breaks(cudaStream_t s) {
    if (!s->capture) return cudaSuccess;
    s->broken = 1;
    return fake_say(cudaErrorStreamCaptureUnsupported);
}

uint64_t fake_queue(cudaStream_t s, uint64_t ns) {
    if (s->end_ns < fake.now) s->end_ns = fake.now;
    return s->end_ns += ns;
}

static cudaError_t wait_until(uint64_t ns) {
    if (fake.now < ns) fake.now = ns;
    return fake_call();
}

void fake_lose(uint64_t at_ns, cudaError_t error) {
    fake.lost_ns = at_ns;
    fake.lost = error;
}

void fake_await(cudaStream_t stream, const uint64_t *end_ns) { stream->awaits = end_ns; }

cudaError_t fake_later(cudaStream_t s, fake_effect e) {
    cudaError_t error = fake_call();
    if (error == cudaSuccess) error = fake_breaks(s);
    if (error != cudaSuccess || n_pending == EFFECTS) return error ? error : cudaErrorUnknown;
    e.at_ns = fake_queue(s, e.bytes); /* a GB/s */
    pending[n_pending++] = e;
    return cudaSuccess;
}

/* --- the machine ------------------------------------------------------------------------------ */

cudaError_t cudaGetDeviceCount(int *count) {
    *count = fake.none ? 0 : fake.count;
    return fake.none ? fake_say(fake.none) : fake_call();
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
    return device < fake.count ? fake_call() : fake_say(cudaErrorInvalidDevice);
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
    return fake_call();
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *of, int device) {
    (void)device;
    *of = (struct cudaDeviceProp){.name = "Fake",
                                  .major = fake.capability / 10,
                                  .minor = fake.capability % 10,
                                  .multiProcessorCount = 132};
    return fake_call();
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5;
    return fake_call();
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    *free_bytes = fake.free_bytes;
    *total = fake.total_bytes;
    return fake_call();
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
    return fake_make((void **)s, sizeof **s);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority) {
    (void)flags;
    (void)priority;
    return fake_make((void **)s, sizeof **s);
}
cudaError_t cudaStreamDestroy(cudaStream_t s) { return fake_drop(s); }
cudaError_t cudaStreamSynchronize(cudaStream_t s) { return wait_until(s->end_ns); }
cudaError_t cudaDeviceSynchronize(void) { return fake_call(); }
cudaError_t cudaStreamQuery(cudaStream_t s) {
    cudaError_t error = fake_call();
    if (error == cudaSuccess) error = fake_breaks(s);
    if (error) return error;
    return fake_say(fake.now < s->end_ns ? cudaErrorNotReady : cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return fake_make((void **)event, sizeof **event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return fake_drop(event); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    (void)flags;
    return cudaEventCreate(event);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t s) {
    if (s->capture) return fake_breaks(s);
    event->awaits = s->awaits;
    event->end_ns = fake_queue(s, 0);
    return fake_call();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    cudaError_t error = fake_call();
    uint64_t end = event->awaits ? *event->awaits : event->end_ns;
    if (error) return error;
    return fake_say(fake.now < end ? cudaErrorNotReady : cudaSuccess);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return wait_until(event->end_ns); }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
    cudaError_t error = fake_call();
    *ms = (float)((double)(int64_t)(b->end_ns - a->end_ns) * (1 + fake.drift) / 1e6);
    if (error) return error;
    return fake_say(fake.now < a->end_ns || fake.now < b->end_ns ? cudaErrorNotReady : cudaSuccess);
}

static CUresult write_value(CUstream s, CUdeviceptr to, cuuint64_t value, unsigned flags) {
    (void)flags;
    if (fake.no_writes) return CUDA_ERROR_NOT_SUPPORTED;
    fake.writes++;
    return (CUresult)fake_later(
        s, (fake_effect){.to = (void *)(uintptr_t)to, .value = value, .whole = 1});
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
    return fake_call();
}

/* --- libraries -------------------------------------------------------------------------------- */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *lt) {
    return fake_make((void **)lt, 1) ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t lt) {
    fake_drop(lt);
    return CUBLAS_STATUS_SUCCESS;
}
const char *cublasLtGetStatusString(cublasStatus_t status) {
    (void)status;
    return "some status";
}
size_t cublasLtGetVersion(void) { return (size_t)fake.lt; }
cudnnStatus_t cudnnCreate(cudnnHandle_t *dnn) {
    return fake_make((void **)dnn, sizeof(cudaStream_t)) ? CUDNN_STATUS_ALLOC_FAILED
                                                         : CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t dnn) {
    fake_drop(dnn);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t dnn, cudaStream_t s) {
    *(cudaStream_t *)dnn = s;
    return CUDNN_STATUS_SUCCESS;
}
const char *cudnnGetErrorString(cudnnStatus_t status) {
    (void)status;
    return "some status";
}
void cudnnGetLastErrorString(char *text, size_t bytes) { snprintf(text, bytes, "more words"); }
size_t cudnnGetVersion(void) { return (size_t)fake.dnn; }
size_t cudnnGetCudartVersion(void) { return (size_t)fake.dnn_cuda; }

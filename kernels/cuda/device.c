/* The device "cuda": one GPU, or a part of one that several ranks share. A stream for each
 * queue; work in a stream runs in the order in which it was queued. Queues do not wait for each
 * other: work that depends on another queue's is queued after that has ended.
 *
 * Calls that queue work (launch, fill, copy with an event) return at once and report only errors of
 * the call itself; `test` reports what fails on the device later (events.c). memory, staging and
 * copy without an event wait. One thread at a time uses a device, not always the same one. */
#include "base/log.h"
#include "base/status.h"
#include "kernels/cuda/dnn.h"
#include "kernels/cuda/events.h"
#include "kernels/cuda/own.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 4096 };

typedef struct block block;
struct block {
    block *next;
    void *mem;
    int of_host;
};

typedef struct {
    pst_cuda_device shared; /* first: a pst_device points here */
    pst_cuda_events *events;
    block *block;
} cuda_device;

/* Runtime calls act on the thread's current device; a thread may drive several. */
static cuda_device *enter(pst_device *device) {
    cuda_device *d = (cuda_device *)device;
    int current = -1;
    if (cudaGetDevice(&current) != cudaSuccess || current != d->shared.ordinal)
        cudaSetDevice(d->shared.ordinal);
    return d;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Streams of messages have priority, so that messages do not wait for queued computation. */
static pst_status open_streams(pst_cuda_device *d) {
    int least, greatest;
    PST_TRY(pst_cuda_status(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                            "reading stream priorities"));
    for (uint32_t q = 0; q < PST_Q_COUNT; q++)
        PST_TRY(pst_cuda_status(cudaStreamCreateWithPriority(&d->stream[q], cudaStreamNonBlocking,
                                                             q == PST_Q_COMPUTE ? least : greatest),
                                "a stream"));
    return PST_OK;
}

static pst_status open_libraries(pst_cuda_device *d) {
    PST_TRY(pst_cublas_status(cublasLtCreate(&d->lt), "cublasLtCreate"));
    PST_TRY(pst_cudnn_status(cudnnCreate(&d->dnn), "cudnnCreate"));
    return pst_cudnn_status(cudnnSetStream(d->dnn, d->stream[PST_Q_COMPUTE]), "cudnnSetStream");
}

/* Memory that our own kernels need beside their operands. */
static pst_status open_own(pst_cuda_device *d) {
    void *fault, *sums;
    PST_TRY(pst_cuda_status(cudaHostAlloc(&fault, sizeof *d->fault, cudaHostAllocMapped),
                            "allocating pinned memory"));
    d->fault = memset(fault, 0, sizeof *d->fault);
    PST_TRY(pst_cuda_status(cudaMalloc(&sums, PST_CUDA_SUMS * sizeof *d->sums),
                            "allocating memory for sums of squares"));
    d->sums = sums;
    return PST_OK;
}

pst_cuda_queue pst_cuda_queue_of(const pst_device *device) { return pst_cuda_stream(device); }
pst_cuda_fault *pst_cuda_fault_of(const pst_device *device) {
    return ((const pst_cuda_device *)device)->fault;
}
uint64_t pst_cuda_launch_of(const pst_device *device) {
    return ((const pst_cuda_device *)device)->launch;
}
double *pst_cuda_sums_of(const pst_device *device, uint32_t *blocks) {
    *blocks = PST_CUDA_SUMS;
    return ((const pst_cuda_device *)device)->sums;
}

static pst_status open_parts(cuda_device *d, const pst_device_config *config) {
    int count, major, minor, processors;
    pst_cuda_device *s = &d->shared;
    PST_TRY(pst_cuda_status(cudaGetDeviceCount(&count), "counting GPUs"));
    s->ordinal = (int)(config->local % (uint32_t)count);
    PST_TRY(pst_cuda_status(cudaSetDevice(s->ordinal), "opening the GPU"));
    PST_TRY(pst_cuda_status(
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, s->ordinal), "sm"));
    PST_TRY(pst_cuda_status(
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, s->ordinal), "sm"));
    PST_TRY(pst_cuda_status(
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, s->ordinal),
        "multiprocessors"));
    s->capability = 10 * major + minor;
    s->processors = (uint32_t)processors;
    PST_TRY(open_streams(s));
    PST_TRY(open_libraries(s));
    PST_TRY(open_own(s));
    return pst_cuda_events_open(s->stream, &d->events);
}

static void close_device(pst_device *device) {
    if (!device) return;
    cuda_device *d = enter(device);
    for (uint32_t q = 0; q < PST_Q_COUNT; q++)
        if (d->shared.stream[q]) cudaStreamSynchronize(d->shared.stream[q]);
    pst_cuda_events_close(d->events);
    pst_cuda_captures_close(&d->shared); /* first: the graphs hold the libraries' kernels */
    pst_cuda_attention_close(&d->shared);
    pst_dnn_forget(&d->shared.convolutions);
    pst_cuda_products_close(&d->shared);
    pst_cuda_scalings_close(&d->shared);
    if (d->shared.dnn) cudnnDestroy(d->shared.dnn);
    if (d->shared.lt) cublasLtDestroy(d->shared.lt);
    if (d->shared.fault) cudaFreeHost(d->shared.fault);
    if (d->shared.sums) cudaFree(d->shared.sums);
    for (block *b = d->block, *next; b; b = next) {
        next = b->next;
        if (b->of_host) cudaFreeHost(b->mem);
        else cudaFree(b->mem);
        free(b);
    }
    for (uint32_t q = 0; q < PST_Q_COUNT; q++)
        if (d->shared.stream[q]) cudaStreamDestroy(d->shared.stream[q]);
    cudaGetLastError(); /* a failed device returns an error for each call above */
    free(d);
}

static pst_status open_device(const pst_device_config *config, pst_device **device) {
    const char *why = pst_cuda_reject(config);
    if (why) return pst_fail(PST_EINPUT, "device cuda: %s", why);
    if (config->local == 0 && (why = pst_cuda_mismatch()))
        pst_log(PST_LOG_WARN, "device cuda: %s", why);
    cuda_device *d = calloc(1, sizeof *d);
    if (!d) return pst_fail(PST_ENOMEM, "no memory for the cuda device");
    d->shared.base = (pst_device){
        .ops = &pst_device_cuda, .clock = config->clock, .isa = PST_ISA_CUDA, .threads = 1};
    pst_status status = open_parts(d, config);
    if (status != PST_OK) {
        close_device(&d->shared.base);
        return status;
    }
    *device = &d->shared.base;
    return PST_OK;
}

/* --- memory ----------------------------------------------------------------------------------- */

static pst_status keep(cuda_device *d, void *mem, int of_host) {
    block *b = malloc(sizeof *b);
    if (!b) {
        if (of_host) cudaFreeHost(mem);
        else cudaFree(mem);
        return pst_fail(PST_ENOMEM, "no memory for the list of GPU allocations");
    }
    *b = (block){.next = d->block, .mem = mem, .of_host = of_host};
    d->block = b;
    return PST_OK;
}

static pst_status memory(pst_device *device, uint64_t bytes, void **base) {
    cuda_device *d = enter(device);
    size_t free_bytes = 0, total = 0;
    void *mem = NULL;
    cudaError_t error = cudaMemGetInfo(&free_bytes, &total);
    if (error == cudaSuccess && pst_cuda_usable(free_bytes) < bytes + ALIGNMENT)
        error = cudaErrorMemoryAllocation;
    if (error == cudaSuccess) error = cudaMalloc(&mem, bytes + ALIGNMENT);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return pst_fail(PST_ENOMEM,
                        "GPU %d has %.2f GiB of %.2f GiB of memory free; the run needs %.2f GiB, "
                        "and %.2f GiB are reserved for CUDA libraries",
                        d->shared.ordinal, (double)free_bytes / 0x1p30, (double)total / 0x1p30,
                        (double)bytes / 0x1p30, (double)pst_cuda_reserve / 0x1p30);
    }
    if (error != cudaSuccess) return pst_cuda_events_failed(d->events, error, "cudaMalloc");
    PST_TRY(keep(d, mem, 0));
    *base = (void *)(((uintptr_t)mem + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
    return PST_OK;
}

static pst_status staging(pst_device *device, uint64_t bytes, void **base) {
    cuda_device *d = enter(device);
    void *mem = NULL;
    cudaError_t error = cudaHostAlloc(&mem, bytes, cudaHostAllocDefault);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return pst_fail(PST_ENOMEM,
                        "cannot pin %.1f MiB of host memory for copies to and from GPU %d",
                        (double)bytes / 0x1p20, d->shared.ordinal);
    }
    if (error != cudaSuccess) return pst_cuda_events_failed(d->events, error, "cudaHostAlloc");
    PST_TRY(keep(d, mem, 1));
    *base = mem;
    return PST_OK;
}

/* --- work ------------------------------------------------------------------------------------- */

/* The launch goes to the stream of this queue. */
static pst_status launch_in(cuda_device *d, pst_queue queue, pst_launch_fn fn, const void *call,
                            uint64_t *event) {
    uint64_t submit = pst_monotonic_ns();
    if (pst_cuda_events_lost(d->events)) return PST_EINTERNAL;
    pst_cuda_take_name();
    d->shared.launch = pst_cuda_events_next(d->events);
    d->shared.queue = queue;
    pst_status status = fn(&d->shared.base, call);
    d->shared.queue = PST_Q_COMPUTE;
    const char *name = pst_cuda_take_name();
    if (status != PST_OK) { /* this launch's error, or an earlier one's that it has met */
        cudaError_t error = pst_cuda_answer(cudaStreamQuery(d->shared.stream[queue]));
        int fine = error == cudaSuccess || error == cudaErrorNotReady;
        if (fine) return status;
        return pst_cuda_events_failed(d->events, error, name ? name : "launch");
    }
    return pst_cuda_events_add(d->events, queue, name ? name : "an operator", submit, event);
}

static pst_status launch(pst_device *device, pst_launch_fn fn, const void *call, uint64_t after_ns,
                         uint64_t ns, uint64_t *event) {
    (void)after_ns;
    (void)ns;
    cuda_device *d = enter(device);
    cudaGetLastError(); /* clears errors that earlier calls have returned already */
    if (pst_cuda_capturing(device)) return pst_cuda_capture_launch(device, fn, call, event);
    return launch_in(d, PST_Q_COMPUTE, fn, call, event);
}

static pst_status launch_beside(pst_device *device, pst_launch_fn fn, const void *call,
                                uint64_t *event) {
    cuda_device *d = enter(device);
    cudaGetLastError();
    return launch_in(d, PST_Q_SIDE, fn, call, event);
}

static pst_status test(pst_device *device, uint64_t event, uint64_t *start_ns, uint64_t *end_ns) {
    cuda_device *d = enter(device);
    PST_TRY(pst_cuda_events_test(d->events, event, start_ns, end_ns));
    return pst_cuda_fault_check(d->shared.fault, event);
}

static uint64_t next_ns(pst_device *device) {
    (void)device;
    return PST_NEVER;
}

/* On queue HEAD this may run in any thread while another one uses the device, so it does not touch
 * the state of events. */
static pst_status copy_apart(cuda_device *d, void *to, const void *from, uint64_t bytes) {
    cudaStream_t stream = d->shared.stream[PST_Q_HEAD];
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    return pst_cuda_status(error, "copy");
}

static pst_status copy(pst_device *device, pst_queue queue, void *to, const void *from,
                       uint64_t bytes, uint64_t *event) {
    cuda_device *d = enter(device);
    uint64_t submit = pst_monotonic_ns();
    if (queue == PST_Q_HEAD && !event) return copy_apart(d, to, from, bytes);
    if (pst_cuda_events_lost(d->events)) return PST_EINTERNAL;
    cudaError_t error =
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, d->shared.stream[queue]);
    if (error == cudaSuccess && !event) error = cudaStreamSynchronize(d->shared.stream[queue]);
    if (error != cudaSuccess) return pst_cuda_events_failed(d->events, error, "copy");
    return event ? pst_cuda_events_add(d->events, queue, "copy", submit, event) : PST_OK;
}

static pst_status fill(pst_device *device, pst_queue queue, void *to, uint8_t value,
                       uint64_t bytes) {
    cuda_device *d = enter(device);
    if (pst_cuda_events_lost(d->events)) return PST_EINTERNAL;
    cudaError_t error = cudaMemsetAsync(to, value, bytes, d->shared.stream[queue]);
    return error == cudaSuccess ? PST_OK : pst_cuda_events_failed(d->events, error, "fill");
}

static pst_status copy_rows(pst_device *device, pst_queue queue, const pst_device_rows *r) {
    cuda_device *d = enter(device);
    if (pst_cuda_events_lost(d->events)) return PST_EINTERNAL;
    cudaError_t error =
        cudaMemcpy2DAsync(r->to, r->to_distance, r->from, r->from_distance, r->bytes, r->n,
                          cudaMemcpyDeviceToDevice, d->shared.stream[queue]);
    return error == cudaSuccess ? PST_OK : pst_cuda_events_failed(d->events, error, "copying rows");
}

static uint64_t apart(const pst_device *device) {
    return ((const pst_cuda_device *)device)->attention_room_bytes;
}

const pst_device_ops pst_device_cuda = {.name = "cuda",
                                        .reject = pst_cuda_reject,
                                        .open = open_device,
                                        .launch = launch,
                                        .launch_beside = launch_beside,
                                        .test = test,
                                        .next_ns = next_ns,
                                        .close = close_device,
                                        .flags =
                                            PST_DEVICE_GPU | PST_DEVICE_ASYNC | PST_DEVICE_CUDA,
                                        .memory = memory,
                                        .staging = staging,
                                        .copy = copy,
                                        .copy_rows = copy_rows,
                                        .fill = fill,
                                        .model = pst_cuda_model,
                                        .available = pst_cuda_room,
                                        .workspace_bytes = apart,
                                        .capture_begin = pst_cuda_capture_begin,
                                        .capture_end = pst_cuda_capture_end,
                                        .replay = pst_cuda_replay};

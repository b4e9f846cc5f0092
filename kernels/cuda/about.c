/* What the module finds on a machine: why no GPU can be used, and lines for `penstock doctor`. */
#include "kernels/cuda/cuda.h"
#ifdef PST_NCCL
#include "kernels/cuda/nccl/nccl.h"
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 400 };

/* CUDA encodes version 12.8 as 12080: the major version. */
static int major(int version) { return version / 1000; }
static int minor(int version) { return version % 1000 / 10; }

/* The oldest driver that runs every release of this major version (CUDA Compatibility guide). */
static int oldest_driver(int runtime) {
    if (major(runtime) == 11) return 450;
    return major(runtime) == 12 ? 525 : 580;
}

static const char *no_driver(char line[LINE]) {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (!driver)
        snprintf(line, LINE,
                 "no NVIDIA driver is installed; the module uses CUDA %d, which needs driver %d or "
                 "later",
                 major(runtime), oldest_driver(runtime));
    else
        snprintf(line, LINE,
                 "the NVIDIA driver supports CUDA %d.%d; the module uses CUDA %d, which needs "
                 "driver %d or later",
                 major(driver), minor(driver), major(runtime), oldest_driver(runtime));
    return line;
}

/* Reports a cuDNN for another CUDA, and libraries older than the headers of the build. */
const char *pst_cuda_mismatch(void) {
    static _Thread_local char line[LINE];
    int runtime = 0, n = 0;
    size_t dnn = cudnnGetVersion(), of = cudnnGetCudartVersion(), lt = cublasLtGetVersion();
    cudaRuntimeGetVersion(&runtime);
    *line = 0;
    if (major((int)of) != major(runtime))
        n = snprintf(line, LINE, "cuDNN was built for CUDA %d, but the module for CUDA %d",
                     major((int)of), major(runtime));
    if (dnn < CUDNN_VERSION)
        n += snprintf(line + n, (size_t)(LINE - n),
                      "%scuDNN %zu.%zu.%zu is older than %d.%d.%d, with which the module was built",
                      n ? "; " : "", dnn / 10000, dnn / 100 % 100, dnn % 100, CUDNN_MAJOR,
                      CUDNN_MINOR, CUDNN_PATCHLEVEL);
    if (lt < CUBLAS_VERSION)
        snprintf(line + n, (size_t)(LINE - n),
                 "%scuBLASLt %zu.%zu.%zu is older than %d.%d.%d, with which the module was built",
                 n ? "; " : "", lt / 10000, lt / 100 % 100, lt % 100, CUBLAS_VER_MAJOR,
                 CUBLAS_VER_MINOR, CUBLAS_VER_PATCH);
    return *line ? line : NULL;
}

static const char *no_device(char line[LINE]) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible)
        snprintf(line, LINE, "no GPU is visible: CUDA_VISIBLE_DEVICES is '%.100s'", visible);
    else snprintf(line, LINE, "the NVIDIA driver finds no GPU");
    return line;
}

static int capability_of(int ordinal) {
    int high = 0, low = 0;
    cudaDeviceGetAttribute(&high, cudaDevAttrComputeCapabilityMajor, ordinal);
    cudaDeviceGetAttribute(&low, cudaDevAttrComputeCapabilityMinor, ordinal);
    return 10 * high + low;
}

const char *pst_cuda_reject(const pst_device_config *config) {
    static _Thread_local char line[LINE];
    struct cudaDeviceProp of;
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    cudaGetLastError();
    if (error == cudaErrorInsufficientDriver) return no_driver(line);
    if (error == cudaErrorNoDevice || (error == cudaSuccess && !count)) return no_device(line);
    if (error != cudaSuccess) {
        snprintf(line, LINE, "CUDA: %s", cudaGetErrorString(error));
        return line;
    }
    int ordinal = (int)(config->local % (uint32_t)count), capability = capability_of(ordinal);
    if (capability >= PST_CUDA_OLDEST) return NULL;
    if (cudaGetDeviceProperties(&of, ordinal) != cudaSuccess) of.name[0] = 0;
    snprintf(line, LINE, "GPU %d (%.100s, sm_%d) is too old: it must be sm_%d or later", ordinal,
             of.name, capability, PST_CUDA_OLDEST);
    return line;
}

const char *pst_cuda_model(const pst_device_config *config) {
    static _Thread_local char name[LINE];
    struct cudaDeviceProp of;
    int count = 0;
    *name = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0 &&
        cudaGetDeviceProperties(&of, (int)(config->local % (uint32_t)count)) == cudaSuccess)
        snprintf(name, LINE, "%s", of.name);
    cudaGetLastError();
    return name;
}

static const char *nccl_version(char text[32]) {
#ifdef PST_NCCL
    const char *why;
    int v = 0;
    const pst_nccl *nccl = pst_nccl_get(&why);
    if (!nccl || nccl->version(&v) != ncclSuccess) return "none";
    snprintf(text, 32, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    return text;
#else
    (void)text;
    return "not built in";
#endif
}

static const char *about_libraries(char line[LINE]) {
    int driver = 0, runtime = 0;
    char words[32] = "none", nccl[32];
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver) snprintf(words, sizeof words, "for CUDA %d.%d", major(driver), minor(driver));
    size_t lt = cublasLtGetVersion(), dnn = cudnnGetVersion();
    snprintf(line, LINE,
             "driver %s, runtime %d.%d, cuBLASLt %zu.%zu.%zu, cuDNN %zu.%zu.%zu, NCCL %s", words,
             major(runtime), minor(runtime), lt / 10000, lt / 100 % 100, lt % 100, dnn / 10000,
             dnn / 100 % 100, dnn % 100, nccl_version(nccl));
    const char *wrong = pst_cuda_mismatch();
    size_t n = strlen(line);
    if (wrong) snprintf(line + n, LINE - n, ": %s", wrong);
    return line;
}

/* Free memory is known only after a context is created, which takes time and some of that
 * memory. */
static const char *about_device(int ordinal, char line[LINE]) {
    struct cudaDeviceProp of;
    size_t free_bytes = 0, total = 0;
    cudaError_t error = cudaGetDeviceProperties(&of, ordinal);
    if (error == cudaSuccess) error = cudaSetDevice(ordinal);
    if (error == cudaSuccess) error = cudaMemGetInfo(&free_bytes, &total);
    cudaGetLastError();
    if (error != cudaSuccess)
        snprintf(line, LINE, "GPU %d: %s", ordinal, cudaGetErrorString(error));
    else
        snprintf(line, LINE, "GPU %d: %.100s, sm_%d, %d multiprocessors, %.1f of %.1f GiB free",
                 ordinal, of.name, 10 * of.major + of.minor, of.multiProcessorCount,
                 (double)free_bytes / 0x1p30, (double)total / 0x1p30);
    return line;
}

/* The ranks of a host are dealt to its GPUs round-robin; each needs its own reserve for
 * libraries. */
uint64_t pst_cuda_room(const pst_device_config *config, uint32_t ranks_here) {
    size_t free_bytes = 0, total = 0;
    int count = 0, before = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) {
        cudaGetDevice(&before);
        error = cudaSetDevice((int)(config->local % (uint32_t)count));
        if (error == cudaSuccess) error = cudaMemGetInfo(&free_bytes, &total);
        cudaSetDevice(before);
    }
    cudaGetLastError();
    if (error != cudaSuccess || count < 1) return 0;
    uint64_t sharing = (ranks_here + (uint64_t)count - 1) / (uint64_t)count,
             usable = pst_cuda_usable(free_bytes / (sharing ? sharing : 1));
    return usable ? usable : 1;
}

const char *pst_cuda_about(uint32_t i) {
    static _Thread_local char line[LINE];
    int count = 0;
    if (i == 0) return about_libraries(line);
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError();
        count = 0;
    }
    if (count && i == (uint32_t)count + 1) return pst_cuda_attention_about();
    return i <= (uint32_t)count ? about_device((int)i - 1, line) : NULL;
}

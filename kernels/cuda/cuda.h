/* Declarations that the files of the CUDA module share. Files *.cu have only kernels and their
 * launchers (launch.h); everything else is C. What a device's launch runs (kernel rows, arithmetic)
 * queues on pst_cuda_stream and returns: it does not allocate, synchronise, or read results of the
 * device. The calling thread is the one that opened the device's rank; it may serve several devices
 * in turn. */
#ifndef PST_KERNELS_CUDA_H
#define PST_KERNELS_CUDA_H
#include "kernels/cuda/launch.h"
#include "kernels/kernel.h"
#include "kernels/module.h"
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

/* The oldest compute capability that the module has code for. */
enum { PST_CUDA_OLDEST = 80 };

/* Bytes of GPU memory that libraries may take during a run: kernels loaded at their first launch,
 * local memory, CUDA graphs, NCCL's buffers (NCCL_BUFFSIZE is 4 MiB per channel and peer by its
 * manual; a run logs the sum). The context is not included, because it exists before free memory is
 * measured. Estimated; not yet confirmed on a GPU. */
static const uint64_t pst_cuda_reserve = UINT64_C(1) << 30;

/* How many of the free bytes a rank may use. */
static inline uint64_t pst_cuda_usable(uint64_t free_bytes) {
    return free_bytes > pst_cuda_reserve ? free_bytes - pst_cuda_reserve : 0;
}

typedef struct {
    pst_device base;         /* isa: PST_ISA_CUDA */
    int ordinal, capability; /* number in the CUDA runtime; compute capability, 90 for sm_90 */
    uint32_t processors;     /* streaming multiprocessors */
    cudaStream_t stream[PST_Q_COUNT];
    cublasLtHandle_t lt;
    cudnnHandle_t dnn;     /* handle that queues to the compute stream */
    pst_cuda_fault *fault; /* pinned: an index out of range that a kernel has met */
    uint64_t launch; /* number of the launch that is being queued; its event has the same number */
    double *sums;    /* memory for sums of squares, see own.h */
    struct pst_cuda_products *products;              /* the table of product.c; NULL: nothing yet */
    struct pst_dnn_entry *attentions, *convolutions; /* plans of attention.c and convolution.c */
    void *attention_room; /* workspace for plans of attention.c that need more than the memory map
                             has */
    uint64_t attention_room_bytes;
    struct pst_cuda_scalings *scalings; /* owned by fp8.c */
    struct pst_cuda_captures *captures; /* owned by capture.c; NULL: nothing was captured yet */
} pst_cuda_device;

static inline cudaStream_t pst_cuda_stream(const pst_device *d) {
    return ((const pst_cuda_device *)d)->stream[PST_Q_COMPUTE];
}

/* status.c: EINTERNAL, or ENOMEM if out of memory: "CUDA: <what>: <the library's message>". OK for
 * success. */
pst_status pst_cuda_status(cudaError_t error, const char *what);
pst_status pst_cublas_status(cublasStatus_t status, const char *what);
pst_status pst_cudnn_status(cudnnStatus_t status, const char *what);
/* Returns the answer of an event or stream query, and clears cudaErrorNotReady from the thread's
 * last error. */
cudaError_t pst_cuda_answer(cudaError_t error);
/* To be called by every row after its last kernel or product: returns errors of the launch itself.
 * If the device fails later, the message names `kernel` (which must outlive the device). */
pst_status pst_cuda_launched(const char *kernel);
/* Returns the name from this thread's last pst_cuda_launched, and resets it to NULL. */
const char *pst_cuda_take_name(void);

/* slower.c: how much slower, at least, CUDA cores multiply than tensor cores. */
uint32_t pst_cuda_slowdown(const pst_cuda_device *device);
/* Warns at set-up that CUDA cores compute this pass, how much longer the step takes, and why. */
void pst_cuda_warn_slower(const pst_device *device, const pst_graph *g, const pst_node *node,
                          pst_pass pass, const char *why);

extern const pst_device_ops pst_device_cuda; /* device.c */
/* capture.c: as in pst_device_ops; a launch while a capture is under way. */
pst_status pst_cuda_capture_begin(pst_device *device);
pst_status pst_cuda_capture_end(pst_device *device, void **launches);
pst_status pst_cuda_replay(pst_device *device, const void *call);
int pst_cuda_capturing(const pst_device *device);
pst_status pst_cuda_capture_launch(pst_device *device, pst_launch_fn fn, const void *call,
                                   const uint64_t *event);
/* about.c: what the machine has. The reason why no device can be opened, as one sentence; NULL: one
 * can be. */
const char *pst_cuda_reject(const pst_device_config *config);
const char *pst_cuda_model(const pst_device_config *config);
uint64_t pst_cuda_room(const pst_device_config *config, uint32_t ranks_here);
const char *pst_cuda_about(uint32_t line);
/* Library versions that may not work, as one line; NULL: none. */
const char *pst_cuda_mismatch(void);
const char *pst_cuda_attention_about(void); /* attention_about.c: a line of it, of the first GPU */

/* Rows of each file, gathered by rows.c, best first. */
typedef struct {
    const pst_kernel_row *row;
    uint32_t n;
} pst_cuda_rows;
pst_cuda_rows pst_cuda_linear_rows(void);      /* linear.c: cuBLASLt */
pst_cuda_rows pst_cuda_attention_rows(void);   /* attention.c: cuDNN */
pst_cuda_rows pst_cuda_convolution_rows(void); /* convolution.c: cuDNN */
/* Frees what these files have made for a device; to be called before its libraries are closed. */
void pst_cuda_attention_close(pst_cuda_device *device);
void pst_cuda_products_close(pst_cuda_device *device);
void pst_cuda_scalings_close(pst_cuda_device *device);
void pst_cuda_captures_close(pst_cuda_device *device);
extern const pst_choice_ops pst_cuda_choices; /* product.c */
const pst_kernel_row *pst_cuda_rows_all(uint32_t *n);
extern const pst_arith pst_cuda_arith; /* arith.c */
#endif

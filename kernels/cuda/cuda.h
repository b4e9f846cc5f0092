/* Declarations shared by the files of the CUDA module. Files *.cu contain only kernels and their
 * launchers (launch.h); everything else is C. Functions that a launch runs (kernel rows,
 * arithmetic) queue work on pst_cuda_stream and return: they do not allocate, synchronise, or read
 * results of the device. They are called by the thread that opened the rank, which may alternate
 * between several devices. */
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

/* Bytes that a rank may use of free_bytes bytes of free memory. */
static inline uint64_t pst_cuda_usable(uint64_t free_bytes) {
    return free_bytes > pst_cuda_reserve ? free_bytes - pst_cuda_reserve : 0;
}

typedef struct {
    pst_device base;         /* isa: PST_ISA_CUDA */
    int ordinal, capability; /* index in the CUDA runtime; compute capability, 90 for sm_90 */
    uint32_t processors;     /* streaming multiprocessors */
    cudaStream_t stream[PST_Q_COUNT];
    cublasLtHandle_t lt;
    cudnnHandle_t dnn;     /* cuDNN handle, which queues on the compute stream */
    pst_cuda_fault *fault; /* in pinned memory: an index out of range that a kernel has read */
    pst_queue queue;       /* of the launch that is being queued: COMPUTE or SIDE */
    /* number of the launch that is being queued, which is also the number of its event */
    uint64_t launch;
    double *sums;                       /* memory for sums of squares (pst_cuda_sums_of) */
    struct pst_cuda_products *products; /* table of product.c; NULL: empty */
    struct pst_dnn_entry *attentions, *convolutions; /* plans of attention.c and convolution.c */
    /* workspace for cuDNN plans of attention.c that need more than the memory map reserves */
    void *attention_room;
    uint64_t attention_room_bytes;
    struct pst_cuda_scalings *scalings; /* owned by fp8.c */
    struct pst_cuda_captures *captures; /* owned by capture.c; NULL: nothing captured yet */
} pst_cuda_device;

static inline cudaStream_t pst_cuda_stream(const pst_device *device) {
    const pst_cuda_device *d = (const pst_cuda_device *)device;
    return d->stream[d->queue];
}

/* status.c: turn a library's error into a status with the message "CUDA: <what>: <the library's
 * message>": ENOMEM if memory ran out, else EINTERNAL. OK for success. */
pst_status pst_cuda_status(cudaError_t error, const char *what);
pst_status pst_cublas_status(cublasStatus_t status, const char *what);
pst_status pst_cudnn_status(cudnnStatus_t status, const char *what);
/* Returns `error`, the result of an event or stream query; if it is cudaErrorNotReady, clears the
 * thread's last error. */
cudaError_t pst_cuda_answer(cudaError_t error);
/* To be called by every kernel row after its last launch: returns an error of the launch itself. If
 * the device fails later, the message names `kernel`, a string that must outlive the device. */
pst_status pst_cuda_launched(const char *kernel);
/* Returns the name from this thread's last pst_cuda_launched, and resets it to NULL. */
const char *pst_cuda_take_name(void);

/* slower.c: the ratio of multiply-add rates, tensor cores to CUDA cores; a lower bound. */
uint32_t pst_cuda_slowdown(const pst_cuda_device *device);
/* Warns at set-up that this pass runs on CUDA cores: how much longer a step takes, and why. */
void pst_cuda_warn_slower(const pst_device *device, const pst_graph *g, const pst_node *node,
                          pst_pass pass, const char *why);

extern const pst_device_ops pst_device_cuda; /* device.c */
/* capture.c: the functions of pst_device_ops; capture_launch replaces `launch` during a capture. */
pst_status pst_cuda_capture_begin(pst_device *device);
pst_status pst_cuda_capture_end(pst_device *device, void **launches);
pst_status pst_cuda_replay(pst_device *device, const void *call);
int pst_cuda_capturing(const pst_device *device);
pst_status pst_cuda_capture_launch(pst_device *device, pst_launch_fn fn, const void *call,
                                   const uint64_t *event);
/* about.c: pst_device_ops functions about the GPUs of this machine. pst_cuda_reject: why no GPU is
 * usable, in one sentence; NULL: one is usable. */
const char *pst_cuda_reject(const pst_device_config *config);
const char *pst_cuda_model(const pst_device_config *config);
uint64_t pst_cuda_room(const pst_device_config *config, uint32_t ranks_here);
const char *pst_cuda_about(uint32_t line);
/* Library versions that may not work with this module, in one line; NULL: none. */
const char *pst_cuda_mismatch(void);
/* attention_about.c: a line for doctor about attention on the first GPU */
const char *pst_cuda_attention_about(void);

/* Kernel rows of a file; rows.c lists all of them, best first. */
typedef struct {
    const pst_kernel_row *row;
    uint32_t n;
} pst_cuda_rows;
pst_cuda_rows pst_cuda_linear_rows(void);      /* linear.c: cuBLASLt */
pst_cuda_rows pst_cuda_attention_rows(void);   /* attention.c: cuDNN */
pst_cuda_rows pst_cuda_convolution_rows(void); /* convolution.c: cuDNN */
/* Free what these files have allocated for a device; to be called before its library handles are
 * closed. */
void pst_cuda_attention_close(pst_cuda_device *device);
void pst_cuda_products_close(pst_cuda_device *device);
void pst_cuda_scalings_close(pst_cuda_device *device);
void pst_cuda_captures_close(pst_cuda_device *device);
extern const pst_choice_ops pst_cuda_choices; /* product.c */
const pst_kernel_row *pst_cuda_rows_all(uint32_t *n);
extern const pst_arith pst_cuda_arith; /* arith.c */
#endif

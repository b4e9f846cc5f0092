/* What the files of the CUDA module share. Files *.cu are leaves: kernels and the launchers that
 * are declared in launch.h; everything else is C.
 *
 * Whatever a device's launch runs (rows, arithmetic) queues on pst_cuda_stream and returns: it
 * neither allocates, nor synchronises, nor reads what the device has computed. The thread that
 * calls is the one that opened the device's rank; several devices of one process may take turns in
 * it. */
#ifndef PST_KERNELS_CUDA_H
#define PST_KERNELS_CUDA_H
#include "kernels/cuda/launch.h"
#include "kernels/kernel.h"
#include "kernels/module.h"
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

/* The oldest that the module has code for. */
enum { PST_CUDA_OLDEST = 80 };

/* Bytes of a GPU that libraries may take while a run goes on: kernels that are loaded when they are
 * first launched, their local memory, CUDA graphs, NCCL's buffers (NCCL_BUFFSIZE is 4 MiB for each
 * channel and peer by its manual; a run says how much it was). The context is not among them: it
 * is there before free memory is asked for. An estimate, which no GPU has confirmed yet. */
static const uint64_t pst_cuda_reserve = UINT64_C(1) << 30;

/* What a rank may have of so many free bytes. */
static inline uint64_t pst_cuda_usable(uint64_t free_bytes) {
    return free_bytes > pst_cuda_reserve ? free_bytes - pst_cuda_reserve : 0;
}

typedef struct {
    pst_device base;         /* isa: PST_ISA_CUDA */
    int ordinal, capability; /* of the runtime; 90 for sm_90 */
    uint32_t processors;     /* streaming multiprocessors */
    cudaStream_t stream[PST_Q_COUNT];
    cublasLtHandle_t lt;
    cudnnHandle_t dnn;     /* on the compute stream */
    pst_cuda_fault *fault; /* pinned: an index that a kernel complains of */
    uint64_t launch;       /* number of the launch that is being queued, as its event's */
    double *sums;          /* room for sums of squares, see own.h */
    struct pst_cuda_products *products; /* what linear.c has prepared; NULL: nothing yet */
    struct pst_dnn_entry *attentions, *convolutions; /* plans of attention.c and convolution.c */
    void *attention_room; /* workspace of plans of attention.c that need more than is laid out */
    uint64_t attention_room_bytes;
    struct pst_cuda_scalings *scalings; /* likewise fp8.c */
    struct pst_cuda_captures *captures; /* of capture.c; NULL: nothing was captured yet */
} pst_cuda_device;

static inline cudaStream_t pst_cuda_stream(const pst_device *d) {
    return ((const pst_cuda_device *)d)->stream[PST_Q_COMPUTE];
}

/* status.c: EINTERNAL, ENOMEM where memory was short: "CUDA: <what>: <the library's words>". OK for
 * success. */
pst_status pst_cuda_status(cudaError_t error, const char *what);
pst_status pst_cublas_status(cublasStatus_t status, const char *what);
pst_status pst_cudnn_status(cudnnStatus_t status, const char *what);
/* What a question whether work has ended was answered, and no trace of cudaErrorNotReady among the
 * thread's errors. */
cudaError_t pst_cuda_answer(cudaError_t error);
/* After a kernel was queued: what the launch itself has to complain of. `kernel` (which outlives
 * the device) is what a failure of the device is blamed on, later, when it is seen: every row calls
 * this behind its last kernel or product. */
pst_status pst_cuda_launched(const char *kernel);
/* What the last pst_cuda_launched of this thread said, and NULL from now on. */
const char *pst_cuda_take_name(void);

/* slower.c: how many times as long, at least, CUDA cores take to multiply as tensor cores do. */
uint32_t pst_cuda_slowdown(const pst_cuda_device *device);
/* Says at set-up that they compute this pass, what that means for the step, and why. */
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
/* about.c: what is there. The reason why no device can be opened, as one sentence; NULL: some
 * can. */
const char *pst_cuda_reject(const pst_device_config *config);
const char *pst_cuda_model(const pst_device_config *config);
uint64_t pst_cuda_room(const pst_device_config *config, uint32_t ranks_here);
const char *pst_cuda_about(uint32_t line);
/* What of the libraries' versions may not do, as one line; NULL: nothing. */
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
/* What the rows of these files have made for a device, before its libraries are closed. */
void pst_cuda_attention_close(pst_cuda_device *device);
void pst_cuda_products_close(pst_cuda_device *device);
void pst_cuda_scalings_close(pst_cuda_device *device);
void pst_cuda_captures_close(pst_cuda_device *device);
extern const pst_choice_ops pst_cuda_choices; /* product.c */
const pst_kernel_row *pst_cuda_rows_all(uint32_t *n);
extern const pst_arith pst_cuda_arith; /* arith.c */
#endif

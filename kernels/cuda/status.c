/* Turns the libraries' errors into pst_status. */
#include "base/status.h"
#include "kernels/cuda/cuda.h"

static _Thread_local const char *latest;

pst_status pst_cuda_status(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return PST_OK;
    return pst_fail(error == cudaErrorMemoryAllocation ? PST_ENOMEM : PST_EINTERNAL, "CUDA: %s: %s",
                    what, cudaGetErrorString(error));
}

pst_status pst_cublas_status(cublasStatus_t status, const char *what) {
    if (status == CUBLAS_STATUS_SUCCESS) return PST_OK;
    return pst_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? PST_ENOMEM : PST_EINTERNAL,
                    "cuBLASLt: %s: %s", what, cublasLtGetStatusString(status));
}

/* cuDNN keeps a longer message beside the status. */
pst_status pst_cudnn_status(cudnnStatus_t status, const char *what) {
    char why[1024] = "";
    if (status == CUDNN_STATUS_SUCCESS) return PST_OK;
    cudnnGetLastErrorString(why, sizeof why);
    return pst_fail(status == CUDNN_STATUS_ALLOC_FAILED ? PST_ENOMEM : PST_EINTERNAL,
                    "cuDNN: %s: %s%s%s", what, cudnnGetErrorString(status), *why ? ": " : "", why);
}

/* The runtime keeps the last error of each thread until cudaGetLastError takes it. The CUDA
 * Programming Guide excepts cudaErrorNotReady of cudaEventQuery and cudaStreamQuery; the reference
 * of cudaGetLastError does not, and nothing excepts cudaEventElapsedTime, which returns it as well.
 * A launch must not fail because of an earlier query, so it is cleared here, and a launch ignores
 * it. */
cudaError_t pst_cuda_answer(cudaError_t error) {
    if (error == cudaErrorNotReady) cudaGetLastError();
    return error;
}

pst_status pst_cuda_launched(const char *kernel) {
    latest = kernel;
    cudaError_t error = cudaGetLastError();
    return error == cudaErrorNotReady ? PST_OK : pst_cuda_status(error, kernel);
}

const char *pst_cuda_take_name(void) {
    const char *name = latest;
    latest = NULL;
    return name;
}

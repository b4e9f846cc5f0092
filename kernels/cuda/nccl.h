/* NCCL as the module uses it: loaded when it is asked for, since a GPU computes without it. */
#ifndef PST_KERNELS_CUDA_NCCL_H
#define PST_KERNELS_CUDA_NCCL_H
#include "kernels/cuda/cuda.h"
#include "kernels/module.h"
#include <cuda_runtime_api.h>
#include <nccl.h>

typedef struct {
    ncclResult_t (*version)(int *version);
    ncclResult_t (*unique_id)(ncclUniqueId *id);
    ncclResult_t (*init)(ncclComm_t *comm, int n, ncclUniqueId id, int rank, ncclConfig_t *config);
    ncclResult_t (*send)(const void *mem, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                         cudaStream_t stream);
    ncclResult_t (*recv)(void *mem, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                         cudaStream_t stream);
    ncclResult_t (*state)(ncclComm_t comm, ncclResult_t *state);
    ncclResult_t (*finalize)(ncclComm_t comm);
    ncclResult_t (*destroy)(ncclComm_t comm);
    ncclResult_t (*abort)(ncclComm_t comm);
    const char *(*text)(ncclResult_t result);
    const char *(*last)(ncclComm_t comm);
} pst_nccl;

/* nccl_library.c. NULL: *why says why. */
const pst_nccl *pst_nccl_get(const char **why);
extern const pst_direct_ops pst_direct_nccl; /* nccl.c */
#endif

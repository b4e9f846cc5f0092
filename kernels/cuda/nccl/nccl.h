/* NCCL in the CUDA module: loaded on demand, because the module works without it.
 *
 * A rank has at most two communicators: one of all ranks of the job, for messages (message.c), and
 * one of its tensor group (group.c). Both are created at set-up, that of the job first, so that all
 * ranks create them in the same order and no memory is allocated during the run. NCCL's manual
 * ("Using multiple NCCL communicators concurrently") and NVIDIA/nccl#195 describe how this can
 * deadlock: an operation occupies multiprocessors until the other ranks have started it too, so
 * ranks that start operations in different orders may deadlock, and so may operations that do not
 * fit on the GPU at the same time. This is avoided as follows:
 * - Messages have one order on all ranks (message.c says how it is found), and one stream that
 *   keeps it. The first unfinished message in that order is the next one in the streams of both its
 *   ranks, so it completes.
 * - Collectives of a tensor group are queued on the compute stream, on all its ranks in the order
 *   of the same instruction list. That stream waits for no message: the executor queues a pass
 *   after its messages have arrived.
 * - Each of the two occupies at most PST_NCCL_CTAS multiprocessors, or an eighth of a smaller GPU.
 *   Computing kernels end without waiting for other ranks, so both get their multiprocessors.
 * - A rank has six streams, and NCCL some of its own. By default CUDA has eight hardware queues for
 *   them (CUDA_DEVICE_MAX_CONNECTIONS: the module sets 32); streams that share a queue would wait
 *   for each other.
 *
 * Communicators are non-blocking (ncclConfig_t.blocking 0). For each group NCCL then starts a
 * thread in ncclGroupEnd that queues it (groupLaunchNonBlocking in its group.cc): about 20 us of
 * host time each. Blocking communicators would avoid that, and this cannot be changed after
 * creation. They are not usable here: creation waits for all ranks and returns nothing to abort
 * until then, and queueing may wait until the GPU has started earlier groups, for a rank that is
 * late or gone; a rank that is stuck in NCCL neither sees the errors of others nor can stop. To be
 * revisited with a profile of tensor ranks on GPUs.
 *
 * Remaining risk: a kernel is loaded at its first launch, which may wait for everything that runs
 * on the GPU. So when an instruction list runs for the first time, the executor launches nothing
 * after a collective before that has ended. If a run still hangs in the first step, try
 * CUDA_MODULE_LOADING=EAGER, which loads all kernels first. */
#ifndef PST_KERNELS_CUDA_NCCL_NCCL_H
#define PST_KERNELS_CUDA_NCCL_NCCL_H
#include "kernels/cuda/cuda.h"
#include "kernels/module.h"
#include <cuda_runtime_api.h>
#include <nccl.h>

enum { PST_NCCL_CTAS = 16 };

typedef struct {
    ncclResult_t (*version)(int *version);
    ncclResult_t (*unique_id)(ncclUniqueId *id);
    ncclResult_t (*init)(ncclComm_t *comm, int n, ncclUniqueId id, int rank, ncclConfig_t *config);
    ncclResult_t (*group_start)(void);
    ncclResult_t (*group_end)(void);
    ncclResult_t (*send)(const void *mem, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                         cudaStream_t stream);
    ncclResult_t (*recv)(void *mem, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                         cudaStream_t stream);
    __typeof__(ncclAllReduce) *all_reduce;
    __typeof__(ncclReduceScatter) *reduce_scatter;
    ncclResult_t (*state)(ncclComm_t comm, ncclResult_t *state);
    ncclResult_t (*finalize)(ncclComm_t comm);
    ncclResult_t (*destroy)(ncclComm_t comm);
    ncclResult_t (*abort)(ncclComm_t comm);
    const char *(*text)(ncclResult_t result);
    const char *(*last)(ncclComm_t comm);
} pst_nccl;

/* library.c. NCCL's functions; NULL: not available, for the reason *why. */
const pst_nccl *pst_nccl_get(const char **why);
extern const pst_direct_ops pst_direct_nccl; /* transport.c */

/* comm.c: a communicator. Only pst_nccl_comm_close and pst_nccl_comm_finish block. */
typedef struct pst_nccl_comm pst_nccl_comm;
typedef struct {
    const pst_nccl *nccl;
    pst_transport *inner; /* transport that carries the communicator's unique id */
    uint32_t channel;     /* channel of `inner` for the unique id */
    pst_device *device;
    cudaStream_t stream; /* NULL: open creates one with higher priority than computation */
    /* [n] ranks of the communicator, including this one; used during open only */
    const uint32_t *member;
    uint32_t n;
    /* [n] 1: this rank sends messages to or receives from that member; NULL: all members */
    const uint8_t *talks;
    int sums;       /* 1: all-reduce is used too */
    const char *of; /* purpose, for error messages */
} pst_nccl_comm_config;

pst_status pst_nccl_comm_open(const pst_nccl_comm_config *config, pst_nccl_comm **c);
/* Makes progress on creating the communicator. BUSY: this rank or others are not ready. OK: it is
 * connected to all peers, and NCCL has allocated its buffers. */
pst_status pst_nccl_comm_connect(pst_nccl_comm *c);
ncclComm_t pst_nccl_comm_of(const pst_nccl_comm *c);
cudaStream_t pst_nccl_comm_stream(const pst_nccl_comm *c);
/* index of a rank in the communicator */
int pst_nccl_comm_member(const pst_nccl_comm *c, uint32_t rank);
/* Bytes of GPU memory that were allocated while the communicator was created. */
uint64_t pst_nccl_comm_bytes(const pst_nccl_comm *c);
/* The status of the result of an NCCL call, or of an asynchronous error of the communicator: OK,
 * EPEER or EINTERNAL. */
pst_status pst_nccl_comm_check(pst_nccl_comm *c, ncclResult_t result, const char *what);
/* BUSY: NCCL has not yet queued all operations of the last group. Fails as pst_nccl_comm_check
 * does. */
pst_status pst_nccl_comm_taken(pst_nccl_comm *c, const char *what);
/* Waits until NCCL's threads have finished transfers, for at most two seconds, because peers may be
 * lost. c may be NULL. */
void pst_nccl_comm_finish(pst_nccl_comm *c);
/* Aborts operations on the device, which may wait for a lost rank. */
void pst_nccl_comm_abort(pst_nccl_comm *c);
void pst_nccl_comm_close(pst_nccl_comm *c);

/* group.c: the functions of pst_direct_ops; to be called within a launch. */
pst_status pst_nccl_swap(pst_nccl_comm *c, const pst_swap *swap);
pst_status pst_nccl_sum(pst_nccl_comm *c, const pst_group_sum *sum);
#endif

/* NCCL as the module uses it: loaded when it is asked for, since a GPU computes without it.
 *
 * A rank has two communicators at most: one among all ranks of the job, for messages (message.c),
 * and one of its tensor group (group.c). Both are made at set-up, the job's first, so that every
 * rank makes them in one order, and no memory is taken while the run goes on. NCCL's manual ("Using
 * multiple NCCL communicators concurrently") says what can hang, and NVIDIA/nccl#195 how: an
 * operation occupies multiprocessors until its other ranks have begun theirs, so ranks that begin
 * operations in different orders may wait for each other for ever, and so may operations that do
 * not fit the GPU side by side. Here:
 *  - Messages have one order on all ranks (message.c says how it is found), and one stream that
 *    keeps it. The first message in that order which is not through is the next one in the streams
 * of both its ranks, so it gets through.
 *  - A tensor group's exchanges are queued to the stream that computes, where all its ranks have
 *    them in the order of the same list. That stream waits for no message: the executor queues what
 *    needs one when it has arrived.
 *  - The two together occupy PST_NCCL_CTAS multiprocessors each at most, and an eighth of a smaller
 *    GPU. What computes ends without waiting for anybody, so these do get their place.
 *  - A rank has six streams, and NCCL some of its own. A GPU has eight queues for them
 *    (CUDA_DEVICE_MAX_CONNECTIONS: the module asks for 32); of more streams, those that share a
 *    queue would wait for each other.
 *
 * Communicators do not block (ncclConfig_t.blocking 0). We have no thread for them, but NCCL starts
 * one in ncclGroupEnd for each group, which queues it (groupLaunchNonBlocking of its group.cc):
 * some 20 us of the host each time. Blocking ones would spare that, and it cannot be changed once a
 * communicator is made. They do not do: making one waits for all its ranks and gives nothing to
 * abort until they are there, and queueing may wait until the GPU has taken earlier groups, for a
 * rank that is late or gone; whoever is stuck in NCCL then neither sees what others report nor
 * gives up. To be looked at again with a profile of tensor ranks on GPUs.
 *
 * What is left: loading a kernel, which happens at its first launch, may wait for all that runs on
 * the GPU. In a list that runs for the first time the executor therefore launches nothing behind an
 * exchange before that has ended; where it still hangs in the first step, CUDA_MODULE_LOADING=EAGER
 * says whether that is why. */
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

/* library.c. NULL: *why says why. */
const pst_nccl *pst_nccl_get(const char **why);
extern const pst_direct_ops pst_direct_nccl; /* transport.c */

/* comm.c: a communicator from its making to its end; nothing here waits but its end. */
typedef struct pst_nccl_comm pst_nccl_comm;
typedef struct {
    const pst_nccl *nccl;
    pst_transport *inner; /* the ranks tell each other the communicator's name over it, */
    uint32_t channel;     /* there */
    pst_device *device;
    cudaStream_t stream;    /* NULL: one of its own, ahead of what computes */
    const uint32_t *member; /* [n] ranks, this one among them; read when it is opened */
    uint32_t n;
    const uint8_t *talks; /* [n] 1: messages go to or come from there; NULL: all */
    int sums;             /* 1: it adds up, too */
    const char *of;       /* what it is of, in messages */
} pst_nccl_comm_config;

pst_status pst_nccl_comm_open(const pst_nccl_comm_config *config, pst_nccl_comm **c);
/* Goes on with making it. BUSY: there is more to do, also for other ranks. OK: it is made, and
 * connected with all that it talks to: what NCCL takes of the GPU's memory for that, it has. */
pst_status pst_nccl_comm_connect(pst_nccl_comm *c);
ncclComm_t pst_nccl_comm_of(const pst_nccl_comm *c);
cudaStream_t pst_nccl_comm_stream(const pst_nccl_comm *c);
int pst_nccl_comm_member(const pst_nccl_comm *c, uint32_t rank); /* its number there */
/* Of the GPU, from its opening until it was connected. */
uint64_t pst_nccl_comm_bytes(const pst_nccl_comm *c);
/* NCCL's word for what it has answered or found out since: OK, EPEER or EINTERNAL. */
pst_status pst_nccl_comm_check(pst_nccl_comm *c, ncclResult_t result, const char *what);
/* BUSY: NCCL has not yet taken all that it was given. Failures are check's. */
pst_status pst_nccl_comm_taken(pst_nccl_comm *c, const char *what);
/* NCCL's own threads may still be moving what the device has handed them: it is let finish, for two
 * seconds at most, for the others may be gone. It may be NULL. */
void pst_nccl_comm_finish(pst_nccl_comm *c);
/* Ends what waits on the device for a rank that is gone. */
void pst_nccl_comm_abort(pst_nccl_comm *c);
void pst_nccl_comm_close(pst_nccl_comm *c);

/* group.c: as in pst_direct_ops, inside of a launch. */
pst_status pst_nccl_swap(pst_nccl_comm *c, const pst_swap *swap);
pst_status pst_nccl_sum(pst_nccl_comm *c, const pst_group_sum *sum);
#endif

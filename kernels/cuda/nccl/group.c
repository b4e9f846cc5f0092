/* Collectives of a tensor group, on the compute stream: ordered with the kernels before and after
 * them without the host. All ranks of the group launch them at the same place of the same
 * instruction list, so no messages are needed to agree on an order. */
#ifdef PST_NCCL
#include "base/status.h"
#include "kernels/cuda/nccl/nccl.h"

#define TAKEN_NS UINT64_C(600000000000)

/* NCCL queues a group in a thread of its own, and later launches must be queued after it.
 * Connections exist already, so this does not wait for other ranks, unless the stream's queue is
 * full because an earlier exchange waits for a late rank. Hang detection ends a run before this
 * time-out. */
static pst_status await(pst_nccl_comm *c, const char *what) {
    const uint64_t until = pst_monotonic_ns() + TAKEN_NS;
    pst_status status;
    do status = pst_nccl_comm_taken(c, what);
    while (status == PST_BUSY && pst_monotonic_ns() < until);
    return status == PST_BUSY ? pst_fail(PST_EINTERNAL, "NCCL: %s was not queued within %d s", what,
                                         (int)(TAKEN_NS / 1000000000))
                              : status;
}

static int goes_on(ncclResult_t result) {
    return result == ncclSuccess || result == ncclInProgress;
}

pst_status pst_nccl_swap(pst_nccl_comm *c, const pst_swap *swap) {
    const char *why;
    const pst_nccl *nccl = pst_nccl_get(&why);
    ncclComm_t comm = pst_nccl_comm_of(c);
    cudaStream_t stream = pst_nccl_comm_stream(c);
    ncclResult_t result = nccl->group_start();
    for (uint32_t k = 0; k < swap->n && goes_on(result); k++) {
        const pst_swap_part *p = swap->part + k;
        if (p->send_bytes)
            result = nccl->send(p->send, p->send_bytes, ncclInt8, (int)k, comm, stream);
        if (p->recv_bytes && goes_on(result))
            result = nccl->recv(p->recv, p->recv_bytes, ncclInt8, (int)k, comm, stream);
    }
    ncclResult_t ended = nccl->group_end();
    PST_TRY(pst_nccl_comm_check(c, goes_on(result) ? ended : result,
                                "communication among tensor ranks"));
    PST_TRY(await(c, "communication among tensor ranks"));
    return pst_cuda_launched("communication among tensor ranks");
}

static ncclDataType_t type_of(pst_dtype dtype) {
    if (dtype == PST_BF16) return ncclBfloat16;
    return dtype == PST_F16 ? ncclFloat16 : ncclFloat32;
}

pst_status pst_nccl_sum(pst_nccl_comm *c, const pst_group_sum *s) {
    const char *why;
    const pst_nccl *nccl = pst_nccl_get(&why);
    ncclComm_t comm = pst_nccl_comm_of(c);
    cudaStream_t stream = pst_nccl_comm_stream(c);
    ncclResult_t result =
        s->scattered
            ? nccl->reduce_scatter(s->from, s->to, s->n, type_of(s->dtype), ncclSum, comm, stream)
            : nccl->all_reduce(s->from, s->to, s->n, type_of(s->dtype), ncclSum, comm, stream);
    PST_TRY(pst_nccl_comm_check(c, result, "a sum"));
    PST_TRY(await(c, "a sum"));
    return pst_cuda_launched("a sum over tensor ranks");
}
#endif

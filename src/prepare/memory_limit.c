/* The memory limit of each rank, and by how much a rank exceeds it. Declared in prepare.h. */
#include "prepare/prepare.h"

uint64_t pst_prepare_usable_bytes(const pst_prepared *p, uint64_t limit, uint32_t rank) {
    return p->cluster ? pst_cluster_usable_bytes(p->cluster, p->device[rank], limit) : limit;
}

uint64_t pst_prepare_excess(const pst_prepared *p, uint64_t limit, uint32_t *rank) {
    uint64_t most = 0;
    for (uint32_t r = pst_job_gathers(p->job); r < p->options.n_rank; r = pst_job_next(p->job, r)) {
        uint64_t may = pst_prepare_usable_bytes(p, limit, r), needs = p->memory[r]->total;
        if (may && needs > may && needs - may > most) {
            most = needs - may;
            *rank = r;
        }
    }
    return most;
}

/* Checks that the system's limits (ulimit) suffice for a run: before libraries start, and again
 * when the memory is laid out, before it is allocated, threads are started and hours are spent. */
#include "run/limits.h"
#include "base/limit.h"
#include <stdlib.h>

pst_status pst_limits_of_process(uint32_t ranks) {
    pst_limit_needs needs = pst_limit_of_rank(ranks, 1, 0);
    if (getenv("PENSTOCK_LAUNCHER"))
        return PST_OK; /* the launcher has checked for all of its ranks */
    return pst_limit_check(&needs);
}

/* A lower bound for the bytes of this process's checkpoint: parameters that tensor ranks split are
 * not counted. */
static uint64_t checkpoint_bytes(const pst_prepared *p, uint32_t rank) {
    const pst_memory_map *x = p->memory[rank];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->graph->n_param && pst_grid_lanes(p->grid) == p->grid.data; i++)
        bytes += (x->own_to[i] - x->own_from[i]) *
                 (sizeof(float) + x->state_size * pst_optim_states(p->optim, p->graph->param + i));
    return bytes;
}

pst_status pst_limits_of_run(const pst_trainer *t) {
    const pst_prepared *p = t->p;
    int several = t->world->size > 1,
        on_device = (p->options.device->flags & PST_DEVICE_OWN_MEMORY) != 0;
    uint64_t arenas = 0, file = 0;
    uint32_t n = several ? 1 : p->options.n_rank;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = several ? t->world->rank : i;
        uint64_t bytes = t->times_only ? 0 : checkpoint_bytes(p, rank);
        if (!on_device && !t->times_only) arenas += p->memory[rank]->total;
        if (bytes > file) file = bytes;
    }
    pst_limit_needs needs =
        pst_limit_of_rank(t->world->size, 1 + n * (p->options.threads - 1), arenas);
    if (file > needs.file) needs.file = file;
    /* UCX's connections to other hosts */
    if (several) needs.files += 2 * (uint64_t)(t->world->size - t->world->local_size);
    return pst_limit_check(&needs);
}

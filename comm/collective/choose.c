/* The one cost model that chooses among algorithms. Its constants are orders of magnitude, of ranks
 * that poll on a host (shared memory) and of a network; not measured per machine, so that all ranks
 * choose alike. */
#include "comm/collective/choose.h"

/* us per turn, per message, per byte. */
#define NEAR_TURN 1.5
#define FAR_TURN 30.0
#define MESSAGE 0.5
#define NEAR_BYTE 2e-4 /* 5 GB/s, both ways at once */
#define FAR_BYTE 1e-3  /* 1 GB/s for all ranks of a host together */
#define ADD_BYTE 5e-5

double pst_coll_cost_us(const pst_coll_algorithm *a, const pst_coll_shape *shape) {
    pst_coll_cost c = {0};
    a->cost(shape, &c);
    return c.near_turns * NEAR_TURN + c.far_turns * FAR_TURN + c.messages * MESSAGE +
           c.near_bytes * NEAR_BYTE + c.far_bytes * FAR_BYTE + c.added * ADD_BYTE;
}

int pst_coll_knows(const pst_coll_algorithm *a, const pst_coll_shape *shape) {
    return (a->kinds & PST_COLL_BIT(shape->kind)) != 0;
}

const char *pst_coll_rejects(const pst_coll_algorithm *a, const pst_coll_shape *shape) {
    return a->reject ? a->reject(shape) : NULL;
}

const pst_coll_algorithm *pst_coll_cheapest(const pst_coll_algorithm *const *list, uint32_t n,
                                            const pst_coll_shape *shape) {
    const pst_coll_algorithm *best = NULL;
    double best_us = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!pst_coll_knows(list[i], shape) || pst_coll_rejects(list[i], shape)) continue;
        double us = pst_coll_cost_us(list[i], shape);
        if (best && us >= best_us) continue;
        best = list[i];
        best_us = us;
    }
    return best;
}

/* The cost model that chooses among algorithms. Its constants are orders of magnitude for ranks
 * that poll shared memory on a host, and for a network. They are not measured per machine, so that
 * all ranks choose alike. */
#include "comm/collective/choose.h"

/* us per round, per message, per byte. */
#define LOCAL_ROUND 1.5
#define REMOTE_ROUND 30.0
#define MESSAGE 0.5
#define LOCAL_BYTE 2e-4  /* 5 GB/s, both directions at once */
#define REMOTE_BYTE 1e-3 /* 1 GB/s in total for all ranks of a host */
#define ADD_BYTE 5e-5

double pst_coll_cost_us(const pst_coll_algorithm *a, const pst_coll_shape *shape) {
    pst_coll_cost c = {0};
    a->cost(shape, &c);
    return c.local_rounds * LOCAL_ROUND + c.remote_rounds * REMOTE_ROUND + c.messages * MESSAGE +
           c.local_bytes * LOCAL_BYTE + c.remote_bytes * REMOTE_BYTE + c.added * ADD_BYTE;
}

int pst_coll_supports(const pst_coll_algorithm *a, const pst_coll_shape *shape) {
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
        if (!pst_coll_supports(list[i], shape) || pst_coll_rejects(list[i], shape)) continue;
        double us = pst_coll_cost_us(list[i], shape);
        if (best && us >= best_us) continue;
        best = list[i];
        best_us = us;
    }
    return best;
}

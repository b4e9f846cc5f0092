/* The table of algorithms and the one cost model that chooses among them. Its constants are orders
 * of magnitude, of ranks that poll on a host (shared memory) and of a network; not measured per
 * machine, so that all ranks choose alike. Where two cost the same, the earlier row is taken. */
#include "comm/collective/parts.h"
#include <string.h>

static const pst_coll_algorithm *const table[] = {
    &pst_coll_doubling, &pst_coll_shared, &pst_coll_direct,
    &pst_coll_tree,     &pst_coll_ring,   &pst_coll_by_host,
};
enum { N_TABLE = sizeof table / sizeof *table };

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

static int knows(const pst_coll_algorithm *a, const pst_coll_shape *shape) {
    return (a->kinds & PST_COLL_BIT(shape->kind)) != 0;
}

static const char *rejects(const pst_coll_algorithm *a, const pst_coll_shape *shape) {
    return a->reject ? a->reject(shape) : NULL;
}

const pst_coll_algorithm *pst_coll_choose(const pst_coll_shape *shape,
                                          const pst_coll_algorithm *forced) {
    const pst_coll_algorithm *best = NULL;
    double best_us = 0;
    if (forced && knows(forced, shape) && !rejects(forced, shape)) return forced;
    for (int i = 0; i < N_TABLE; i++) {
        if (!knows(table[i], shape) || rejects(table[i], shape)) continue;
        double us = pst_coll_cost_us(table[i], shape);
        if (best && us >= best_us) continue;
        best = table[i];
        best_us = us;
    }
    return best;
}

const pst_coll_algorithm *pst_coll_find(const char *name) {
    for (int i = 0; i < N_TABLE; i++)
        if (!strcmp(table[i]->name, name)) return table[i];
    return NULL;
}

uint32_t pst_coll_rank_candidates(const pst_coll_shape *shape,
                                  pst_coll_candidate candidate[PST_COLL_CANDIDATES]) {
    const pst_coll_algorithm *chosen = pst_coll_choose(shape, NULL);
    uint32_t n = 0;
    _Static_assert((int)N_TABLE <= (int)PST_COLL_CANDIDATES, "room for every row");
    for (int first = 1; first >= 0; first--)
        for (int i = 0; i < N_TABLE; i++) {
            if (!knows(table[i], shape) || (table[i] == chosen) != first) continue;
            const char *reject = rejects(table[i], shape);
            candidate[n++] = (pst_coll_candidate){
                table[i]->name, reject ? 0 : pst_coll_cost_us(table[i], shape), reject};
        }
    return n;
}

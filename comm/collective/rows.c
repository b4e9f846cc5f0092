/* The table of algorithms. Of two with equal cost the earlier row is chosen. */
#include "comm/collective/choose.h"
#include <string.h>

static const pst_coll_algorithm *const table[] = {
    &pst_coll_doubling, &pst_coll_shared, &pst_coll_direct,
    &pst_coll_tree,     &pst_coll_ring,   &pst_coll_by_host,
};
enum { N_TABLE = sizeof table / sizeof *table };

const pst_coll_algorithm *pst_coll_choose(const pst_coll_shape *shape,
                                          const pst_coll_algorithm *forced) {
    if (forced && pst_coll_supports(forced, shape) && !pst_coll_rejects(forced, shape))
        return forced;
    return pst_coll_cheapest(table, N_TABLE, shape);
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
    _Static_assert((int)N_TABLE <= (int)PST_COLL_CANDIDATES, "PST_COLL_CANDIDATES is too small");
    for (int first = 1; first >= 0; first--)
        for (int i = 0; i < N_TABLE; i++) {
            if (!pst_coll_supports(table[i], shape) || (table[i] == chosen) != first) continue;
            const char *reject = pst_coll_rejects(table[i], shape);
            candidate[n++] = (pst_coll_candidate){
                table[i]->name, reject ? 0 : pst_coll_cost_us(table[i], shape), reject};
        }
    return n;
}

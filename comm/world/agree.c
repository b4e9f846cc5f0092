/* Joins the status of something that each rank did for itself before any transport exists. */
#include "comm/world/world.h"
#include <stdlib.h>

pst_status pst_world_agree(pst_world *w, const char *key, pst_status mine) {
    uint32_t word = mine;
    pst_status common = w->ops->put(w, key, &word, sizeof word);
    if (common == PST_OK) common = w->ops->fence(w);
    if (mine != PST_OK || common != PST_OK) return mine != PST_OK ? mine : common;
    for (uint32_t rank = 0; rank < w->size; rank++) {
        uint32_t *theirs;
        size_t bytes;
        PST_TRY(w->ops->get(w, rank, key, (void **)&theirs, &bytes));
        int failed = bytes != sizeof word || *theirs != PST_OK;
        free(theirs);
        if (failed) return pst_fail(PST_EPEER, "rank %u failed during start-up", rank);
    }
    return PST_OK;
}

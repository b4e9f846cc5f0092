/* A world in another order: rank r of it is the process that `process[r]` is in the world below.
 * For jobs whose layout says which device has which rank (parallel.devices); everything above sees
 * the layout's ranks only. What the world below says itself (who did not arrive, whose connection
 * ended) names processes as they were launched. */
#include "comm/world/world.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    pst_world base;
    /* those of the world below have this one's name, and a check if it has one */
    pst_world_ops ops;
    pst_world *below;
    uint32_t process[];
} seated_world;

static pst_status seated_put(pst_world *world, const char *key, const void *value, size_t bytes) {
    pst_world *below = ((seated_world *)world)->below;
    return below->ops->put(below, key, value, bytes);
}

static pst_status seated_get(pst_world *world, uint32_t rank, const char *key, void **value,
                             size_t *bytes) {
    const seated_world *w = (seated_world *)world;
    return w->below->ops->get(w->below, w->process[rank], key, value, bytes);
}

static pst_status seated_fence(pst_world *world) {
    pst_world *below = ((seated_world *)world)->below;
    return below->ops->fence(below);
}

static pst_status seated_check(pst_world *world) {
    pst_world *below = ((seated_world *)world)->below;
    return below->ops->check(below);
}

static void seated_abort(pst_world *world, int exit_status, const char *why) {
    pst_world *below = ((seated_world *)world)->below;
    below->ops->abort(below, exit_status, why);
}

static void seated_close(pst_world *world) {
    pst_world *below = ((seated_world *)world)->below;
    below->ops->close(below);
    free(world);
}

pst_status pst_world_seat(pst_world **world, const uint32_t *process) {
    pst_world *below = *world;
    uint32_t n = below->size, rank = 0;
    seated_world *w = calloc(1, sizeof *w + n * sizeof *w->process);
    if (!w) return pst_fail(PST_ENOMEM, "no memory for a world of %u ranks", n);
    while (rank < n && process[rank] != below->rank) rank++;
    if (rank == n) {
        free(w);
        return pst_fail(PST_EINTERNAL, "process %u has no rank among %u", below->rank, n);
    }
    memcpy(w->process, process, n * sizeof *process);
    w->below = below;
    w->ops = (pst_world_ops){.name = below->ops->name,
                             .reject = below->ops->reject,
                             .open = below->ops->open,
                             .put = seated_put,
                             .get = seated_get,
                             .fence = seated_fence,
                             .check = below->ops->check ? seated_check : NULL,
                             .abort = seated_abort,
                             .close = seated_close};
    w->base = *below;
    w->base.ops = &w->ops;
    w->base.rank = rank;
    *world = &w->base;
    return PST_OK;
}

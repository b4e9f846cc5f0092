/* A world in another order: its rank r is the process process[r] of the inner world. For jobs whose
 * layout assigns ranks to devices (parallel.devices); all other code sees the layout's ranks only.
 * Messages of the inner world (which process did not join, whose connection ended) name processes
 * in the order of launch. */
#include "comm/world/world.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    pst_world base;
    /* the inner world's rows, with its name, and a check only if it has one */
    pst_world_ops ops;
    pst_world *inner;
    uint32_t process[];
} reordered_world;

static pst_status reordered_put(pst_world *world, const char *key, const void *value,
                                size_t bytes) {
    pst_world *inner = ((reordered_world *)world)->inner;
    return inner->ops->put(inner, key, value, bytes);
}

static pst_status reordered_get(pst_world *world, uint32_t rank, const char *key, void **value,
                                size_t *bytes) {
    const reordered_world *w = (reordered_world *)world;
    return w->inner->ops->get(w->inner, w->process[rank], key, value, bytes);
}

static pst_status reordered_fence(pst_world *world) {
    pst_world *inner = ((reordered_world *)world)->inner;
    return inner->ops->fence(inner);
}

static pst_status reordered_check(pst_world *world) {
    pst_world *inner = ((reordered_world *)world)->inner;
    return inner->ops->check(inner);
}

static void reordered_abort(pst_world *world, int exit_status, const char *why) {
    pst_world *inner = ((reordered_world *)world)->inner;
    inner->ops->abort(inner, exit_status, why);
}

static void reordered_close(pst_world *world) {
    pst_world *inner = ((reordered_world *)world)->inner;
    inner->ops->close(inner);
    free(world);
}

pst_status pst_world_reorder(pst_world **world, const uint32_t *process) {
    pst_world *inner = *world;
    uint32_t n = inner->size, rank = 0;
    reordered_world *w = calloc(1, sizeof *w + n * sizeof *w->process);
    if (!w) return pst_fail(PST_ENOMEM, "no memory to reorder %u ranks", n);
    while (rank < n && process[rank] != inner->rank) rank++;
    if (rank == n) {
        free(w);
        return pst_fail(PST_EINTERNAL, "the order of %u ranks lacks process %u", inner->rank, n);
    }
    memcpy(w->process, process, n * sizeof *process);
    w->inner = inner;
    w->ops = (pst_world_ops){.name = inner->ops->name,
                             .reject = inner->ops->reject,
                             .open = inner->ops->open,
                             .put = reordered_put,
                             .get = reordered_get,
                             .fence = reordered_fence,
                             .check = inner->ops->check ? reordered_check : NULL,
                             .abort = reordered_abort,
                             .close = reordered_close};
    w->base = *inner;
    w->base.ops = &w->ops;
    w->base.rank = rank;
    *world = &w->base;
    return PST_OK;
}

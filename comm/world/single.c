/* World `single`: one process that is the whole job. It is always available, so it is last in the
 * list of worlds. */
#include "comm/world/store.h"
#include "comm/world/world.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    pst_world base;
    pst_store store;
} single_world;

static const char *single_reject(void) { return NULL; }

static pst_status single_open(pst_world **world) {
    single_world *w = calloc(1, sizeof *w);
    if (!w) return pst_fail(PST_ENOMEM, "no memory to open a job of one process");
    w->base = (pst_world){.ops = &pst_world_single, .size = 1, .local_size = 1, .job = "single"};
    if (gethostname(w->base.host, sizeof w->base.host - 1)) strcpy(w->base.host, "localhost");
    *world = &w->base;
    return PST_OK;
}

static pst_status single_put(pst_world *world, const char *key, const void *value, size_t bytes) {
    return pst_store_put(&((single_world *)world)->store, 0, key, value, bytes);
}

static pst_status single_get(pst_world *world, uint32_t rank, const char *key, void **value,
                             size_t *bytes) {
    return pst_store_get(&((single_world *)world)->store, rank, key, value, bytes);
}

static pst_status single_fence(pst_world *world) {
    (void)world;
    return PST_OK;
}

static void single_abort(pst_world *world, int exit_status, const char *why) {
    (void)world;
    (void)exit_status;
    (void)why; /* there is no other process */
}

static void single_close(pst_world *world) {
    pst_store_clear(&((single_world *)world)->store);
    free(world);
}

const pst_world_ops pst_world_single = {
    .name = "single",
    .reject = single_reject,
    .open = single_open,
    .put = single_put,
    .get = single_get,
    .fence = single_fence,
    .abort = single_abort,
    .close = single_close,
};

/* World `single`: one process that is the whole job. Always there, so it stands last in the list of worlds. */
#include "comm/world.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct entry entry;
struct entry {
    entry *next;
    char *key;
    void *value;
    size_t bytes;
};

typedef struct {
    pst_world base;
    entry *first; /* newest first: a key put twice gives its last value */
} single_world;

static const char *single_reject(void) { return NULL; }

static pst_status single_open(pst_world **world) {
    single_world *w = calloc(1, sizeof *w);
    if (!w) return pst_fail(PST_ENOMEM, "no memory for a world");
    w->base = (pst_world){.ops = &pst_world_single, .size = 1, .local_size = 1, .job = "single"};
    if (gethostname(w->base.host, sizeof w->base.host - 1)) strcpy(w->base.host, "localhost");
    *world = &w->base;
    return PST_OK;
}

static void entry_free(entry *e) {
    free(e->key);
    free(e->value);
    free(e);
}

static pst_status single_put(pst_world *world, const char *key, const void *value, size_t bytes) {
    single_world *w = (single_world *)world;
    entry *e = calloc(1, sizeof *e);
    if (!e) return pst_fail(PST_ENOMEM, "no memory for %s", key);
    e->key = strdup(key);
    e->value = malloc(bytes ? bytes : 1);
    if (!e->key || !e->value) {
        entry_free(e);
        return pst_fail(PST_ENOMEM, "no memory for %s", key);
    }
    if (bytes) memcpy(e->value, value, bytes);
    e->bytes = bytes;
    e->next = w->first;
    w->first = e;
    return PST_OK;
}

static pst_status single_get(pst_world *world, uint32_t rank, const char *key, void **value, size_t *bytes) {
    single_world *w = (single_world *)world;
    const entry *e = w->first;
    while (e && strcmp(e->key, key)) e = e->next;
    if (rank || !e) return pst_fail(PST_EINTERNAL, "rank %u has not published %s", rank, key);
    void *copy = malloc(e->bytes ? e->bytes : 1);
    if (!copy) return pst_fail(PST_ENOMEM, "no memory for %s", key);
    if (e->bytes) memcpy(copy, e->value, e->bytes);
    *value = copy;
    *bytes = e->bytes;
    return PST_OK;
}

static pst_status single_fence(pst_world *world) {
    (void)world;
    return PST_OK;
}

static void single_abort(pst_world *world, int exit_status, const char *why) {
    (void)world, (void)exit_status, (void)why; /* nobody else to end */
}

static void single_close(pst_world *world) {
    single_world *w = (single_world *)world;
    while (w->first) {
        entry *e = w->first;
        w->first = e->next;
        entry_free(e);
    }
    free(w);
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

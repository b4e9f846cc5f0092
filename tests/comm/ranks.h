/* Tests that need real processes start this very program again, as ranks: argv[1] is "rank",
 * argv[2] the scenario. */
#ifndef TESTS_COMM_RANKS_H
#define TESTS_COMM_RANKS_H
#include "base/status.h"
#include "comm/collective/collective.h"
#include "comm/launch/launch.h"
#include "comm/transport/transport.h"
#include "comm/watch/heartbeat.h"
#include "comm/world/world.h"
#include "comm/transfer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    pst_world *world;
    pst_heartbeat *heartbeat;
    pst_transport *t;
    pst_coll *coll;
} rank_state;

#define RANK_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, pst_error());      \
            exit(99);                                                                              \
        }                                                                                          \
    } while (0)

/* Shared memory of ours that a process has mapped and that still has a name. Looks at this process
 * alone: other jobs on the machine come and go. */
static inline int rank_segments(pid_t pid) {
    char path[64], line[1024];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        n += strstr(line, "/dev/shm/penstock-") && !strstr(line, "(deleted)");
    if (f) fclose(f);
    return n;
}

static inline void rank_open(rank_state *r) {
    RANK_CHECK(pst_world_pmix.reject() == NULL);
    RANK_CHECK(pst_world_pmix.open(&r->world) == PST_OK);
    RANK_CHECK(pst_heartbeat_open(r->world, &r->heartbeat) == PST_OK);
    RANK_CHECK(pst_transport_ucx.open(r->world, NULL, &r->t) == PST_OK);
    RANK_CHECK(pst_coll_open(r->t, NULL, 0, PST_CHANNEL_COLLECTIVE, &r->coll) == PST_OK);
}

static inline void rank_close(rank_state *r) {
    pst_coll_close(r->coll);
    r->t->ops->close(r->t);
    pst_heartbeat_close(r->heartbeat);
    r->world->ops->close(r->world);
}

/* As the engine leaves when something failed: the others are told, nobody is waited for. */
static inline int rank_give_up(rank_state *r, pst_status status) {
    fprintf(stderr, "rank %u: %s\n", r->world->rank, pst_error());
    pst_heartbeat_fail(r->heartbeat);
    r->t->ops->abort(r->t);
    rank_close(r);
    return pst_status_exit(status);
}

/* Waits for a request; EPEER as soon as the heartbeat says so. */
static inline pst_status rank_finish(rank_state *r, uint64_t request) {
    for (;;) {
        uint64_t end_ns;
        pst_status status = r->t->ops->test(r->t, request, &end_ns);
        if (status != PST_BUSY) return status;
        PST_TRY(pst_heartbeat_check(r->heartbeat));
        pst_transport_wait(r->t, 20);
    }
}

static inline pst_status rank_post(rank_state *r, pst_transfer x, uint64_t *request) {
    return r->t->ops->post(r->t, &x, request);
}

static inline pst_status rank_collective(rank_state *r, pst_coll_kind kind, void *mem,
                                         uint64_t bytes, pst_dtype dtype, uint32_t root) {
    PST_TRY(pst_coll_start(r->coll, kind, mem, bytes, dtype, root));
    for (;;) {
        pst_status status = pst_coll_test(r->coll);
        if (status != PST_BUSY) return status;
        PST_TRY(pst_heartbeat_check(r->heartbeat));
        pst_transport_wait(r->t, 20);
    }
}

/* Starts n ranks of this program in a scenario; the launcher runs in this process. */
static inline int launch(uint32_t n, const char *scenario, const char *argument,
                         uint32_t grace_ms) {
    char *argv[] = {(char *)"test", (char *)"rank", (char *)scenario, (char *)argument, NULL};
    pst_launch_end end = {-1, 0};
    if (pst_launch_local(n, argv, grace_ms, &end) != PST_OK) {
        fprintf(stderr, "launch: %s\n", pst_error());
        return -1;
    }
    return end.exit_status;
}
#endif

/* test: label=quick timeout=60 */
/* The same ranks under mpirun: world, transport, collectives, and the heartbeat over a page without
 * a name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/opcode.h"
#include "comm/ranks.h"
#include "skip.h"
#include <signal.h>
#include <sys/wait.h>

static int come_together(rank_state *r) {
    double sum = r->world->rank + 1.0, n = r->world->size;
    RANK_CHECK(r->world->size == 3 && r->world->local_size == 3 && !r->world->launched_by_us);
    RANK_CHECK(rank_collective(r, PST_COLL_ALL_REDUCE, &sum, sizeof sum, PST_F64, 0) == PST_OK);
    RANK_CHECK(sum == n * (n + 1) / 2);
    RANK_CHECK(rank_segments(getpid()) == 0);
    printf("rank %u of %u\n", r->world->rank, r->world->size);
    rank_close(r);
    return 0;
}

/* mpirun does not look at stopped ranks: the heartbeat has to. */
static int one_stops(rank_state *r) {
    *pst_heartbeat_instr(r->heartbeat) = (uint64_t)PST_OP_STEP << 56;
    RANK_CHECK(rank_collective(r, PST_COLL_BARRIER, NULL, 0, PST_I32, 0) == PST_OK);
    if (r->world->rank == 1) raise(SIGSTOP);
    pst_status status = rank_collective(r, PST_COLL_BARRIER, NULL, 0, PST_I32, 0);
    RANK_CHECK(status == PST_EPEER);
    RANK_CHECK(strstr(pst_error(), "rank 1 on ") &&
               strstr(pst_error(), "no heartbeat for 2.0 s (last activity: STEP)"));
    printf("named\n");
    fflush(stdout);
    r->world->ops->abort(r->world, 3, pst_error());
    return rank_give_up(r, PST_EPEER);
}

static pst_status (*fence)(pst_world *w);

/* Whoever is killed here leaves nothing behind in /dev/shm. */
static pst_status fence_without_names(pst_world *w) {
    RANK_CHECK(rank_segments(getpid()) == 0);
    return fence(w);
}

static void open_without_names(rank_state *r) {
    RANK_CHECK(pst_world_pmix.open(&r->world) == PST_OK);
    pst_world_ops watched = *r->world->ops;
    const pst_world_ops *usual = r->world->ops;
    fence = usual->fence;
    watched.fence = fence_without_names;
    r->world->ops = &watched;
    RANK_CHECK(pst_heartbeat_open(r->world, &r->heartbeat) == PST_OK);
    r->world->ops = usual;
    RANK_CHECK(pst_transport_ucx.open(r->world, NULL, &r->t) == PST_OK);
    RANK_CHECK(pst_coll_open(r->t, NULL, 0, PST_CHANNEL_COLLECTIVE, &r->coll) == PST_OK);
}

static int rank_main(const char *scenario) {
    rank_state r;
    open_without_names(&r);
    return !strcmp(scenario, "stop") ? one_stops(&r) : come_together(&r);
}

/* Runs mpirun on this program; *said gets the start of what it wrote. */
static int mpirun(const char *scenario, char *said, size_t bytes) {
    char command[4600], self[4096] = "";
    ssize_t got = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(got > 0);
    snprintf(command, sizeof command,
             "mpirun -n 3 --allow-run-as-root --oversubscribe '%s' rank %s 2>&1", self, scenario);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    size_t used = fread(said, 1, bytes - 1, out);
    said[used] = 0;
    return WEXITSTATUS(pclose(out));
}

static void three_ranks_come_together(void **state) {
    (void)state;
    char said[8192];
    int status = mpirun("together", said, sizeof said);
    if (status) fail_msg("status %d:\n%s", status, said);
    for (int i = 0; i < 3; i++) {
        char text[32];
        snprintf(text, sizeof text, "rank %d of 3", i);
        assert_non_null(strstr(said, text));
    }
}

static void a_stopped_rank_is_named(void **state) {
    (void)state;
    char said[8192];
    int status = mpirun("stop", said, sizeof said);
    if (!status || !strstr(said, "named")) fail_msg("status %d:\n%s", status, said);
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "rank")) return rank_main(argv[2]);
    if (system("mpirun --version >/dev/null 2>&1"))
        return SKIPPED("no mpirun here (apt-get install openmpi-bin)");
    /* patched memory calls and sanitizers do not go together */
    setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_ranks_come_together),
        cmocka_unit_test(a_stopped_rank_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

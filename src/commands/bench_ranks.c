/* Suites of `penstock bench` that run in ranks: the program is started again as that many ranks,
 * and rank 0 writes its results to the file that FOUND names. */
#include "backends/registry.h"
#include "comm/launch/launch.h"
#include "comm/transport/transport.h"
#include "commands/bench.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOUND "PENSTOCK_BENCH_FOUND"
#define SUITE "PENSTOCK_BENCH_SUITE"

/* --- as a rank -------------------------------------------------------------------------------- */

const char *pst_bench_ranks_started(void) { return getenv(SUITE); }

static pst_status leave_found(json_t **found) {
    const char *path = getenv(FOUND);
    if (!path || !*found) return PST_OK;
    pst_status status = json_dump_file(*found, path, 0)
                            ? pst_fail(PST_ENOMEM, "%s: %s", path, strerror(errno))
                            : PST_OK;
    json_decref(*found); /* the launcher prints the results */
    *found = NULL;
    return status;
}

pst_status pst_bench_ranks_run(const pst_bench *b, const pst_bench_suite *suite, json_t **found) {
    pst_world *world = NULL;
    pst_transport *t = NULL;
    const pst_transport_ops *ops;
    *found = NULL;
    pst_status status = pst_registry_world()->open(&world);
    if (status == PST_OK && world->size > 1) status = pst_registry_transport("auto", world, &ops);
    if (status == PST_OK && world->size > 1)
        status = ops->open(world, NULL, &t); /* a single rank has nobody to exchange with */
    if (status == PST_OK) status = suite->rank(b, world, t, found);
    if (status == PST_OK && world->rank == 0 && !*found)
        status = pst_fail(PST_ENOMEM, "no memory for results");
    if (*found && (world->rank || status != PST_OK)) json_decref(*found), *found = NULL;
    if (status == PST_OK) status = leave_found(found);
    if (t) t->ops->close(t);
    if (world) world->ops->close(world);
    return status;
}

/* --- as the launcher -------------------------------------------------------------------------- */

static pst_status read_found(const char *path, json_t **found) {
    json_error_t error;
    *found = json_load_file(path, 0, &error);
    return *found ? PST_OK : pst_fail(PST_EINTERNAL, "%s: %s", path, error.text);
}

static pst_status start_ranks(const pst_bench *b, const pst_bench_suite *suite, uint32_t n,
                              const char *path, pst_launch_end *end) {
    setenv(FOUND, path, 1);
    setenv(SUITE, suite->name, 1);
    pst_status status = pst_launch_local(n, b->options->argv, 2000, end);
    unsetenv(FOUND);
    unsetenv(SUITE);
    return status;
}

pst_status pst_bench_ranks_measure(const pst_bench *b, const pst_bench_suite *suite, uint32_t n,
                                   json_t **found) {
    const char *folder = getenv("TMPDIR");
    char path[1024];
    if (!b->options->argv)
        return pst_fail(PST_EINPUT,
                        "suite %s starts this program again as ranks: options.argv is NULL; set it "
                        "to the program's arguments",
                        suite->name);
    snprintf(path, sizeof path, "%s/penstock-bench-XXXXXX", folder && *folder ? folder : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0) return pst_fail(PST_ENOMEM, "%s: %s", path, strerror(errno));
    close(fd);
    pst_launch_end end = {0};
    pst_status status = start_ranks(b, suite, n, path, &end);
    if (status == PST_OK && !end.exit_status) status = read_found(path, found);
    unlink(path);
    return status == PST_OK ? pst_launch_ended(&end) : status;
}

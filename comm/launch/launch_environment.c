/* See launch_environment.h. */
#include "comm/launch/launch_environment.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void pst_launch_environment_free(char **env) {
    for (char **at = env; at && *at; at++) free(*at);
    free(env);
}

/* Appends a malloc'ed "NAME=value"; NULL means that memory ran out. Returns 0 on failure. */
static int environment_add(char ***env, uint32_t *n, char *variable) {
    char **more = variable ? realloc(*env, (*n + 2) * sizeof *more) : NULL;
    if (!more) {
        free(variable);
        return 0;
    }
    *env = more;
    more[(*n)++] = variable;
    more[*n] = NULL;
    return 1;
}

static int add_number(char ***env, uint32_t *n, const char *name, long value) {
    char *text;
    return environment_add(env, n, asprintf(&text, "%s=%ld", name, value) < 0 ? NULL : text);
}

static int add_text(char ***env, uint32_t *n, const char *name, const char *value) {
    char *text;
    return environment_add(env, n, asprintf(&text, "%s=%s", name, value) < 0 ? NULL : text);
}

/* Variables that another launcher, or an outer one of ours, set for its own ranks. */
static int left_by_another(const char *variable) {
    static const char *const names[] = {"PENSTOCK_LAUNCHER",
                                        "PENSTOCK_HEARTBEAT_FD",
                                        "PENSTOCK_ELASTIC_FD",
                                        "PENSTOCK_ELASTIC_PROCESS",
                                        "PENSTOCK_HOST_JOB",
                                        "PENSTOCK_HOST",
                                        "PENSTOCK_LISTEN_FD",
                                        "PENSTOCK_SECRET",
                                        "RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_RANK",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "TORCHELASTIC_USE_AGENT_STORE",
                                        "DMLC_ROLE"};
    size_t length = strcspn(variable, "=");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && !strncmp(variable, names[i], length)) return 1;
    return !strncmp(variable, "PMIX_", 5) && strncmp(variable, "PMIX_MCA_", 9);
}

/* World `tcp`: rank 0 inherits a socket that already listens. */
static int add_tcp(const launcher *l, uint32_t rank, char ***env, uint32_t *n) {
    const pst_launch_host_job *h = l->hosts;
    return add_number(env, n, "RANK", (long)(l->first + rank)) &&
           add_number(env, n, "WORLD_SIZE", (long)h->size) &&
           add_number(env, n, "LOCAL_RANK", (long)rank) &&
           add_text(env, n, "MASTER_ADDR", h->address) &&
           add_text(env, n, "MASTER_PORT", h->port) &&
           add_text(env, n, "PENSTOCK_SECRET", h->secret) &&
           (rank || h->listener < 0 || add_number(env, n, "PENSTOCK_LISTEN_FD", h->listener));
}

static int add_elastic(const launcher *l, uint32_t rank, char ***env, uint32_t *n) {
    return add_number(env, n, "PENSTOCK_ELASTIC_FD", l->elastic->fd) &&
           add_number(env, n, "PENSTOCK_ELASTIC_PROCESS", (long)rank);
}

pst_status pst_launch_environment(const launcher *l, uint32_t rank, char ***out) {
    char **env = calloc(1, sizeof *env);
    uint32_t n = 0;
    int ok = env != NULL;
    for (char **at = environ; ok && *at; at++)
        if (!left_by_another(*at)) ok = environment_add(&env, &n, strdup(*at));
    /* UCX patches mmap and related calls when it is loaded, for the registration caches of RDMA,
     * which one host does not need. */
    int alone = !l->hosts || l->hosts->size == l->own_to - l->own_from;
    if (ok && alone && !getenv("UCX_MEM_MMAP_HOOK_MODE"))
        ok = environment_add(&env, &n, strdup("UCX_MEM_MMAP_HOOK_MODE=none"));
    ok = ok && add_number(&env, &n, "PENSTOCK_LAUNCHER", (long)getpid()) &&
         add_number(&env, &n, "PENSTOCK_HEARTBEAT_FD", l->page_fd) &&
         (!l->hosts || l->elastic || add_tcp(l, rank, &env, &n)) &&
         (!l->hosts || add_text(&env, &n, "PENSTOCK_HOST", l->hosts->name)) &&
         (!l->elastic || add_elastic(l, rank, &env, &n));
    pst_status status =
        ok ? PST_OK : pst_fail(PST_ENOMEM, "no memory for rank %u", l->first + rank);
    if (status == PST_OK && l->server) status = pst_server_environment(l->server, rank, &env);
    if (status != PST_OK) pst_launch_environment_free(env);
    else *out = env;
    return status;
}

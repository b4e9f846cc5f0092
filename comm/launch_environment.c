/* See launch_environment.h. */
#include "comm/launch_environment.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void pst_launch_environment_free(char **env) {
    for (char **at = env; at && *at; at++) free(*at);
    free(env);
}

/* Appends a malloc'ed "NAME=value", which may be NULL for lack of memory; 0 then. */
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

static char *variable_of(const char *name, long value) {
    char *text;
    return asprintf(&text, "%s=%ld", name, value) < 0 ? NULL : text;
}

static int left_by_another(const char *variable) {
    int pmix = !strncmp(variable, "PMIX_", 5) && strncmp(variable, "PMIX_MCA_", 9);
    return pmix || !strncmp(variable, "PENSTOCK_LAUNCHER=", 18) || !strncmp(variable, "PENSTOCK_HEARTBEAT_FD=", 22);
}

pst_status pst_launch_environment(pst_server *server, uint32_t rank, int page_fd, char ***out) {
    char **env = calloc(1, sizeof *env);
    uint32_t n = 0;
    int ok = env != NULL;
    for (char **at = environ; ok && *at; at++)
        if (!left_by_another(*at)) ok = environment_add(&env, &n, strdup(*at));
    /* UCX patches mmap and friends when it is loaded, for registration caches that one host does not need. */
    if (ok && !getenv("UCX_MEM_MMAP_HOOK_MODE")) ok = environment_add(&env, &n, strdup("UCX_MEM_MMAP_HOOK_MODE=none"));
    ok = ok && environment_add(&env, &n, variable_of("PENSTOCK_LAUNCHER", (long)getpid())) &&
         environment_add(&env, &n, variable_of("PENSTOCK_HEARTBEAT_FD", page_fd));
    pst_status status =
        ok ? pst_server_environment(server, rank, &env) : pst_fail(PST_ENOMEM, "no memory for rank %u", rank);
    if (status != PST_OK) pst_launch_environment_free(env);
    else *out = env;
    return status;
}

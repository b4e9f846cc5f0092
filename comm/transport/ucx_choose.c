/* See ucx_choose.h. */
#include "comm/transport/ucx_choose.h"
#include "comm/transport/version.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Prefixes of UCX's transport names. RC needs UD to set up connections, and UD also serves very
 * many of them. */
static const struct {
    const char *prefix, *name;
    uint32_t kind;
} families[] = {{"rc_", "rc", PST_UCX_RC}, {"dc_", "dc", PST_UCX_DC}, {"ud_", "ud", PST_UCX_UD}};
enum { N_FAMILY = sizeof families / sizeof *families, RELIABLE = PST_UCX_RC | PST_UCX_DC };

/* --- available resources ---------------------------------------------------------------------- */

/* name: "rc_mlx5/mlx5_0:1". */
static void add_resource(const char *name, pst_ucx_rdma *out) {
    for (int f = 0; f < N_FAMILY; f++) {
        const char *slash = strchr(name, '/');
        if (strncmp(name, families[f].prefix, strlen(families[f].prefix)) || !slash) continue;
        out->kinds |= families[f].kind;
        if (!*out->device)
            snprintf(out->device, sizeof out->device, "%.*s", (int)strcspn(slash + 1, " "),
                     slash + 1);
    }
}

void pst_ucx_rdma_of(const char *resources, int locked, pst_ucx_rdma *out) {
    *out = (pst_ucx_rdma){0};
    for (const char *name = resources; *name; name += strcspn(name, " "), name += *name == ' ')
        add_resource(name, out);
    if (!(out->kinds & RELIABLE))
        snprintf(out->why, sizeof out->why, "UCX finds no InfiniBand or RoCE device");
    else if (!locked)
        snprintf(out->why, sizeof out->why,
                 "RDMA on %s needs locked memory; set ulimit -l unlimited", out->device);
    if (*out->why) out->kinds = 0;
}

/* The kernel has no limit for root. */
static int may_lock(void) {
    struct rlimit limit;
    return !geteuid() || getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY;
}

void pst_ucx_rdma_here(pst_ucx_rdma *out) {
    char resources[1024];
    const char *given = pst_ucx_user_tls();
    if (given) {
        *out = (pst_ucx_rdma){.kinds = PST_UCX_USER_TLS};
        snprintf(out->why, sizeof out->why, "UCX_TLS=%.80s", given);
        return;
    }
    pst_comm_ucx_resources(resources, sizeof resources);
    pst_ucx_rdma_of(resources, may_lock(), out);
}

/* --- chosen transports ------------------------------------------------------------------------ */

/* On one host, CMA moves a large message in one poll, and shared memory moves small ones. TCP stays
 * in the list beside RDMA, for hosts that RDMA does not connect. `cuda` is UCX's name for all of
 * its GPU transports; UCX ignores those that it lacks. */
void pst_ucx_transports(int local, uint32_t rdma, int cuda, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = 0;
    for (int f = 0; f < N_FAMILY && !local; f++)
        if (rdma & families[f].kind)
            used += (size_t)snprintf(text + used, bytes - used, "%s,", families[f].name);
    snprintf(text + used, bytes - used, "%s%s", local ? "posix,self,cma" : "tcp,self,posix,cma",
             cuda ? ",cuda" : "");
}

int pst_ucx_only_tcp(const char *tls) {
    static const char *const rdma[] = {"rc", "dc", "ud_", "ib", "all", "^"};
    for (size_t i = 0; i < sizeof rdma / sizeof *rdma; i++)
        if (strstr(tls, rdma[i])) return 0;
    return strstr(tls, "tcp") != NULL;
}

typedef struct {
    char host[64];
    pst_ucx_rdma rdma;
} rank_rdma;

/* Reads what `rank` has published. EPEER: that rank has failed. */
static pst_status get_rank(pst_world *w, uint32_t rank, rank_rdma *out) {
    void *value;
    size_t bytes;
    PST_TRY(w->ops->get(w, rank, "penstock.ucx.rdma", &value, &bytes));
    if (bytes == sizeof *out) memcpy(out, value, sizeof *out);
    free(value);
    return bytes == sizeof *out ? PST_OK
                                : pst_fail(PST_EPEER, "rank %u could not open transport ucx", rank);
}

pst_status pst_ucx_agree(pst_world *w, const pst_ucx_rdma *mine, uint32_t *common, char *why) {
    rank_rdma own = {.rdma = *mine}, other;
    uint32_t all = PST_UCX_RC | PST_UCX_DC | PST_UCX_UD;
    snprintf(own.host, sizeof own.host, "%s", w->host);
    snprintf(why, PST_UCX_WHY, "all ranks have RDMA; this rank uses %s", mine->device);
    PST_TRY(w->ops->put(w, "penstock.ucx.rdma", &own, sizeof own));
    PST_TRY(w->ops->fence(w));
    for (uint32_t r = 0; r < w->size && all; r++) {
        PST_TRY(get_rank(w, r, &other));
        if (other.rdma.kinds & PST_UCX_USER_TLS) continue;
        all &= other.rdma.kinds;
        if (!(all & RELIABLE)) {
            all = 0;
            snprintf(why, PST_UCX_WHY, "rank %u on %s: %s", r, other.host,
                     *other.rdma.why ? other.rdma.why
                                     : "its kind of RDMA differs from that of lower ranks");
        }
    }
    if (mine->kinds & PST_UCX_USER_TLS) snprintf(why, PST_UCX_WHY, "%s", mine->why);
    *common = all;
    return PST_OK;
}

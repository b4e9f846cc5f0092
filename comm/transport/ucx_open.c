/* Opening and closing transport `ucx`: UCX's context and worker, and the peers' addresses through
 * the world. */
#include "base/log.h"
#include "comm/transport/ucx_choose.h"
#include "comm/transport/ucx_guard.h"
#include "comm/transport/ucx_parts.h"
#include "comm/world/secret.h"
#include "comm/world/world.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>
#include <unistd.h>

/* Signals of a crash: UCX may print its diagnosis for those if the user has asked for it. */
static int is_crash(int number) {
    static const int crash[] = {SIGSEGV, SIGILL, SIGBUS, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof crash / sizeof *crash; i++)
        if (crash[i] == number) return 1;
    return 0;
}

static int is_of_ucx(int number) {
    struct sigaction now;
    Dl_info at;
    if (sigaction(number, NULL, &now) || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)
        return 0;
    return dladdr(*(void **)&now.sa_handler, &at) && at.dli_fname && strstr(at.dli_fname, "libucs");
}

/* Disables signal handlers that UCX installs when it is loaded: for crashes, and for
 * UCX_DEBUG_SIGNO (SIGHUP). They run on the stack of the computing thread, where oneDNN keeps live
 * data below the stack pointer, and they replace the previous action: a SIGHUP that was ignored
 * (nohup) would no longer be ignored in the started ranks. UCX's variables can change which signals
 * it handles, so every signal is checked. */
static void undo_handlers(void) {
    int explains = getenv("UCX_HANDLE_ERRORS") || getenv("UCX_ERROR_SIGNALS");
    for (int number = 1; number < NSIG; number++)
        if (!(explains && is_crash(number)) && is_of_ucx(number)) ucs_debug_disable_signal(number);
}

/* Runs after UCX's own libraries have been loaded. */
__attribute__((constructor)) static void undo_handlers_when_loaded(void) { undo_handlers(); }

/* UCX has read its variables when it was loaded; this undoes its default effects on the host
 * program. */
void pst_ucx_undo_defaults(void) {
    if (!getenv("UCX_LOG_LEVEL")) ucs_global_opts_set_value("LOG_LEVEL", "error");
    if (!getenv("UCX_WARN_UNUSED_ENV_VARS")) ucs_global_opts_set_value("WARN_UNUSED_ENV_VARS", "n");
    undo_handlers();
    if (getenv("UCX_HANDLE_ERRORS") || getenv("UCX_ERROR_SIGNALS")) return;
    ucs_global_opts_set_value("HANDLE_ERRORS", "none");
}

pst_status pst_ucx_fail(pst_status status, const char *what, ucs_status_t rc) {
    return pst_fail(rc == UCS_ERR_NO_MEMORY ? PST_ENOMEM : status, "UCX cannot %s: %s", what,
                    ucs_status_string(rc));
}

static int wants_cuda;

void pst_transport_ucx_cuda(int wanted) { wants_cuda = wanted; }

/* Which kinds of memory UCX's transports can reach; a UCX without CUDA support does not know
 * CUDA's. */
static void find_cuda(pst_ucx *u) {
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    u->cuda = wants_cuda && ucp_context_query(u->context, &attr) == UCS_OK &&
              attr.memory_types >> UCS_MEMORY_TYPE_CUDA & 1;
}

enum { TRANSPORTS = 64 };

/* Collective. */
static pst_status choose(pst_world *world, char transports[TRANSPORTS]) {
    pst_ucx_rdma mine;
    uint32_t common = 0;
    char why[PST_UCX_WHY] = "all ranks are on one host";
    int local = world->local_size == world->size;
    if (!local) {
        pst_ucx_rdma_here(&mine);
        pst_ucx_undo_defaults(); /* pst_ucx_rdma_here has changed UCX's log level */
        PST_TRY(pst_ucx_agree(world, &mine, &common, why));
        if (!mine.kinds && *mine.device && world->local_rank == 0)
            pst_log(PST_LOG_WARN, "messages to other hosts go over TCP: %s", mine.why);
    }
    pst_ucx_transports(local, common, wants_cuda, transports, TRANSPORTS);
    pst_log(PST_LOG_DEBUG, "UCX transports: %s (%s)",
            pst_ucx_user_tls() ? pst_ucx_user_tls() : transports,
            pst_ucx_user_tls() ? "UCX_TLS" : why);
    return PST_OK;
}

/* Over TCP, messages up to this size are sent without asking the receiver first. The answer of the
 * receiver would wait in the queue of a slow link behind the data that go the same way: at 100
 * Mbit/s both ways a step took 1.36 times as long. Larger ones ask, because a receiver that is not
 * ready keeps what was not asked for in memory. */
static const char tcp_asks_from[] = "16m";

static ucs_status_t configure(ucp_config_t *config, const char *transports) {
    const char *user = pst_ucx_user_tls();
    ucs_status_t rc = user ? UCS_OK : ucp_config_modify(config, "TLS", transports);
    if (rc == UCS_OK && pst_ucx_only_tcp(user ? user : transports) && !getenv("UCX_RNDV_THRESH"))
        rc = ucp_config_modify(config, "RNDV_THRESH", tcp_asks_from);
    return rc;
}

static pst_status open_context(pst_ucx *u, const pst_world *world, const char *transports) {
    ucp_config_t *config;
    ucs_status_t rc = ucp_config_read(NULL, NULL, &config);
    if (rc != UCS_OK) return pst_ucx_fail(PST_EINPUT, "read the UCX_ environment variables", rc);
    rc = configure(config, transports);
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                      UCP_PARAM_FIELD_ESTIMATED_NUM_PPN,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = world->size,
        .estimated_num_ppn = world->local_size,
    };
    if (rc == UCS_OK) rc = ucp_init(&params, config, &u->context);
    undo_handlers(); /* handlers of libraries that this may have loaded */
    ucp_config_release(config);
    if (rc != UCS_OK) return pst_ucx_fail(PST_ENOMEM, "start", rc);
    find_cuda(u);
    return PST_OK;
}

/* UCX's segments have a name for a moment while it creates them. A rank that died together with its
 * launcher just then would leave them behind, so it is killed only afterwards. */
static ucs_status_t create_worker(pst_ucx *u) {
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    pid_t parent = getppid();
    int death = 0;
    if (prctl(PR_GET_PDEATHSIG, &death)) death = 0;
    if (death) prctl(PR_SET_PDEATHSIG, 0);
    ucs_status_t rc = ucp_worker_create(u->context, &params, &u->worker);
    if (death) prctl(PR_SET_PDEATHSIG, death);
    if (death && getppid() != parent) raise(death);
    return rc;
}

/* The ranks of a host exchange messages through files in /dev/shm; UCX does not report what is
 * wrong there. */
static pst_status fail_worker(ucs_status_t rc, const pst_world *world) {
    enum { MIB_PER_RANK = 5 };
    struct statvfs shm;
    if (world->local_size > 1 && !statvfs("/dev/shm", &shm)) {
        double mib = (double)shm.f_bavail * (double)shm.f_frsize / 0x1p20;
        int read_only = (shm.f_flag & ST_RDONLY) != 0;
        if (read_only || mib < MIB_PER_RANK)
            return pst_fail(PST_ENOMEM,
                            "/dev/shm %s, but each of %u ranks needs %d MiB there: mount -o "
                            "remount,rw,size=1g /dev/shm, in a container --shm-size=1g",
                            read_only ? "is read-only" : "is full", world->local_size,
                            MIB_PER_RANK);
    }
    return pst_ucx_fail(PST_ENOMEM, "open a worker (run penstock doctor to see what is missing)",
                        rc);
}

static pst_status open_worker(pst_ucx *u, const pst_world *world) {
    ucs_status_t rc = create_worker(u);
    if (rc != UCS_OK) return fail_worker(rc, world);
    rc = ucp_worker_get_efd(u->worker, &u->fd);
    return rc == UCS_OK ? PST_OK : pst_ucx_fail(PST_ENOMEM, "open a wake-up descriptor", rc);
}

/* Publishes UCX's address and a byte that says whether UCX reaches CUDA memory; or an empty value
 * if this rank has failed. */
static pst_status publish_address(pst_ucx *u, pst_world *world, pst_status mine) {
    ucp_address_t *address;
    size_t bytes;
    if (mine != PST_OK) return world->ops->put(world, "penstock.ucx", "", 0);
    ucs_status_t rc = ucp_worker_get_address(u->worker, &address, &bytes);
    if (rc != UCS_OK) return pst_ucx_fail(PST_ENOMEM, "get the address of its worker", rc);
    uint8_t *both = malloc(bytes + 1);
    if (both) {
        memcpy(both, address, bytes);
        both[bytes] = u->cuda;
    }
    ucp_worker_release_address(u->worker, address);
    pst_status status = both ? world->ops->put(world, "penstock.ucx", both, bytes + 1)
                             : pst_fail(PST_ENOMEM, "no memory for UCX's address");
    free(both);
    return status;
}

/* Rank 0 draws the mask; only ranks of this job can get it from the world. */
static pst_status publish_mask(pst_world *world) {
    uint64_t mask;
    if (world->rank) return PST_OK;
    PST_TRY(pst_secret_random(&mask, sizeof mask));
    return world->ops->put(world, "penstock.ucx.mask", &mask, sizeof mask);
}

static pst_status fetch_mask(pst_ucx *u, pst_world *world) {
    void *mask;
    size_t bytes;
    PST_TRY(world->ops->get(world, 0, "penstock.ucx.mask", &mask, &bytes));
    if (bytes == sizeof u->mask) memcpy(&u->mask, mask, bytes);
    free(mask);
    return bytes == sizeof u->mask ? PST_OK
                                   : pst_fail(PST_EPEER, "rank 0 could not open transport ucx");
}

__attribute__((noinline)) static ucs_status_t
create_endpoint(pst_ucx *u, const ucp_ep_params_t *params, ucp_ep_h *ep) {
    if (PST_UCX_GUARD()) {
        u->aborted = u->lost = 1;
        return UCS_ERR_CONNECTION_RESET;
    }
    ucs_status_t rc = ucp_ep_create(u->worker, params, ep);
    pst_ucx_guard_end();
    return rc;
}

static pst_status connect_rank(pst_ucx *u, pst_world *world, uint32_t rank) {
    void *address;
    size_t bytes;
    PST_TRY(world->ops->get(world, rank, "penstock.ucx", &address, &bytes));
    if (!bytes) {
        free(address);
        return pst_fail(PST_EPEER, "rank %u could not open transport ucx", rank);
    }
    u->base.reaches_cuda &= ((const uint8_t *)address)[bytes - 1];
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .address = address,
                              .err_mode = UCP_ERR_HANDLING_MODE_NONE};
    ucs_status_t rc = create_endpoint(u, &params, &u->ep[rank]);
    free(address);
    if (rc == UCS_OK) return PST_OK;
    u->ep[rank] = NULL;
    char what[64];
    snprintf(what, sizeof what, "connect to rank %u", rank);
    return pst_ucx_fail(PST_EPEER, what, rc);
}

/* Connects all peers between two fences, so that no rank leaves while another one still wants to
 * map its memory. A rank that has failed before (mine) or fails between takes part in both. */
static pst_status connect_all(pst_ucx *u, pst_world *world, pst_status mine) {
    pst_status common = publish_mask(world);
    if (common == PST_OK) common = publish_address(u, world, mine);
    if (common == PST_OK) common = world->ops->fence(world);
    if (common != PST_OK) return mine != PST_OK ? mine : common;
    if (mine == PST_OK) mine = fetch_mask(u, world);
    u->base.reaches_cuda = u->cuda;
    for (uint32_t i = 0; mine == PST_OK && i < world->size; i++) mine = connect_rank(u, world, i);
    return pst_world_agree(world, "penstock.ucx.open", mine);
}

pst_status pst_ucx_connect(pst_ucx *u, pst_world *world, pst_status mine) {
    char transports[TRANSPORTS];
    pst_status common = choose(world, transports);
    if (common != PST_OK) return mine != PST_OK ? mine : common;
    if (mine == PST_OK) mine = open_context(u, world, transports);
    if (mine == PST_OK) mine = open_worker(u, world);
    return connect_all(u, world, mine);
}

/* Destroys its endpoints too, without asking a peer. */
__attribute__((noinline)) static void destroy_worker(pst_ucx *u) {
    if (PST_UCX_GUARD()) {
        u->aborted = 1;
        return;
    }
    ucp_worker_destroy(u->worker);
    pst_ucx_guard_end();
}

/* A worker that still waits for a dead peer, or in which UCX has aborted, is leaked until the
 * process ends: UCX cannot free it without the risk of a hang. It is never progressed again, so it
 * does not touch our memory. */
void pst_ucx_release(pst_ucx *u) {
    static pst_ucx *leaked;
    if (u->worker && !u->aborted) destroy_worker(u);
    if (u->aborted) {
        u->next_leaked = leaked;
        leaked = u;
        return;
    }
    if (u->context) ucp_cleanup(u->context);
    for (pst_ucx_request *r = u->all, *next; r; r = next) {
        next = r->all;
        free(r);
    }
    free(u->ep);
    free(u);
}

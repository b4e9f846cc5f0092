/* The embedded PMIx server. All ranks are on this host, so a fence only returns the data that
 * libpmix has collected, and no other host is ever asked. */
#include "comm/launch/server.h"
#include "comm/world/secret.h"
#include <inttypes.h>
#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct pst_server {
    uint32_t n;
    pmix_nspace_t job;
    int registered;
    int abort_fd;
    int aborted, exit_status;
    uint32_t abort_rank;
    char why[256];
};

/* libpmix's callbacks get no context from us, run in its own thread, and may come late. */
static pst_server *current;
/* guards `current`, and what on_abort writes */
static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER;

enum { CLOSE_S = 2 };

/* --- waiting for an operation of libpmix ------------------------------------------------------ */

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int done;
    pmix_status_t rc;
} waiter;

static void waiter_done(pmix_status_t rc, void *arg) {
    waiter *w = arg;
    pthread_mutex_lock(&w->lock);
    w->done = 1;
    w->rc = rc;
    pthread_cond_signal(&w->change);
    pthread_mutex_unlock(&w->lock);
}

static pmix_status_t waiter_finish(waiter *w, pmix_status_t rc) {
    if (rc == PMIX_OPERATION_SUCCEEDED) rc = PMIX_SUCCESS;
    else if (rc == PMIX_SUCCESS) {
        pthread_mutex_lock(&w->lock);
        while (!w->done) pthread_cond_wait(&w->change, &w->lock);
        rc = w->rc;
        pthread_mutex_unlock(&w->lock);
    }
    return rc;
}

/* Waits at most CLOSE_S; 0: libpmix has not called back yet, and may still do so. */
static int waiter_is_done(waiter *w) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_S;
    pthread_mutex_lock(&w->lock);
    int late = 0;
    while (!w->done && !late) late = pthread_cond_timedwait(&w->change, &w->lock, &until);
    int done = w->done;
    pthread_mutex_unlock(&w->lock);
    return done;
}

#define WAITER                                                                                     \
    { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, PMIX_SUCCESS }

/* --- callbacks of libpmix --------------------------------------------------------------------- */

static pmix_status_t on_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[],
                                  size_t n_info, pmix_op_cbfunc_t done, void *arg) {
    (void)proc;
    (void)object;
    (void)info;
    (void)n_info;
    (void)done;
    (void)arg;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done,
                                  void *arg) {
    (void)proc;
    (void)object;
    (void)done;
    (void)arg;
    return PMIX_OPERATION_SUCCEEDED;
}

/* Records the first request only; the launcher ends the job. */
static pmix_status_t on_abort(const pmix_proc_t *proc, void *object, int exit_status,
                              const char why[], pmix_proc_t procs[], size_t n_proc,
                              pmix_op_cbfunc_t done, void *arg) {
    (void)object;
    (void)procs;
    (void)n_proc;
    (void)done;
    (void)arg;
    pthread_mutex_lock(&current_lock);
    pst_server *s = current;
    if (s && !s->aborted && PMIX_CHECK_NSPACE(proc->nspace, s->job)) {
        s->aborted = 1;
        s->abort_rank = proc->rank;
        s->exit_status = exit_status;
        snprintf(s->why, sizeof s->why, "%s", why ? why : "");
        eventfd_write(s->abort_fd, 1);
    }
    pthread_mutex_unlock(&current_lock);
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_fence(const pmix_proc_t procs[], size_t n_proc, const pmix_info_t info[],
                              size_t n_info, char *data, size_t bytes, pmix_modex_cbfunc_t done,
                              void *arg) {
    (void)procs;
    (void)n_proc;
    (void)info;
    (void)n_info;
    if (done) done(PMIX_SUCCESS, data, bytes, arg, free, data);
    return PMIX_SUCCESS;
}

/* Data of ranks on other hosts: there are none. */
static pmix_status_t on_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t n_info,
                              pmix_modex_cbfunc_t done, void *arg) {
    (void)proc;
    (void)info;
    (void)n_info;
    if (done) done(PMIX_ERR_NOT_FOUND, NULL, 0, arg, NULL, NULL);
    return PMIX_SUCCESS;
}

/* --- open ------------------------------------------------------------------------------------- */

/* libpmix writes a file only so that tools find the server. No tool needs it, and a file that
 * cannot be created cannot be left behind when the launcher is killed. */
#define NO_FOLDER "/dev/null/penstock"

/* libpmix is started once per process and stays: it does not work when it is finalized and started
 * again (4.2: its listener dies). */
static pst_status start_library(void) {
    static int started;
    static pmix_server_module_t module = {
        .client_connected2 = on_connected,
        .client_finalized = on_finalized,
        .abort = on_abort,
        .fence_nb = on_fence,
        .direct_modex = on_modex,
    };
    if (started) return PST_OK;
    /* Values travel over the connection, without further shared files. Settings of the user win. */
    setenv("PMIX_MCA_gds", "hash", 0);
    setenv("PMIX_MCA_psec", "native", 0);
    pmix_info_t info[2];
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TMPDIR, NO_FOLDER, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_SYSTEM_TMPDIR, NO_FOLDER, PMIX_STRING);
    pmix_status_t rc = PMIx_server_init(&module, info, 2);
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    if (rc != PMIX_SUCCESS)
        return pst_fail(PST_ENOMEM, "cannot start the PMIx server: %s", PMIx_Error_string(rc));
    started = 1;
    return PST_OK;
}

/* "0,1,2", malloc'ed. */
static char *rank_list(uint32_t n) {
    char *text = malloc(11 * (size_t)n + 1), *at = text;
    for (uint32_t i = 0; text && i < n; i++) at += sprintf(at, i ? ",%u" : "%u", i);
    return text;
}

/* Returns 0 when there is no memory. */
static int describe_rank(pmix_info_t *out, uint32_t rank) {
    uint16_t local = (uint16_t)rank;
    uint32_t zero = 0;
    pmix_rank_t r = rank;
    pmix_data_array_t *array;
    PMIX_DATA_ARRAY_CREATE(array, 5, PMIX_INFO);
    if (!array || !array->array) {
        free(array);
        return 0;
    }
    pmix_info_t *info = array->array;
    PMIX_INFO_LOAD(&info[0], PMIX_RANK, &r, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&info[1], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
    PMIX_INFO_LOAD(&info[2], PMIX_NODE_RANK, &local, PMIX_UINT16);
    PMIX_INFO_LOAD(&info[3], PMIX_NODEID, &zero, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[4], PMIX_APPNUM, &zero, PMIX_UINT32);
    PMIX_LOAD_KEY(out->key, PMIX_PROC_INFO_ARRAY);
    out->value.type = PMIX_DATA_ARRAY;
    out->value.data.darray = array; /* freed with the info */
    return 1;
}

static pst_status register_job(pst_server *s, const char *host) {
    enum { JOB_KEYS = 7 };
    char *peers = rank_list(s->n), *nodes = NULL, *places = NULL;
    size_t n_info = JOB_KEYS + s->n;
    pmix_info_t *info = NULL;
    PMIX_INFO_CREATE(info, n_info);
    pst_status status = PST_ENOMEM;
    uint32_t n = 0;
    while (info && n < s->n && describe_rank(&info[JOB_KEYS + n], n)) n++;
    if (!peers || n < s->n || PMIx_generate_regex(host, &nodes) != PMIX_SUCCESS ||
        PMIx_generate_ppn(peers, &places) != PMIX_SUCCESS) {
        pst_fail(status, "no memory to describe %u ranks", s->n);
        goto out;
    }
    PMIX_INFO_LOAD(&info[0], PMIX_JOB_SIZE, &s->n, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[1], PMIX_UNIV_SIZE, &s->n, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[2], PMIX_MAX_PROCS, &s->n, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[3], PMIX_LOCAL_SIZE, &s->n, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[4], PMIX_LOCAL_PEERS, peers, PMIX_STRING);
    PMIX_INFO_LOAD(&info[5], PMIX_NODE_MAP, nodes, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[6], PMIX_PROC_MAP, places, PMIX_REGEX);
    waiter w = WAITER;
    pmix_status_t rc =
        PMIx_server_register_nspace(s->job, (int)s->n, info, n_info, waiter_done, &w);
    rc = waiter_finish(&w, rc);
    s->registered = rc == PMIX_SUCCESS;
    status = rc == PMIX_SUCCESS ? PST_OK
                                : pst_fail(PST_EINTERNAL, "PMIx did not register the job: %s",
                                           PMIx_Error_string(rc));
out:
    if (info) PMIX_INFO_FREE(info, n_info);
    free(peers);
    free(nodes);
    free(places);
    return status;
}

static pst_status register_ranks(pst_server *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        pmix_proc_t proc;
        PMIX_LOAD_PROCID(&proc, s->job, i);
        waiter w = WAITER;
        pmix_status_t rc =
            PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, waiter_done, &w);
        rc = waiter_finish(&w, rc);
        if (rc != PMIX_SUCCESS)
            return pst_fail(PST_EINTERNAL, "PMIx did not register rank %u: %s", i,
                            PMIx_Error_string(rc));
    }
    return PST_OK;
}

pst_status pst_server_open(uint32_t n, const char *host, pst_server **server) {
    if (current)
        return pst_fail(PST_EINTERNAL,
                        "this process already runs a job; only one at a time is possible");
    pst_server *s = calloc(1, sizeof *s);
    if (!s) return pst_fail(PST_ENOMEM, "no memory for the launcher");
    s->n = n;
    pthread_mutex_lock(&current_lock);
    current = s;
    pthread_mutex_unlock(&current_lock);
    /* a process can only join if it knows this name, which only our ranks get in their
     * environment */
    uint64_t id;
    pst_status status = pst_secret_random(&id, sizeof id);
    snprintf(s->job, sizeof s->job, "penstock-%d-%016" PRIx64, (int)getpid(), id);
    s->abort_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (status == PST_OK && s->abort_fd < 0)
        status = pst_fail(PST_ENOMEM, "cannot open an event descriptor for the launcher: %m");
    if (status == PST_OK) status = start_library();
    if (status == PST_OK) status = register_job(s, host);
    if (status == PST_OK) status = register_ranks(s);
    if (status != PST_OK) {
        pst_server_close(s);
        return status;
    }
    *server = s;
    return PST_OK;
}

/* --- use and close ---------------------------------------------------------------------------- */

pst_status pst_server_environment(pst_server *s, uint32_t rank, char ***env) {
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, s->job, rank);
    pmix_status_t rc = PMIx_server_setup_fork(&proc, env);
    if (rc != PMIX_SUCCESS)
        return pst_fail(PST_ENOMEM, "PMIx did not set up the environment of rank %u: %s", rank,
                        PMIx_Error_string(rc));
    return PST_OK;
}

int pst_server_abort_fd(const pst_server *s) { return s->abort_fd; }

int pst_server_aborted(pst_server *s, uint32_t *rank, int *exit_status, char *why, uint32_t bytes) {
    pthread_mutex_lock(&current_lock);
    int aborted = s->aborted;
    if (aborted) {
        *rank = s->abort_rank;
        *exit_status = s->exit_status;
        snprintf(why, bytes, "%s", s->why);
    }
    pthread_mutex_unlock(&current_lock);
    eventfd_t ignored;
    eventfd_read(s->abort_fd, &ignored);
    return aborted;
}

/* If a rank was killed while it connected, libpmix's thread may never call back; the job is over
 * then, so do not wait longer. Leave the waiter allocated for a late callback. */
static void deregister(pst_server *s) {
    waiter *w = malloc(sizeof *w);
    if (!w) return;
    *w = (waiter)WAITER;
    PMIx_server_deregister_nspace(s->job, waiter_done, w);
    if (waiter_is_done(w)) free(w);
}

void pst_server_close(pst_server *s) {
    if (!s) return;
    if (s->registered) deregister(s);
    pthread_mutex_lock(&current_lock); /* with the lock, no callback can be using it */
    current = NULL;
    pthread_mutex_unlock(&current_lock);
    if (s->abort_fd >= 0) close(s->abort_fd);
    free(s);
}

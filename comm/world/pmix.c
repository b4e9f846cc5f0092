/* World `pmix`: ranks that were started by our own launcher, mpirun or srun --mpi=pmix. */
#include "comm/world/world.h"
#include "base/plural.h"
#include <errno.h>
#include <pmix.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    pst_world base;
    pmix_proc_t me;
    int dirty;    /* 1: values were put since the last commit */
    int met;      /* 1: all ranks have passed a fence */
    char key[64]; /* key of the first value put */
} pmix_world;

static uint32_t join_seconds; /* 0: no limit */

static const char *pmix_reject(void) {
    if (getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK")) return NULL;
    return "this process was not started by a PMIx launcher (penstock -n, mpirun, srun --mpi=pmix)";
}

/* A number that the launcher publishes about the whole job (rank wildcard) or about this
 * process. */
static pst_status job_number(const pmix_world *w, int whole_job, const char *key,
                             uint32_t *number) {
    pmix_proc_t who;
    PMIX_LOAD_PROCID(&who, w->me.nspace, whole_job ? PMIX_RANK_WILDCARD : w->me.rank);
    pmix_value_t *value = NULL;
    pmix_status_t rc = PMIx_Get(&who, key, NULL, 0, &value);
    if (rc != PMIX_SUCCESS)
        return pst_fail(PST_EINTERNAL, "the PMIx server of the launcher does not provide %s: %s",
                        key, PMIx_Error_string(rc));
    pst_status status = PST_OK;
    if (value->type == PMIX_UINT32) *number = value->data.uint32;
    else if (value->type == PMIX_UINT16) *number = value->data.uint16;
    else if (value->type == PMIX_PROC_RANK) *number = value->data.rank;
    else if (value->type == PMIX_INT) *number = (uint32_t)value->data.integer;
    else
        status =
            pst_fail(PST_EINTERNAL,
                     "the PMIx server of the launcher provides a %s that is not a number", key);
    PMIX_VALUE_RELEASE(value);
    return status;
}

/* The name of Slurm's node if Slurm started this rank: several nodes may be on one machine. */
static void name_host(pmix_world *w) {
    pst_world *b = &w->base;
    const char *node = getenv("SLURMD_NODENAME");
    if (node && !strncmp(w->me.nspace, "slurm.", 6)) snprintf(b->host, sizeof b->host, "%s", node);
    else if (gethostname(b->host, sizeof b->host - 1)) strcpy(b->host, "localhost");
}

static pst_status describe(pmix_world *w) {
    pst_world *b = &w->base;
    b->rank = w->me.rank;
    PST_TRY(job_number(w, 1, PMIX_JOB_SIZE, &b->size));
    if (job_number(w, 0, PMIX_LOCAL_RANK, &b->local_rank) != PST_OK ||
        job_number(w, 1, PMIX_LOCAL_SIZE, &b->local_size) != PST_OK) {
        if (b->size > 1) return PST_EINTERNAL;
        b->local_rank = 0;
        b->local_size = 1;
    }
    if (b->rank >= b->size || b->local_rank >= b->local_size)
        return pst_fail(PST_EINTERNAL,
                        "the launcher assigned invalid numbers to this process: rank %u of %u, "
                        "local rank %u of %u",
                        b->rank, b->size, b->local_rank, b->local_size);
    name_host(w);
    snprintf(b->job, sizeof b->job, "%s", w->me.nspace);
    b->launched_by_us = getenv("PENSTOCK_LAUNCHER") != NULL;
    return PST_OK;
}

static pst_status pmix_open(pst_world **world) {
    pmix_world *w = calloc(1, sizeof *w);
    if (!w) return pst_fail(PST_ENOMEM, "no memory to join the job");
    w->base.ops = &pst_world_pmix;
    pmix_status_t rc = PMIx_Init(&w->me, NULL, 0);
    if (rc != PMIX_SUCCESS) {
        free(w);
        return pst_fail(PST_EINTERNAL, "cannot reach the launcher that started this process: %s",
                        PMIx_Error_string(rc));
    }
    pst_status status = describe(w);
    if (status != PST_OK) {
        PMIx_Finalize(NULL, 0);
        free(w);
        return status;
    }
    *world = &w->base;
    return PST_OK;
}

static pst_status pmix_put(pst_world *world, const char *key, const void *bytes, size_t n) {
    pmix_world *w = (pmix_world *)world;
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    value.data.bo.bytes = (char *)bytes; /* PMIx_Put copies */
    value.data.bo.size = n;
    pmix_status_t rc = PMIx_Put(PMIX_GLOBAL, key, &value);
    if (rc != PMIX_SUCCESS)
        return pst_fail(PST_EINTERNAL, "cannot publish %s: %s", key, PMIx_Error_string(rc));
    w->dirty = 1;
    if (!*w->key) snprintf(w->key, sizeof w->key, "%s", key);
    return PST_OK;
}

/* Under our own launcher, ranks fail to meet only when one of them is gone, and the launcher says
 * which. The others clear their message, which would only blame each other. */
static pst_status fail_others(const pmix_world *w, pst_status status) {
    if (w->base.launched_by_us) pst_error_clear();
    return status;
}

static pst_status pmix_get(pst_world *world, uint32_t rank, const char *key, void **bytes,
                           size_t *n) {
    pmix_world *w = (pmix_world *)world;
    pmix_proc_t who;
    PMIX_LOAD_PROCID(&who, w->me.nspace, rank);
    pmix_value_t *value = NULL;
    pmix_status_t rc = PMIx_Get(&who, key, NULL, 0, &value);
    if (rc != PMIX_SUCCESS)
        return fail_others(w, pst_fail(PST_EPEER, "rank %u has not published %s: %s", rank, key,
                                       PMIx_Error_string(rc)));
    pst_status status = PST_OK;
    void *copy = NULL;
    if (value->type != PMIX_BYTE_OBJECT)
        status = pst_fail(PST_EINTERNAL, "%s of rank %u is not a byte object", key, rank);
    else if (!(copy = malloc(value->data.bo.size + 1)))
        status = pst_fail(PST_ENOMEM, "no memory for %s", key);
    if (status == PST_OK) {
        *n = value->data.bo.size;
        if (*n) memcpy(copy, value->data.bo.bytes, *n);
        *bytes = copy;
    }
    PMIX_VALUE_RELEASE(value);
    return status;
}

void pst_world_pmix_wait(uint32_t seconds) { join_seconds = seconds; }

/* Lists ranks that have not published anything, at most four, because each query of a missing one
 * takes a second. The lowest rank that has joined returns first and reports this; the launcher ends
 * the others before they repeat it. */
static pst_status fail_missing(const pmix_world *w) {
    char text[64] = "";
    size_t used = 0;
    uint32_t n = 0;
    int lower = 0;
    for (uint32_t r = 0; r < w->base.size && n < 4; r++) {
        pmix_proc_t who;
        pmix_info_t info;
        pmix_value_t *value = NULL;
        int second = 1;
        PMIX_LOAD_PROCID(&who, w->me.nspace, r);
        PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &second, PMIX_INT);
        pmix_status_t rc = PMIx_Get(&who, w->key, &info, 1, &value);
        lower |= rc == PMIX_SUCCESS && r < w->base.rank;
        if (rc == PMIX_SUCCESS) PMIX_VALUE_RELEASE(value);
        else used += (size_t)snprintf(text + used, sizeof text - used, "%s%u", n++ ? ", " : "", r);
        PMIX_INFO_DESTRUCT(&info);
    }
    if (lower) sleep(2);
    return pst_fail(PST_EPEER,
                    "not all of %u ranks have joined within %u s (parallel.wait): rank%s %s%s",
                    w->base.size, join_seconds, pst_plural(n), n ? text : "unknown",
                    n == 4 ? " and perhaps more" : "");
}

static sem_t arrival; /* must outlive a fence that timed out */
static pmix_status_t arrival_rc;

static void on_met(pmix_status_t rc, void *arg) {
    (void)arg;
    arrival_rc = rc;
    sem_post(&arrival);
}

/* The first fence, with a time limit: EPEER after it; else *rc is the fence's. */
static pst_status first_fence(pmix_world *w, pmix_info_t *info, pmix_status_t *rc) {
    struct timespec until;
    int late = 0;
    sem_init(&arrival, 0, 0);
    *rc = PMIx_Fence_nb(NULL, 0, info, 1, on_met, NULL);
    if (*rc != PMIX_SUCCESS) return PST_OK;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += join_seconds;
    while (!late && sem_clockwait(&arrival, CLOCK_MONOTONIC, &until)) late = errno == ETIMEDOUT;
    if (late) return fail_missing(w);
    *rc = arrival_rc;
    return PST_OK;
}

static pst_status pmix_fence(pst_world *world) {
    pmix_world *w = (pmix_world *)world;
    pmix_status_t rc = w->dirty ? PMIx_Commit() : PMIX_SUCCESS;
    if (rc == PMIX_SUCCESS) {
        pmix_info_t info;
        bool collect = true;
        PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
        pst_status status = PST_OK;
        if (w->met || !join_seconds) rc = PMIx_Fence(NULL, 0, &info, 1);
        else status = first_fence(w, &info, &rc);
        PMIX_INFO_DESTRUCT(&info);
        PST_TRY(status);
    }
    if (rc != PMIX_SUCCESS)
        return fail_others(w, pst_fail(PST_EPEER, "the fence of job %s failed: %s", world->job,
                                       PMIx_Error_string(rc)));
    w->dirty = 0;
    w->met = 1;
    return PST_OK;
}

static void pmix_abort(pst_world *world, int exit_status, const char *why) {
    (void)world;
    PMIx_Abort(exit_status, why ? why : "aborted", NULL, 0);
}

/* Without PMIX_EMBED_BARRIER, finalize waits only for the launcher, at most two seconds. */
static void pmix_close(pst_world *world) {
    PMIx_Finalize(NULL, 0);
    free(world);
}

const pst_world_ops pst_world_pmix = {
    .name = "pmix",
    .reject = pmix_reject,
    .open = pmix_open,
    .put = pmix_put,
    .get = pmix_get,
    .fence = pmix_fence,
    .abort = pmix_abort,
    .close = pmix_close,
};

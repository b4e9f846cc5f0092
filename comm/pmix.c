/* World `pmix`: the ranks that our own launcher, mpirun or srun --mpi=pmix started. */
#include "comm/world.h"
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    pst_world base;
    pmix_proc_t me;
    int dirty; /* values were put since the last commit */
} pmix_world;

static const char *pmix_reject(void) {
    if (getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK")) return NULL;
    return "no PMIx launcher started this process (mpirun, srun --mpi=pmix and -n do)";
}

/* A number that the launcher published about the whole job (rank wildcard) or about this process. */
static pst_status job_number(const pmix_world *w, int whole_job, const char *key, uint32_t *number) {
    pmix_proc_t who;
    PMIX_LOAD_PROCID(&who, w->me.nspace, whole_job ? PMIX_RANK_WILDCARD : w->me.rank);
    pmix_value_t *value = NULL;
    pmix_status_t rc = PMIx_Get(&who, key, NULL, 0, &value);
    if (rc != PMIX_SUCCESS)
        return pst_fail(PST_EINTERNAL, "the launcher does not say %s: %s", key, PMIx_Error_string(rc));
    pst_status status = PST_OK;
    if (value->type == PMIX_UINT32) *number = value->data.uint32;
    else if (value->type == PMIX_UINT16) *number = value->data.uint16;
    else if (value->type == PMIX_PROC_RANK) *number = value->data.rank;
    else if (value->type == PMIX_INT) *number = (uint32_t)value->data.integer;
    else status = pst_fail(PST_EINTERNAL, "the launcher's %s is not a number", key);
    PMIX_VALUE_RELEASE(value);
    return status;
}

/* As Slurm calls its node, where it has started this rank: several of them may be on one machine. */
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
        return pst_fail(PST_EINTERNAL, "the launcher calls this rank %u of %u, %u of %u here", b->rank, b->size,
                        b->local_rank, b->local_size);
    name_host(w);
    snprintf(b->job, sizeof b->job, "%s", w->me.nspace);
    b->launched_by_us = getenv("PENSTOCK_LAUNCHER") != NULL;
    return PST_OK;
}

static pst_status pmix_open(pst_world **world) {
    pmix_world *w = calloc(1, sizeof *w);
    if (!w) return pst_fail(PST_ENOMEM, "no memory for a world");
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
    if (rc != PMIX_SUCCESS) return pst_fail(PST_EINTERNAL, "cannot publish %s: %s", key, PMIx_Error_string(rc));
    w->dirty = 1;
    return PST_OK;
}

static pst_status pmix_get(pst_world *world, uint32_t rank, const char *key, void **bytes, size_t *n) {
    pmix_world *w = (pmix_world *)world;
    pmix_proc_t who;
    PMIX_LOAD_PROCID(&who, w->me.nspace, rank);
    pmix_value_t *value = NULL;
    pmix_status_t rc = PMIx_Get(&who, key, NULL, 0, &value);
    if (rc != PMIX_SUCCESS)
        return pst_fail(PST_EPEER, "rank %u has not published %s: %s", rank, key, PMIx_Error_string(rc));
    pst_status status = PST_OK;
    void *copy = NULL;
    if (value->type != PMIX_BYTE_OBJECT) status = pst_fail(PST_EINTERNAL, "%s of rank %u is no byte object", key, rank);
    else if (!(copy = malloc(value->data.bo.size + 1))) status = pst_fail(PST_ENOMEM, "no memory for %s", key);
    if (status == PST_OK) {
        *n = value->data.bo.size;
        if (*n) memcpy(copy, value->data.bo.bytes, *n);
        *bytes = copy;
    }
    PMIX_VALUE_RELEASE(value);
    return status;
}

static pst_status pmix_fence(pst_world *world) {
    pmix_world *w = (pmix_world *)world;
    pmix_status_t rc = w->dirty ? PMIx_Commit() : PMIX_SUCCESS;
    if (rc == PMIX_SUCCESS) {
        pmix_info_t info;
        bool collect = true;
        PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
        rc = PMIx_Fence(NULL, 0, &info, 1);
        PMIX_INFO_DESTRUCT(&info);
    }
    if (rc != PMIX_SUCCESS)
        return pst_fail(PST_EPEER, "the ranks of %s do not come together: %s", world->job, PMIx_Error_string(rc));
    w->dirty = 0;
    return PST_OK;
}

static void pmix_abort(pst_world *world, int exit_status, const char *why) {
    (void)world;
    PMIx_Abort(exit_status, why ? why : "aborted", NULL, 0);
}

/* Without PMIX_EMBED_BARRIER finalize waits for the launcher only, and for that at most two seconds. */
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

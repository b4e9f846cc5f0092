/* See residual.h. */
#include "run/residual.h"
#include "base/log.h"
#include "base/plural.h"
#include <stdlib.h>
#include <string.h>

typedef const char *(*replica_name)(const char *param, uint32_t replica, char out[PST_CKPT_NAME]);

/* The number of replicas whose tensors of the parameter are stored. */
static uint32_t stored(const pst_ckpt *ckpt, const char *param, replica_name name_of) {
    char name[PST_CKPT_NAME];
    uint32_t n = 0;
    while (pst_ckpt_tensor_find(ckpt, name_of(param, n, name))) n++;
    return n;
}

/* One tensor of each of n replicas, of which this one gets the sum divided by `parts`. scratch: as
 * many elements as `to`. */
typedef struct {
    const pst_param *param;
    replica_name name_of;
    uint32_t n, parts;
    float *scratch;
} dividing;

static pst_status divide(const pst_ckpt *ckpt, const dividing *d, float *to) {
    const uint64_t elements = pst_param_elements(d->param);
    char name[PST_CKPT_NAME];
    memset(to, 0, elements * sizeof *to);
    for (uint32_t k = 0; k < d->n; k++) {
        PST_TRY(pst_ckpt_read_held(ckpt, d->name_of(d->param->name, k, name), d->param, 0, elements,
                                   d->scratch));
        for (uint64_t i = 0; i < elements; i++) to[i] += d->scratch[i];
    }
    for (uint64_t i = 0; i < elements; i++) to[i] /= (float)d->parts;
    return PST_OK;
}

/* The tensor of this replica or, if the checkpoint is of another number of replicas, what it gets
 * of theirs (d->n: replicas). */
static pst_status read_host(const pst_rank *r, const pst_ckpt *ckpt, dividing *d, float *to) {
    const uint64_t elements = pst_param_elements(d->param);
    char name[PST_CKPT_NAME];
    if (d->n == r->p->grid.data)
        return pst_ckpt_read_held(ckpt, d->name_of(d->param->name, r->place.replica, name),
                                  d->param, 0, elements, to);
    if (!(d->scratch = malloc((elements + 1) * sizeof *d->scratch)))
        return pst_no_memory("to read a checkpoint");
    pst_status status = divide(ckpt, d, to);
    free(d->scratch);
    return status;
}

/* `to` is in the rank's memory, as in what follows. */
static pst_status unmap(const pst_rank *r, float *to, uint64_t elements, pst_status status,
                        void *host) {
    const pst_status unmapped =
        pst_rank_unmap(r, to, elements * sizeof *to, status == PST_OK, host);
    return status == PST_OK ? unmapped : status;
}

static pst_status read_replica(const pst_rank *r, const pst_ckpt *ckpt, dividing *d, float *to) {
    const uint64_t elements = pst_param_elements(d->param);
    void *host;
    PST_TRY(pst_rank_map(r, to, elements * sizeof *to, 0, &host));
    return unmap(r, to, elements, read_host(r, ckpt, d, host), host);
}

/* A tensor that has as many elements as the parameter. */
static pst_status read_named(const pst_rank *r, const pst_ckpt *ckpt, const pst_param *param,
                             const char *name, float *to) {
    const uint64_t elements = pst_param_elements(param);
    void *host;
    PST_TRY(pst_rank_map(r, to, elements * sizeof *to, 0, &host));
    return unmap(r, to, elements, pst_ckpt_read_held(ckpt, name, param, 0, elements, host), host);
}

/* Whether the checkpoint has residuals of the kind of this run, of steps or of gradients. */
static int same_kind(const pst_ckpt *ckpt, const char *param, int steps) {
    return (stored(ckpt, param, pst_ckpt_moments_name) > 0) == steps;
}

static pst_status read_residual(const pst_rank *r, const pst_ckpt *ckpt, uint32_t i) {
    const pst_param *param = r->graph->param + i;
    dividing d = {.param = param, .name_of = pst_ckpt_residual_name, .parts = r->p->grid.data};
    d.n = stored(ckpt, param->name, d.name_of);
    if (d.n && same_kind(ckpt, param->name, pst_rank_second(r, i) != NULL))
        return read_replica(r, ckpt, &d, pst_rank_residual(r, i));
    return pst_rank_fill(r, pst_rank_residual(r, i), 0, pst_param_elements(param) * sizeof(float));
}

/* Without those of replicas, the optimizer's. */
static pst_status read_second(const pst_rank *r, const pst_ckpt *ckpt, uint32_t i) {
    const pst_param *param = r->graph->param + i;
    const uint64_t elements = pst_param_elements(param);
    dividing d = {.param = param, .name_of = pst_ckpt_moments_name};
    char name[PST_CKPT_NAME];
    d.n = d.parts = stored(ckpt, param->name, d.name_of);
    if (d.n) return read_replica(r, ckpt, &d, pst_rank_second(r, i));
    snprintf(name, sizeof name, "%s.%s", param->name, r->p->optim->state_name[1]);
    if (pst_ckpt_tensor_find(ckpt, name))
        return read_named(r, ckpt, param, name, pst_rank_second(r, i));
    return pst_rank_fill(r, pst_rank_second(r, i), 0, elements * sizeof(float));
}

/* The number of replicas whose bases of the parameter are stored. */
static uint32_t stored_bases(const pst_ckpt *ckpt, const char *param) {
    char name[PST_CKPT_NAME];
    uint32_t n = 0;
    while (pst_ckpt_tensor_find(ckpt, pst_ckpt_basis_name(param, n, 0, name))) n++;
    return n;
}

/* The tensor rank that stores what tensor rank `tensor` has of a parameter. */
static uint32_t storing(const pst_param *param, uint32_t tensor) {
    return param->slice.held == PST_HELD_PART ? tensor : 0;
}

/* The basis of a replica, of those that are stored in turns; NULL: the checkpoint has none of this
 * shape. */
static const char *basis_name(const pst_ckpt *ckpt, const pst_prepared *p, uint32_t rank,
                              uint32_t i, char out[PST_CKPT_NAME]) {
    const pst_grid_place at = pst_grid_at(p->grid, rank);
    const pst_param *param = p->graphs[at.tensor]->param + i;
    const uint32_t n = stored_bases(ckpt, param->name);
    const uint32_t from = storing(param, at.tensor), ranks = storing(param, p->grid.tensor);
    if (!n) return NULL;
    if (pst_ckpt_tensor_find(ckpt, pst_ckpt_basis_name(param->name, 0, ranks ? ranks : 1, out)))
        return NULL;
    const pst_ckpt_tensor *found =
        pst_ckpt_tensor_find(ckpt, pst_ckpt_basis_name(param->name, at.replica % n, from, out));
    return found && found->elements == pst_job_basis(p->job, param) ? out : NULL;
}

/* Without one in the checkpoint, none. */
static pst_status read_basis(const pst_rank *r, const pst_ckpt *ckpt, uint32_t i) {
    const uint64_t n = pst_rank_basis_elements(r, i);
    char name[PST_CKPT_NAME];
    if (basis_name(ckpt, r->p, r->rank, i, name))
        return pst_ckpt_read(ckpt, name, pst_rank_basis(r, i), n);
    memset(pst_rank_basis(r, i), 0, n * sizeof(float));
    return PST_OK;
}

/* Without a copy in the checkpoint, the weight itself. */
static pst_status read_copy(const pst_rank *r, const pst_ckpt *ckpt, uint32_t i) {
    const pst_param *param = r->graph->param + i;
    const uint64_t elements = pst_param_elements(param);
    float *copy = pst_rank_copied(r, i);
    char name[PST_CKPT_NAME];
    void *host;
    if (pst_ckpt_tensor_find(ckpt, pst_ckpt_copy_name(param->name, name)))
        return read_named(r, ckpt, param, name, copy);
    PST_TRY(pst_rank_map(r, copy, elements * sizeof *copy, 0, &host));
    return unmap(r, copy, elements, pst_ckpt_read_weight(ckpt, param, 0, elements, host), host);
}

pst_status pst_residual_read(const pst_rank *r, const pst_ckpt *ckpt) {
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        if (pst_rank_copied(r, i)) PST_TRY(read_copy(r, ckpt, i));
        if (pst_rank_residual(r, i)) PST_TRY(read_residual(r, ckpt, i));
        if (pst_rank_second(r, i)) PST_TRY(read_second(r, ckpt, i));
        if (pst_rank_basis(r, i)) PST_TRY(read_basis(r, ckpt, i));
    }
    return PST_OK;
}

/* Says that this run has no copies of weights, or that the checkpoint has none. */
static void explain_copies(const pst_prepared *p, const pst_ckpt *ckpt) {
    uint32_t stored_here = 0, wanted = 0;
    char name[PST_CKPT_NAME];
    for (uint32_t i = 0; i < p->whole->n_param; i++) {
        int copied = 0;
        for (uint32_t r = 0; r < p->options.n_rank; r++) copied |= p->memory[r]->is_copy[i];
        wanted += (uint32_t)copied;
        stored_here +=
            pst_ckpt_tensor_find(ckpt, pst_ckpt_copy_name(p->whole->param[i].name, name)) != NULL;
    }
    if (stored_here > wanted)
        pst_log(
            PST_LOG_WARN,
            "%s has the replicas' copies of %u parameter%s whose changes this run does not pack "
            "(parallel.compress.down): it goes on with the weights themselves",
            ckpt->path, stored_here - wanted, pst_plural(stored_here - wanted));
    else if (wanted > stored_here)
        pst_log(PST_LOG_INFO,
                "%s lacks the replicas' copies of %u parameter%s (parallel.compress.down): they "
                "begin as the weights",
                ckpt->path, wanted - stored_here, pst_plural(wanted - stored_here));
}

/* Whether any rank packs the parameter, and goes on with the residuals of the checkpoint. */
static int goes_on(const pst_prepared *p, const pst_ckpt *ckpt, uint32_t param) {
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (p->memory[r]->residual[param] != UINT64_MAX)
            return same_kind(ckpt, p->whole->param[param].name,
                             p->memory[r]->second[param] != UINT64_MAX);
    return 0;
}

/* Whether a rank of this run begins with a basis of the checkpoint. */
static int takes_basis(const pst_prepared *p, const pst_ckpt *ckpt, uint32_t param) {
    char name[PST_CKPT_NAME];
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (p->memory[r]->basis[param] != UINT64_MAX)
            return basis_name(ckpt, p, r, param, name) != NULL;
    return 0;
}

static uint32_t stored_residuals(const pst_ckpt *ckpt, const char *param) {
    return stored(ckpt, param, pst_ckpt_residual_name);
}

/* Returns of how many replicas the checkpoint has something. *dropped: the number of parameters of
 * which this run does not take it. */
static uint32_t count(const pst_prepared *p, const pst_ckpt *ckpt,
                      uint32_t (*stored_of)(const pst_ckpt *ckpt, const char *param),
                      int (*takes)(const pst_prepared *p, const pst_ckpt *ckpt, uint32_t param),
                      uint32_t *dropped) {
    uint32_t replicas = 0;
    *dropped = 0;
    for (uint32_t i = 0; i < p->whole->n_param; i++) {
        const uint32_t n = stored_of(ckpt, p->whole->param[i].name);
        if (!n) continue;
        replicas = n;
        *dropped += !takes(p, ckpt, i);
    }
    return replicas;
}

static void explain_bases(const pst_prepared *p, const pst_ckpt *ckpt) {
    uint32_t dropped;
    const uint32_t was = count(p, ckpt, stored_bases, takes_basis, &dropped);
    if (dropped)
        pst_log(PST_LOG_WARN,
                "%s has bases of %u parameter%s (parallel.compress.up powersgd) that this run does "
                "not use, or not with the same rank and tensor ranks: they are dropped",
                ckpt->path, dropped, pst_plural(dropped));
    else if (was && was != p->grid.data)
        pst_log(PST_LOG_INFO,
                "%s has the bases of %u replica%s (parallel.compress.up powersgd), which the %u "
                "replicas take in turns",
                ckpt->path, was, pst_plural(was), p->grid.data);
}

void pst_residual_explain(const pst_prepared *p, const pst_ckpt *ckpt) {
    uint32_t dropped;
    explain_copies(p, ckpt);
    explain_bases(p, ckpt);
    const uint32_t was = count(p, ckpt, stored_residuals, goes_on, &dropped);
    if (dropped)
        pst_log(PST_LOG_WARN,
                "%s has residuals of %u parameter%s that this run does not pack, or not with the "
                "same parallel.compress.moments: they are dropped",
                ckpt->path, dropped, pst_plural(dropped));
    else if (was && was != p->grid.data)
        pst_log(PST_LOG_INFO,
                "%s has the residuals of %u replica%s (parallel.compress): each of the %u replicas "
                "gets an equal part of their sum",
                ckpt->path, was, pst_plural(was), p->grid.data);
}

/* See residual.h. */
#include "run/residual.h"
#include "base/log.h"
#include "base/plural.h"
#include <stdlib.h>
#include <string.h>

/* The number of replicas whose residuals of the parameter are stored. */
static uint32_t stored(const pst_ckpt *ckpt, const char *param) {
    char name[PST_CKPT_NAME];
    uint32_t n = 0;
    while (pst_ckpt_tensor_find(ckpt, pst_ckpt_residual_name(param, n, name))) n++;
    return n;
}

/* scratch: as many elements as `to`. */
static pst_status read_equal_part(const pst_rank *r, const pst_ckpt *ckpt, const pst_param *param,
                                  uint32_t n, float *scratch) {
    float *to = pst_rank_residual(r, (uint32_t)(param - r->graph->param));
    const uint64_t elements = pst_param_elements(param);
    const float replicas = (float)r->p->grid.data;
    char name[PST_CKPT_NAME];
    memset(to, 0, elements * sizeof *to);
    for (uint32_t k = 0; k < n; k++) {
        PST_TRY(pst_ckpt_read_held(ckpt, pst_ckpt_residual_name(param->name, k, name), param, 0,
                                   elements, scratch));
        for (uint64_t i = 0; i < elements; i++) to[i] += scratch[i];
    }
    for (uint64_t i = 0; i < elements; i++) to[i] /= replicas;
    return PST_OK;
}

static pst_status read_param(const pst_rank *r, const pst_ckpt *ckpt, uint32_t i) {
    const pst_param *param = r->graph->param + i;
    const uint64_t elements = pst_param_elements(param);
    const uint32_t n = stored(ckpt, param->name);
    char name[PST_CKPT_NAME];
    if (n == r->p->grid.data)
        return pst_ckpt_read_held(ckpt, pst_ckpt_residual_name(param->name, r->place.replica, name),
                                  param, 0, elements, pst_rank_residual(r, i));
    float *scratch = malloc((elements + 1) * sizeof *scratch);
    if (!scratch) return pst_no_memory("to read a checkpoint");
    pst_status status = read_equal_part(r, ckpt, param, n, scratch);
    free(scratch);
    return status;
}

/* Without a copy in the checkpoint, the weight itself. */
static pst_status read_copy(const pst_rank *r, const pst_ckpt *ckpt, uint32_t i) {
    const pst_param *param = r->graph->param + i;
    const uint64_t elements = pst_param_elements(param);
    char name[PST_CKPT_NAME];
    if (!pst_ckpt_tensor_find(ckpt, pst_ckpt_copy_name(param->name, name)))
        return pst_ckpt_read_weight(ckpt, param, 0, elements, pst_rank_copied(r, i));
    return pst_ckpt_read_held(ckpt, name, param, 0, elements, pst_rank_copied(r, i));
}

pst_status pst_residual_read(const pst_rank *r, const pst_ckpt *ckpt) {
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        if (pst_rank_copied(r, i)) PST_TRY(read_copy(r, ckpt, i));
        if (pst_rank_residual(r, i)) PST_TRY(read_param(r, ckpt, i));
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

/* Whether any rank packs the parameter. */
static int is_packed(const pst_prepared *p, uint32_t param) {
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (p->memory[r]->residual[param] != UINT64_MAX) return 1;
    return 0;
}

void pst_residual_explain(const pst_prepared *p, const pst_ckpt *ckpt) {
    uint32_t dropped = 0, was = 0, n;
    explain_copies(p, ckpt);
    for (uint32_t i = 0; i < p->whole->n_param; i++) {
        if (!(n = stored(ckpt, p->whole->param[i].name))) continue;
        was = n;
        dropped += !is_packed(p, i);
    }
    if (dropped)
        pst_log(PST_LOG_WARN,
                "%s has residuals of %u parameter%s that this run does not pack "
                "(parallel.compress): they are dropped",
                ckpt->path, dropped, pst_plural(dropped));
    else if (was && was != p->grid.data)
        pst_log(PST_LOG_INFO,
                "%s has the residuals of %u replica%s (parallel.compress): each of the %u replicas "
                "gets an equal part of their sum",
                ckpt->path, was, pst_plural(was), p->grid.data);
}

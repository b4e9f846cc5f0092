/* See base.h. */
#include "checkpoint/base.h"
#include "checkpoint/hf.h"
#include "graph/adapt.h"
#include "graph/initial.h"
#include "graph/slice.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int pst_ckpt_has_base(const pst_config *c) { return c->adapt.n_on || c->train.n_freeze; }

pst_status pst_ckpt_base_hash(const pst_config *c, uint64_t *hash) {
    *hash = 0;
    if (!pst_ckpt_has_base(c) || !*c->model.weights) return PST_OK;
    return pst_hf_hash(c->model.weights, hash);
}

pst_status pst_ckpt_base_check(const pst_ckpt *ckpt, const pst_config *c) {
    uint64_t hash = 0;
    if (!pst_ckpt_has_base(c)) return PST_OK;
    pst_status status = pst_ckpt_base_hash(c, &hash);
    if (status != PST_OK)
        return pst_fail_in(
            status,
            "%s has only the trained parameters; the others are in model.weights. If "
            "they have moved, name them: --base FOLDER; to resume, "
            "model.weights=FOLDER",
            ckpt->path);
    if (hash == ckpt->info.base) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "%s was trained on other frozen weights: their hash is %016" PRIx64
                    ", that of model.weights %s is %016" PRIx64 " (0: initial values)",
                    ckpt->path, ckpt->info.base, *c->model.weights ? c->model.weights : "(none)",
                    hash);
}

pst_status pst_ckpt_config_with_base(const pst_ckpt *ckpt, const char *base,
                                     const char *const *override, size_t n, pst_config **config) {
    pst_config *c = NULL;
    PST_TRY(pst_ckpt_config(ckpt, override, n, &c));
    pst_status status = PST_OK;
    const int moved = base && *base;
    if (moved && !pst_ckpt_has_base(c))
        status = pst_fail(PST_EINPUT,
                          "%s has all weights of its model; --base is for runs with adapt or "
                          "train.freeze",
                          ckpt->path);
    if (moved && status == PST_OK) status = pst_config_override(c, "model", "weights", base);
    if (moved && status == PST_OK) status = pst_ckpt_base_check(ckpt, c);
    if (status == PST_OK) *config = c;
    else pst_config_close(c);
    return status;
}

/* --- adapters --------------------------------------------------------------------------------- */

static const pst_ckpt_tensor *matrix_of(const pst_ckpt *ckpt, const pst_param *param, int which) {
    char name[PST_NAME_MAX];
    if (param->n_dim != 2 || pst_adapter_name(param->name, which, name) != PST_OK) return NULL;
    return pst_ckpt_tensor_find(ckpt, name);
}

/* up, down: the matrices of the adapter. */
static pst_status merge(const pst_param *param, const pst_adapter *a, float *weight) {
    uint64_t at, count, done = 0;
    for (uint64_t i = 0; pst_slice_run(param, i, &at, &count); i++, done += count)
        pst_adapter_merge(a, at, count, weight + done);
    return PST_OK;
}

pst_status pst_ckpt_merge(const pst_ckpt *ckpt, const pst_config *c, const pst_param *param,
                          float *weight) {
    const pst_ckpt_tensor *up = matrix_of(ckpt, param, PST_ADAPTER_UP),
                          *down = matrix_of(ckpt, param, PST_ADAPTER_DOWN);
    uint64_t dim[PST_MAX_DIM] = {0};
    if (!c->adapt.n_on || !up || !down) return PST_OK;
    pst_slice_whole(param, dim);
    const uint32_t rank = (uint32_t)down->dim[0];
    if (up->n_dim != 2 || down->n_dim != 2 || up->dim[0] != dim[0] || up->dim[1] != rank ||
        down->dim[1] != dim[1])
        return pst_fail(PST_EINPUT, "%s: the adapter of %s does not fit its shape", ckpt->path,
                        param->name);
    float *both = malloc((up->elements + down->elements + 1) * sizeof *both);
    pst_status status = both ? pst_ckpt_read(ckpt, up->name, both, up->elements)
                             : pst_fail(PST_ENOMEM, "no memory to merge an adapter");
    if (status == PST_OK)
        status = pst_ckpt_read(ckpt, down->name, both + up->elements, down->elements);
    const pst_adapter a = {both, both + up->elements, rank, dim[1],
                           (float)c->adapt.alpha / (float)rank};
    if (status == PST_OK) status = merge(param, &a, weight);
    free(both);
    return status;
}

/* --- a model ---------------------------------------------------------------------------------- */

static pst_status read_base(const pst_ckpt_model *m, const pst_param *param, float *out) {
    const uint32_t i = pst_graph_find_param(m->graph, param->name);
    if (!*m->config->model.weights) {
        pst_param_initial(param, (uint64_t)m->config->train.seed, 0, pst_param_elements(param),
                          NULL, out);
        return PST_OK;
    }
    float **weight = calloc(m->graph->n_param + (size_t)1, sizeof *weight);
    if (!weight) return pst_fail(PST_ENOMEM, "no memory to read the weights");
    weight[i] = out;
    pst_status status = pst_hf_import(m->config->model.weights, m->model, m->graph,
                                      &(pst_hf_weights){.held = m->graph,
                                                        .weight = weight,
                                                        .seed = (uint64_t)m->config->train.seed});
    free(weight);
    return status;
}

pst_status pst_ckpt_model_read(void *model, const pst_param *param, float *out) {
    const pst_ckpt_model *m = model;
    const int stored = pst_ckpt_tensor_find(m->ckpt, param->name) != NULL;
    if (stored || !pst_ckpt_has_base(m->config))
        PST_TRY(pst_ckpt_read_param(m->ckpt, param, NULL, out, NULL));
    else PST_TRY(read_base(m, param, out));
    return pst_ckpt_merge(m->ckpt, m->config, param, out);
}

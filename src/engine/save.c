/* Checkpoints of a training run: every rank writes what it owns, rank 0 makes it count; any layout reads it back. */
#include "engine/save.h"
#include "base/log.h"
#include "engine/checkpoint.h"
#include "engine/hf.h"
#include "engine/trainer.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- writing ---------------------------------------------------------------------------------------------------- */

static pst_status write_shard(const pst_trainer *t, const pst_rank *r, const char *folder) {
    const pst_prepared *p = t->p;
    pst_ckpt_entry *entry = calloc(r->layout->n_owned + 1, sizeof *entry);
    if (!entry) return pst_fail(PST_ENOMEM, "no memory to list the parameters of rank %u", r->rank);
    for (uint32_t i = 0; i < r->layout->n_owned; i++) {
        uint32_t param = r->layout->owned[i];
        entry[i] = (pst_ckpt_entry){.param = p->graph->param + param, .weight = pst_rank_weight(r, param)};
        for (uint32_t s = 0; s < p->optim->n_state; s++) entry[i].state[s] = pst_rank_state(r, param, s);
    }
    pst_status status = pst_ckpt_write_shard(folder, t->step, r->rank, p->options.n_rank, p->optim, entry, r->layout->n_owned);
    free(entry);
    return status;
}

/* The resolved configuration as text, which goes into the checkpoint. */
static pst_status config_text(const pst_config *c, char **text) {
    size_t bytes;
    FILE *f = open_memstream(text, &bytes);
    if (!f) return pst_fail(PST_ENOMEM, "no memory for the configuration");
    pst_status status = pst_config_print(c, f);
    if (fclose(f) != 0 && status == PST_OK) status = pst_fail(PST_ENOMEM, "no memory for the configuration");
    return status;
}

static pst_status commit(pst_trainer *t, const char *folder) {
    char *text = NULL;
    const pst_config *c = t->config;
    if (!isnan(t->validation_loss) && t->validation_loss < t->best_loss) t->best_loss = t->validation_loss;
    pst_ckpt_info info = {.step = t->step, .next_sample = t->step * (uint64_t)c->train.batch, .seed = (uint64_t)c->train.seed,
                          .model_hash = pst_graph_hash(t->p->graph), .data_hash = t->data->row->hash(t->data),
                          .validation_loss = t->validation_loss, .best_loss = t->best_loss};
    snprintf(info.optimizer, sizeof info.optimizer, "%s", t->p->optim->name);
    pst_status status = config_text(c, &text);
    if (status == PST_OK) status = pst_ckpt_commit(folder, &info, text, t->p->graph, t->p->options.n_rank, NULL);
    if (status == PST_OK && c->checkpoint.keep > 0) pst_ckpt_prune(folder, (uint32_t)c->checkpoint.keep, t->step);
    free(text);
    return status;
}

pst_status pst_save(pst_trainer *t, char *path, size_t bytes) {
    char folder[1024];
    pst_status status = PST_OK;
    snprintf(folder, sizeof folder, "%s/checkpoints", t->folder);
    snprintf(path, bytes, "%s/step-%08" PRIu64, folder, t->step);
    for (uint32_t i = 0; status == PST_OK && i < t->group->n_local; i++) status = write_shard(t, t->group->local[i], folder);
    status = pst_group_agree(t->group, status);
    if (status == PST_OK && t->group->leader) status = commit(t, folder);
    else if (status != PST_OK && status != PST_EPEER && t->group->leader) {
        char said[600];
        snprintf(said, sizeof said, "%s", pst_error());
        pst_ckpt_abandon(folder, t->step);
        pst_fail(status, "%s", said);
    }
    return status == PST_EPEER ? status : pst_group_agree(t->group, status);
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static pst_status read_rank(pst_rank *r, const pst_ckpt *ckpt, const pst_optim_row *rule) {
    const pst_graph *g = r->p->graph;
    for (uint32_t i = 0; i < g->n_param; i++) {
        float *weight = pst_rank_weight(r, i), *state[2] = {NULL, NULL};
        if (!weight) continue;
        for (uint32_t s = 0; rule && s < rule->n_state; s++) state[s] = pst_rank_state(r, i, s);
        PST_TRY(pst_ckpt_read_param(ckpt, g->param + i, rule, weight, state));
    }
    return PST_OK;
}

static pst_status open_newest(const char *source, pst_ckpt **ckpt) {
    char *folder = NULL;
    PST_TRY(pst_ckpt_find(source, &folder));
    pst_status status = pst_ckpt_open(folder, ckpt);
    free(folder);
    return status;
}

pst_status pst_save_read_weights(pst_rank *r, const char *source) {
    pst_ckpt *ckpt;
    PST_TRY(open_newest(source, &ckpt));
    pst_status status = read_rank(r, ckpt, NULL);
    pst_ckpt_close(ckpt);
    return status;
}

static pst_status resume_from(pst_trainer *t, const pst_ckpt *ckpt) {
    const pst_ckpt_info *info = &ckpt->info;
    if (info->data_hash != t->data->row->hash(t->data))
        return pst_fail(PST_EINPUT, "%s was trained on other data (files, sizes, split or context differ), so its position "
                                    "cannot be restored", ckpt->path);
    if (info->next_sample != info->step * (uint64_t)t->config->train.batch)
        return pst_fail(PST_EINPUT, "%s was trained with train.batch %" PRIu64 "; resume with the same", ckpt->path,
                        info->step ? info->next_sample / info->step : 0);
    if (info->seed != (uint64_t)t->config->train.seed)
        pst_log(PST_LOG_WARN, "%s was trained with seed %" PRIu64 ", not %" PRId64, ckpt->path, info->seed, t->config->train.seed);
    for (uint32_t i = 0; i < t->group->n_local; i++) PST_TRY(read_rank(t->group->local[i], ckpt, t->p->optim));
    t->step = t->checkpointed = info->step;
    t->best_loss = isnan(info->best_loss) ? INFINITY : info->best_loss;
    t->validation_loss = info->validation_loss;
    return PST_OK;
}

pst_status pst_save_resume(pst_trainer *t) {
    pst_ckpt *ckpt = NULL;
    pst_status status = open_newest(t->options->resume, &ckpt);
    if (status == PST_OK) status = resume_from(t, ckpt);
    pst_ckpt_close(ckpt);
    return pst_group_agree(t->group, status);
}

/* --- Hugging Face ----------------------------------------------------------------------------------------------- */

pst_status pst_save_read_hf(pst_rank *r, const char *source) {
    const pst_graph *g = r->p->graph;
    float **weight = calloc(g->n_param, sizeof *weight);
    if (!weight) return pst_fail(PST_ENOMEM, "no memory to read %s", source);
    for (uint32_t i = 0; i < g->n_param; i++) weight[i] = pst_rank_weight(r, i);
    pst_status status = pst_hf_import(source, r->p->model, g, weight);
    free(weight);
    return status;
}

pst_status pst_save_import(pst_trainer *t, const char *path) {
    pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < t->group->n_local; i++) status = pst_save_read_hf(t->group->local[i], path);
    return pst_group_agree(t->group, status);
}

/* --- the hash of all weights ------------------------------------------------------------------------------------ */

pst_status pst_save_weights_hash(pst_trainer *t, uint64_t *out) {
    const pst_graph *g = t->p->graph;
    uint32_t n_local = t->group->n_local, n_rank = t->p->options.n_rank, n = g->n_param;
    uint64_t *mine = calloc((size_t)n_local * n, sizeof *mine), *all = calloc((size_t)n_rank * n, sizeof *all);
    pst_status status = mine && all ? PST_OK : pst_fail(PST_ENOMEM, "no memory to hash the weights");
    for (uint32_t k = 0; status == PST_OK && k < n_local; k++)
        for (uint32_t i = 0; i < n; i++)
            if (pst_rank_owns(t->group->local[k], i))
                mine[(size_t)k * n + i] = pst_weights_hash_one(g->param + i, pst_rank_weight(t->group->local[k], i));
    if (status == PST_OK) status = pst_group_all_gather(t->group, mine, n * sizeof *mine, all);
    for (uint32_t r = 1; status == PST_OK && r < n_rank; r++) /* owned once: the others hold 0 */
        for (uint32_t i = 0; i < n; i++) all[i] |= all[(size_t)r * n + i];
    if (status == PST_OK) status = pst_weights_hash(g, all, out);
    free(mine), free(all);
    return status;
}

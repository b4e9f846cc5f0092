/* See resume.h. saving.c writes checkpoints. */
#include "run/resume.h"
#include "base/log.h"
#include "checkpoint/base.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf.h"
#include "run/islands.h"
#include "run/pending.h"
#include "run/residual.h"
#include "run/saving.h"
#include "run/trainer.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- reading ---------------------------------------------------------------------------------- */

/* Array 0 is the weight, the others are the optimizer's states. island: as in pst_islands. */
static pst_status read_param(pst_rank *r, uint32_t i, const pst_ckpt *ckpt,
                             const pst_optim_row *rule, pst_islands island) {
    enum { ARRAYS = 3 };
    const pst_param *param = r->graph->param + i;
    uint64_t from = r->memory->step_from[i], to = r->memory->step_to[i];
    const uint64_t of_state = (to - from) * r->memory->state_size,
                   bytes[ARRAYS] = {(to - from) * sizeof(float), of_state, of_state};
    uint32_t n = 1 + pst_optim_states(rule, param), mapped = 0;
    void *at[ARRAYS] = {pst_rank_weight(r, i)};
    void *host[ARRAYS] = {NULL};
    pst_status status = PST_OK;
    for (uint32_t k = 1; k < n; k++) at[k] = pst_rank_state(r, i, k - 1);
    while (status == PST_OK && mapped < n)
        if ((status = pst_rank_map(r, at[mapped], bytes[mapped], 0, &host[mapped])) == PST_OK)
            mapped++;
    if (status == PST_OK && !island.weight)
        status = pst_ckpt_read_weight(ckpt, param, from, to, host[0]);
    if (status == PST_OK && rule && !island.stored)
        status =
            pst_ckpt_read_state(ckpt, param, rule, (void *const[]){host[1], host[2]}, from, to);
    void *const of_island[] = {island.weight ? host[0] : NULL, host[1], host[2]};
    if (status == PST_OK && rule && island.stored)
        status = pst_ckpt_read_island(ckpt, param, island.state, rule, of_island,
                                      (const uint64_t[]){from, to});
    for (uint32_t k = 0; k < mapped; k++) {
        pst_status back = pst_rank_unmap(r, at[k], bytes[k], status == PST_OK, host[k]);
        status = status == PST_OK ? back : status;
    }
    return status;
}

static pst_status read_rank(pst_rank *r, const pst_ckpt *ckpt, const pst_optim_row *rule) {
    for (uint32_t i = 0; i < r->graph->n_param; i++)
        if (pst_rank_weight(r, i) && !r->graph->param[i].cache && !r->graph->param[i].frozen)
            PST_TRY(read_param(r, i, ckpt, rule, pst_islands_for(r, ckpt)));
    return PST_OK;
}

/* Splits ".../STEP" at the last slash and returns STEP; NULL when there is no folder before it. */
static char *split_last(char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') path[--n] = 0;
    char *slash = strrchr(path, '/');
    if (!slash || slash == path) return NULL;
    *slash = 0;
    return slash + 1;
}

/* When the checkpoint to resume from is damaged: adds to the message which older one to use. */
static pst_status name_older(pst_status status, const char *damaged) {
    uint64_t step, before = UINT64_MAX;
    char *folder = status == PST_EINPUT ? strdup(damaged) : NULL;
    char *name = folder ? split_last(folder) : NULL;
    if (name && sscanf(name, "step-%" SCNu64, &step) == 1)
        before = pst_ckpt_before(folder, 1, step);
    if (before != UINT64_MAX)
        pst_fail(status, "%s; resume from the previous checkpoint with --resume %s/step-%08" PRIu64,
                 pst_error(), folder, before);
    free(folder);
    return status;
}

/* The same, unless a program with a graph of its own resumes: it has no --resume. */
static pst_status name_older_of(const pst_prepared *p, pst_status status, const char *damaged) {
    return p->options.graph ? status : name_older(status, damaged);
}

static pst_status open_newest(const char *source, pst_ckpt **ckpt) {
    char *folder = NULL;
    PST_TRY(pst_ckpt_find(source, &folder));
    pst_status status = pst_ckpt_open(folder, ckpt);
    free(folder);
    return status;
}

/* Adds the adapter to the rank's part of a matrix. */
static pst_status merge_param(pst_rank *r, uint32_t i, const pst_ckpt *ckpt) {
    float *at = pst_rank_weight(r, i);
    const uint64_t bytes = pst_param_elements(r->graph->param + i) * sizeof *at;
    void *host;
    PST_TRY(pst_rank_map(r, at, bytes, 1, &host));
    pst_status status = pst_ckpt_merge(ckpt, r->p->config, r->graph->param + i, host);
    pst_status back = pst_rank_unmap(r, at, bytes, status == PST_OK, host);
    return status == PST_OK ? back : status;
}

/* The base, over it what the checkpoint has, and the adapters. */
static pst_status read_tuned(pst_rank *r, const pst_ckpt *ckpt) {
    const pst_config *c = r->p->config;
    PST_TRY(pst_ckpt_base_check(ckpt, c));
    PST_TRY(*c->model.weights ? pst_resume_read_hf(r, c->model.weights) : pst_rank_init_weights(r));
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        if (!pst_rank_weight(r, i) || r->graph->param[i].cache) continue;
        if (pst_ckpt_tensor_find(ckpt, r->graph->param[i].name))
            PST_TRY(read_param(r, i, ckpt, NULL, (pst_islands){0}));
        PST_TRY(merge_param(r, i, ckpt));
    }
    return PST_OK;
}

pst_status pst_resume_read_weights(pst_rank *r, const char *source) {
    pst_ckpt *ckpt;
    PST_TRY(open_newest(source, &ckpt));
    pst_status status =
        pst_ckpt_has_base(r->p->config) ? read_tuned(r, ckpt) : read_rank(r, ckpt, NULL);
    pst_ckpt_close(ckpt);
    return status;
}

static pst_status check_params(const pst_ckpt *ckpt, const pst_graph *g) {
    for (uint32_t i = 0; i < g->n_param; i++) {
        const pst_param *param = g->param + i;
        const pst_ckpt_tensor *tensor = pst_ckpt_tensor_find(ckpt, param->name);
        if (tensor && param->frozen)
            return pst_fail(PST_EINPUT,
                            "%s has trained %s, which is frozen now; resume with the same "
                            "train.freeze and adapt",
                            ckpt->path, param->name);
        if (param->frozen) continue;
        if (!tensor)
            return pst_fail(PST_EINPUT,
                            "%s is from a different model, or train.freeze or adapt differ: it has "
                            "no tensor %s",
                            ckpt->path, param->name);
        if (tensor->n_dim != param->n_dim ||
            memcmp(tensor->dim, param->dim, param->n_dim * sizeof *tensor->dim))
            return pst_fail(PST_EINPUT,
                            "%s is from a model of different size: tensor %s has a different shape",
                            ckpt->path, param->name);
    }
    return PST_OK;
}

/* Whether the tensor is a parameter's weight, or one of its states. */
static int is_known(const pst_graph *g, const char *tensor) {
    const char *dot = strrchr(tensor, '.');
    for (uint32_t i = 0; i < g->n_param; i++) {
        size_t n = strlen(g->param[i].name);
        if (!strncmp(g->param[i].name, tensor, n) && (!tensor[n] || tensor + n == dot)) return 1;
    }
    return 0;
}

/* Refuses a checkpoint with layers that this model lacks: they would be lost. */
static pst_status check_surplus(const pst_ckpt *ckpt, const pst_graph *g) {
    for (uint32_t i = 0; i < ckpt->n_tensor; i++)
        if (!is_known(g, ckpt->tensor[i].name))
            return pst_fail(PST_EINPUT, "%s is from a different model: this model has no tensor %s",
                            ckpt->path, ckpt->tensor[i].name);
    return PST_OK;
}

/* What shapes do not show of llama. */
static pst_status check_llama(const pst_ckpt *ckpt, const pst_llama *was, const pst_llama *is) {
    const pst_rope *a = &was->rope, *b = &is->rope;
    const int turns = a->theta == b->theta && a->scaling == b->scaling && a->factor == b->factor &&
                      a->low == b->low && a->high == b->high && a->context == b->context &&
                      a->attention == b->attention;
    if (was->window != is->window)
        return pst_fail(PST_EINPUT, "%s was trained with model.window %u, not %u", ckpt->path,
                        was->window, is->window);
    if (was->norm_eps != is->norm_eps)
        return pst_fail(PST_EINPUT, "%s was trained with model.norm_eps %g, not %g", ckpt->path,
                        (double)was->norm_eps, (double)is->norm_eps);
    if (!turns)
        return pst_fail(PST_EINPUT, "%s was trained with other rotary positions (model.rope_*)",
                        ckpt->path);
    return PST_OK;
}

static pst_status check_bert(const pst_ckpt *ckpt, const pst_bert *was, const pst_bert *is) {
    if (was->norm_eps == is->norm_eps) return PST_OK;
    return pst_fail(PST_EINPUT, "%s was trained with model.norm_eps %g, not %g", ckpt->path,
                    (double)was->norm_eps, (double)is->norm_eps);
}

/* Checks the model, including settings that shapes do not show. */
static pst_status check_model(const pst_ckpt *ckpt, const pst_prepared *p) {
    const pst_model_row *row;
    pst_model_config was, is = p->model_config;
    pst_config *c = NULL;
    PST_TRY(check_params(ckpt, p->whole));
    PST_TRY(check_surplus(ckpt, p->whole));
    PST_TRY(pst_ckpt_base_check(ckpt, p->config));
    if (p->options.graph) return PST_OK; /* a program's own graph has no further settings */
    pst_status status = pst_config_parse(ckpt->config, "run.yaml of the checkpoint", NULL, 0, &c);
    if (status == PST_OK) /* check_resume compares the tokenizers */
        status = pst_config_override(c, "data", "tokenizer", p->config->data.tokenizer);
    if (status == PST_OK) status = pst_prepare_model(c, &row, &was);
    if (status == PST_OK && p->config->adapt.n_on && c->adapt.alpha != p->config->adapt.alpha)
        status = pst_fail(PST_EINPUT, "%s was trained with adapt.alpha %g, not %g", ckpt->path,
                          c->adapt.alpha, p->config->adapt.alpha);
    pst_config_close(c);
    PST_TRY(status);
    if (was.heads != is.heads)
        return pst_fail(PST_EINPUT, "%s was trained with model.heads %u, not %u", ckpt->path,
                        was.heads, is.heads);
    if (was.activation != is.activation)
        return pst_fail(PST_EINPUT, "%s was trained with a different model.activation", ckpt->path);
    if (p->model->masked) return check_bert(ckpt, &was.bert, &is.bert);
    return check_llama(ckpt, &was.llama, &is.llama);
}

/* hash: of the tokenizer `name`; 0: bytes, or unknown. */
static pst_status compare_tokenizers(const pst_ckpt *ckpt, const char *name, uint64_t hash) {
    const uint64_t was = ckpt->info.tokenizer;
    if (was == hash) return PST_OK;
    return pst_fail(
        PST_EINPUT,
        "%s was trained with the tokenizer of hash %016" PRIx64
        ", but data.tokenizer %s has the hash %016" PRIx64 "%s; resume with the same tokenizer",
        ckpt->path, was, name, hash, was && hash ? "" : " (0: bytes or unknown tokens)");
}

/* Samples that were left out after spikes do not say how large the batches were: the run file of
 * the checkpoint does. */
static pst_status check_batches(const pst_ckpt *ckpt, const pst_prepared *p) {
    const pst_config *is = p->config;
    const pst_ckpt_info *info = &ckpt->info;
    pst_config *was = NULL;
    PST_TRY(pst_config_parse(ckpt->config, "run.yaml of the checkpoint", NULL, 0, &was));
    const int64_t batch = was->train.batch, from = was->train.batch_warmup.from,
                  tokens = was->train.batch_warmup.tokens;
    pst_config_close(was);
    if (batch != is->train.batch)
        return pst_fail(PST_EINPUT,
                        "%s was trained with train.batch %" PRId64 ", not %" PRId64
                        "; resume with the same value",
                        ckpt->path, batch, is->train.batch);
    if (from != is->train.batch_warmup.from || tokens != is->train.batch_warmup.tokens)
        return pst_fail(
            PST_EINPUT,
            "%s was trained with train.batch_warmup {from: %" PRId64 ", tokens: %" PRId64
            "}, not {from: %" PRId64 ", tokens: %" PRId64 "}; resume with the same values",
            ckpt->path, from, tokens, is->train.batch_warmup.from, is->train.batch_warmup.tokens);
    const uint64_t first = pst_batches_before(&p->batches, info->step);
    if (info->next_sample >= first) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "%s: next_sample is %" PRIu64 ", but %" PRIu64 " steps have %" PRIu64
                    " samples",
                    ckpt->path, info->next_sample, info->step, first);
}

static pst_status check_resume(const pst_ckpt *ckpt, const pst_prepared *p, pst_data *data) {
    const pst_ckpt_info *info = &ckpt->info;
    PST_TRY(check_model(ckpt, p));
    if (strcmp(info->optimizer, p->optim->name))
        return pst_fail(PST_EINPUT,
                        "%s was trained with optimizer %s, not %s; resume with the same optimizer",
                        ckpt->path, *info->optimizer ? info->optimizer : "(none)", p->optim->name);
    PST_TRY(check_batches(ckpt, p));
    if (info->seed != (uint64_t)p->config->train.seed)
        return pst_fail(PST_EINPUT,
                        "%s was trained with train.seed %" PRIu64 ", not %" PRId64
                        "; resume with the same value",
                        ckpt->path, info->seed, p->config->train.seed);
    PST_TRY(compare_tokenizers(ckpt, p->config->data.tokenizer, pst_data_tokenizer(data)));
    uint64_t data_hash = data->row->hash(data);
    if (info->data_hash != data_hash)
        return pst_fail(PST_EINPUT,
                        "%s was trained on different data: its hash is %016" PRIx64
                        ", that of data.paths %016" PRIx64
                        " (data.kind, data.blend, data.isolate, data.validation, data.field, "
                        "data.mask, data.label, data.on_error, data.template, model.context, "
                        "model.max_predictions, model.next_sentence, model.labels, or the files "
                        "differ: their "
                        "order, names and sizes, or, with tokens, their contents), so the position "
                        "in the data cannot be restored",
                        ckpt->path, info->data_hash, data_hash);
    return PST_OK;
}

pst_status pst_resume_check(const pst_prepared *p, pst_data *data, const char *resume) {
    pst_ckpt *ckpt = NULL;
    char *folder = NULL;
    PST_TRY(pst_ckpt_find(resume, &folder));
    pst_status status = name_older_of(p, pst_ckpt_open(folder, &ckpt), folder);
    if (status == PST_OK) status = check_resume(ckpt, p, data);
    pst_ckpt_close(ckpt);
    free(folder);
    return status;
}

static pst_status hash_of_tokenizer(const pst_config *c, uint64_t *hash) {
    pst_tokenizer *t;
    *hash = 0;
    if (!pst_config_has_tokenizer(c)) return PST_OK;
    pst_status status = pst_tokenizer_open(c->data.tokenizer, &t);
    if (status != PST_OK) return pst_fail_in(status, "data.tokenizer");
    *hash = pst_tokenizer_hash(t);
    pst_tokenizer_close(t);
    return PST_OK;
}

pst_status pst_resume_check_tokenizer(const pst_config *c, const char *resume) {
    pst_ckpt *ckpt = NULL;
    char *folder = NULL;
    uint64_t hash;
    PST_TRY(pst_ckpt_find(resume, &folder));
    pst_status status = name_older(pst_ckpt_open(folder, &ckpt), folder);
    if (status == PST_OK) status = hash_of_tokenizer(c, &hash);
    if (status == PST_OK) status = compare_tokenizers(ckpt, c->data.tokenizer, hash);
    pst_ckpt_close(ckpt);
    free(folder);
    return status;
}

/* 1: the run file is the one in the folder `resume`, which lacks the tokenizer's folder. */
static int lacks_tokenizer(const pst_config *c, const char *resume) {
    char *own = NULL;
    if (strcmp(c->data.tokenizer, PST_CKPT_TOKENIZER) || !access(PST_CKPT_TOKENIZER, F_OK))
        return 0;
    const int is_own =
        asprintf(&own, "%s/run.yaml", resume) >= 0 && c->source && !strcmp(own, c->source);
    free(own);
    return is_own;
}

static pst_status use_copy(pst_config *c, const char *resume, const char *copy) {
    if (access(copy, F_OK) == 0) return pst_config_override(c, "data", "tokenizer", copy);
    return pst_fail(PST_EINPUT,
                    "data.tokenizer: the folder %s/" PST_CKPT_TOKENIZER
                    " is missing, and so is %s; restore one of them, or set "
                    "data.tokenizer=PATH",
                    resume, copy);
}

pst_status pst_resume_find_tokenizer(pst_config *c, const char *resume) {
    char *folder = NULL, *copy = NULL;
    if (!lacks_tokenizer(c, resume)) return PST_OK;
    PST_TRY(pst_ckpt_find(resume, &folder));
    if (asprintf(&copy, "%s/" PST_CKPT_TOKENIZER, folder) < 0) copy = NULL;
    pst_status status = copy ? use_copy(c, resume, copy) : pst_no_memory("for a path");
    free(copy);
    free(folder);
    return status;
}

/* States of another type are converted. */
static void log_conversion(const pst_prepared *p, const pst_ckpt *ckpt) {
    const pst_dtype was = pst_ckpt_state_type(ckpt), is = p->optim->state;
    if (was == is) return;
    pst_log(PST_LOG_INFO, "%s has optimizer state in %s, which is converted to %s%s", ckpt->path,
            pst_dtype_precision(was), pst_dtype_precision(is),
            is == PST_BF16 ? " (rounded to nearest)" : "");
}

/* Logs settings that differ from the checkpoint's. Skipped without a message if memory runs out. */
static void log_changes(const pst_trainer *t, const pst_ckpt *ckpt) {
    pst_config *was = NULL;
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (f && pst_config_parse(ckpt->config, "run.yaml of the checkpoint", NULL, 0, &was) == PST_OK)
        pst_config_print_changes(was, t->config, f);
    if (f && fclose(f) == 0 && *text)
        pst_log(PST_LOG_INFO, "settings differ from those of the checkpoint: %s", text);
    pst_config_close(was);
    free(text);
    pst_error_clear();
}

/* The lowest loss so far and the evaluations since, unless checkpoint.best or checkpoint.metric was
 * another one. */
static void take_best(pst_trainer *t, const pst_ckpt_info *info) {
    char best_of[PST_CKPT_BEST_OF];
    pst_saving_best_of(t->config, best_of);
    const int same = !strcmp(info->best_of, best_of);
    const double lowest = isnan(info->best_loss) ? INFINITY : info->best_loss;
    t->best_loss = same ? lowest : INFINITY;
    t->no_better = same ? info->no_better : 0;
    t->chosen_loss = NAN;
    if (same) t->chosen_loss = *best_of ? info->chosen_loss : info->validation_loss;
}

/* Weights, optimizer states and counters. */
static pst_status load(pst_trainer *t, const pst_ckpt *ckpt) {
    const pst_ckpt_info *info = &ckpt->info;
    for (uint32_t i = 0; i < t->group->n_local; i++) {
        pst_status status = read_rank(t->group->local[i], ckpt, t->p->optim);
        if (status == PST_OK) status = pst_residual_read(t->group->local[i], ckpt);
        if (status == PST_OK) status = pst_islands_read(t->group->local[i], ckpt);
        if (status == PST_OK) status = pst_islands_read_kept(t->group->local[i], ckpt);
        PST_TRY(name_older_of(t->p, status, ckpt->path));
    }
    PST_TRY(pst_pending_read(t, ckpt));
    t->group->weights_gathered = 0;
    t->step = t->checkpointed = info->step;
    t->skipped = info->skipped;
    t->spiked = info->spiked;
    t->skipped_samples = info->next_sample - pst_batches_before(&t->p->batches, info->step);
    t->recent = info->recent;
    pst_scaler_open(t->config, &t->scaler);
    if (t->scaler.dynamic && info->loss_scale > 0) {
        t->scaler.scale = info->loss_scale;
        t->scaler.good = info->loss_scale_good;
    }
    t->validation_loss = info->validation_loss;
    take_best(t, info);
    return PST_OK;
}

pst_status pst_resume_load(pst_trainer *t, const pst_ckpt *ckpt) { return load(t, ckpt); }

static pst_status resume_from(pst_trainer *t, const pst_ckpt *ckpt) {
    PST_TRY(check_resume(ckpt, t->p, t->data));
    if (t->group->leader) log_conversion(t->p, ckpt);
    if (t->group->leader && !t->p->options.graph) log_changes(t, ckpt);
    if (t->group->leader) pst_residual_explain(t->p, ckpt);
    if (t->group->leader) pst_islands_explain(t->p, ckpt);
    if (t->group->leader) pst_pending_explain(t->p, ckpt);
    PST_TRY(load(t, ckpt));
    t->resumed = t->step;
    t->skipped_before = t->skipped;
    return PST_OK;
}

pst_status pst_resume_rewind(pst_trainer *t) {
    char path[PST_TRAINER_FOLDER + 64];
    pst_ckpt *ckpt = NULL;
    PST_TRY(pst_saving_finish(t));
    snprintf(path, sizeof path, "%s/checkpoints/step-%08" PRIu64, t->folder, t->checkpointed);
    /* the run may have begun from a checkpoint elsewhere */
    int elsewhere = *t->resume && t->checkpointed == t->resumed;
    pst_status status = pst_ckpt_open(elsewhere ? t->resume : path, &ckpt);
    /* a rank may die meanwhile: the state of the last step stays */
    for (uint32_t i = 0; status == PST_OK && i < t->group->n_local; i++)
        status = pst_rank_turn(t->group->local[i]);
    if (status == PST_OK) status = load(t, ckpt);
    pst_ckpt_close(ckpt);
    PST_TRY(pst_group_agree(t->group, status));
    for (uint32_t i = 0; i < t->group->n_local; i++) PST_TRY(pst_rank_refresh(t->group->local[i]));
    return PST_OK;
}

/* Hosts may see different folders under the same path. */
static pst_status same_step(const pst_trainer *t) {
    const uint64_t *step;
    pst_status status = PST_OK;
    PST_TRY(pst_group_numbers(t->group, t->step, &step));
    for (uint32_t r = 1; r < t->group->n_rank && status == PST_OK; r++)
        if (step[r] != step[0])
            status = pst_fail(PST_EINPUT,
                              "%s is of step %" PRIu64 " on rank 0 and of step %" PRIu64
                              " on rank %u: check that all hosts "
                              "see the same folder",
                              t->resume, step[0], step[r], r);
    return pst_group_agree(t->group, status);
}

pst_status pst_resume_read(pst_trainer *t) {
    pst_ckpt *ckpt = NULL;
    pst_status status = name_older_of(t->p, pst_ckpt_open(t->resume, &ckpt), t->resume);
    if (status == PST_OK) status = resume_from(t, ckpt);
    pst_ckpt_close(ckpt);
    PST_TRY(pst_group_agree(t->group, status));
    return same_step(t);
}

/* --- Hugging Face ----------------------------------------------------------------------------- */

static uint64_t weight_bytes(const pst_rank *r, uint32_t param) {
    const pst_rank_part part = pst_rank_fill_part(r, param);
    return (part.to - part.from) * sizeof(float);
}

static pst_status map_weight(const pst_rank *r, uint32_t param, float **out) {
    void *host = NULL;
    pst_status status =
        pst_rank_map(r, pst_rank_fill_at(r, param), weight_bytes(r, param), 0, &host);
    *out = host;
    return status;
}

static pst_status unmap_weight(pst_rank *r, uint32_t param, int writes, float *host) {
    PST_TRY(pst_rank_unmap(r, pst_rank_fill_at(r, param), weight_bytes(r, param), writes, host));
    return writes ? pst_rank_filled(r, param) : PST_OK;
}

/* weight: [n_param] the parameters that are read now; from, to: elements of each. */
static pst_status read_hf(pst_rank *r, const char *source, float **weight, const uint64_t *from,
                          const uint64_t *to) {
    const pst_graph *g = r->p->whole;
    pst_status status =
        pst_hf_import(source, r->p->model, g,
                      &(pst_hf_weights){.held = r->graph,
                                        .weight = weight,
                                        .from = from,
                                        .to = to,
                                        .seed = (uint64_t)r->p->config->train.seed});
    for (uint32_t i = 0; i < g->n_param; i++) {
        pst_status back = weight[i] ? unmap_weight(r, i, status == PST_OK, weight[i]) : PST_OK;
        status = status == PST_OK ? back : status;
        weight[i] = NULL;
    }
    return status;
}

static int is_imported(const pst_rank *r, uint32_t param) {
    const pst_param *p = r->graph->param + param;
    return pst_rank_fill_at(r, param) && !p->cache && !p->adapter;
}

/* All at once; then those that share memory until they are rounded, one by one. */
static pst_status read_hf_rank(pst_rank *r, const char *source, float **weight,
                               const uint64_t *from, const uint64_t *to) {
    const uint32_t n = r->p->whole->n_param;
    pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < n; i++)
        if (is_imported(r, i) && !pst_rank_is_rounded(r, i)) status = map_weight(r, i, &weight[i]);
    if (status == PST_OK) status = read_hf(r, source, weight, from, to);
    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        if (!is_imported(r, i) || !pst_rank_is_rounded(r, i)) continue;
        status = map_weight(r, i, &weight[i]);
        if (status == PST_OK) status = read_hf(r, source, weight, from, to);
    }
    return status;
}

pst_status pst_resume_read_hf(pst_rank *r, const char *source) {
    const uint32_t n = r->p->whole->n_param;
    float **weight = calloc(n + (size_t)1, sizeof *weight);
    uint64_t *from = calloc(2 * (size_t)n + 1, sizeof *from);
    pst_status status =
        weight && from ? PST_OK : pst_fail(PST_ENOMEM, "no memory to read %s", source);
    for (uint32_t i = 0; status == PST_OK && i < n; i++) {
        const pst_rank_part part = pst_rank_fill_part(r, i);
        from[i] = part.from;
        from[n + i] = part.to;
    }
    if (status == PST_OK) status = read_hf_rank(r, source, weight, from, from + n);
    free(weight);
    free(from);
    return status;
}

static pst_status check_tokens(const pst_prepared *p, const char *source) {
    char instead[200];
    const char *tokenizer = p->config->data.tokenizer;
    snprintf(instead, sizeof instead,
             "but data.tokenizer is %s; use weights of a model that was trained with this "
             "tokenizer, or omit model.weights",
             tokenizer);
    pst_status status =
        p->model->hf_name ? pst_hf_check_tokens(source, tokenizer, instead) : PST_OK;
    return status == PST_EINPUT ? pst_fail_in(status, "model.weights") : status;
}

pst_status pst_resume_check_hf(const pst_prepared *p, const char *source) {
    PST_TRY(check_tokens(p, source));
    float **nowhere = calloc(p->graph->n_param + (size_t)1, sizeof *nowhere);
    if (!nowhere) return pst_fail(PST_ENOMEM, "no memory to check %s", source);
    pst_status status = pst_hf_import(source, p->model, p->whole,
                                      &(pst_hf_weights){.held = p->whole, .weight = nowhere});
    free(nowhere);
    return status;
}

pst_status pst_resume_read_hf_all(pst_trainer *t, const char *path) {
    pst_status status = PST_OK;
    if (t->group->leader) status = pst_hf_log_parts(path, t->p->model, t->p->whole);
    for (uint32_t i = 0; status == PST_OK && i < t->group->n_local; i++)
        status = pst_resume_read_hf(t->group->local[i], path);
    return pst_group_agree(t->group, status);
}

/* A step played by itself: the tape of the uncut graph from top to bottom, every value in memory of
 * its own that was filled with NaN, all micro-batches forward and then backward. Says which
 * operator is the first to write a number that is none; shares nothing with executor, layout and
 * checker but the kernels. */
#ifndef TESTS_RUN_ORACLE_H
#define TESTS_RUN_ORACLE_H
#include "checkpoint/checkpoint.h"
#include "prepare/prepare.h"
#include "run/runs.h"
#include <math.h>

typedef struct {
    int found;
    char op[PST_NAME_MAX], tensor[PST_NAME_MAX + 40], pass[4], weight[PST_NAME_MAX];
    char at[120]; /* "[0,3,1]" */
    uint32_t micro;
} oracle_culprit;

typedef struct {
    pst_config *config;
    pst_prepared *p;
    pst_data *data;
    pst_device *device;
    float **weight; /* [n_param] */
    void **param;   /* [n_param] as kernels read them: the weight itself, fp32 only */
    float **grad;   /* [use] by cut->use_first */
    void ***value;  /* [n_micro][n_local] */
    uint64_t first_sample;
    oracle_culprit c;
} oracle;

static inline void oracle_must(pst_status status) {
    if (status != PST_OK) fail_msg("%s", pst_error());
}

static inline void *oracle_memory(uint64_t bytes) {
    void *x = aligned_alloc(64, (bytes + 127) / 64 * 64);
    memset(x, 0xff, bytes);
    return x;
}

static inline const pst_value *oracle_value(const oracle *o, uint32_t local) {
    return o->p->cut->tape->value + o->p->cut->chunk[0].local[local].value;
}

/* The resolved run of the checkpoint's own configuration, on one rank. */
static inline oracle oracle_open(const char *yaml, const char *checkpoint) {
    oracle o = {0};
    const char *one[] = {"parallel.threads=1"};
    const pst_model_row *model;
    pst_model_config sizes;
    const pst_device_ops *ops;
    pst_device_config device = {.threads = 1};
    pst_ckpt *ckpt;
    char *folder;
    oracle_must(pst_config_parse(yaml, "test.yaml", one, 1, &o.config));
    oracle_must(pst_prepare_model(o.config, &model, &sizes));
    pst_data_config from = {.paths = o.config->data.paths,
                            .n_path = o.config->data.n_path,
                            .validation = o.config->data.validation,
                            .context = sizes.context,
                            .seed = (uint64_t)o.config->train.seed,
                            .tokenizer = o.config->data.tokenizer};
    oracle_must(pst_data_text.open(&from, &o.data));
    uint32_t n_micro = (uint32_t)(o.config->train.batch / o.config->train.micro_batch);
    pst_prepare_options options = {
        .n_rank = 1, .threads = 1, .isa = pst_cpu_isa(), .n_eval_micro = n_micro};
    oracle_must(pst_prepare(o.config, &options, &o.p));
    oracle_must(pst_registry_device("cpu", &device, &ops));
    oracle_must(ops->open(&device, &o.device));
    const pst_graph *g = o.p->graph;
    o.weight = calloc(g->n_param, sizeof *o.weight);
    o.grad = calloc(o.p->cut->use_first[g->n_param], sizeof *o.grad);
    o.value = calloc(n_micro, sizeof *o.value);
    oracle_must(pst_ckpt_find(checkpoint, &folder));
    oracle_must(pst_ckpt_open(folder, &ckpt));
    for (uint32_t i = 0; i < g->n_param; i++) {
        o.weight[i] = oracle_memory(pst_param_elements(g->param + i) * sizeof(float));
        oracle_must(pst_ckpt_read_param(ckpt, g->param + i, NULL, o.weight[i], NULL));
        for (uint32_t u = o.p->cut->use_first[i]; u < o.p->cut->use_first[i + 1]; u++)
            o.grad[u] = oracle_memory(pst_param_elements(g->param + i) * sizeof(float));
    }
    o.first_sample = ckpt->info.next_sample;
    pst_ckpt_close(ckpt);
    free(folder);
    return o;
}

static inline void oracle_close(oracle *o) {
    const pst_graph *g = o->p->graph;
    for (uint32_t i = 0; i < g->n_param; i++) free(o->weight[i]);
    for (uint32_t u = 0; u < o->p->cut->use_first[g->n_param]; u++) free(o->grad[u]);
    for (uint32_t m = 0; m < o->p->plan->layout.n_micro; m++) {
        for (uint32_t l = 0; o->value[m] && l < o->p->cut->chunk[0].n_local; l++)
            free(o->value[m][l]);
        free(o->value[m]);
    }
    free(o->weight);
    free(o->grad);
    free(o->value);
    o->device->ops->close(o->device);
    o->data->row->close(o->data);
    pst_prepared_close(o->p);
    pst_config_close(o->config);
}

/* Index of the first that is not finite, n when there is none. */
static inline uint64_t oracle_bad(const float *x, uint64_t n) {
    uint64_t i = 0;
    while (i < n && isfinite(x[i])) i++;
    return i;
}

static inline void oracle_fill(oracle *o, uint32_t micro) {
    const pst_graph *g = o->p->graph;
    uint32_t context = o->p->model_config.context, b = o->p->model_config.micro_batch;
    int32_t *row[2] = {malloc(context * sizeof(int32_t)), malloc(context * sizeof(int32_t))};
    o->value[micro] = calloc(o->p->cut->chunk[0].n_local, sizeof **o->value);
    for (uint32_t l = 0; l < o->p->cut->chunk[0].n_local; l++) {
        const pst_value *v = oracle_value(o, l);
        int32_t *x = o->value[micro][l] = oracle_memory(v->bytes);
        if (v->def_step != PST_NONE) continue;
        for (uint32_t k = 0; k < b; k++) {
            uint64_t sample = o->first_sample + micro * b + k;
            oracle_must(o->data->row->sample(o->data, PST_SPLIT_TRAIN, sample, row));
            memcpy(x + k * context, row[!strcmp(g->tensor[v->tensor].name, "targets")],
                   context * sizeof *x);
        }
    }
    free(row[0]);
    free(row[1]);
}

/* [i,j,k] of row-major element `index`. */
static inline void oracle_at(oracle *o, uint32_t n_dim, const uint64_t *dim, uint64_t index) {
    uint64_t below = 1;
    for (uint32_t d = 0; d < n_dim; d++) below *= dim[d];
    for (uint32_t d = 0; d < n_dim; d++) {
        size_t used = strlen(o->c.at);
        below /= dim[d];
        snprintf(o->c.at + used, sizeof o->c.at - used, "%s%llu", d ? "," : "[",
                 (unsigned long long)(index / below));
        index %= below;
    }
    strcat(o->c.at, "]");
}

static inline void oracle_note(oracle *o, const pst_step *s, const pst_operand *a, uint32_t micro,
                               uint64_t index) {
    static const char *const pass[] = {"F", "B", "W"};
    const pst_graph *g = o->p->graph;
    o->c = (oracle_culprit){.found = 1, .micro = micro};
    snprintf(o->c.op, sizeof o->c.op, "%s", g->node[s->node].name);
    snprintf(o->c.pass, sizeof o->c.pass, "%s", pass[s->pass]);
    for (uint32_t i = 0; i < s->n_operand; i++) /* the last one that is read */
        if (s->operand[i].kind == PST_OPERAND_PARAM) {
            uint64_t n = pst_param_elements(g->param + s->operand[i].index);
            if (oracle_bad(o->weight[s->operand[i].index], n) < n)
                snprintf(o->c.weight, sizeof o->c.weight, "%s", g->param[s->operand[i].index].name);
        }
    if (a->kind == PST_OPERAND_DPARAM) {
        snprintf(o->c.tensor, sizeof o->c.tensor, "gradient of %s", g->param[a->index].name);
        oracle_at(o, g->param[a->index].n_dim, g->param[a->index].dim, index);
        return;
    }
    const pst_value *v = oracle_value(o, a->index);
    if (v->kind == PST_VALUE_SAVED)
        oracle_at(o, 1, &g->node[v->node].saved[v->saved].elements, index);
    else oracle_at(o, g->tensor[v->tensor].n_dim, g->tensor[v->tensor].dim, index);
    if (v->kind == PST_VALUE_SAVED)
        snprintf(o->c.tensor, sizeof o->c.tensor, "%s.saved.%u", g->node[v->node].name, v->saved);
    else
        snprintf(o->c.tensor, sizeof o->c.tensor, "%s%s",
                 v->kind == PST_VALUE_GRAD ? "gradient of " : "", g->tensor[v->tensor].name);
}

static inline void oracle_run(oracle *o, const pst_step *s, uint32_t micro) {
    const pst_prepared *p = o->p;
    const pst_graph *g = p->graph;
    const pst_kernel_row *kernel = pst_registry_kernel(s->kernel);
    void *arg[PST_MAX_ARG] = {0};
    uint64_t n[PST_MAX_ARG] = {0};
    for (uint32_t i = 0; i < s->n_operand; i++) {
        const pst_operand *a = s->operand + i;
        if (a->kind == PST_OPERAND_NULL) continue;
        if (a->kind == PST_OPERAND_VALUE) {
            void **own = &o->value[micro][a->index];
            if (a->must)
                memcpy(*own, o->value[micro][s->operand[a->share].index],
                       oracle_value(o, a->index)->bytes);
            arg[i] = *own;
            if (oracle_value(o, a->index)->dtype == PST_F32)
                n[i] = oracle_value(o, a->index)->bytes / sizeof(float);
        } else {
            n[i] = pst_param_elements(g->param + a->index);
            arg[i] = a->kind == PST_OPERAND_PARAM ? o->weight[a->index]
                                                  : o->grad[p->cut->use_first[a->index] + a->use];
        }
    }
    /* one memory always: both stand for the written one */
    for (uint32_t i = 0; i < s->n_operand; i++)
        if (s->operand[i].must) arg[s->operand[i].share] = arg[i];
    void *scratch = oracle_memory(s->scratch + 1);
    pst_call call = {
        .graph = g,
        .node = g->node + s->node,
        .arg = arg,
        .scratch = scratch,
        .seed = (uint64_t)p->config->train.seed,
        .first = micro == 0,
        .train = 1,
        .sample = o->first_sample + (uint64_t)micro * p->model_config.micro_batch,
        .loss_scale = 1.0f / (float)((uint64_t)p->config->train.batch * p->model_config.context)};
    oracle_must(kernel->launch(o->device, &call));
    free(scratch);
    for (uint32_t i = 0; i < s->n_operand && !o->c.found; i++) {
        uint64_t bad = s->operand[i].access & PST_WRITE ? oracle_bad(arg[i], n[i]) : n[i];
        if (bad < n[i]) oracle_note(o, s, s->operand + i, micro, bad);
    }
}

/* The first one of the step that follows a checkpoint; found 0 when all is finite. fp32. */
static inline oracle_culprit oracle_play(const char *yaml, const char *checkpoint) {
    oracle o = oracle_open(yaml, checkpoint);
    const pst_program *program = o.p->cut->chunk[0].program;
    for (uint32_t m = 0; m < o.p->plan->layout.n_micro; m++) {
        oracle_fill(&o, m);
        for (uint32_t s = 0; s < program[PST_OP_F].n_step; s++)
            oracle_run(&o, program[PST_OP_F].step + s, m);
    }
    for (uint32_t m = 0; m < o.p->plan->layout.n_micro && !o.c.found; m++)
        for (uint32_t s = 0; s < program[PST_OP_BW].n_step; s++)
            oracle_run(&o, program[PST_OP_BW].step + s, m);
    oracle_culprit c = o.c;
    oracle_close(&o);
    return c;
}
#endif

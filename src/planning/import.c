/* See import.h: what flags of other programs are in the run file. planning/planning.h declares
 * pst_planning_import. */
#include "planning/import.h"
#include "base/file.h"
#include "base/log.h"
#include "config/config.h"
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 20 };

/* What a file says of the layout and the model; 0 or NULL: nothing. */
typedef struct {
    int64_t tensor, pipeline, data, replicate, shard, chunks, chunk_layers;
    int64_t micro, batch, local_batch, accumulate;
    int64_t layers, channels, heads, context, groups, intermediate, vocabulary;
    int64_t sequence, distributed, grouped, bf16, fp16, zero, recompute_on, recompute_layers;
    const char *fp8, *schedule, *recompute, *method, *reshard, *precision;
} values;

typedef enum {
    NUMBER, /* a whole number, at least 1 */
    COUNT,  /* a whole number, at least 0 */
    ANY,    /* a whole number, at least -1 */
    WORD,
    SWITCH, /* nothing, true or false */
    ONE,    /* only 1 is possible */
    KEY,    /* the value of this key of the run file */
    LLAMA   /* what model.kind llama has: this value; NULL: a switch */
} kind;
typedef struct {
    pst_recipe_program program;
    const char *name;
    kind kind;
    size_t to;       /* offset in `values` */
    const char *key; /* "train.lr" */
} row;

#define M PST_RECIPE_MEGATRON
#define T PST_RECIPE_TORCHTITAN
#define D PST_RECIPE_DEEPSPEED
#define TO(member) offsetof(values, member), NULL
static const row rows[] = {
    {M, "tensor-model-parallel-size", NUMBER, TO(tensor)},
    {M, "pipeline-model-parallel-size", NUMBER, TO(pipeline)},
    {M, "num-virtual-stages-per-pipeline-rank", NUMBER, TO(chunks)},
    {M, "num-layers-per-virtual-pipeline-stage", NUMBER, TO(chunk_layers)},
    {M, "micro-batch-size", NUMBER, TO(micro)},
    {M, "global-batch-size", NUMBER, TO(batch)},
    {M, "num-layers", NUMBER, TO(layers)},
    {M, "hidden-size", NUMBER, TO(channels)},
    {M, "num-attention-heads", NUMBER, TO(heads)},
    {M, "seq-length", NUMBER, TO(context)},
    {M, "group-query-attention", SWITCH, TO(grouped)},
    {M, "num-query-groups", NUMBER, TO(groups)},
    {M, "ffn-hidden-size", NUMBER, TO(intermediate)},
    {M, "vocab-size", NUMBER, TO(vocabulary)},
    {M, "sequence-parallel", SWITCH, TO(sequence)},
    {M, "use-distributed-optimizer", SWITCH, TO(distributed)},
    {M, "bf16", SWITCH, TO(bf16)},
    {M, "fp16", SWITCH, TO(fp16)},
    {M, "fp8-format", WORD, TO(fp8)},
    {M, "recompute-activations", SWITCH, TO(recompute_on)},
    {M, "recompute-granularity", WORD, TO(recompute)},
    {M, "recompute-method", WORD, TO(method)},
    {M, "recompute-num-layers", NUMBER, TO(recompute_layers)},
    {M, "swiglu", LLAMA, 0, NULL},
    {M, "disable-bias-linear", LLAMA, 0, NULL},
    {M, "normalization", LLAMA, 0, "RMSNorm"},
    {M, "position-embedding-type", LLAMA, 0, "rope"},
    {M, "context-parallel-size", ONE, 0, NULL},
    {M, "expert-model-parallel-size", ONE, 0, NULL},
    {M, "lr", KEY, 0, "train.lr"},
    {M, "min-lr", KEY, 0, "train.lr_min"},
    {M, "weight-decay", KEY, 0, "train.weight_decay"},
    {M, "clip-grad", KEY, 0, "train.clip"},
    {M, "adam-beta1", KEY, 0, "train.beta1"},
    {M, "adam-beta2", KEY, 0, "train.beta2"},
    {M, "adam-eps", KEY, 0, "train.eps"},
    {M, "seed", KEY, 0, "train.seed"},
    {M, "train-iters", KEY, 0, "train.steps"},
    {M, "hidden-dropout", KEY, 0, "model.dropout"},
    {M, "attention-dropout", KEY, 0, "model.attention_dropout"},
    {T, "parallelism.tensor_parallel_degree", NUMBER, TO(tensor)},
    {T, "parallelism.pipeline_parallel_degree", NUMBER, TO(pipeline)},
    {T, "parallelism.data_parallel_replicate_degree", NUMBER, TO(replicate)},
    {T, "parallelism.data_parallel_shard_degree", ANY, TO(shard)},
    {T, "parallelism.fsdp_reshard_after_forward", WORD, TO(reshard)},
    {T, "parallelism.enable_sequence_parallel", SWITCH, TO(sequence)},
    {T, "parallelism.pipeline_parallel_schedule", WORD, TO(schedule)},
    {T, "parallelism.pipeline_parallel_microbatch_size", NUMBER, TO(micro)},
    {T, "parallelism.pipeline_parallel_layers_per_stage", NUMBER, TO(chunk_layers)},
    {T, "parallelism.context_parallel_degree", ONE, 0, NULL},
    {T, "parallelism.expert_parallel_degree", ONE, 0, NULL},
    {T, "training.local_batch_size", NUMBER, TO(local_batch)},
    {T, "training.global_batch_size", ANY, TO(batch)},
    {T, "training.seq_len", NUMBER, TO(context)},
    {T, "training.mixed_precision_param", WORD, TO(precision)},
    {T, "training.steps", KEY, 0, "train.steps"},
    {T, "training.max_norm", KEY, 0, "train.clip"},
    {T, "optimizer.lr", KEY, 0, "train.lr"},
    {T, "activation_checkpoint.mode", WORD, TO(recompute)},
    {D, "train_batch_size", NUMBER, TO(batch)},
    {D, "train_micro_batch_size_per_gpu", NUMBER, TO(micro)},
    {D, "gradient_accumulation_steps", NUMBER, TO(accumulate)},
    {D, "zero_optimization.stage", COUNT, TO(zero)},
    {D, "bf16.enabled", SWITCH, TO(bf16)},
    {D, "fp16.enabled", SWITCH, TO(fp16)},
    {D, "tensor_parallel.autotp_size", NUMBER, TO(tensor)},
    {D, "gradient_clipping", KEY, 0, "train.clip"},
    {D, "optimizer.params.lr", KEY, 0, "train.lr"},
};
enum { ROWS = sizeof rows / sizeof *rows, KEYS = 32, KEY_TEXT = 64 };

typedef struct {
    pst_planning *x;
    pst_recipe_file file;
    values v;
    char recompute[PST_RECOMPUTE_TEXT]; /* {full: N} */
    /* keys of the run file and their values */
    struct {
        char key[KEY_TEXT], value[KEY_TEXT];
    } set[KEYS];
    uint32_t n_set;
    int64_t devices;     /* of the cluster, or -n; 0: unknown */
    const char *program; /* the profile that fits */
} job;

/* "flags:3: --micro-batch-size", as messages begin */
static const char *place_of(const job *j, const pst_recipe_item *item, char *text, size_t bytes) {
    const char *dashes = j->file.program == PST_RECIPE_MEGATRON ? "--" : "";
    if (item->line)
        snprintf(text, bytes, "%.200s:%u: %s%.80s", j->file.file, item->line, dashes, item->name);
    else snprintf(text, bytes, "%.200s: %s%.80s", j->file.file, dashes, item->name);
    return text;
}

/* --- values ----------------------------------------------------------------------------------- */

static pst_status wrong(const job *j, const pst_recipe_item *item, const char *expected) {
    char place[320];
    return pst_fail(
        PST_EINPUT, "%s: expected %s, found '%.40s'%s", place_of(j, item, place, sizeof place),
        expected, item->value ? item->value : "",
        item->variable ? "; variables of the shell are not expanded: write the value" : "");
}

static pst_status read_number(const job *j, const pst_recipe_item *item, int64_t least,
                              int64_t *to) {
    char *end;
    errno = 0;
    const long long n = item->value ? strtoll(item->value, &end, 10) : 0;
    if (!item->value || end == item->value || *end || errno || n < least || n > 1000000000)
        return wrong(j, item, least > 0 ? "a whole number, at least 1" : "a whole number");
    *to = n;
    return PST_OK;
}

static pst_status read_switch(const job *j, const pst_recipe_item *item, int64_t *to) {
    const char *value = item->value;
    const int off = value && (!strcmp(value, "false") || !strcmp(value, "False"));
    if (value && !off && strcmp(value, "true") != 0 && strcmp(value, "True") != 0 &&
        !item->variable)
        return wrong(j, item, "no value, true or false");
    *to = off ? -1 : 1;
    return PST_OK;
}

static void set_key(job *j, const char *key, const char *value) {
    if (j->n_set == KEYS) return;
    snprintf(j->set[j->n_set].key, KEY_TEXT, "%s", key);
    snprintf(j->set[j->n_set++].value, KEY_TEXT, "%s", value);
}

static void set_number(job *j, const char *key, int64_t value) {
    char text[KEY_TEXT];
    snprintf(text, sizeof text, "%" PRId64, value);
    if (value > 0) set_key(j, key, text);
}

static pst_status read_item(job *j, const pst_recipe_item *item, const row *r) {
    void *to = (uint8_t *)&j->v + r->to;
    int64_t one;
    switch (r->kind) {
    case NUMBER: return read_number(j, item, 1, to);
    case COUNT: return read_number(j, item, 0, to);
    case ANY: return read_number(j, item, -1, to);
    case SWITCH: return read_switch(j, item, to);
    case LLAMA: return PST_OK;
    case ONE:
        PST_TRY(read_number(j, item, 1, &one));
        return one == 1 ? PST_OK : wrong(j, item, "1, because more has no counterpart");
    case WORD:
    case KEY: break;
    }
    if (!item->value || !*item->value || item->variable || strlen(item->value) >= KEY_TEXT)
        return wrong(j, item, "a value");
    if (r->kind == WORD) memcpy(to, &item->value, sizeof item->value);
    else set_key(j, r->key, item->value);
    return PST_OK;
}

/* Whether the run's kind of model has what the flag gives. */
static int applies(const job *j, const pst_recipe_item *item, const row *r) {
    if (r->kind == LLAMA)
        return !strcmp(j->x->config->model.kind, "llama") &&
               (!r->key || (item->value && !strcmp(item->value, r->key)));
    return r->kind != KEY || strncmp(r->key, "model.", 6) != 0 ||
           strcmp(j->x->config->model.kind, "llama") != 0;
}

/* The last of several equal flags counts, as in those programs. "auto" (of DeepSpeed) says
 * nothing. */
static pst_status read_items(job *j) {
    for (size_t i = 0; i < j->file.n; i++) {
        pst_recipe_item *item = j->file.item + i;
        for (size_t k = 0; k < ROWS; k++) {
            if (rows[k].program != j->file.program || strcmp(rows[k].name, item->name) != 0 ||
                (item->value && !strcmp(item->value, "auto")) || !applies(j, item, &rows[k]))
                continue;
            item->known = 1;
            PST_TRY(read_item(j, item, &rows[k]));
        }
    }
    return PST_OK;
}

/* A flag whose value has no counterpart. */
static void forget(job *j, const char *name) {
    for (size_t i = 0; i < j->file.n; i++)
        if (!strcmp(j->file.item[i].name, name)) j->file.item[i].known = 0;
}

/* --- the layout of each program --------------------------------------------------------------- */

static pst_status find_devices(job *j) {
    const pst_plan_run_options *o = j->x->options;
    const char *text = *o->cluster ? o->cluster : j->x->config->parallel.cluster;
    pst_cluster *c;
    j->devices = o->ranks;
    if (j->devices || !*text) return PST_OK;
    PST_TRY(pst_cluster_load(text, &c));
    j->devices = c->n_device;
    pst_cluster_close(c);
    return PST_OK;
}

/* Replicas of what the file does not say: all devices are used. */
static pst_status rest_of_devices(const job *j, int64_t of_a_replica, int64_t *data) {
    if (!j->devices)
        return pst_fail(PST_EINPUT,
                        "--import %s: the number of devices determines the number of replicas; "
                        "give --cluster or -n",
                        j->file.file);
    if (j->devices % of_a_replica)
        return pst_fail(PST_EINPUT,
                        "--import %s: tensor x pipeline is %" PRId64
                        ", which does not divide the %" PRId64 " devices",
                        j->file.file, of_a_replica, j->devices);
    *data = j->devices / of_a_replica;
    return PST_OK;
}

static const char *precision_of(const values *v) {
    if (v->bf16 > 0) return "bf16";
    return v->fp16 > 0 ? "fp16" : "fp32";
}

static pst_status read_megatron(job *j) {
    values *v = &j->v;
    PST_TRY(rest_of_devices(j, v->tensor * v->pipeline, &v->data));
    if (!v->batch) v->batch = v->micro * v->data;
    v->zero = v->distributed > 0;
    v->precision = v->fp8 ? "fp8" : precision_of(v);
    if (v->recompute_on > 0 && !v->recompute) v->recompute = "selective";
    const int block = v->method && !strcmp(v->method, "block");
    if (block && v->recompute_layers > 0 && v->recompute_layers <= PST_RECOMPUTE_MOST_LAYERS) {
        pst_recompute_text(pst_recompute_of_layers((uint32_t)v->recompute_layers), j->recompute);
        v->recompute = j->recompute;
    } else if (v->recompute_layers > 1) forget(j, "recompute-num-layers");
    if (v->grouped <= 0) v->groups = 0;
    return PST_OK;
}

/* The schedule of this name in PyTorch. */
static const pst_schedule_row *torch_schedule(const char *name) {
    uint32_t n;
    const pst_schedule_row *list = pst_schedule_rows(&n);
    for (uint32_t i = 0; i < n; i++)
        if (list[i].torch && !strcmp(list[i].torch, name)) return list + i;
    return NULL;
}

static pst_status find_schedule(job *j) {
    const char *name = j->v.schedule ? j->v.schedule : PST_TORCH_1F1B;
    const pst_schedule_row *found = torch_schedule(name);
    if (j->v.pipeline == 1) {
        j->v.schedule = torch_schedule(PST_TORCH_1F1B)->name;
        return PST_OK;
    }
    if (!found)
        return pst_fail(PST_EINPUT,
                        "--import %s: schedule '%.40s' has no counterpart; penstock simulate "
                        "reads it as a CSV file",
                        j->file.file, name);
    j->v.schedule = found->name;
    return PST_OK;
}

static const char *precision_of_torch(const char *name) {
    if (!name || !strcmp(name, "bfloat16")) return "bf16";
    return !strcmp(name, "float32") ? "fp32" : NULL;
}

/* FSDP shards parameters, gradients and states, for which ZeRO 2 stands. */
static pst_status read_torchtitan(job *j) {
    values *v = &j->v;
    const int64_t replicate = v->replicate ? v->replicate : 1;
    int64_t shard = v->shard;
    if (shard <= 0) PST_TRY(rest_of_devices(j, v->tensor * v->pipeline * replicate, &shard));
    v->data = replicate * shard;
    v->zero = shard > 1 ? 2 : 0;
    if (replicate > 1 && shard > 1) forget(j, "parallelism.data_parallel_replicate_degree");
    if (shard > 1 && (!v->reshard || strcmp(v->reshard, "never") != 0))
        pst_log(PST_LOG_WARN,
                "--import %s: no counterpart of resharding after each forward pass "
                "(ZeRO 3); ZeRO 2 is predicted",
                j->file.file);
    if (v->pipeline == 1 || !v->micro) v->micro = v->pipeline == 1 ? v->local_batch : 1;
    if (v->batch <= 0) v->batch = v->local_batch * v->data;
    if (v->sequence >= 0) v->sequence = 1;
    if (!(v->precision = precision_of_torch(v->precision)))
        return pst_fail(PST_EINPUT,
                        "--import %s: training.mixed_precision_param: expected bfloat16 or float32",
                        j->file.file);
    return find_schedule(j);
}

static pst_status read_deepspeed(job *j) {
    values *v = &j->v;
    const pst_config *c = j->x->config;
    if (pst_config_given(c, "parallel", "pipeline") && c->parallel.pipeline > 0)
        v->pipeline = c->parallel.pipeline; /* its files do not say */
    if (v->batch && v->micro && v->accumulate) {
        if (v->batch % (v->micro * v->accumulate))
            return pst_fail(PST_EINPUT,
                            "--import %s: train_batch_size %" PRId64
                            " is not a multiple of train_micro_batch_size_per_gpu %" PRId64
                            " x gradient_accumulation_steps %" PRId64,
                            j->file.file, v->batch, v->micro, v->accumulate);
        v->data = v->batch / (v->micro * v->accumulate);
    } else PST_TRY(rest_of_devices(j, v->tensor * v->pipeline, &v->data));
    if (!v->batch) v->batch = v->micro * v->data * (v->accumulate ? v->accumulate : 1);
    if (!v->micro && v->accumulate) v->micro = v->batch / v->data / v->accumulate;
    v->precision = precision_of(v);
    if (v->zero > 2)
        pst_log(PST_LOG_WARN, "--import %s: no counterpart of ZeRO 3; ZeRO 2 is predicted",
                j->file.file);
    if (v->zero > 2) v->zero = 2;
    return PST_OK;
}

static pst_status (*const read_program[PST_RECIPE_COUNT])(job *) = {read_megatron, read_torchtitan,
                                                                    read_deepspeed};

/* --- checks ----------------------------------------------------------------------------------- */

static pst_status find_chunks(job *j) {
    values *v = &j->v;
    const int64_t layers = v->layers ? v->layers : j->x->model.layers;
    const int64_t whole = v->chunk_layers * v->pipeline;
    if (whole && layers % whole)
        return pst_fail(PST_EINPUT,
                        "--import %s: %" PRId64 " layers are not a multiple of %" PRId64
                        " per chunk x %" PRId64 " stages",
                        j->file.file, layers, v->chunk_layers, v->pipeline);
    if (whole) v->chunks = layers / whole;
    if (v->pipeline == 1) v->chunks = 0;
    if (j->file.program != PST_RECIPE_TORCHTITAN)
        v->schedule = torch_schedule(v->chunks > 1 ? PST_TORCH_INTERLEAVED : PST_TORCH_1F1B)->name;
    return PST_OK;
}

static pst_status check_sizes(const job *j) {
    const values *v = &j->v;
    const int64_t heads = v->heads ? v->heads : j->x->model.heads,
                  channels = v->channels ? v->channels : j->x->model.channels;
    const int64_t ranks = v->tensor * v->pipeline * v->data;
    if (heads && channels % heads)
        return pst_fail(PST_EINPUT,
                        "--import %s: hidden size %" PRId64 " is not a multiple of %" PRId64
                        " attention heads",
                        j->file.file, channels, heads);
    if (j->devices && ranks != j->devices)
        return pst_fail(PST_EINPUT,
                        "--import %s: tensor %" PRId64 " x pipeline %" PRId64 " x data %" PRId64
                        " is %" PRId64 " ranks, but there are %" PRId64
                        " devices; give --cluster or -n with as many",
                        j->file.file, v->tensor, v->pipeline, v->data, ranks, j->devices);
    if (v->batch && v->micro && v->batch % (v->micro * v->data))
        return pst_fail(PST_EINPUT,
                        "--import %s: batch %" PRId64 " is not a multiple of micro-batch %" PRId64
                        " x %" PRId64 " replicas",
                        j->file.file, v->batch, v->micro, v->data);
    if (j->x->config->parallel.n_replicas)
        return pst_fail(PST_EINPUT,
                        "parallel.replicas contradicts --import, which has equal replicas; omit "
                        "the key");
    return PST_OK;
}

/* --- keys of the run file --------------------------------------------------------------------- */

static pst_status set_keys(job *j) {
    const values *v = &j->v;
    const pst_config *c = j->x->config;
    pst_recompute_way way;
    const char *recompute = v->recompute ? v->recompute : "none";
    char zero[KEY_TEXT];
    if (pst_recompute_find(recompute, &way) != PST_OK)
        return pst_fail_in(PST_EINPUT, "--import %s: recomputation", j->file.file);
    set_number(j, "parallel.pipeline", v->pipeline);
    set_number(j, "parallel.data", v->data);
    set_number(j, "parallel.tensor", v->tensor);
    set_key(j, "parallel.sequence", v->tensor > 1 && v->sequence > 0 ? "true" : "false");
    snprintf(zero, sizeof zero, "%" PRId64, v->zero);
    set_key(j, "parallel.zero", zero);
    if (j->file.program != PST_RECIPE_DEEPSPEED) set_key(j, "parallel.recompute", recompute);
    set_key(j, "parallel.schedule", v->schedule);
    if (v->chunks > 1) set_number(j, "parallel.chunks", v->chunks);
    else if (c->parallel.chunks && !strcmp(v->schedule, torch_schedule(PST_TORCH_1F1B)->name))
        set_key(j, "parallel.chunks", "0");
    set_number(j, "train.batch", v->batch);
    set_number(j, "train.micro_batch", v->micro);
    set_key(j, "train.precision", v->precision);
    set_number(j, "model.layers", v->layers);
    set_number(j, "model.channels", v->channels);
    set_number(j, "model.heads", v->heads);
    set_number(j, "model.context", v->context);
    if (strcmp(c->model.kind, "llama") != 0) {
        if (v->groups) forget(j, "num-query-groups");
        if (v->intermediate && v->intermediate != 4 * v->channels) forget(j, "ffn-hidden-size");
    } else {
        set_number(j, "model.kv_heads", v->groups);
        set_number(j, "model.intermediate", v->intermediate);
    }
    if (v->vocabulary) forget(j, "vocab-size"); /* the run's data determines it */
    return PST_OK;
}

/* Line "section.key: value" of a printed configuration; NULL: there is none. The caller frees it.
 */
static char *printed(const pst_config *c, const char *key) {
    char *text = NULL, *found = NULL;
    size_t bytes;
    const size_t n = strlen(key);
    FILE *f = open_memstream(&text, &bytes);
    if (!f) return NULL;
    pst_config_print_paths(c, f);
    if (fclose(f)) return NULL;
    for (char *line = strtok(text, "\n"); line && !found; line = strtok(NULL, "\n"))
        if (!strncmp(line, key, n) && line[n] == ':')
            found = strdup(line + n + 1 + (line[n + 1] == ' '));
    free(text);
    return found;
}

static void note(pst_planning *x, const char *key, const char *value, const char *was) {
    if (x->n_override < PST_PLANNING_OVERRIDES)
        snprintf(x->override[x->n_override++], sizeof *x->override, "%.40s=%.20s, not %.20s", key,
                 value, was);
}

/* A size that the run file takes from a preset. */
static int64_t of_preset(const job *j, const char *key) {
    const pst_model_config *m = &j->x->model;
    if (!*j->x->config->model.preset) return 0;
    if (!strcmp(key, "model.layers")) return m->layers;
    if (!strcmp(key, "model.channels")) return m->channels;
    if (!strcmp(key, "model.heads")) return m->heads;
    return !strcmp(key, "model.context") ? m->context : 0;
}

static pst_status apply_key(job *j, pst_config *config, const char *key, const char *value) {
    char section[KEY_TEXT], preset[KEY_TEXT] = "";
    snprintf(section, sizeof section, "%s", key);
    char *dot = strchr(section, '.');
    *dot = 0;
    const int given = pst_config_given(config, section, dot + 1);
    char *was = given ? printed(config, key) : NULL;
    if (!given && of_preset(j, key))
        snprintf(preset, sizeof preset, "%" PRId64 " of the preset", of_preset(j, key));
    pst_status status = pst_config_override(config, section, dot + 1, value);
    char *is = status == PST_OK && given ? printed(config, key) : NULL;
    if (was && is && strcmp(was, is) != 0) note(j->x, key, value, was);
    else if (*preset && atoll(preset) != atoll(value)) note(j->x, key, value, preset);
    free(was);
    free(is);
    return status == PST_OK ? status : pst_fail_in(status, "--import %s", j->file.file);
}

/* --- the program ------------------------------------------------------------------------------ */

/* Whether the profile has what the layout needs. */
static int has_layout(job *j, const char *program) {
    pst_planning *x = j->x;
    const values *v = &j->v;
    const pst_schedule_row *schedule;
    char zero[KEY_TEXT], pipeline[KEY_TEXT], tensor[KEY_TEXT];
    snprintf(zero, sizeof zero, "%" PRId64, v->zero);
    snprintf(pipeline, sizeof pipeline, "%" PRId64, v->pipeline);
    snprintf(tensor, sizeof tensor, "%" PRId64, v->tensor);
    return pst_costs_program_parse(program, &x->program) == PST_OK &&
           pst_schedule_find(v->schedule, &schedule) == PST_OK &&
           pst_planning_allows(x, "zero", zero) && pst_planning_allows(x, "pipeline", pipeline) &&
           pst_planning_allows(x, "tensor", tensor) &&
           pst_planning_allows(x, "recompute", v->recompute ? v->recompute : "none") &&
           pst_planning_allows_schedule(x, schedule);
}

/* FSDP for what shards weights; of Megatron Core and penstock the first that has the layout. */
static const char *fitting(job *j) {
    const int shards = j->file.program == PST_RECIPE_TORCHTITAN && j->v.zero == 2;
    const char *const list[] = {shards ? "fsdp" : "megatron-core", "megatron-core"};
    for (int i = 0; i < 2; i++)
        if (has_layout(j, list[i])) return list[i];
    return "penstock";
}

static pst_status list_unknown(const job *j) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f) return pst_fail(PST_ENOMEM, "no memory for --import");
    for (size_t i = 0; i < j->file.n; i++) {
        const pst_recipe_item *item = j->file.item + i;
        if (!item->known)
            fprintf(f, "%s%s%.80s", ftell(f) ? ", " : "",
                    j->file.program == PST_RECIPE_MEGATRON ? "--" : "", item->name);
    }
    const int failed = fclose(f);
    if (!failed && *text)
        pst_log(PST_LOG_WARN, "--import %s: no counterpart of %s", j->file.file, text);
    free(text);
    return failed ? pst_fail(PST_ENOMEM, "no memory for --import") : PST_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

static pst_status check_model(job *j) {
    const pst_config *c = j->x->config;
    if (strcmp(c->model.kind, "gpt") != 0 && strcmp(c->model.kind, "llama") != 0 &&
        strcmp(c->model.kind, "bert") != 0)
        return pst_fail(PST_EINPUT, "--import needs a run of model.kind gpt, llama or bert, not %s",
                        c->model.kind);
    if (pst_prepare_model(c, &j->x->row, &j->x->model) == PST_OK) return PST_OK;
    pst_error_clear(); /* the file may have the sizes that are missing */
    j->x->model = (pst_model_config){0};
    return PST_OK;
}

static pst_status import(job *j, pst_config *config) {
    PST_TRY(check_model(j));
    PST_TRY(read_items(j));
    PST_TRY(find_devices(j));
    if (!j->v.tensor) j->v.tensor = 1;
    if (!j->v.pipeline) j->v.pipeline = 1;
    PST_TRY(read_program[j->file.program](j));
    PST_TRY(find_chunks(j));
    PST_TRY(check_sizes(j));
    PST_TRY(set_keys(j));
    for (uint32_t i = 0; i < j->n_set; i++)
        PST_TRY(apply_key(j, config, j->set[i].key, j->set[i].value));
    j->program = fitting(j);
    return list_unknown(j);
}

static pst_status parse(const char *text, size_t bytes, const char *path, void *what) {
    return pst_recipe_parse(text, bytes, path, what);
}

pst_status pst_planning_import(pst_planning *x, pst_config *config, const char **program) {
    job j = {.x = x};
    PST_TRY(pst_file_parse(x->options->import_, MAX_FILE, parse, &j.file));
    pst_status status = import(&j, config);
    if (status == PST_OK) {
        x->imported = pst_recipe_name(j.file.program);
        *program = j.program;
    }
    pst_recipe_close(&j.file);
    return status;
}

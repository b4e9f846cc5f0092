/* The layout in the words of another program: flags of Megatron-LM or torchtitan, or a
 * configuration of DeepSpeed. What that program lacks is logged. planning/planning.h declares it.
 *
 * Names: Megatron-LM, megatron/training/arguments.py and megatron/core/model_parallel_config.py
 * (2026-08); torchtitan 0.3.0, torchtitan/config/configs.py; DeepSpeed 0.19,
 * deepspeed/runtime/config.py and constants.py. */
#include "base/log.h"
#include "penstock/option.h"
#include "planning/import.h"
#include "planning/planning.h"
#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const pst_planning *x;
    const pst_layout *layout;
    const char *schedule, *torch; /* torch: its name in PyTorch; NULL: none */
    const char *program;
    pst_recompute_way recompute; /* of the chunk that keeps least */
    uint32_t chunks;             /* per stage */
    FILE *out;
} job;

static int is(const job *j, const char *torch) { return j->torch && !strcmp(j->torch, torch); }

/* --- what has no counterpart ------------------------------------------------------------------ */

static void lacks(const job *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void lacks(const job *j, const char *format, ...) {
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pst_log(PST_LOG_WARN, "--export %s: no counterpart of %s", j->program, text);
}

/* The number of the layer in a name such as "h.3.mlp.c_fc"; -1: none. */
static int layer_of(const char *name) {
    const char *dot = strchr(name, '.');
    while (dot && !isdigit((unsigned char)dot[1])) dot = strchr(dot + 1, '.');
    return dot ? atoi(dot + 1) : -1;
}

/* Whether every chunk begins with a layer, except the first, and all have equally many. */
pst_status pst_planning_is_even(const pst_planning *planning, const pst_layout *l, int *even) {
    pst_planning *x = (pst_planning *)(uintptr_t)planning;
    pst_planning_part *part;
    PST_TRY(pst_planning_graph_of(x, l, &part));
    *even = x->model.layers % l->n_chunk == 0;
    for (uint32_t c = 1; c < l->n_chunk && *even; c++) {
        const uint32_t at = part->first[l->first_item[c]];
        const int layer = layer_of(part->graph->node[at].name),
                  before = layer_of(part->graph->node[at - 1].name);
        *even = layer > before && (uint32_t)layer == c * (x->model.layers / l->n_chunk);
    }
    return PST_OK;
}

static pst_status report_lacks(const job *j) {
    const pst_layout *l = j->layout;
    int even = 1, own_order = 0, uneven_replicas = 0, mixed = 0;
    char recompute[PST_RECOMPUTE_TEXT];
    PST_TRY(pst_planning_is_even(j->x, j->layout, &even));
    for (uint32_t r = 0; l->device && r < pst_grid_size(pst_layout_grid(l)); r++)
        own_order |= l->device[r] != r;
    for (uint32_t k = 1; k < l->data; k++) uneven_replicas |= l->micros[k] != l->micros[0];
    for (uint32_t c = 1; c < l->n_chunk; c++) mixed |= l->recompute[c] != l->recompute[0];
    if (!even) lacks(j, "the cut; it divides the layers evenly");
    if (own_order) lacks(j, "the order of devices (parallel.devices)");
    if (uneven_replicas) lacks(j, "different numbers of micro-batches per replica");
    if (mixed)
        lacks(j, "recomputation that differs between chunks; %s on all is exported",
              pst_recompute_text(j->recompute, recompute));
    if (l->tensor_before) lacks(j, "different tensor degrees of stages; %u is exported", l->tensor);
    lacks(j, "the model's other sizes, data and learning rate: add them");
    return PST_OK;
}

/* --- Megatron-LM ------------------------------------------------------------------------------ */

static pst_status export_megatron(const job *j) {
    const pst_layout *l = j->layout;
    const pst_model_config *m = &j->x->model;
    FILE *out = j->out;
    fprintf(out, "--tensor-model-parallel-size %u\n--pipeline-model-parallel-size %u\n", l->tensor,
            l->pipeline);
    if (is(j, PST_TORCH_INTERLEAVED))
        fprintf(out, "--num-virtual-stages-per-pipeline-rank %u\n", j->chunks);
    else if (l->pipeline > 1 && !is(j, PST_TORCH_1F1B))
        lacks(j, "schedule %s; it uses 1F1B", j->schedule);
    fprintf(out, "--micro-batch-size %u\n--global-batch-size %u\n", l->micro_batch,
            j->x->problem.batch);
    fprintf(out, "--num-layers %u\n--hidden-size %u\n--num-attention-heads %u\n", m->layers,
            m->channels, m->heads);
    fprintf(out, "--seq-length %u\n--max-position-embeddings %u\n", m->context, m->context);
    if (l->tensor > 1 && l->sequence) fputs("--sequence-parallel\n", out);
    if (l->data > 1 && l->zero) fputs("--use-distributed-optimizer\n", out);
    if (l->data > 1 && l->zero == 2)
        lacks(j, "ZeRO 2; the distributed optimizer shards the states alone");
    const uint32_t layers = pst_recompute_layers(j->recompute);
    if (j->recompute == PST_RECOMPUTE_SELECTIVE) fputs("--recompute-granularity selective\n", out);
    if (j->recompute == PST_RECOMPUTE_FULL)
        fputs("--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers "
              "1\n",
              out);
    if (layers)
        fprintf(out,
                "--recompute-granularity full\n--recompute-method block\n"
                "--recompute-num-layers %u\n",
                layers);
    if (m->dtype == PST_BF16 || m->dtype == PST_F8) fputs("--bf16\n", out);
    if (m->dtype == PST_F8) fputs("--fp8-format hybrid\n", out);
    if (m->dtype == PST_F16) fputs("--fp16\n", out);
    return PST_OK;
}

/* --- torchtitan ------------------------------------------------------------------------------- */

static const char *torch_schedule(const job *j) {
    const char *nearest = j->chunks > 1 ? PST_TORCH_INTERLEAVED : PST_TORCH_1F1B;
    if (j->torch) return j->torch;
    lacks(j, "schedule %s; %s is exported (simulate --csv writes it as a file)", j->schedule,
          nearest);
    return nearest;
}

static pst_status export_torchtitan(const job *j) {
    const pst_layout *l = j->layout;
    const int shards = l->data > 1 && l->zero, pipeline = l->pipeline > 1;
    FILE *out = j->out;
    fprintf(out, "--parallelism.tensor_parallel_degree=%u\n", l->tensor);
    fprintf(out, "--parallelism.pipeline_parallel_degree=%u\n", l->pipeline);
    fprintf(out, "--parallelism.data_parallel_replicate_degree=%u\n", shards ? 1 : l->data);
    fprintf(out, "--parallelism.data_parallel_shard_degree=%u\n", shards ? l->data : 1);
    if (shards) fputs("--parallelism.fsdp_reshard_after_forward=never\n", out);
    if (shards) lacks(j, "ZeRO %u; FSDP shards parameters and gradients, too", l->zero);
    if (l->tensor > 1 && !l->sequence) fputs("--parallelism.no-enable_sequence_parallel\n", out);
    if (pipeline)
        fprintf(out,
                "--parallelism.pipeline_parallel_schedule=%s\n"
                "--parallelism.pipeline_parallel_microbatch_size=%u\n",
                torch_schedule(j), l->micro_batch);
    fprintf(out, "--training.local_batch_size=%u\n--training.global_batch_size=%u\n",
            pipeline ? l->micro_batch * l->micros[0] : l->micro_batch, j->x->problem.batch);
    fprintf(out, "--training.seq_len=%u\n", j->x->model.context);
    if (j->x->model.dtype == PST_BF16) fputs("--training.mixed_precision_param=bfloat16\n", out);
    else if (j->x->model.dtype == PST_F32) fputs("--training.mixed_precision_param=float32\n", out);
    else lacks(j, "precision %s", j->x->config->train.precision);
    /* a subcommand, which comes last */
    char recompute[PST_RECOMPUTE_TEXT];
    const uint32_t layers = pst_recompute_layers(j->recompute);
    if (layers && layers * l->n_chunk < j->x->model.layers)
        lacks(j, "recomputation of %u layers of each chunk; full recomputes all", layers);
    fprintf(out, "activation_checkpoint:%s\n",
            layers ? "full" : pst_recompute_text(j->recompute, recompute));
    return PST_OK;
}

/* --- DeepSpeed -------------------------------------------------------------------------------- */

static pst_status export_deepspeed(const job *j) {
    const pst_layout *l = j->layout;
    const pst_dtype dtype = j->x->model.dtype;
    json_t *c = json_pack("{s:i,s:i,s:i,s:{s:i}}", "train_batch_size", (int)j->x->problem.batch,
                          "train_micro_batch_size_per_gpu", (int)l->micro_batch,
                          "gradient_accumulation_steps", (int)l->micros[0], "zero_optimization",
                          "stage", l->data > 1 ? (int)l->zero : 0);
    int failed = !c;
    if (dtype == PST_BF16)
        failed |= json_object_set_new(c, "bf16", json_pack("{s:b}", "enabled", 1));
    if (dtype == PST_F16)
        failed |= json_object_set_new(c, "fp16", json_pack("{s:b}", "enabled", 1));
    if (dtype == PST_F8) lacks(j, "precision fp8");
    if (l->tensor > 1)
        failed |= json_object_set_new(c, "tensor_parallel",
                                      json_pack("{s:i}", "autotp_size", (int)l->tensor));
    failed = failed || json_dumpf(c, j->out, JSON_INDENT(2)) != 0 || fputc('\n', j->out) == EOF;
    json_decref(c);
    if (failed) return pst_fail(PST_ENOMEM, "cannot write the configuration of DeepSpeed");
    if (l->pipeline > 1)
        lacks(j, "%u pipeline stages in a file: PipelineModule(num_stages=%u) in its program",
              l->pipeline, l->pipeline);
    if (l->pipeline > 1 && !is(j, PST_TORCH_1F1B))
        lacks(j, "schedule %s; it uses 1F1B", j->schedule);
    if (l->pipeline > 1 && l->zero == 2) lacks(j, "ZeRO 2 with a pipeline");
    if (l->tensor > 1 && l->sequence) lacks(j, "sequence parallelism of tensor ranks");
    char recompute[PST_RECOMPUTE_TEXT];
    if (j->recompute != PST_RECOMPUTE_NONE)
        lacks(j, "recomputation %s in a file: call its checkpointing functions in the model",
              pst_recompute_text(j->recompute, recompute));
    return PST_OK;
}

/* ---------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    pst_status (*write)(const job *j);
} programs[] = {{"megatron", export_megatron},
                {"torchtitan", export_torchtitan},
                {"deepspeed", export_deepspeed}};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static size_t find(const char *program) {
    size_t i = 0;
    while (i < PROGRAMS && strcmp(programs[i].name, program) != 0) i++;
    return i;
}

pst_status pst_planning_check_export(const char *program) {
    const char *names[PROGRAMS];
    if (find(program) < PROGRAMS) return PST_OK;
    for (size_t i = 0; i < PROGRAMS; i++) names[i] = programs[i].name;
    const char *near = pst_did_you_mean(program, names, PROGRAMS);
    return pst_fail(PST_EINPUT,
                    "--export: expected megatron, torchtitan or deepspeed, found '%.40s'%s%s%s",
                    program, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

pst_status pst_planning_export(const pst_planning *x, FILE *out) {
    const pst_candidate *best = x->result->best;
    job j = {.x = x,
             .layout = &best->layout,
             .schedule = pst_planning_schedule(best),
             .program = x->options->export_,
             .chunks = best->layout.n_chunk / best->layout.pipeline,
             .out = out};
    const pst_schedule_row *row;
    if (best->layout.rest)
        return pst_fail(
            PST_EINPUT,
            "%s needs micro-batches of equal size, but the first one of this layout has "
            "%u samples instead of %u; give a train.micro_batch that divides "
            "train.batch",
            j.program, best->layout.rest, best->layout.micro_batch);
    PST_TRY(pst_schedule_find(j.schedule, &row));
    j.torch = row->torch;
    for (uint32_t c = 0; c < best->layout.n_chunk; c++)
        if (pst_recompute_keeps_more(j.recompute, best->layout.recompute[c]))
            j.recompute = best->layout.recompute[c];
    PST_TRY(programs[find(j.program)].write(&j));
    PST_TRY(report_lacks(&j));
    return ferror(out) ? pst_fail(PST_ENOMEM, "cannot write the export") : PST_OK;
}

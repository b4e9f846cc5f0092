/* The graph of a run: of the model that the run file names, or one that a program has built;
 * unsplit, and split for each tensor rank. Declared in prepare.h. */
#include "base/log.h"
#include "base/plural.h"
#include "graph/split.h"
#include "prepare/hf_config.h"
#include "prepare/prepare.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fills in sizes that the run file leaves to the data set. */
static pst_status fit_data(const pst_config *c, pst_model_config *m) {
    pst_data_shape data;
    PST_TRY(pst_registry_shape(c, &data));
    /* a preset's vocabulary may be too small for the data, one that is given may not */
    if (!c->model.vocabulary && m->vocabulary < data.vocabulary) m->vocabulary = data.vocabulary;
    if (m->vocabulary < data.vocabulary)
        return pst_fail(PST_EINPUT,
                        "model.vocabulary is %u, but the data has %u different tokens or classes "
                        "(data.kind %s)",
                        m->vocabulary, data.vocabulary, c->data.kind);
    if (!m->image) m->image = data.image;
    if (data.image && m->image != data.image)
        return pst_fail(PST_EINPUT, "model.image is %u, but the images of data.kind %s are %ux%u",
                        m->image, c->data.kind, data.image, data.image);
    m->depth = data.depth ? data.depth : 3;
    if (data.vocabulary && !data.image && !strcmp(c->data.tokenizer, "byte"))
        snprintf(m->tokenizer, sizeof m->tokenizer, "byte");
    return PST_OK;
}

static pst_switch switch_of(const char *text) {
    if (!strcmp(text, "preset")) return PST_UNSET;
    return strcmp(text, "true") ? PST_NO : PST_YES;
}

/* -1: from the preset. */
static int flag_of(const char *text) {
    const pst_switch s = switch_of(text);
    return s == PST_UNSET ? -1 : s == PST_YES;
}

/* Sizes of llama that the run file gives. */
static pst_status take_llama(const pst_config *c, pst_llama *l) {
    *l = (pst_llama){.kv_heads = (uint32_t)c->model.kv_heads,
                     .intermediate = (uint32_t)c->model.intermediate,
                     .window = (uint32_t)c->model.window,
                     .norm_eps = (float)c->model.norm_eps,
                     .tied = switch_of(c->model.tied),
                     .bias = switch_of(c->model.bias),
                     .rope = {.theta = (float)c->model.rope_theta}};
    if (!strcmp(c->model.rope_scaling, "preset")) return PST_OK;
    PST_TRY(pst_rope_scaling_find(c->model.rope_scaling, &l->rope.scaling));
    l->rope.factor = 1;
    if (l->rope.scaling == PST_ROPE_PLAIN) return PST_OK;
    l->rope.factor = (float)c->model.rope_factor;
    l->rope.context = (uint32_t)c->model.rope_context;
    /* the values of Llama 3.1, and those that YaRN's authors found */
    const int yarn = l->rope.scaling == PST_ROPE_YARN, ramps = l->rope.scaling != PST_ROPE_LINEAR;
    l->rope.low = c->model.rope_low > 0 ? (float)c->model.rope_low : 1;
    l->rope.high = yarn ? 32 : 4;
    if (c->model.rope_high > 0) l->rope.high = (float)c->model.rope_high;
    if (yarn) l->rope.attention = (float)c->model.rope_attention;
    if (!ramps) l->rope = (pst_rope){l->rope.theta, l->rope.scaling, l->rope.factor, 0, 0, 0, 0};
    return PST_OK;
}

static pst_status take_bert(const pst_config *c, pst_bert *b) {
    *b = (pst_bert){.token_types = (uint32_t)c->model.token_types,
                    .predictions = (uint32_t)c->model.max_predictions,
                    .next_sentence = flag_of(c->model.next_sentence),
                    .label_name = c->model.n_labels > 1 ? c->model.labels : NULL,
                    .intermediate = (uint32_t)c->model.intermediate,
                    .norm_eps = (float)c->model.norm_eps};
    return pst_prepare_count_labels(c, &b->labels);
}

static void fill(uint32_t *size, uint32_t value) {
    if (!*size) *size = value;
}

static void fill_bert(const pst_config *c, pst_bert *to, const pst_bert *from) {
    if (!pst_config_given(c, "model", "token_types")) to->token_types = from->token_types;
    if (to->next_sentence < 0) to->next_sentence = from->next_sentence;
    fill(&to->intermediate, from->intermediate);
    if (to->norm_eps == 0) to->norm_eps = from->norm_eps;
}

static void fill_llama(pst_llama *to, const pst_llama *from) {
    fill(&to->kv_heads, from->kv_heads);
    fill(&to->intermediate, from->intermediate);
    fill(&to->window, from->window);
    if (to->norm_eps == 0) to->norm_eps = from->norm_eps;
    if (to->tied == PST_UNSET) to->tied = from->tied;
    if (to->bias == PST_UNSET) to->bias = from->bias;
    if (to->rope.factor == 0) {
        const float theta = to->rope.theta;
        to->rope = from->rope;
        if (theta != 0) to->rope.theta = theta;
    }
    if (to->rope.theta == 0) to->rope.theta = from->rope.theta;
    to->trained = from->trained;
}

/* Sizes that neither the run file nor a preset gives, from config.json beside the weights. */
static pst_status take_weights(const pst_config *c, const pst_model_row *row, pst_model_config *m) {
    pst_model_config from;
    const int sizes = m->layers && m->heads && m->channels && m->context &&
                      (strcmp(m->kind, "llama") || m->llama.intermediate);
    const int all = sizes && (!row->masked || (m->bert.intermediate && m->bert.norm_eps != 0));
    int there = 0;
    if (!*c->model.weights) return PST_OK;
    PST_TRY(pst_hf_refuse_gguf(c->model.weights));
    if (*m->preset || all || !row->hf_name) return PST_OK;
    if (access(c->model.weights, F_OK) != 0)
        return pst_fail(PST_EINPUT, "model.weights: %s: %s", c->model.weights, strerror(errno));
    PST_TRY(pst_hf_has_config(c->model.weights, &there));
    if (!there && !sizes && pst_hf_is_folder(c->model.weights))
        return pst_fail(PST_EINPUT,
                        "model.weights: %s has no config.json, which gives the sizes of the model",
                        c->model.weights);
    if (!there) return PST_OK;
    PST_TRY(pst_hf_config(c->model.weights, &from));
    if (strcmp(from.kind, m->kind) != 0)
        return pst_fail(PST_EINPUT, "%s has a model of kind %s, but model.kind is %s",
                        c->model.weights, from.kind, m->kind);
    fill(&m->layers, from.layers);
    fill(&m->heads, from.heads);
    fill(&m->channels, from.channels);
    fill(&m->context, from.context);
    fill(&m->vocabulary, from.vocabulary);
    fill_llama(&m->llama, &from.llama);
    fill_bert(c, &m->bert, &from.bert);
    if (!strcmp(m->kind, "gpt") && !pst_config_given(c, "model", "activation"))
        m->activation = from.activation;
    return PST_OK;
}

pst_status pst_prepare_model(const pst_config *c, const pst_model_row **row, pst_model_config *m) {
    pst_model_config out = {.layers = (uint32_t)c->model.layers,
                            .heads = (uint32_t)c->model.heads,
                            .channels = (uint32_t)c->model.channels,
                            .context = (uint32_t)c->model.context,
                            .vocabulary = (uint32_t)c->model.vocabulary,
                            .image = (uint32_t)c->model.image,
                            .dropout = (float)c->model.dropout,
                            .attention_dropout = (float)c->model.attention_dropout,
                            .isolate = !strcmp(c->data.isolate, "true"),
                            .wide = !strcmp(c->train.residual, "fp32"),
                            .micro_batch = (uint32_t)c->train.micro_batch};
    const pst_model_row *r;
    if (!strcmp(c->model.kind, "custom"))
        return pst_fail(
            PST_EINPUT,
            "model.kind custom: the graph was built by a program through the library, and only "
            "that program can build it again");
    PST_TRY(pst_registry_model(c->model.kind, &r));
    PST_TRY(pst_prepare_check_labels(c));
    if (r->masked) PST_TRY(take_bert(c, &out.bert));
    snprintf(out.kind, sizeof out.kind, "%s", c->model.kind);
    snprintf(out.preset, sizeof out.preset, "%s", c->model.preset);
    PST_TRY(pst_activation_find(c->model.activation, &out.activation));
    PST_TRY(take_llama(c, &out.llama));
    PST_TRY(pst_config_at(c, "model", "weights", take_weights(c, r, &out)));
    pst_status status = r->preset(&out);
    PST_TRY(pst_config_at(c, "model", pst_config_given(c, "model", "preset") ? "preset" : "kind",
                          status));
    if (out.isolate && !r->isolates)
        return pst_config_at(
            c, "data", "isolate",
            pst_fail(PST_EINPUT,
                     "model.kind %s cannot keep documents apart; only gpt and llama can",
                     c->model.kind));
    PST_TRY(fit_data(c, &out));
    /* models that predict masked tokens need the tokenizer, whatever the vocabulary */
    if (!out.vocabulary && !r->masked && !strcmp(c->data.kind, "tokens"))
        return pst_fail(PST_EINPUT, "model.vocabulary is 0; set this key, model.preset, or "
                                    "data.tokenizer, the tokenizer that made the tokens");
    *row = r;
    *m = out;
    return PST_OK;
}

/* Only the CPU kernels of AVX2 and AVX-512 add in blocks. */
static pst_status check_blocks(const pst_config *c, const pst_prepare_options *o, pst_dtype dtype,
                               int computes) {
    int64_t n = c->parallel.reproducible_tensor;
    if (n & (n - 1))
        return pst_fail(PST_EINPUT,
                        "parallel.reproducible.tensor is %" PRId64 "; expected a power of two", n);
    if ((o->device && o->device->flags & PST_DEVICE_OWN_MEMORY) || pst_dtype_stored(dtype) != dtype)
        return pst_fail(PST_EINPUT,
                        "parallel.reproducible.tensor is supported on CPUs only; omit it");
    if (computes && !(o->isa & PST_ISA_AVX2))
        return pst_fail(PST_EINPUT,
                        "parallel.reproducible.tensor needs AVX2, which this CPU lacks or "
                        "PENSTOCK_ISA excludes; omit it");
    return PST_OK;
}

/* bf16 needs CPU instructions, tf32 and fp8 need a GPU; the timed device needs neither. Generation
 * reads fp32 weights in any case. */
pst_status pst_prepare_precision(const pst_config *c, const pst_prepare_options *o,
                                 pst_dtype *dtype) {
    int computes = strcmp(c->parallel.device, "timed") && pst_registry_is_host(o->device);
    const char *who = pst_cpu_no_bf16();
    *dtype = pst_dtype_of_precision(c->train.precision);
    if (*dtype == PST_BF16 && computes && !(o->isa & PST_ISA_AVX512_BF16))
        return pst_fail(PST_EINPUT,
                        "train.precision bf16 needs AVX512-BF16, which %s; use fp32 or fp16",
                        who ? who : "this CPU lacks");
    if (computes && pst_dtype_stored(*dtype) != *dtype && !(o->isa & PST_ISA_CUDA))
        return pst_fail(PST_EINPUT, "train.precision %s needs a GPU; use %s on a CPU",
                        c->train.precision, pst_dtype_precision(pst_dtype_stored(*dtype)));
    if (c->parallel.reproducible_tensor) PST_TRY(check_blocks(c, o, *dtype, computes));
    if (c->parallel.reproducible && !strcmp(c->parallel.deterministic, "false"))
        return pst_fail(PST_EINPUT, "parallel.reproducible needs parallel.deterministic=true; with "
                                    "false, repeated runs give different bits");
    if (*dtype == PST_F8 && c->parallel.reproducible)
        return pst_fail(
            PST_EINPUT,
            "parallel.reproducible does not support fp8: each replica computes its own scales, so "
            "results depend on the number of replicas; use train.precision bf16");
    return PST_OK;
}

/* The context for which the rotary positions of model.weights were trained, or to which
 * model.rope_scaling stretches it; 0: not known. */
static double rotary_context(const pst_config *c, const pst_llama *l) {
    const pst_rope *r = &l->rope;
    double stretched = 0;
    if (strcmp(c->model.rope_scaling, "preset") != 0)
        stretched = (double)r->factor * (r->context ? r->context : l->trained);
    return stretched > l->trained ? stretched : l->trained;
}

static void warn_of_context(const pst_prepared *p) {
    const pst_model_config *m = &p->model_config;
    const double most = rotary_context(p->config, &m->llama);
    if (!m->llama.trained || m->context <= most) return;
    pst_log(PST_LOG_WARN,
            "model.context is %u, but the rotary positions of %s %s %.0f; see model.rope_scaling",
            m->context, p->config->model.weights,
            most > m->llama.trained ? "are stretched to" : "were trained for", most);
}

/* Builds the configured model. */
static pst_status build_graph(pst_prepared *p) {
    PST_TRY(pst_prepare_model(p->config, &p->model, &p->model_config));
    p->model_config.micro_batch = p->plan->layout.micro_batch;
    const pst_model_config *m = &p->model_config;
    if (!p->options.quiet) warn_of_context(p);
    if (m->llama.trained && !p->options.quiet)
        PST_TRY(pst_hf_warn_of_rope(p->config->model.weights));
    if (p->options.infer) {
        p->model_config.infer = 1;
        p->model_config.dropout = 0;
        p->model_config.attention_dropout = 0;
        p->model_config.losses = p->options.losses;
        p->model_config.positions = p->options.positions;
        if (p->options.cache) PST_TRY(pst_prepare_forms_config(p));
    } else {
        PST_TRY(pst_prepare_precision(p->config, &p->options, &p->model_config.dtype));
    }
    PST_TRY(p->model->build(&p->model_config, &p->whole));
    return p->options.cache ? pst_prepare_forms(p) : PST_OK;
}

/* Checks what training needs of a graph, which one built by a program may lack. */
static pst_status check_trains(const pst_graph *g) {
    uint8_t *read = calloc(g->n_tensor + (size_t)1, 1);
    pst_status status =
        read ? PST_OK : pst_fail(PST_ENOMEM, "no memory to check graph %s", g->name);
    int losses = 0;
    for (uint32_t i = 0; read && i < g->n_node; i++) {
        if (g->node[i].op->forward_only)
            status = pst_fail(PST_EINPUT, "graph %s: operator %s (%s) has no derivative", g->name,
                              g->node[i].name, g->node[i].op->name);
        for (uint32_t k = 0; k < g->node[i].n_in; k++) read[g->node[i].in[k]] = 1;
        losses += !strcmp(g->node[i].op->name, "cross_entropy");
    }
    if (status == PST_OK && !losses)
        status = pst_fail(PST_EINPUT,
                          "graph %s has no loss; its last operator must be cross_entropy", g->name);
    for (uint32_t i = 0; status == PST_OK && i < g->n_param; i++)
        if (!g->param[i].n_use)
            status = pst_fail(PST_EINPUT, "graph %s: no operator uses parameter %s", g->name,
                              g->param[i].name);
    for (uint32_t i = 0; status == PST_OK && i < g->n_tensor; i++)
        if (!read[i] && g->tensor[i].role != PST_TENSOR_OUTPUT)
            status = pst_fail(PST_EINPUT, "graph %s: no operator reads tensor %s", g->name,
                              g->tensor[i].name);
    free(read);
    return status;
}

/* Checks train.residual against the graph, for models that use the key. */
static pst_status check_stream(const pst_config *c, const pst_graph *g) {
    static const char *const kinds[] = {"gpt", "llama", "bert"};
    int read = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        read |= !strcmp(c->model.kind, kinds[i]);
    int wide = 0;
    for (uint32_t i = 0; i < g->n_node; i++) wide |= g->node[i].attr.wide != 0;
    if (!read || !pst_dtype_is_half(g->dtype) || wide == !strcmp(c->train.residual, "fp32"))
        return PST_OK;
    return pst_fail(PST_EINPUT,
                    "graph %s has a residual stream in %s, but train.residual is %s; make them "
                    "equal",
                    g->name, wide ? "fp32" : pst_dtype_precision(g->dtype), c->train.residual);
}

/* Copies a program's graph if it agrees with the configuration. */
static pst_status take_graph(pst_prepared *p, const pst_graph *given) {
    const pst_config *c = p->config;
    pst_dtype dtype;
    PST_TRY(pst_prepare_precision(c, &p->options, &dtype));
    if (pst_graph_factors(given) != dtype)
        return pst_fail(
            PST_EINPUT, "graph %s computes in %s, but train.precision is %s; make them equal",
            given->name, pst_dtype_precision(pst_graph_factors(given)), c->train.precision);
    PST_TRY(check_stream(c, given));
    if (given->micro_batch != p->plan->layout.micro_batch)
        return pst_fail(
            PST_EINPUT,
            "graph %s is for micro-batches of %u samples, but train.micro_batch is %u; make them "
            "equal",
            given->name, given->micro_batch, p->plan->layout.micro_batch);
    if (strcmp(c->model.kind, "custom")) PST_TRY(pst_registry_model(c->model.kind, &p->model));
    else if (*c->model.weights)
        return pst_fail(PST_EINPUT, "model.weights: Hugging Face weights cannot be loaded into "
                                    "model.kind custom; omit model.weights");
    PST_TRY(check_trains(given));
    return pst_graph_copy(given, &p->whole);
}

/* Pads the logits in training only, where they stay on the device. */
void pst_prepare_fit_graph(const pst_config *c, const pst_device_ops *device, pst_graph *g) {
    if (device && device->flags & PST_DEVICE_PADDED) pst_graph_pad(g);
    if (device && device->flags & PST_DEVICE_SUMS) pst_graph_leave_sums(g);
    g->loose = !strcmp(c->parallel.deterministic, "false");
}

static void fit(const pst_prepared *p, pst_graph *g) {
    pst_prepare_fit_graph(p->config, p->options.device, g);
}

static int differ(const pst_graph *a, const pst_graph *b) {
    for (uint32_t i = 0; i < a->n_tensor; i++)
        if (pst_tensor_elements(a->tensor + i) != pst_tensor_elements(b->tensor + i)) return 1;
    for (uint32_t i = 0; i < a->n_param; i++)
        if (pst_param_elements(a->param + i) != pst_param_elements(b->param + i)) return 1;
    return 0;
}

/* Evaluation without training, as for generation, adds in any order. */
static uint32_t blocks_of(const pst_prepared *p) {
    return p->options.infer ? 0 : (uint32_t)p->config->parallel.reproducible_tensor;
}

/* The graph of a tensor rank, of the model or of one of its forms. */
static pst_status split_one(const pst_prepared *p, const pst_graph *whole, uint32_t part,
                            pst_graph **graph) {
    pst_split_options o = {.parts = p->grid.tensor,
                           .part = part,
                           .blocks = blocks_of(p),
                           .sequence = (int)p->plan->layout.sequence};
    PST_TRY(pst_graph_split(whole, &o, graph));
    PST_TRY(pst_graph_check(*graph));
    fit(p, *graph);
    return PST_OK;
}

static pst_status split_for(pst_prepared *p, uint32_t part) {
    if (p->rests) PST_TRY(split_one(p, p->rest_whole, part, &p->rests[part]));
    return split_one(p, p->whole, part, &p->graphs[part]);
}

/* One tensor rank: its graph is the model. */
static void take_whole(pst_prepared *p) {
    p->graphs[0] = p->whole;
    fit(p, p->graphs[0]);
    if (!p->rests) return;
    p->rests[0] = p->rest_whole;
    fit(p, p->rests[0]);
}

pst_status pst_prepare_check_micro(const pst_config *c, const pst_costs_program *program,
                                   uint64_t batch, uint64_t micro_batch) {
    if (batch % micro_batch == 0) return PST_OK;
    if (!strcmp(c->train.precision, "fp8"))
        return pst_fail(PST_EINPUT,
                        "train.precision fp8 needs micro-batches of equal size, because each "
                        "counts alike in the scales, but train.micro_batch (%" PRIu64
                        ") does not divide the batch (%" PRIu64 "); choose one that does, or bf16",
                        micro_batch, batch);
    if (pst_costs_program_is_other(program))
        return pst_fail(PST_EINPUT,
                        "program %s needs micro-batches of equal size, but train.micro_batch "
                        "(%" PRIu64 ") does not divide the batch (%" PRIu64
                        "); choose one that does",
                        program->name, micro_batch, batch);
    return PST_OK;
}

/* The graph of the step's smaller first micro-batch; before `whole` is adapted to the device. */
static pst_status resize_graph(pst_prepared *p) {
    const pst_layout *l = &p->plan->layout;
    if (!l->rest) return PST_OK;
    PST_TRY(pst_prepare_check_micro(p->config, p->options.program, pst_layout_batch(l),
                                    l->micro_batch));
    p->rests = calloc(p->grid.tensor, sizeof(pst_graph *));
    if (!p->rests) return pst_no_memory("for the graph of the first micro-batch");
    pst_status status = pst_graph_resize(p->whole, l->rest, &p->rest_whole);
    if (status != PST_EINPUT) return status;
    return pst_fail_in(status,
                       "the first micro-batch of a step has %u sample%s, because "
                       "train.micro_batch does not divide the batch",
                       l->rest, pst_plural(l->rest));
}

/* The last form is the model, which is split already. */
static pst_status split_forms(pst_prepared *p) {
    for (uint32_t i = 0; i < p->n_form && p->grid.tensor > 1; i++) {
        const int last = i + 1 == p->n_form;
        pst_form *f = &p->form[i];
        f->part = last ? p->graphs : calloc(p->grid.tensor, sizeof *f->part);
        if (!f->part) return pst_fail(PST_ENOMEM, "no memory to split graph %s", p->whole->name);
        for (uint32_t t = 0; t < p->grid.tensor && !last; t++)
            PST_TRY(split_one(p, f->graph, t, &f->part[t]));
    }
    return PST_OK;
}

static void repeat_last(pst_prepared *p, uint32_t part) {
    const uint32_t last = p->grid.tensor - 1;
    p->graphs[part] = p->graphs[last];
    if (p->rests) p->rests[part] = p->rests[last];
}

/* For a single lane, parts of equal sizes are built only once, except the first one, which alone
 * adds biases. */
static pst_status split_graph(pst_prepared *p) {
    uint32_t last = p->grid.tensor - 1, blocks = blocks_of(p);
    PST_TRY(pst_graph_check(p->whole));
    if (blocks % p->grid.tensor)
        return pst_fail(PST_EINPUT,
                        "parallel.reproducible.tensor is %u; expected a multiple of the number of "
                        "tensor ranks, %u",
                        blocks, p->grid.tensor);
    if (last || blocks) PST_TRY(split_for(p, 0));
    else take_whole(p);
    p->graph = p->graphs[0];
    if (last) PST_TRY(split_for(p, last));
    p->uneven = differ(p->graphs[0], p->graphs[last]);
    for (uint32_t t = 1; t < last; t++)
        if (p->options.lane && !p->uneven) repeat_last(p, t);
        else PST_TRY(split_for(p, t));
    return split_forms(p);
}

static pst_status check_whole_device(const pst_prepared *p, const pst_optim_row *rule) {
    const pst_device_ops *device = p->options.device;
    const pst_arith *arith = pst_registry_arith(device);
    if (rule->kind == PST_OPTIM_LAMB ? !arith->lamb_squares : !arith->muon_orthogonalize)
        return pst_fail(PST_EINPUT, "train.optimizer %s: device %s does not have it; use adamw",
                        rule->name, device->name);
    if (p->grid.tensor > 1 && device && device->flags & PST_DEVICE_OWN_MEMORY)
        return pst_fail(PST_EINPUT,
                        "train.optimizer %s on tensor ranks runs on CPUs only; use "
                        "parallel.tensor=1 or adamw",
                        rule->name);
    return PST_OK;
}

/* Steps of whole parameters among tensor ranks are exchanges (rank/whole.c), which all ranks begin
 * or none. */
static pst_status check_whole(const pst_prepared *p, const pst_optim_row *rule) {
    if (!rule->whole) return PST_OK;
    PST_TRY(check_whole_device(p, rule));
    if (p->grid.tensor > 1 && !strcmp(p->config->parallel.post_validation, "true"))
        return pst_fail(PST_EINPUT,
                        "train.optimizer %s on tensor ranks needs the norm of all gradients before "
                        "its step; use parallel.post_validation=false",
                        rule->name);
    return PST_OK;
}

static pst_status set_optimizer(pst_prepared *p) {
    const pst_config *c = p->config;
    const pst_optim_row *rule = pst_optim_find(c->train.optimizer);
    if (!rule) return pst_fail(PST_EINPUT, "unknown optimizer '%s'", c->train.optimizer);
    PST_TRY(pst_config_at(c, "train", "optimizer", check_whole(p, rule)));
    PST_TRY(pst_config_at(c, "train", "optimizer", pst_optim_assign(rule, p->whole)));
    p->optim = pst_optim_with(rule, pst_dtype_of_precision(c->train.optimizer_state));
    return PST_OK;
}

/* What the run file says of the loss, of what is trained, of weight decay and of the optimizer. */
static pst_status set_training(pst_prepared *p) {
    const pst_config *c = p->config;
    pst_graph_set_loss(p->whole, (float)c->train.label_smoothing, (float)c->train.z_loss);
    PST_TRY(pst_prepare_tuned(c, &p->whole));
    PST_TRY(pst_config_at(
        c, "train", "decay_params",
        pst_graph_set_decay(p->whole, c->train.decay_params, c->train.n_decay_params)));
    return set_optimizer(p);
}

pst_status pst_prepare_graph(pst_prepared *p) {
    if (p->options.graph) PST_TRY(take_graph(p, p->options.graph));
    else PST_TRY(build_graph(p));
    if (!p->options.infer) PST_TRY(set_training(p));
    PST_TRY(pst_config_at(p->config, "train", "micro_batch", resize_graph(p)));
    pst_prepare_choose_lane(p);
    if (!p->grid.tensor_before) return split_graph(p);
    if (blocks_of(p))
        return pst_fail(PST_EINPUT,
                        "parallel.reproducible.tensor needs the same number of tensor ranks in all "
                        "stages; make them equal, or omit it");
    if (p->plan->layout.sequence)
        return pst_fail(PST_EINPUT,
                        "parallel.sequence needs the same number of tensor ranks in all "
                        "stages; make them equal, or omit it");
    p->graph = p->whole;
    return pst_graph_check(p->whole);
}

/* --- stages with different numbers of tensor ranks -------------------------------------------- */

/* Splits the model for each lane; chunk: of each operator. parts: [operators of the model]; origin:
 * [PST_SPLIT_NODES times as many] */
static pst_status split_stages(pst_prepared *p, const uint32_t *chunk, uint32_t *parts,
                               uint32_t *origin) {
    for (uint32_t i = 0; i < p->whole->n_node; i++)
        parts[i] = pst_grid_degree(p->grid, p->plan->layout.rank_of_chunk[chunk[i]]);
    for (uint32_t t = 0; t < p->grid.tensor; t++) {
        pst_split_options o = {
            .parts = p->grid.tensor, .part = t, .parts_of_node = parts, .origin = origin};
        PST_TRY(pst_graph_split(p->whole, &o, &p->graphs[t]));
        PST_TRY(pst_graph_check(p->graphs[t]));
        fit(p, p->graphs[t]);
        if (!p->rests) continue;
        PST_TRY(pst_graph_split(p->rest_whole, &o, &p->rests[t]));
        fit(p, p->rests[t]);
    }
    p->graph = p->graphs[0];
    p->uneven = differ(p->graphs[0], p->graphs[p->grid.tensor - 1]);
    p->chunk_of_node = malloc((p->graph->n_node + (size_t)1) * sizeof *p->chunk_of_node);
    if (!p->chunk_of_node)
        return pst_fail(PST_ENOMEM, "no memory to split graph %s", p->whole->name);
    for (uint32_t i = 0; i < p->graph->n_node; i++) p->chunk_of_node[i] = chunk[origin[i]];
    return PST_OK;
}

pst_status pst_prepare_split(pst_prepared *p) {
    size_t n = p->whole->n_node + (size_t)1;
    uint32_t *chunk = malloc(p->plan->layout.n_item * sizeof *chunk);
    if (!chunk) return pst_fail(PST_ENOMEM, "no memory to split graph %s", p->whole->name);
    pst_layout_chunks(&p->plan->layout, chunk);
    if (!p->grid.tensor_before) {
        p->chunk_of_node = chunk;
        return PST_OK;
    }
    uint32_t *parts = malloc(n * sizeof *parts),
             *origin = malloc(PST_SPLIT_NODES * n * sizeof *origin);
    pst_status status = parts && origin
                            ? split_stages(p, chunk, parts, origin)
                            : pst_fail(PST_ENOMEM, "no memory to split graph %s", p->whole->name);
    free(chunk);
    free(parts);
    free(origin);
    return status;
}

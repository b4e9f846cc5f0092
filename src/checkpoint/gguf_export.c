/* Writes gpt as llama.cpp's architecture gpt2, and llama as its llama or, with biases, qwen2. The
 * names and the order of rows are those of its convert_hf_to_gguf.py. */
#include "base/file.h"
#include "checkpoint/export.h"
#include "checkpoint/gguf_tokens.h"
#include "kernels/rope.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* general.file_type */
enum { FILE_F32 = 0, FILE_F16 = 1, FILE_BF16 = 32 };

/* The name of a layer or table without the number of its block, and its name in GGUF. */
static const struct {
    const char *own, *gguf;
} names[] = {
    {"wte", "token_embd"},
    {"wpe", "position_embd"},
    {"ln_f", "output_norm"},
    {"ln_1", "attn_norm"},
    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"},
    {"ln_2", "ffn_norm"},
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
    {"embed_tokens", "token_embd"},
    {"norm", "output_norm"},
    {"lm_head", "output"},
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

/* A parameter's name, "h.3.ln_1.weight", as "blk.3.attn_norm.weight". */
static pst_status name_of(const char *own, char out[PST_NAME_MAX]) {
    const char *rest = own;
    char block[24] = "";
    uint32_t i;
    int n = 0;
    if (sscanf(own, "h.%u.%n", &i, &n) == 1 || sscanf(own, "layers.%u.%n", &i, &n) == 1) {
        snprintf(block, sizeof block, "blk.%u.", i);
        rest = own + n;
    }
    const char *kind = strrchr(rest, '.');
    const size_t length = kind ? (size_t)(kind - rest) : 0;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strlen(names[k].own) == length && !memcmp(names[k].own, rest, length)) {
            snprintf(out, PST_NAME_MAX, "%s%s%s", block, names[k].gguf, kind);
            return PST_OK;
        }
    return pst_fail(PST_EINTERNAL, "parameter %s has no name in GGUF", own);
}

/* --- keys ------------------------------------------------------------------------------------- */

/* A key that begins with the name of the architecture. */
typedef struct {
    pst_gguf *g;
    const char *architecture;
    char text[PST_NAME_MAX];
} keys;

static const char *key(keys *k, const char *name) {
    snprintf(k->text, sizeof k->text, "%s.%s", k->architecture, name);
    return k->text;
}

static void add_gpt(keys *k, const pst_model_config *c) {
    pst_gguf_u32(k->g, key(k, "context_length"), c->context);
    pst_gguf_u32(k->g, key(k, "feed_forward_length"), 4 * c->channels);
    pst_gguf_f32(k->g, key(k, "attention.layer_norm_epsilon"), 1e-5f);
}

/* Llama 3's scaling is a tensor of factors, and not a type. */
static void add_rope(keys *k, const pst_model_config *c) {
    const pst_rope *r = &c->llama.rope;
    pst_gguf_u32(k->g, key(k, "rope.dimension_count"), c->channels / c->heads);
    pst_gguf_f32(k->g, key(k, "rope.freq_base"), r->theta);
    if (r->scaling != PST_ROPE_LINEAR && r->scaling != PST_ROPE_YARN) return;
    pst_gguf_text(k->g, key(k, "rope.scaling.type"), pst_rope_scaling_name(r->scaling));
    pst_gguf_f32(k->g, key(k, "rope.scaling.factor"), r->factor);
    if (r->scaling == PST_ROPE_YARN)
        pst_gguf_u32(k->g, key(k, "rope.scaling.original_context_length"), r->context);
}

static void add_llama(keys *k, const pst_model_config *c) {
    const pst_llama *l = &c->llama;
    /* These architectures have no window; as far as it reaches, there is no difference. */
    const uint32_t context = l->window && l->window < c->context ? l->window : c->context;
    pst_gguf_u32(k->g, key(k, "context_length"), context);
    pst_gguf_u32(k->g, key(k, "feed_forward_length"), l->intermediate);
    pst_gguf_u32(k->g, key(k, "attention.head_count_kv"), l->kv_heads);
    pst_gguf_f32(k->g, key(k, "attention.layer_norm_rms_epsilon"), l->norm_eps);
    pst_gguf_u32(k->g, key(k, "vocab_size"), c->vocabulary);
    add_rope(k, c);
}

static void add_keys(keys *k, const pst_model_config *c, pst_dtype type) {
    uint32_t file = FILE_F32;
    if (type == PST_F16) file = FILE_F16;
    if (type == PST_BF16) file = FILE_BF16;
    pst_gguf_text(k->g, "general.architecture", k->architecture);
    pst_gguf_text(k->g, "general.name", *c->preset ? c->preset : c->kind);
    pst_gguf_u32(k->g, "general.alignment", PST_GGUF_ALIGN);
    pst_gguf_u32(k->g, "general.file_type", file);
    pst_gguf_u32(k->g, key(k, "block_count"), c->layers);
    pst_gguf_u32(k->g, key(k, "embedding_length"), c->channels);
    pst_gguf_u32(k->g, key(k, "attention.head_count"), c->heads);
    if (strcmp(c->kind, "gpt")) add_llama(k, c);
    else add_gpt(k, c);
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* llama.cpp computes vectors and the table of positions in fp32. */
static pst_dtype type_of(const pst_param *p, pst_dtype type) {
    return p->n_dim == 1 || !strcmp(p->name, "wpe.weight") ? PST_F32 : type;
}

/* Heads whose rows are stored in another order; 0: none. Architecture llama turns neighbouring
 * channels by one angle; here, and in qwen2, a channel and the one half a head further. */
static uint32_t turned_heads(const pst_model_config *c, const char *name) {
    if (c->llama.bias == PST_YES) return 0;
    if (strstr(name, ".q_proj.")) return c->heads;
    return strstr(name, ".k_proj.") ? c->llama.kv_heads : 0;
}

/* Rows i and i + half of each head become rows 2i and 2i + 1. */
static void interleave(const float *from, float *to, const pst_param *p, uint32_t heads) {
    const uint64_t size = p->dim[0] / heads, half = size / 2, n = p->dim[1];
    for (uint64_t h = 0; h < heads; h++)
        for (uint64_t i = 0; i < size; i++)
            memcpy(to + (h * size + 2 * (i % half) + i / half) * n, from + (h * size + i) * n,
                   n * sizeof *to);
}

static pst_status to_half(const char *name, pst_dtype type, const float *from, uint16_t *to,
                          uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        to[i] = pst_half_from_f32(type, from[i]);
        if (isfinite(from[i]) && !isfinite(pst_f32_from_half(type, to[i])))
            return pst_fail(PST_EINPUT, "%s has the weight %g, too large for %s", name,
                            (double)from[i], pst_dtype_name(type));
    }
    return PST_OK;
}

/* Where a tensor is made: buffers for the largest one. */
typedef struct {
    const pst_export *e;
    pst_dtype type;
    float *one, *two;
} source;

static pst_status write_param(pst_gguf *g, const source *s, const pst_param *p) {
    const uint32_t heads = turned_heads(s->e->model.config, p->name);
    const uint64_t n = pst_param_elements(p);
    const pst_dtype type = type_of(p, s->type);
    float *from = s->one, *other = s->two;
    PST_TRY(s->e->read(s->e->arg, p, from));
    if (heads) {
        interleave(from, other, p, heads);
        from = s->two;
        other = s->one;
    }
    if (type != PST_F32) PST_TRY(to_half(p->name, type, from, (uint16_t *)other, n));
    pst_gguf_write(g, type == PST_F32 ? from : other, n * pst_dtype_bytes(type));
    return PST_OK;
}

/* How much longer each pair's wave becomes by Llama 3's scaling; 0: another scaling. */
static uint32_t list_factors(const pst_model_config *c, float factor[PST_ROPE_PAIRS]) {
    float scaled[PST_ROPE_PAIRS];
    const uint32_t d = c->heads ? c->channels / c->heads : 0;
    const pst_rope plain = {.theta = c->llama.rope.theta};
    if (c->llama.rope.scaling != PST_ROPE_LLAMA3) return 0;
    pst_rope_angles(&c->llama.rope, d, scaled);
    pst_rope_angles(&plain, d, factor);
    for (uint32_t i = 0; i < d / 2; i++) factor[i] /= scaled[i];
    return d / 2;
}

static pst_status write_tensors(pst_gguf *g, const source *s, FILE *out) {
    const pst_graph *graph = s->e->model.graph;
    float factor[PST_ROPE_PAIRS];
    char name[PST_NAME_MAX];
    const uint64_t n = list_factors(s->e->model.config, factor);
    if (n) pst_gguf_tensor(g, "rope_freqs.weight", PST_F32, 1, &n);
    for (uint32_t i = 0; i < graph->n_param; i++) {
        const pst_param *p = &graph->param[i];
        PST_TRY(name_of(p->name, name));
        pst_gguf_tensor(g, name, type_of(p, s->type), p->n_dim, p->dim);
    }
    PST_TRY(pst_gguf_begin(g, out));
    if (n) pst_gguf_write(g, factor, n * sizeof *factor);
    for (uint32_t i = 0; i < graph->n_param; i++) PST_TRY(write_param(g, s, &graph->param[i]));
    return pst_gguf_end(g);
}

/* --- file ------------------------------------------------------------------------------------- */

static pst_status check(const pst_model_config *c) {
    const pst_rope *r = &c->llama.rope;
    if (strcmp(c->kind, "gpt") && strcmp(c->kind, "llama"))
        return pst_fail(PST_EINPUT, "model.kind is %s; GGUF files are written of gpt and llama",
                        c->kind);
    if (!strcmp(c->kind, "gpt") && c->activation != PST_ACT_GELU_TANH)
        return pst_fail(PST_EINPUT,
                        "model.activation is %s; GGUF's architecture gpt2 has gelu_tanh only",
                        pst_activation_name(c->activation));
    if (r->scaling == PST_ROPE_YARN && (r->low != 1 || r->high != 32 || r->attention != 0))
        return pst_fail(PST_EINPUT, "GGUF files are written with YaRN's usual model.rope_low 1, "
                                    "model.rope_high 32 and model.rope_attention 0 only");
    return PST_OK;
}

static const char *architecture_of(const pst_model_config *c) {
    if (!strcmp(c->kind, "gpt")) return "gpt2";
    return c->llama.bias == PST_YES ? "qwen2" : "llama";
}

typedef struct {
    const pst_export *e;
    const pst_export_to *to;
} job;

static pst_status print_with(pst_gguf *g, const source *s, FILE *out) {
    const pst_model_config *c = s->e->model.config;
    keys k = {.g = g, .architecture = architecture_of(c)};
    add_keys(&k, c, s->type);
    PST_TRY(pst_gguf_tokens(g, s->e));
    return write_tensors(g, s, out);
}

static uint64_t largest(const pst_graph *g) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < g->n_param; i++)
        if (pst_param_elements(&g->param[i]) > n) n = pst_param_elements(&g->param[i]);
    return n;
}

static pst_status print(const void *what, FILE *out) {
    const job *j = what;
    const uint64_t n = largest(j->e->model.graph);
    pst_gguf *g = NULL;
    source s = {j->e, j->to->type, malloc(n * sizeof *s.one), malloc(n * sizeof *s.two)};
    pst_status status = s.one && s.two ? pst_gguf_open(&g) : pst_no_memory("to export weights");
    if (status == PST_OK) status = print_with(g, &s, out);
    pst_gguf_close(g);
    free(s.one);
    free(s.two);
    return status;
}

pst_status pst_export_gguf(const pst_export *e, const void *to) {
    const pst_export_to *file = to;
    const job j = {e, file};
    pst_status status = check(e->model.config);
    if (status != PST_OK) return pst_fail_in(status, "%s", file->path);
    return pst_file_replace(file->path, print, &j);
}

/* Llama (Touvron et al. 2023) and its relatives Qwen 2.5 and Mistral: RMS norm before attention and
 * before the MLP, rotary positions, heads that share keys and values, a gated MLP (SwiGLU), no
 * biases except, in Qwen, on queries, keys and values. Parameter names are Hugging Face's. Shapes:
 * b micro-batch, T context, C channels, D channels of a head, V vocabulary. */
#include "models/block.h"
#include <math.h>

#define STD 0.02f

/* Heads of keys and values, width of the MLP, window, 0, epsilon, tied output layer, biases, rotary
 * positions: as in the config.json of each model. */
static const pst_llama tiny = {2, 352, 0, 0, 1e-5f, PST_NO, PST_NO, {.theta = 1e4f}};
static const pst_llama tinyllama = {4, 5632, 0, 0, 1e-5f, PST_NO, PST_NO, {.theta = 1e4f}};
static const pst_llama llama_2_7b = {32, 11008, 0, 0, 1e-5f, PST_NO, PST_NO, {.theta = 1e4f}};
static const pst_llama llama_2_13b = {40, 13824, 0, 0, 1e-5f, PST_NO, PST_NO, {.theta = 1e4f}};
static const pst_llama llama_2_70b = {8, 28672, 0, 0, 1e-5f, PST_NO, PST_NO, {.theta = 1e4f}};
static const pst_llama llama_3_8b = {8, 14336, 0, 0, 1e-5f, PST_NO, PST_NO, {.theta = 5e5f}};
static const pst_llama llama_3_70b = {8, 28672, 0, 0, 1e-5f, PST_NO, PST_NO, {.theta = 5e5f}};
static const pst_llama llama_3_405b = {
    8,
    53248,
    0,
    0,
    1e-5f,
    PST_NO,
    PST_NO,
    {.theta = 5e5f, .scaling = PST_ROPE_LLAMA3, .factor = 8, .low = 1, .high = 4, .context = 8192}};
static const pst_llama qwen_05b = {2, 4864, 0, 0, 1e-6f, PST_YES, PST_YES, {.theta = 1e6f}};
static const pst_llama qwen_15b = {2, 8960, 0, 0, 1e-6f, PST_YES, PST_YES, {.theta = 1e6f}};
static const pst_llama qwen_3b = {2, 11008, 0, 0, 1e-6f, PST_YES, PST_YES, {.theta = 1e6f}};
static const pst_llama qwen_7b = {4, 18944, 0, 0, 1e-6f, PST_NO, PST_YES, {.theta = 1e6f}};
static const pst_llama qwen_14b = {8, 13824, 0, 0, 1e-5f, PST_NO, PST_YES, {.theta = 1e6f}};
static const pst_llama qwen_32b = {8, 27648, 0, 0, 1e-5f, PST_NO, PST_YES, {.theta = 1e6f}};
static const pst_llama qwen_72b = {8, 29568, 0, 0, 1e-5f, PST_NO, PST_YES, {.theta = 1e6f}};
static const pst_llama mistral_7b = {8, 14336, 4096, 0, 1e-5f, PST_NO, PST_NO, {.theta = 1e4f}};

static const pst_model_preset presets[] = {
    {"llama-tiny", 4, 4, 128, 64, 256, &tiny}, /* bytes as tokens */
    {"tinyllama-1.1b", 22, 32, 2048, 2048, 32000, &tinyllama},
    {"llama-2-7b", 32, 32, 4096, 4096, 32000, &llama_2_7b},
    {"llama-2-13b", 40, 40, 5120, 4096, 32000, &llama_2_13b},
    {"llama-2-70b", 80, 64, 8192, 4096, 32000, &llama_2_70b},
    {"llama-3-8b", 32, 32, 4096, 8192, 128256, &llama_3_8b},
    {"llama-3-70b", 80, 64, 8192, 8192, 128256, &llama_3_70b},
    {"llama-3.1-405b", 126, 128, 16384, 131072, 128256, &llama_3_405b},
    {"qwen-2.5-0.5b", 24, 14, 896, 32768, 151936, &qwen_05b},
    {"qwen-2.5-1.5b", 28, 12, 1536, 32768, 151936, &qwen_15b},
    {"qwen-2.5-3b", 36, 16, 2048, 32768, 151936, &qwen_3b},
    {"qwen-2.5-7b", 28, 28, 3584, 131072, 152064, &qwen_7b},
    {"qwen-2.5-14b", 48, 40, 5120, 131072, 152064, &qwen_14b},
    {"qwen-2.5-32b", 64, 40, 5120, 131072, 152064, &qwen_32b},
    {"qwen-2.5-72b", 80, 64, 8192, 131072, 152064, &qwen_72b},
    {"mistral-7b", 32, 32, 4096, 32768, 32000, &mistral_7b},
};

/* Without a preset: the values of Llama 2. */
static pst_status preset(pst_model_config *config) {
    pst_llama *l = &config->llama;
    PST_TRY(pst_model_fill(config, presets, sizeof presets / sizeof *presets,
                           "layers, heads, channels, context and intermediate"));
    if (!l->kv_heads) l->kv_heads = config->heads;
    if (l->norm_eps == 0) l->norm_eps = 1e-5f;
    if (l->rope.theta == 0) l->rope.theta = 1e4f;
    if (l->rope.scaling == PST_ROPE_PLAIN) l->rope = (pst_rope){.theta = l->rope.theta};
    return PST_OK;
}

/* A matrix product without a bias, or with one that begins at 0: in[..,k] -> [..,n]. */
typedef struct {
    uint64_t n;
    float std;
    int bias;
} product;
static pst_status add_linear(pst_block *m, const char *name, uint32_t in, product p,
                             uint32_t *out) {
    char text[PST_NAME_MAX];
    uint32_t weight, offset = PST_NONE;
    const pst_tensor *x = &m->g->tensor[in];
    const uint64_t dim[] = {p.n, x->dim[x->n_dim - 1]};
    pst_block_name(text, "%s.weight", name);
    PST_TRY(pst_graph_add_param(m->g, text, 2, dim, PST_INIT_NORMAL, p.std, 1, &weight));
    pst_block_name(text, "%s.bias", name);
    if (p.bias) PST_TRY(pst_graph_add_param(m->g, text, 1, dim, PST_INIT_ZERO, 0, 0, &offset));
    return pst_graph_add_linear(m->g, name, in, weight, offset, PST_ACT_NONE, out);
}

static pst_status add_norm(pst_block *m, const char *name, uint32_t *out) {
    char text[PST_NAME_MAX];
    uint32_t weight;
    const uint64_t dim = m->c->channels;
    pst_block_name(text, "%s.weight", name);
    PST_TRY(pst_graph_add_param(m->g, text, 1, &dim, PST_INIT_ONE, 0, 0, &weight));
    pst_attr attr = {.eps = m->c->llama.norm_eps};
    return pst_graph_add(m->g, &(pst_new_node){"rms_norm", name, &attr, &m->x, 1, &weight, 1}, out);
}

/* starts: PST_NONE: positions count from the beginning of the sample, or follow those in the cache.
 */
static pst_status add_rotary(pst_block *m, const char *name, uint32_t starts, uint32_t heads,
                             uint32_t *x) {
    if (starts == PST_NONE) starts = m->past;
    pst_attr attr = {.heads = heads, .rope = m->c->llama.rope};
    uint32_t in[] = {*x, starts}, n_in = starts == PST_NONE ? 1 : 2;
    return pst_graph_add(m->g, &(pst_new_node){"rotary", name, &attr, in, n_in, NULL, 0}, x);
}

/* x [b,T,C] -> [b,T,C]: causal attention without the output's product. */
static pst_status add_attention(pst_block *m, uint32_t starts, uint32_t i, uint32_t x) {
    const pst_model_config *c = m->c;
    const uint32_t heads = c->heads, kv_heads = c->llama.kv_heads;
    const uint64_t D = c->channels / heads;
    const int bias = c->llama.bias == PST_YES;
    char text[PST_NAME_MAX];
    uint32_t in[4] = {0, 0, 0, starts};
    PST_TRY(add_linear(m, pst_block_name(text, "layers.%u.self_attn.q_proj", i), x,
                       (product){heads * D, STD, bias}, &in[0]));
    PST_TRY(add_linear(m, pst_block_name(text, "layers.%u.self_attn.k_proj", i), x,
                       (product){kv_heads * D, STD, bias}, &in[1]));
    PST_TRY(add_linear(m, pst_block_name(text, "layers.%u.self_attn.v_proj", i), x,
                       (product){kv_heads * D, STD, bias}, &in[2]));
    PST_TRY(add_rotary(m, pst_block_name(text, "layers.%u.self_attn.q", i), starts, heads, &in[0]));
    PST_TRY(
        add_rotary(m, pst_block_name(text, "layers.%u.self_attn.k", i), starts, kv_heads, &in[1]));
    pst_attr attr = {.heads = heads, .kv_heads = kv_heads, .window = c->llama.window};
    pst_block_name(text, "layers.%u.self_attn", i);
    if (!c->cache)
        return pst_graph_add(
            m->g,
            &(pst_new_node){"attention", text, &attr, in, starts == PST_NONE ? 3 : 4, NULL, 0},
            &m->x);
    m->x = in[0];
    return pst_block_attend_cached(m, &(pst_block_heads){.name = text,
                                                         .heads = heads,
                                                         .kv_heads = kv_heads,
                                                         .size = (uint32_t)D,
                                                         .k = in[1],
                                                         .v = in[2],
                                                         .window = c->llama.window});
}

/* x + o(attention(norm(x))), then x + down(silu(gate(norm(x))) * up(norm(x))). */
static pst_status add_block(pst_block *m, uint32_t starts, uint32_t i) {
    char text[PST_NAME_MAX];
    const uint64_t C = m->c->channels, F = m->c->llama.intermediate;
    /* keeps the residual stream's variance from growing, as in GPT-2 */
    const float residual_std = (float)((double)STD / sqrt(2.0 * m->c->layers));
    uint32_t residual = m->x, in[2], x;
    PST_TRY(add_norm(m, pst_block_name(text, "layers.%u.input_layernorm", i), &x));
    PST_TRY(add_attention(m, starts, i, x));
    PST_TRY(add_linear(m, pst_block_name(text, "layers.%u.self_attn.o_proj", i), m->x,
                       (product){C, residual_std, 0}, &m->x));
    PST_TRY(pst_block_residual(m, pst_block_name(text, "layers.%u.self_attn.add", i), residual));
    residual = m->x;
    PST_TRY(add_norm(m, pst_block_name(text, "layers.%u.post_attention_layernorm", i), &x));
    PST_TRY(add_linear(m, pst_block_name(text, "layers.%u.mlp.gate_proj", i), x,
                       (product){F, STD, 0}, &in[0]));
    PST_TRY(add_linear(m, pst_block_name(text, "layers.%u.mlp.up_proj", i), x, (product){F, STD, 0},
                       &in[1]));
    pst_block_name(text, "layers.%u.mlp.act", i);
    PST_TRY(pst_graph_add(m->g, &(pst_new_node){"gated", text, NULL, in, 2, NULL, 0}, &m->x));
    PST_TRY(add_linear(m, pst_block_name(text, "layers.%u.mlp.down_proj", i), m->x,
                       (product){C, residual_std, 0}, &m->x));
    return pst_block_residual(m, pst_block_name(text, "layers.%u.mlp.add", i), residual);
}

/* [b,T] -> [b,T,C] */
static pst_status add_embedding(pst_block *m, uint32_t tokens, uint32_t *table) {
    const uint64_t dim[] = {m->c->vocabulary, m->c->channels};
    pst_attr attr = {.wide = m->wide};
    PST_TRY(
        pst_graph_add_param(m->g, "embed_tokens.weight", 2, dim, PST_INIT_NORMAL, STD, 1, table));
    return pst_graph_add(
        m->g, &(pst_new_node){"embedding", "embed_tokens", &attr, &tokens, 1, table, 1}, &m->x);
}

static pst_status fill_graph(pst_block *m) {
    const pst_model_config *c = m->c;
    uint64_t shape[] = {c->micro_batch, m->positions};
    const int loss = pst_model_has_loss(c);
    uint32_t tokens, targets = PST_NONE, starts = PST_NONE, table;
    PST_TRY(pst_graph_data(m->g, "tokens", 2, shape, &tokens));
    if (loss) PST_TRY(pst_graph_data(m->g, "targets", 2, shape, &targets));
    if (c->isolate && loss) PST_TRY(pst_graph_data(m->g, "starts", 2, shape, &starts));
    PST_TRY(pst_block_past(m));
    PST_TRY(add_embedding(m, tokens, &table));
    for (uint32_t i = 0; i < c->layers; i++) PST_TRY(add_block(m, starts, i));
    PST_TRY(pst_block_last(m));
    PST_TRY(add_norm(m, "norm", &m->x));
    if (c->llama.tied == PST_YES) /* [b,T,V], or with a cache [b,1,V] */
        PST_TRY(pst_graph_add_linear(m->g, "lm_head", m->x, table, PST_NONE, PST_ACT_NONE, &m->x));
    else PST_TRY(add_linear(m, "lm_head", m->x, (product){c->vocabulary, STD, 0}, &m->x));
    if (!loss) {
        m->g->tensor[m->x].role = PST_TENSOR_OUTPUT;
        return PST_OK;
    }
    uint32_t in[] = {m->x, targets};
    return pst_graph_add(m->g, &(pst_new_node){"cross_entropy", "loss", NULL, in, 2, NULL, 0},
                         &m->x); /* [b,T] */
}

/* What the run file can set wrong; the operator checks the rest. */
static pst_status check_rope(const pst_rope *r) {
    const int ramps = r->scaling == PST_ROPE_LLAMA3 || r->scaling == PST_ROPE_YARN;
    if (!(r->theta > 1))
        return pst_fail(PST_EINPUT, "model.rope_theta is %g; expected more than 1",
                        (double)r->theta);
    if (ramps && !(r->low < r->high))
        return pst_fail(PST_EINPUT,
                        "model.rope_low is %g and model.rope_high %g; expected rope_low to be less",
                        (double)r->low, (double)r->high);
    return PST_OK;
}

static pst_status check(const pst_model_config *c) {
    const pst_llama *l = &c->llama;
    PST_TRY(pst_block_check(c));
    PST_TRY(check_rope(&l->rope));
    if (!l->intermediate)
        return pst_fail(PST_EINPUT,
                        "model.intermediate is 0; set this key, model.preset or model.weights");
    if (!l->kv_heads || c->heads % l->kv_heads)
        return pst_fail(PST_EINPUT,
                        "model.kv_heads is %u, which does not divide model.heads %u: each head of "
                        "keys and values serves the same number of heads",
                        l->kv_heads, c->heads);
    if (c->channels / c->heads % 2)
        return pst_fail(PST_EINPUT,
                        "model.channels %u / model.heads %u is odd; rotary positions turn pairs of "
                        "channels",
                        c->channels, c->heads);
    return PST_OK;
}

static pst_status build(const pst_model_config *config, pst_graph **graph) {
    PST_TRY(check(config));
    pst_block m;
    PST_TRY(pst_block_open(config, "llama", &m));
    pst_status status = fill_graph(&m);
    if (status != PST_OK) {
        pst_graph_close(m.g);
        return pst_fail_in(status, "model llama");
    }
    *graph = m.g;
    return PST_OK;
}

/* The same names. */
static const char *hf_name(const pst_param *param, char buffer[PST_NAME_MAX], int *transposed) {
    *transposed = 0;
    return pst_block_name(buffer, "%s", param->name);
}

const pst_model_row pst_model_llama = {.name = "llama",
                                       .presets = presets,
                                       .n_preset = sizeof presets / sizeof *presets,
                                       .preset = preset,
                                       .build = build,
                                       .hf_name = hf_name,
                                       .hf_prefix = "model.",
                                       .isolates = 1,
                                       .continues = 1,
                                       .caches = 1,
                                       .rotary = 1,
                                       .repeats = 1};

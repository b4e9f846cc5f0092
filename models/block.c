/* See block.h. */
#include "models/block.h"
#include <stdarg.h>

const char *pst_block_name(char buffer[PST_NAME_MAX], const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(buffer, PST_NAME_MAX, fmt, args);
    va_end(args);
    return buffer;
}

pst_status pst_block_open(const pst_model_config *config, const char *name, pst_block *block) {
    pst_graph *g;
    PST_TRY(pst_graph_open(name, config->micro_batch, &g));
    pst_graph_compute(g, config->dtype);
    *block = (pst_block){.g = g,
                         .c = config,
                         .positions = pst_model_positions(config),
                         .past = PST_NONE,
                         .last = PST_NONE};
    g->generates = config->cache != 0;
    block->wide = config->wide && pst_dtype_is_half(g->dtype);
    return PST_OK;
}

pst_status pst_block_table(pst_block *b, const char *name, uint64_t rows, uint32_t *param) {
    pst_param p = {.n_dim = 2,
                   .dim = {rows, b->c->channels},
                   .init = PST_INIT_NORMAL,
                   .std = 0.02f,
                   .decay = 1};
    pst_block_name(p.name, "%s", name);
    return pst_graph_param(b->g, &p, param);
}

/* [channels] */
static pst_status add_vector(pst_block *b, const char *name, pst_init init, uint32_t *index) {
    pst_param p = {.n_dim = 1, .dim = {b->c->channels}, .init = init};
    pst_block_name(p.name, "%s", name);
    return pst_graph_param(b->g, &p, index);
}

pst_status pst_block_embed(pst_block *b, uint32_t tokens, uint32_t starts, uint32_t table[2]) {
    const pst_model_config *c = b->c;
    PST_TRY(pst_block_table(b, "wte.weight", c->vocabulary, &table[0]));
    PST_TRY(pst_block_table(b, "wpe.weight", c->context, &table[1]));
    pst_attr attr = {.wide = b->wide};
    if (starts == PST_NONE) starts = b->past;
    uint32_t in[] = {tokens, starts}, n_in = starts == PST_NONE ? 1 : 2;
    return pst_graph_add(b->g, &(pst_new_node){"embedding", "embedding", &attr, in, n_in, table, 2},
                         &b->x);
}

pst_status pst_block_past(pst_block *b) {
    uint64_t shape[] = {b->c->micro_batch, 1};
    if (!b->c->cache) return PST_OK;
    PST_TRY(pst_graph_data(b->g, "past", 1, shape, &b->past));
    return pst_graph_data(b->g, "last", 2, shape, &b->last);
}

pst_status pst_block_attend_cached(pst_block *b, const pst_block_heads *h) {
    pst_param cache = {.n_dim = 4,
                       .dim = {b->c->micro_batch, h->kv_heads, 2ull * b->c->cache, h->size},
                       .init = PST_INIT_ZERO,
                       .cache = 1};
    uint32_t in[4] = {b->x}, n_in = 1, index;
    pst_block_name(cache.name, "%s.cache", h->name);
    PST_TRY(pst_graph_param(b->g, &cache, &index));
    if (h->k != PST_NONE) in[n_in++] = h->k;
    if (h->v != PST_NONE) in[n_in++] = h->v;
    in[n_in++] = b->past;
    pst_attr attr = {
        .heads = h->heads, .kv_heads = h->k == PST_NONE ? 0 : h->kv_heads, .window = h->window};
    return pst_graph_add(
        b->g, &(pst_new_node){"cached_attention", h->name, &attr, in, n_in, &index, 1}, &b->x);
}

pst_status pst_block_last(pst_block *b) {
    uint32_t in[] = {b->x, b->last};
    if (b->last == PST_NONE) return PST_OK;
    return pst_graph_add(b->g, &(pst_new_node){"pick", "last", NULL, in, 2, NULL, 0}, &b->x);
}

static pst_status add_norm(pst_block *b, const char *name, float eps, uint32_t wide) {
    char text[PST_NAME_MAX];
    uint32_t param[2];
    PST_TRY(add_vector(b, pst_block_name(text, "%s.weight", name), PST_INIT_ONE, &param[0]));
    PST_TRY(add_vector(b, pst_block_name(text, "%s.bias", name), PST_INIT_ZERO, &param[1]));
    pst_attr attr = {.eps = eps, .wide = wide};
    return pst_graph_add(b->g, &(pst_new_node){"layer_norm", name, &attr, &b->x, 1, param, 2},
                         &b->x);
}

pst_status pst_block_layer_norm(pst_block *b, const char *name, float eps) {
    return add_norm(b, name, eps, 0);
}

pst_status pst_block_stream_norm(pst_block *b, const char *name, float eps) {
    return add_norm(b, name, eps, b->wide);
}

pst_status pst_block_narrow(pst_block *b, const char *name) {
    if (!b->wide) return PST_OK;
    return pst_graph_add(b->g, &(pst_new_node){"narrow", name, NULL, &b->x, 1, NULL, 0}, &b->x);
}

pst_status pst_block_dense(pst_block *b, const char *name, uint64_t n, float std,
                           pst_activation activation) {
    return pst_graph_add_dense(b->g, name, b->x, n, std, activation, &b->x);
}

pst_status pst_block_attend(pst_block *b, const char *name, uint32_t mask, uint32_t bidirectional) {
    const pst_attr attr = {.heads = b->c->heads,
                           .bidirectional = bidirectional,
                           .rate = b->c->infer ? 0 : b->c->attention_dropout};
    const uint32_t in[] = {b->x, mask}, n_in = mask == PST_NONE ? 1 : 2;
    return pst_graph_add(b->g, &(pst_new_node){"attention", name, &attr, in, n_in, NULL, 0}, &b->x);
}

pst_status pst_block_dropout(pst_block *b, const char *name) {
    if (!(b->c->dropout > 0) || b->c->infer) return PST_OK;
    pst_attr attr = {.rate = b->c->dropout};
    return pst_graph_add(b->g, &(pst_new_node){"dropout", name, &attr, &b->x, 1, NULL, 0}, &b->x);
}

pst_status pst_block_residual(pst_block *b, const char *name, uint32_t residual) {
    uint32_t in[] = {residual, b->x};
    return pst_graph_add(b->g, &(pst_new_node){"add", name, NULL, in, 2, NULL, 0}, &b->x);
}

pst_status pst_block_check(const pst_model_config *c) {
    PST_TRY(pst_model_check(c));
    if (c->heads == 0)
        return pst_fail(PST_EINPUT, "model.heads is 0; set model.heads or model.preset");
    if (c->channels % c->heads)
        return pst_fail(PST_EINPUT, "model.heads is %u, which does not divide model.channels %u",
                        c->heads, c->channels);
    return PST_OK;
}

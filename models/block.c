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

pst_status pst_block_param(pst_block *b, const char *name, uint64_t n, uint64_t columns, float std,
                           pst_init init, uint32_t *index) {
    pst_param p = {.n_dim = columns ? 2 : 1,
                   .dim = {n, columns},
                   .init = init,
                   .std = std,
                   .decay = columns != 0};
    pst_block_name(p.name, "%s", name);
    return pst_graph_param(b->g, &p, index);
}

pst_status pst_block_embed(pst_block *b, uint32_t tokens, uint32_t table[2]) {
    const pst_model_config *c = b->c;
    PST_TRY(pst_block_param(b, "wte.weight", c->vocabulary, c->channels, 0.02f, PST_INIT_NORMAL,
                            &table[0]));
    PST_TRY(pst_block_param(b, "wpe.weight", c->context, c->channels, 0.02f, PST_INIT_NORMAL,
                            &table[1]));
    return pst_graph_add(b->g, "embedding", "embedding", NULL, &tokens, 1, table, 2, &b->x);
}

pst_status pst_block_layer_norm(pst_block *b, const char *name, float eps) {
    char text[PST_NAME_MAX];
    uint32_t param[2];
    uint64_t C = b->c->channels;
    PST_TRY(pst_block_param(b, pst_block_name(text, "%s.weight", name), C, 0, 0, PST_INIT_ONE,
                            &param[0]));
    PST_TRY(pst_block_param(b, pst_block_name(text, "%s.bias", name), C, 0, 0, PST_INIT_ZERO,
                            &param[1]));
    pst_attr attr = {.eps = eps};
    return pst_graph_add(b->g, "layer_norm", name, &attr, &b->x, 1, param, 2, &b->x);
}

pst_status pst_block_dense(pst_block *b, const char *name, uint64_t n, float std,
                           pst_activation activation) {
    return pst_graph_add_dense(b->g, name, b->x, n, std, activation, &b->x);
}

pst_status pst_block_dropout(pst_block *b, const char *name) {
    if (!(b->c->dropout > 0) || b->c->infer) return PST_OK;
    pst_attr attr = {.rate = b->c->dropout};
    return pst_graph_add(b->g, "dropout", name, &attr, &b->x, 1, NULL, 0, &b->x);
}

pst_status pst_block_residual(pst_block *b, const char *name, uint32_t residual) {
    uint32_t in[] = {residual, b->x};
    return pst_graph_add(b->g, "add", name, NULL, in, 2, NULL, 0, &b->x);
}

pst_status pst_block_check(const pst_model_config *c) {
    PST_TRY(pst_model_check(c));
    if (c->heads == 0) return pst_fail(PST_EINPUT, "model.heads is 0; give it, or a preset");
    if (c->channels % c->heads)
        return pst_fail(PST_EINPUT, "model.heads is %u, which does not divide model.channels %u",
                        c->heads, c->channels);
    return PST_OK;
}

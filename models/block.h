/* What the models that are made of blocks of attention share: a graph under construction, and
 * additions to it that read and replace the tensor that the next operator reads. */
#ifndef PST_MODELS_BLOCK_H
#define PST_MODELS_BLOCK_H
#include "models/model.h"

typedef struct {
    pst_graph *g;
    const pst_model_config *c;
    uint32_t x;
    uint32_t wide; /* 1: the residual stream is F32, and the rest of the graph has 16 bits */
} pst_block;

/* An empty graph as the configuration wants it. */
pst_status pst_block_open(const pst_model_config *config, const char *name, pst_block *block);

/* "h.3.attn" and the like: formats into buffer, for use as an argument. */
__attribute__((format(printf, 2, 3))) const char *pst_block_name(char buffer[PST_NAME_MAX],
                                                                 const char *fmt, ...);
/* The table of tokens, which is table[0] and which the output layer shares, and that of positions:
 * x = [b,T,C]. */
pst_status pst_block_embed(pst_block *b, uint32_t tokens, uint32_t table[2]);
pst_status pst_block_layer_norm(pst_block *b, const char *name, float eps);
/* The same, and what it writes is the residual stream. */
pst_status pst_block_stream_norm(pst_block *b, const char *name, float eps);
/* x in the type of products where x is a wide stream; else nothing. */
pst_status pst_block_narrow(pst_block *b, const char *name);
/* x[b,T,k] -> act(x weight^T + bias)[b,T,n]. */
pst_status pst_block_dense(pst_block *b, const char *name, uint64_t n, float std,
                           pst_activation activation);
/* Nothing where the model has none. */
pst_status pst_block_dropout(pst_block *b, const char *name);
/* residual + x */
pst_status pst_block_residual(pst_block *b, const char *name, uint32_t residual);
/* EINPUT when heads do not divide channels. */
pst_status pst_block_check(const pst_model_config *config);
#endif

/* What transformer models share: a graph under construction, and functions that add operators to
 * it. Each reads tensor x and makes its output the new x. */
#ifndef PST_MODELS_BLOCK_H
#define PST_MODELS_BLOCK_H
#include "models/model.h"

typedef struct {
    pst_graph *g;
    const pst_model_config *c;
    uint32_t x;
    uint32_t wide; /* 1: the residual stream is F32 in a graph of 16 bits */
} pst_block;

/* An empty graph with the configuration's micro-batch and dtype. */
pst_status pst_block_open(const pst_model_config *config, const char *name, pst_block *block);

/* "h.3.attn" and the like: formats into buffer, for use as an argument. */
__attribute__((format(printf, 2, 3))) const char *pst_block_name(char buffer[PST_NAME_MAX],
                                                                 const char *fmt, ...);
/* Adds the embeddings of tokens and of positions: x = [b,T,C]. table[0] is that of tokens, which
 * the output layer shares; table[1] that of positions. */
pst_status pst_block_embed(pst_block *b, uint32_t tokens, uint32_t table[2]);
pst_status pst_block_layer_norm(pst_block *b, const char *name, float eps);
/* The same for a norm whose output is the residual stream: F32 if `wide`. */
pst_status pst_block_stream_norm(pst_block *b, const char *name, float eps);
/* If `wide`, converts x from F32 to the graph's dtype, for matrix products; else does nothing. */
pst_status pst_block_narrow(pst_block *b, const char *name);
/* x[b,T,k] -> act(x weight^T + bias)[b,T,n]. */
pst_status pst_block_dense(pst_block *b, const char *name, uint64_t n, float std,
                           pst_activation activation);
/* Does nothing if the model has no dropout. */
pst_status pst_block_dropout(pst_block *b, const char *name);
/* residual + x */
pst_status pst_block_residual(pst_block *b, const char *name, uint32_t residual);
/* EINPUT when heads do not divide channels. */
pst_status pst_block_check(const pst_model_config *config);
#endif

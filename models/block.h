/* Functions for transformer models: each adds operators to a graph under construction. The
 * operators read tensor block->x, and their output becomes the new block->x. Errors are those of
 * pst_graph_add. */
#ifndef PST_MODELS_BLOCK_H
#define PST_MODELS_BLOCK_H
#include "models/model.h"

typedef struct {
    pst_graph *g; /* the graph under construction */
    const pst_model_config *c;
    uint32_t x;         /* the current tensor */
    uint32_t wide;      /* 1: the residual stream is F32 although the graph's dtype has 16 bits */
    uint32_t positions; /* positions per sample of this graph: with a cache those of a run */
    /* with a cache: data tensors past[b], earlier positions of each sample, and last[b,1], the
     * position of this run that has the logits; else PST_NONE */
    uint32_t past, last;
} pst_block;

/* Opens an empty graph with the micro-batch size and dtype of the configuration. The caller closes
 * block->g. */
pst_status pst_block_open(const pst_model_config *config, const char *name, pst_block *block);

/* Formats a name such as "h.3.attn" into `buffer` and returns it. */
__attribute__((format(printf, 2, 3))) const char *pst_block_name(char buffer[PST_NAME_MAX],
                                                                 const char *fmt, ...);
/* Adds a parameter [rows,C] of normal numbers. */
pst_status pst_block_table(pst_block *b, const char *name, uint64_t rows, uint32_t *param);
/* Adds the embeddings of tokens and positions: x becomes [b,T,C]. starts: data tensor [b,T] of the
 * positions from which positions are counted, or PST_NONE: 0 for all, or with a cache those of
 * `past`. Sets table[0] to the parameter of the token embedding, which the output layer uses
 * again, and table[1] to that of the position embedding. */
pst_status pst_block_embed(pst_block *b, uint32_t tokens, uint32_t starts, uint32_t table[2]);
/* With a cache: adds the data tensors `past` and `last`. Every operator of the model that depends
 * on positions then has `past` as its last input; attention becomes pst_block_attend_cached, and
 * pst_block_last precedes the output layer. Does nothing otherwise. */
pst_status pst_block_past(pst_block *b);
/* x becomes the attention to the cache of x, which has q, k and v, or, if k and v are not PST_NONE,
 * of q = x, k and v. kv_heads: heads of keys and values. window: 0: to all positions. The cache has
 * the operator's name with ".cache". */
typedef struct {
    const char *name;
    uint32_t heads, kv_heads, size; /* size: elements of a head */
    uint32_t k, v, window;
} pst_block_heads;
pst_status pst_block_attend_cached(pst_block *b, const pst_block_heads *heads);
/* With a cache: x[b,T,C] -> [b,1,C], the rows `last`. Does nothing otherwise. */
pst_status pst_block_last(pst_block *b);
/* Adds a layer norm over C with new parameters. */
pst_status pst_block_layer_norm(pst_block *b, const char *name, float eps);
/* Adds a layer norm with an output that is the residual stream: F32 if block->wide. */
pst_status pst_block_stream_norm(pst_block *b, const char *name, float eps);
/* Converts x from F32 to the graph's dtype, for matrix products. Does nothing if block->wide is
 * 0. */
pst_status pst_block_narrow(pst_block *b, const char *name);
/* x[b,T,k] -> act(x weight^T + bias)[b,T,n]. */
pst_status pst_block_dense(pst_block *b, const char *name, uint64_t n, float std,
                           pst_activation activation);
/* Adds attention of all heads to queries, keys and values in x, with dropout of probabilities at
 * the configuration's rate. mask: starts or lengths (op.h); PST_NONE: none. */
pst_status pst_block_attend(pst_block *b, const char *name, uint32_t mask, uint32_t bidirectional);
/* Adds dropout with the rate of the configuration. Does nothing if the rate is 0. */
pst_status pst_block_dropout(pst_block *b, const char *name);
/* x becomes residual + x. */
pst_status pst_block_residual(pst_block *b, const char *name, uint32_t residual);
/* Checks the sizes that transformers need. EINPUT: heads is 0 or does not divide channels. */
pst_status pst_block_check(const pst_model_config *config);
#endif

/* The table of models: a configuration becomes a graph. No training code. mlp.c is the one to read
 * first. */
#ifndef PST_MODELS_MODEL_H
#define PST_MODELS_MODEL_H
#include "graph/graph.h"

/* Sizes after defaults and preset are applied (config/ reads them from the run file). */
typedef struct {
    char kind[32], preset[32];
    char tokenizer[16]; /* what maps text to the numbers of tokens, such as "byte"; "": not known */
    uint32_t layers, heads, channels, context, vocabulary; /* vocabulary: for images, the number of
                                                              classes */
    uint32_t image, depth; /* for images: height and width in pixels; channels of a pixel */
    float dropout;
    pst_activation activation; /* GELU_TANH for GPT-2; BERT always uses GELU_ERF */
    uint32_t micro_batch;
    int infer; /* no loss: the graph ends with logits[b,T,V] (role OUTPUT), and dtype is F32 */
    pst_dtype dtype; /* of the graph: what matrix products round their factors to, see
                        pst_graph_compute */
    int wide;        /* gpt, bert: the residual stream is F32 where dtype has 16 bits */
} pst_model_config;

/* A line of a model's table of presets. */
typedef struct {
    const char *name;
    uint32_t layers, heads, channels, context, vocabulary;
} pst_model_preset;
/* For the model files: pst_model_fill implements preset() with a table and, in words, the sizes
 * that replace a preset; pst_model_check checks the sizes that every model needs. */
pst_status pst_model_fill(pst_model_config *config, const pst_model_preset *preset,
                          uint32_t n_preset, const char *sizes);
pst_status pst_model_check(const pst_model_config *config);

typedef struct {
    const char *name;
    const pst_model_preset *presets;
    uint32_t n_preset;
    /* Sizes of a preset: fills the fields that are 0 in *config (dropout and activation excepted).
     * EINPUT with the list of presets when unknown; "" means explicit sizes. */
    pst_status (*preset)(pst_model_config *config);
    /* EINPUT when sizes contradict each other (heads do not divide channels, ...). The graph's data
     * tensors are named like the fields of data sets: "tokens" and "targets", with "lengths" where
     * samples have padding; "pixels" and "targets". */
    pst_status (*build)(const pst_model_config *config, pst_graph **graph);
    /* Hugging Face's name of a parameter, and whether its two dimensions are swapped there
     * (Conv1D). The row's entry is NULL when there is no mapping. */
    const char *(*hf_name)(const pst_param *param, char buffer[PST_NAME_MAX], int *transposed);
    int continues; /* 1: the model's logits predict the next token, so that it can generate text */
    int repeats;   /* 1: it may have any number of layers, and layers may be alike */
} pst_model_row;

extern const pst_model_row pst_model_mlp, pst_model_gpt, pst_model_bert, pst_model_resnet;
#endif

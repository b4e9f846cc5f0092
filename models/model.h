/* The table of models: a configuration becomes a graph. No training code. mlp.c is the one to read
 * first. */
#ifndef PST_MODELS_MODEL_H
#define PST_MODELS_MODEL_H
#include "graph/graph.h"

/* Sizes after defaults and preset are applied (config/ reads them from the run file). */
typedef struct {
    char kind[32], preset[32];
    char tokenizer[16]; /* what the numbers of tokens stand for, such as "byte"; "": not known */
    uint32_t layers, heads, channels, context, vocabulary; /* vocabulary: of images, the classes */
    uint32_t image, depth; /* of images: height and width; numbers of a pixel */
    float dropout;
    pst_activation activation; /* GELU_TANH for GPT-2; BERT has its own */
    uint32_t micro_batch;
    int infer; /* no loss: the graph ends with logits[b,T,V] (role OUTPUT), and dtype is F32 */
    pst_dtype dtype; /* of the graph: what products round their factors to, see pst_graph_compute */
    int wide;        /* gpt, bert: the residual stream is F32 where dtype has 16 bits */
} pst_model_config;

/* A line of a model's table of presets. */
typedef struct {
    const char *name;
    uint32_t layers, heads, channels, context, vocabulary;
} pst_model_preset;
/* For the model files: what their preset() does, given their table, and in words the sizes that
 * make a preset needless; and the sizes that every model needs. */
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
    /* EINPUT when sizes contradict (heads do not divide channels, ...). The graph's data tensors
     * have the names that data sets give their fields: "tokens" and "targets", with "lengths" where
     * samples have padding, "pixels" and "targets". */
    pst_status (*build)(const pst_model_config *config, pst_graph **graph);
    /* Hugging Face's name of a parameter, and whether its two dimensions are swapped there
     * (Conv1D). The row's entry is NULL when there is no mapping. */
    const char *(*hf_name)(const pst_param *param, char buffer[PST_NAME_MAX], int *transposed);
    int continues; /* its logits are of the token that comes next, so that it can generate text */
    int repeats;   /* any number of layers is possible, and they may be alike */
} pst_model_row;

extern const pst_model_row pst_model_mlp, pst_model_gpt, pst_model_bert, pst_model_resnet;
#endif

/* The table of built-in models: each row builds a graph from a configuration. mlp.c is the simplest
 * model. */
#ifndef PST_MODELS_MODEL_H
#define PST_MODELS_MODEL_H
#include "graph/graph.h"

/* A switch that a preset or a file of sizes may set. */
typedef enum { PST_UNSET, PST_YES, PST_NO } pst_switch;
/* The sizes and options of llama; 0: from the preset. */
typedef struct {
    uint32_t kv_heads, intermediate, window;
    uint32_t trained; /* positions for which the weights were trained; 0: unknown */
    float norm_eps;
    pst_switch tied; /* the output layer has the weights of the token embedding */
    pst_switch bias; /* the layers of queries, keys and values have biases */
    pst_rope rope;   /* theta 0, and factor 0 (scaling): from the preset */
} pst_llama;
/* The options of bert. */
typedef struct {
    uint32_t token_types; /* 0: none */
    /* Masked tokens of a sample that are predicted, at most; 0: as many as it has positions. Before
     * the preset is applied, 0 stands for 15 % of the context. */
    uint32_t predictions;
    int next_sentence; /* 1: also whether segment B follows segment A; -1: from the preset */
    uint32_t labels;   /* not 0: the model classifies samples, and predicts no masked tokens */
    char *const *label_name; /* [labels], borrowed from the configuration; NULL: without names */
    uint32_t intermediate;   /* width of the MLP; 0: 4 times the channels */
    float norm_eps;          /* epsilon of layer norms; 0: 1e-12 */
} pst_bert;

/* The configuration of a model, after defaults and preset are applied (section model of a run
 * file). */
typedef struct {
    char kind[32], preset[32];
    char tokenizer[16]; /* name of the tokenizer of the data, such as "byte"; "": unknown */
    /* context: tokens per sample. vocabulary: number of tokens; for images, of classes */
    uint32_t layers, heads, channels, context, vocabulary;
    /* image: height and width of images in pixels; depth: channels per pixel */
    uint32_t image, depth;
    float dropout;
    float attention_dropout;   /* gpt, bert: of the probabilities of attention */
    pst_activation activation; /* GELU_TANH for GPT-2; BERT always uses GELU_ERF */
    uint32_t micro_batch;      /* samples */
    /* 1: the graph is not trained. Without `losses` it has no loss and ends with logits[b,T,V]
     * (role OUTPUT). dtype must be F32 */
    int infer;
    int losses;         /* with infer: 1: the graph ends with the losses of targets after all */
    uint32_t positions; /* with infer: positions T of a sample in the graph; 0: context */
    /* With infer: 0, or the positions of a cache of keys and values, a multiple of PST_CACHE_BLOCK:
     * the graph computes positions that follow those in the cache, and the logits of one of them
     * (block.h) */
    uint32_t cache;
    /* gpt, llama: 1: it reads "starts", for each position that of the first token of its document:
     * attention and positions begin there; not for generation */
    int isolate;
    /* dtype of the graph, to which matrix products round their factors, see pst_graph_compute */
    pst_dtype dtype;
    int wide; /* gpt, bert, llama: 1: the residual stream is F32 although dtype has 16 bits */
    pst_llama llama;
    pst_bert bert;
} pst_model_config;
/* 1: the graph has targets, and ends with their losses. */
static inline int pst_model_has_loss(const pst_model_config *c) { return !c->infer || c->losses; }
/* Positions of a sample in the graph. */
static inline uint32_t pst_model_positions(const pst_model_config *c) {
    return c->positions ? c->positions : c->context;
}

/* A preset of a model: named sizes. */
typedef struct {
    const char *name;
    uint32_t layers, heads, channels, context, vocabulary;
    const pst_llama *llama; /* NULL for other models */
} pst_model_preset;
/* For the files of models. pst_model_fill implements `preset` of a row with a table of presets;
 * sizes: text of the keys that a user can set instead, for messages. pst_model_check checks the
 * sizes that every model needs; EINPUT names the key. */
pst_status pst_model_fill(pst_model_config *config, const pst_model_preset *preset,
                          uint32_t n_preset, const char *sizes);
pst_status pst_model_check(const pst_model_config *config);

typedef struct {
    const char *name;
    const pst_model_preset *presets;
    uint32_t n_preset;
    /* Fills the sizes of *config that are 0 (except dropout and activation) from preset
     * config->preset; "" means that the user sets all sizes. EINPUT: the preset is unknown;
     * pst_error() lists the presets. */
    pst_status (*preset)(pst_model_config *config);
    /* Builds the graph; the caller closes it. The data tensors have the names of the fields of data
     * sets: "tokens", "targets" and, if samples have padding, "lengths" or, with isolate,
     * "starts"; of bert also "types", "positions" (of the targets) and "next_sentence"; with labels
     * the target of a sample is its label; or "pixels" and "targets". With a cache: "tokens",
     * "past" and "last" (block.h). EINPUT: sizes contradict each other (heads do not divide
     * channels, ...). */
    pst_status (*build)(const pst_model_config *config, pst_graph **graph);
    /* Returns the name of a parameter in Hugging Face's format, or NULL if it has none there;
     * *transposed 1: the two dimensions are swapped there (Conv1D). The member is NULL for models
     * that Hugging Face's format does not support. */
    const char *(*hf_name)(const pst_param *param, char buffer[PST_NAME_MAX], int *transposed);
    /* Before all names but that of the output layer, "lm_head.weight"; "" for none. */
    const char *hf_prefix;
    /* For models of which some parameters are several tensors there, of equal sizes, one after
     * another along dimension 0: returns the name of tensor `part` (0, 1, ...) or, after the last
     * one, NULL. The member is NULL if no parameter is; then, tensor 0 has the name of hf_name. */
    const char *(*hf_part)(const pst_param *param, uint32_t part, char buffer[PST_NAME_MAX]);
    int continues; /* 1: the logits predict the next token, so that the model can generate text */
    int caches;    /* 1: it has pst_model_config.cache */
    int rotary;    /* 1: no parameter depends on the context, so that texts may be longer */
    int isolates;  /* 1: it has pst_model_config.isolate */
    int masked;    /* 1: it predicts masked tokens, see pst_data_config */
    int repeats;   /* 1: any number of layers is allowed, and the inner layers are equal */
} pst_model_row;

extern const pst_model_row pst_model_mlp, pst_model_gpt, pst_model_bert, pst_model_llama,
    pst_model_resnet;
#endif

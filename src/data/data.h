/* The table of data sets: samples from files, in an order that depends only on the seed. */
#ifndef PST_DATA_DATA_H
#define PST_DATA_DATA_H
#include "base/status.h"
#include "data/json_lines.h"
#include <stddef.h>
#include <stdint.h>

typedef struct {
    /* files, folders (read recursively, hidden files left out) and globs ("src/##/#.c" with stars:
     * one star within a folder, two across folders) */
    char *const *paths;
    uint32_t n_path;
    double validation; /* fraction of the text, at its end, that is the validation split */
    uint32_t context;  /* tokens per sample */
    uint64_t seed;
    const char *tokenizer; /* "byte", or the path of a tokenizer */
    int held_out;          /* 1: all data is the validation split */
    uint32_t vocabulary;   /* of the model: tokens must be below; 0: any */
    const char *cache;     /* folder of encoded texts; NULL or "": the user's (cache.h) */
    pst_json_lines lines;  /* how files of JSON Lines are read; used with a tokenizer */
    char *const *weights;  /* [n_weight] numbers, one for each path: see blend.h */
    uint32_t n_weight;     /* 0: all paths are one sequence */
    int masked;            /* 1: the model predicts masked tokens, not the next ones */
    const char *template;  /* "chat": name of the chat template */
    int isolate;           /* "text", "tokens": 1: documents do not see each other */
    /* masked: predictions: targets of a sample, at most; 0: as many as it has tokens. types: 1:
     * there is a field "types". pairs: 1: samples are pairs of segments */
    uint32_t predictions;
    int types, pairs;
    int whole_words;   /* masked: 1: the tokens of a word are masked together */
    const char *label; /* "labels": field or column with the label of a text */
    /* "labels": names of the labels 0, 1, ...; NULL: labels are numbers below n_label */
    char *const *label_name;
    uint32_t n_label;
} pst_data_config;

typedef enum { PST_SPLIT_TRAIN, PST_SPLIT_VALIDATION } pst_split;

/* Shape of the samples, known without opening files other than a tokenizer's. */
typedef struct {
    uint32_t vocabulary;   /* number of distinct tokens or classes; 0: unknown */
    uint32_t image, depth; /* image: height and width in pixels; depth: values per pixel; 0: samples
                              are not images */
} pst_data_shape;

/* An array of a sample, which is copied to the graph's data tensor of the same name. */
typedef struct {
    const char *name;
    uint64_t elements;
} pst_data_field;
enum { PST_DATA_FIELDS = 6 };

typedef struct pst_data pst_data;
typedef struct {
    const char *name;
    pst_status (*shape)(const char *tokenizer, pst_data_shape *shape); /* *shape is 0 */
    /* EINPUT if nothing matches, a file is unreadable, or a split is too short for one sample;
     * names path and sizes. */
    pst_status (*open)(const pst_data_config *config, pst_data **data);
    /* Writes the fields of a sample to out, one of which is named "targets", and returns the number
     * of fields. */
    uint32_t (*fields)(const pst_data *data, pst_data_field out[PST_DATA_FIELDS]);
    /* Sample `index` of the training order (0, 1, ... without end: epochs follow each other), or of
     * the validation split in file order. out[i]: buffer for field i. The target -1 means that a
     * position has no target. */
    pst_status (*sample)(pst_data *data, pst_split split, uint64_t index, int32_t *const *out);
    /* Number of existing targets in training samples [first, first + n), which may be 0; the loss
     * of a batch is the mean over these targets. Does not change what `sample` gives, nor uses its
     * buffers. NULL: all targets exist. */
    uint64_t (*targets)(const pst_data *data, uint64_t first, uint64_t n);
    /* Number of samples: of an epoch of the training split, or of the whole validation split
     * (including the last, partial one). */
    uint64_t (*size)(const pst_data *data, pst_split split);
    uint64_t (*bytes)(const pst_data *data, pst_split split); /* bytes of the split's data */
    /* Hash of the options and of the names and sizes of the files; with tokens, of sizes and
     * contents (tokens.h). Must be equal on resume. */
    uint64_t (*hash)(const pst_data *data);
    /* Hash of the tokenizer that made the tokens; 0: bytes, or unknown. NULL: no tokens. */
    uint64_t (*tokenizer)(const pst_data *data);
    /* Bytes of text that each token stands for, [*n], while the data is open; NULL: unknown, or one
     * each. The function is NULL if there are no tokens. */
    const uint32_t *(*token_bytes)(const pst_data *data, uint32_t *n);
    void (*close)(pst_data *data);
} pst_data_row;
struct pst_data {
    const pst_data_row *row;
};
/* The hash of the tokenizer that made the tokens; 0: bytes, unknown, or no tokens. */
static inline uint64_t pst_data_tokenizer(const pst_data *data) {
    return data->row->tokenizer ? data->row->tokenizer(data) : 0;
}
/* As the function of the table; a NULL one gives NULL. */
static inline const uint32_t *pst_data_token_bytes(const pst_data *data, uint32_t *n) {
    *n = 0;
    return data->row->token_bytes ? data->row->token_bytes(data, n) : NULL;
}
/* "text": "tokens", a window of model.context tokens, and "targets", the tokens that follow
 * each. Validation windows do not overlap; tokens without a target (in the last window) are 0. With
 * `isolate` also "starts": for each position, that of the first token of its document in the
 * window; the last token of a document has no target. For models that predict masked tokens: the
 * fields of "lines", with windows instead of lines (masked.h). */
extern const pst_data_row pst_data_text;
/* "tokens": the same of files that hold tokens (tokens.h). */
extern const pst_data_row pst_data_tokens;
/* "lines": the fields of mask.h: "tokens", a line of the files with some tokens masked; "targets",
 * the masked tokens; "lengths" [1], the line's length. Validation uses file order and always the
 * same masks. With a tokenizer: masked.h. */
extern const pst_data_row pst_data_lines;
/* "chat": "tokens", a conversation, and "targets", the tokens of its answers that follow each. */
extern const pst_data_row pst_data_chat;
/* "labels": "tokens", a text as in "lines", none of them masked; "targets" [1], its label; and
 * "lengths" [1], and with `types` "types", as in mask.h (labelled.h). */
extern const pst_data_row pst_data_labels;
/* images.c: "pixels" and "targets". MNIST: idx files, the i-th image file with the i-th label
 * file; CIFAR-10: its binary files. */
extern const pst_data_row pst_data_mnist, pst_data_cifar10;
#endif

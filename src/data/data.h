/* The table of data sets: samples from files, in an order that depends on the seed only. */
#ifndef PST_DATA_DATA_H
#define PST_DATA_DATA_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct {
    /* files, folders (read recursively, hidden files left out) and globs ("src/##/#.c" with stars:
     * one star within a folder, two across folders) */
    char *const *paths;
    uint32_t n_path;
    double validation; /* fraction of the text, from its end, kept for validation */
    uint32_t context;  /* tokens per sample */
    uint64_t seed;
    const char *tokenizer; /* "byte" */
    int held_out;          /* all of it is the validation split, and none is trained on */
} pst_data_config;

typedef enum { PST_SPLIT_TRAIN, PST_SPLIT_VALIDATION } pst_split;

/* What follows from the options alone, without opening any file. */
typedef struct {
    uint32_t vocabulary;   /* distinct tokens, or classes; 0: unknown */
    uint32_t image, depth; /* height and width, and numbers of a pixel; 0: samples are no images */
} pst_data_shape;

/* An array of a sample: the graph's data tensor of that name receives it. */
typedef struct {
    const char *name;
    uint64_t elements;
} pst_data_field;
enum { PST_DATA_FIELDS = 4 };

typedef struct pst_data pst_data;
typedef struct {
    const char *name;
    pst_data_shape (*shape)(const char *tokenizer);
    /* EINPUT: nothing matches, unreadable, or too short for one sample per split; names the path
     * and the sizes. */
    pst_status (*open)(const pst_data_config *config, pst_data **data);
    /* What a sample holds; one field is named "targets". Returns how many. */
    uint32_t (*fields)(const pst_data *data, pst_data_field out[PST_DATA_FIELDS]);
    /* Sample number `index` (0, 1, ... without end: epochs follow each other) of the training
     * order, or sample `index` of the validation split, in file order. out[i]: room for field i.
     * Targets that do not exist are -1. */
    pst_status (*sample)(pst_data *data, pst_split split, uint64_t index, int32_t *const *out);
    /* NULL: all targets of training samples exist. Else how many do in the n samples from `first`
     * on, without reading them: what the batch's loss is the mean of. 1 at least per sample. */
    uint64_t (*targets)(const pst_data *data, uint64_t first, uint64_t n);
    /* Samples of a split: an epoch of the training split, the whole of the validation split (last,
     * partial one too). */
    uint64_t (*size)(const pst_data *data, pst_split split);
    uint64_t (*bytes)(const pst_data *data, pst_split split);
    uint64_t (*hash)(const pst_data *data); /* names and sizes of the files and the options: must
                                               agree on resume */
    void (*close)(pst_data *data);
} pst_data_row;
struct pst_data {
    const pst_data_row *row;
};
/* "text": "tokens", a window of the context's size, and the "targets" that follow each by one;
 * validation windows do not overlap, tokens without a target (last window) are 0. */
extern const pst_data_row pst_data_text;
/* "lines": "tokens", a line of the files with some of them masked, the masked ones as "targets",
 * and the line's length as "lengths" [1]; validation lines in file order, and with the same masks
 * always. */
extern const pst_data_row pst_data_lines;
/* images.c: "pixels" and "targets". MNIST's idx files, the i-th one of images with the i-th one of
 * labels, and CIFAR-10's binary files. */
extern const pst_data_row pst_data_mnist, pst_data_cifar10;
#endif

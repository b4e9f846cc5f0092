/* The table of data sets: samples from files, in an order that depends on the seed only. */
#ifndef PST_DATA_DATA_H
#define PST_DATA_DATA_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *const *paths;        /* files, folders (read recursively, hidden files left out) and globs ("src/##/#.c" with
                                  stars: one star within a folder, two across folders) */
    uint32_t n_path;
    double validation;         /* fraction of the text, from its end, kept for validation */
    uint32_t context;          /* tokens per sample */
    uint64_t seed;
    const char *tokenizer;     /* "byte" */
} pst_data_config;

typedef enum { PST_SPLIT_TRAIN, PST_SPLIT_VALIDATION } pst_split;

typedef struct pst_data pst_data;
typedef struct {
    const char *name;
    /* EINPUT: nothing matches, unreadable, or too short for one sample per split; names the path and the sizes. */
    pst_status (*open)(const pst_data_config *config, pst_data **data);
    /* Sample number `index` (0, 1, ... without end: epochs follow each other) of the training order, or window
     * `index` of the validation split (non-overlapping, in file order). context tokens and the context targets that
     * follow each by one. Targets that do not exist (last window) are -1 and their tokens 0. */
    pst_status (*sample)(pst_data *data, pst_split split, uint64_t index, int32_t *tokens, int32_t *targets);
    /* Windows of a split: an epoch of the training split, the whole of the validation split (last, partial one too). */
    uint64_t (*size)(const pst_data *data, pst_split split);
    uint32_t (*vocabulary)(const pst_data *data);
    uint64_t (*bytes)(const pst_data *data, pst_split split);
    uint64_t (*hash)(const pst_data *data); /* names and sizes of the files and the options: must agree on resume */
    void (*close)(pst_data *data);
} pst_data_row;
struct pst_data { const pst_data_row *row; };
extern const pst_data_row pst_data_text;
/* Distinct tokens of a tokenizer, 0 when there is none of that name: known without opening any data. */
uint32_t pst_data_vocabulary(const char *tokenizer);
#endif

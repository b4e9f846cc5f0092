/* Run configurations: read from YAML, overridden from the command line, printed in full. */
#ifndef PENSTOCK_CONFIG_H
#define PENSTOCK_CONFIG_H
#include "penstock/status.h"
#include <stddef.h>
#include <stdio.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef struct pst_config pst_config;

/* Maximum number of ranks in a job, and of pipeline stages. */
#define PST_RANKS_MAX 1024

/* Reads `path` (YAML), applies n_override strings "section.key=value" ("key=value" if only one
 * section has the key; keys of nested sections need their full path) and sets every other key to
 * its default. A relative path in the file starts in the file's folder if its first name exists
 * there, else in the current folder. Checks ranges and contradictions. *config is the caller's;
 * free with pst_config_close. EINPUT: pst_error() has file, line, column, what is wrong and what
 * would be right. Any thread. */
PST_API pst_status pst_config_load(const char *path, const char *const *override, size_t n_override,
                                   pst_config **config);
/* The same from text; `file` is a name for messages. */
PST_API pst_status pst_config_parse(const char *text, const char *file, const char *const *override,
                                    size_t n_override, pst_config **config);
/* For a program with its own graph and data: the same without a file; model.kind and data.kind
 * are custom. `name` is the run's name. Overrides may select a model for pst_graph_build:
 * "model.kind=gpt". */
PST_API pst_status pst_config_open(const char *name, const char *const *override, size_t n_override,
                                   pst_config **config);
/* NULL: nothing. */
PST_API void pst_config_close(pst_config *config);
/* The resolved copy as YAML: every key that is used (no model.heads if model.kind is mlp).
 * pst_config_load reads the same values from it. */
PST_API pst_status pst_config_print(const pst_config *config, FILE *out);
/* Prints the table of keys with type, default, range and help, for `train --help`. */
PST_API void pst_config_help(FILE *out);

/* The full name of the key that an override of this name sets, or that has this name in other
 * programs ("learning_rate": "train.lr"); valid until the thread's next call; NULL: none.
 * *instead: NULL, or, if other programs have such a key and penstock has none, a sentence that
 * says what to use; static. Clears the thread's error. */
PST_API const char *pst_config_key_for(const char *name, const char **instead);

/* One key of a run file, for tools that list keys (manual, completion). */
typedef struct {
    size_t size; /* sizeof(pst_config_key); set it before the call */
    /* "": a key at the top level; "a.b": section b of section a */
    const char *section;
    const char *key, *help;
    const char *fallback; /* the default as text; NULL: the key is required */
    const char *allowed;  /* "a|b|c"; NULL: any value that fits `expects` */
    int is_path;          /* the value names files */
    char expects[260];    /* "a number > 0" */
    /* short name for overrides, instead of section.key; NULL: none */
    const char *short_name;
    const char *former_name; /* a former full name, which is still accepted; NULL: none */
    char readers[64]; /* "model.kind gpt, bert": with which value the key is used; "": always */
} pst_config_key;
/* The i-th key in the order of the file, section by section; 0 after the last, or if key->size
 * is 0. The strings of *key are static. Any thread. */
PST_API int pst_config_key_at(size_t i, pst_config_key *key);
#ifdef __cplusplus
}
#endif
#endif

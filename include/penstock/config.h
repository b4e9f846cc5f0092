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
/* Maximum number of ranks of a job that is only planned or simulated. */
#define PST_PLANNED_RANKS_MAX 65536

/* Reads the YAML file `path`, applies n_override strings "section.key=value" and sets every other
 * key to its default. "key=value" is enough if only one section has the key; a key of a nested
 * section needs its full path. A relative path in the file is relative to the folder of the file if
 * the first component of the path exists there, else to the current folder. Checks ranges and
 * contradictions. The caller frees *config with pst_config_close. EINPUT: pst_error() gives file,
 * line, column, what is wrong and what is allowed. Any thread. */
PST_API pst_status pst_config_load(const char *path, const char *const *override, size_t n_override,
                                   pst_config **config);
/* Like pst_config_load, but parses `text`; messages call it `file`. */
PST_API pst_status pst_config_parse(const char *text, const char *file, const char *const *override,
                                    size_t n_override, pst_config **config);
/* Like pst_config_load, but without a file, for a program with its own graph and data: model.kind
 * and data.kind are "custom". `name` is the name of the run. Overrides may select a model for
 * pst_graph_build: "model.kind=gpt". */
PST_API pst_status pst_config_open(const char *name, const char *const *override, size_t n_override,
                                   pst_config **config);
/* Frees the configuration. Does nothing for NULL. */
PST_API void pst_config_close(pst_config *config);
/* Writes the configuration to `out` as YAML, with every key that the run uses (no model.heads if
 * model.kind is mlp). pst_config_load reads the same values back. */
PST_API pst_status pst_config_print(const pst_config *config, FILE *out);
/* Writes the table of keys with type, default, range and help text to `out`, for `train --help`. */
PST_API void pst_config_help(FILE *out);

/* Returns the full name of the key that an override called `name` sets, or of the key that
 * corresponds to `name` in other programs ("learning_rate": "train.lr"); NULL if there is no such
 * key. The string is valid until the next call on the same thread. *instead is set to NULL or, if
 * other programs have such a key and penstock has none, to a static sentence that says what to use.
 * Clears the error message of the thread. */
PST_API const char *pst_config_key_for(const char *name, const char **instead);

/* One key of a run file, for tools that list keys (manual, completion). */
typedef struct {
    size_t size; /* sizeof(pst_config_key); set it before the call */
    /* "" for a key at the top level; "a.b" for section b within section a */
    const char *section;
    const char *key, *help;
    const char *fallback; /* the default value as text; NULL: the key is required */
    /* the allowed values, "a|b|c"; NULL: any value as described by `expects` */
    const char *allowed;
    int is_path;       /* 1: the value is one or more paths */
    char expects[260]; /* a description of the allowed values: "a number > 0" */
    /* short name for overrides, instead of section.key; NULL: none */
    const char *short_name;
    const char *former_name; /* a deprecated full name that is still accepted; NULL: none */
    /* "model.kind gpt, bert": the key is used only with these values; "": always */
    char readers[64];
} pst_config_key;
/* Sets *key to key i (from 0) in the order of a run file, section by section, and returns 1.
 * Returns 0 if there are fewer keys, or if key->size is 0. The strings of *key are static. Any
 * thread. */
PST_API int pst_config_key_at(size_t i, pst_config_key *key);
#ifdef __cplusplus
}
#endif
#endif

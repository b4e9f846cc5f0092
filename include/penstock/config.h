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

/* Ranks of a job, and stages of its pipeline, at most. */
#define PST_RANKS_MAX 1024

/* Reads `path` (YAML), applies n_override texts "section.key=value" (or "key=value" where one
 * section has the key; keys of sections in sections by their full path only), gives every other key
 * its default, takes paths in the file from the file's folder where their first name stands there,
 * and checks ranges and contradictions. *config is the caller's; free with pst_config_close.
 * EINPUT: pst_error() says file, line, column, what is wrong and what would be right. Any
 * thread. */
PST_API pst_status pst_config_load(const char *path, const char *const *override, size_t n_override,
                                   pst_config **config);
/* The same from text; `file` stands in messages. */
PST_API pst_status pst_config_parse(const char *text, const char *file, const char *const *override,
                                    size_t n_override, pst_config **config);
/* For a program that brings its own graph and data: the same without a file, as if one said
 * model.kind and data.kind custom. `name` is the run's. Overrides may name a model for
 * pst_graph_build: "model.kind=gpt". */
PST_API pst_status pst_config_open(const char *name, const char *const *override, size_t n_override,
                                   pst_config **config);
/* NULL: nothing. */
PST_API void pst_config_close(pst_config *config);
/* The resolved copy: every key that is read (no model.heads where model.kind is mlp), YAML,
 * readable by pst_config_load to the same values. */
PST_API pst_status pst_config_print(const pst_config *config, FILE *out);
/* The table of keys with type, default, range and help, for `train --help`. */
PST_API void pst_config_help(FILE *out);

/* The full name of the key that an override of this name sets, or that other programs call so
 * ("learning_rate": "train.lr"), valid until the thread's next call; NULL: none. *instead: NULL,
 * or, where other programs have such a key and there is none here, a sentence that says what to
 * use; static. Clears the thread's error. */
PST_API const char *pst_config_key_for(const char *name, const char **instead);

/* One key of a run file, for tools that list them (manual, completion). */
typedef struct {
    size_t size; /* sizeof(pst_config_key); set it before the call */
    /* "": the key stands at the top of the file; "a.b": in section b of section a */
    const char *section;
    const char *key, *help;
    const char *fallback; /* the default as it would be written; NULL: the key is required */
    const char *allowed;  /* "a|b|c"; NULL: whatever fits `expects` */
    int is_path;          /* names files */
    char expects[260];    /* "a number > 0" */
    /* what may override it instead of section.key: its key; NULL: nothing */
    const char *short_name;
    const char *former_name; /* a full name that it once had, which is still accepted; NULL: none */
    char readers[64];        /* "model.kind gpt, bert": where the key is read; "": everywhere */
} pst_config_key;
/* The i-th key in the order of the file, sections together; 0 beyond the last, and when key has no
 * size. *key's texts are static. Any thread. */
PST_API int pst_config_key_at(size_t i, pst_config_key *key);
#ifdef __cplusplus
}
#endif
#endif

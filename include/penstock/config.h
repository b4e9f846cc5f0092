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

/* Reads `path` (YAML), applies n_override texts "section.key=value" (or "key=value" where the key is unique), gives
 * every other key its default and checks ranges and contradictions. *config is the caller's; free with
 * pst_config_close. EINPUT: pst_error() says file, line, column, what is wrong and what would be right.
 * Any thread. */
PST_API pst_status pst_config_load(const char *path, const char *const *override, size_t n_override,
                                   pst_config **config);
/* The same from text; `file` stands in messages. */
PST_API pst_status pst_config_parse(const char *text, const char *file, const char *const *override, size_t n_override,
                                    pst_config **config);
PST_API void pst_config_close(pst_config *config);
/* The resolved copy: every key, YAML, readable by pst_config_load to the same values. */
PST_API pst_status pst_config_print(const pst_config *config, FILE *out);
/* The table of keys with type, default, range and help, for `train --help`. */
PST_API void pst_config_help(FILE *out);
#ifdef __cplusplus
}
#endif
#endif

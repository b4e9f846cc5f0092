/* Shared by data sets: options checked, hashed and described. */
#ifndef PST_DATA_OPTIONS_H
#define PST_DATA_OPTIONS_H
#include "data/data.h"
#include "data/files.h"
#include <stddef.h>

/* EINPUT names an option with a wrong value. */
pst_status pst_options_check(const pst_data_config *config);
/* EINPUT: `field` or `skip` of the lines is set, but no file of the paths is one of JSON Lines. */
pst_status pst_options_check_lines(const pst_data_config *config);
/* EINPUT: the tokenizer is not "byte". */
pst_status pst_options_check_bytes(const pst_data_config *config);
/* *held: how many of `all` samples or tokens, the last ones, are the validation split. unit: what
 * they are, one of them: "line". EINPUT: less than one. */
pst_status pst_options_held(const pst_data_config *config, const char *what, uint64_t all,
                            const char *unit, uint64_t *held);
/* The number of tokens: `bytes` for the tokenizer "byte", else that of the tokenizer's files. */
pst_status pst_options_vocabulary(const char *tokenizer, uint32_t bytes, uint32_t *vocabulary);
/* Continues `hash` with every option that affects samples. tokenizer: hash of the tokenizer; 0:
 * bytes. */
uint64_t pst_options_hash(const pst_data_config *config, uint64_t tokenizer, uint64_t hash);
/* "a.txt" or "a.txt and 3 more files", for messages. */
enum { PST_OPTIONS_TEXT = 512 };
void pst_options_describe(const pst_file_list *list, char *out, size_t size);
void pst_options_describe_paths(char *const *path, uint32_t n, char out[PST_OPTIONS_TEXT]);
#endif

/* Shared by data sets: options checked, hashed and described. */
#ifndef PST_DATA_OPTIONS_H
#define PST_DATA_OPTIONS_H
#include "data/data.h"
#include "data/files.h"
#include <stddef.h>

/* EINPUT names an option with a wrong value. */
pst_status pst_options_check(const pst_data_config *config);
/* Continues `hash` with every option that affects samples. */
uint64_t pst_options_hash(const pst_data_config *config, uint64_t hash);
/* "a.txt" or "a.txt and 3 more files", for messages. */
void pst_options_describe(const pst_file_list *list, char *out, size_t size);
#endif

/* Text encoded once and kept: an indexed data set in a cache folder, whose name follows from the
 * contents of the files and the tokenizer. */
#ifndef PST_DATA_CACHE_H
#define PST_DATA_CACHE_H
#include "data/data.h"
#include "data/encode.h"
#include "data/options.h"
#include "tokenizer/tokenizer.h"

/* Finds the encoded text of config->paths; encodes it first if the cache does not have it, together
 * with other processes that need it. *prefix: of the indexed data set, which the caller frees;
 * *tokenizer: closed by the caller; what: the files, for messages. Folder: config->cache, else
 * penstock/tokens in $XDG_CACHE_HOME or ~/.cache, which is made if it is missing. */
pst_status pst_token_cache_find(const pst_data_config *config, const pst_encode_form *form,
                                char **prefix, pst_tokenizer **tokenizer,
                                char what[PST_OPTIONS_TEXT]);
#endif

/* Text encoded once and kept: an indexed data set in a cache folder, whose name follows from the
 * contents of the files and the tokenizer. */
#ifndef PST_DATA_CACHE_H
#define PST_DATA_CACHE_H
#include "data/data.h"
#include "data/options.h"
#include "data/tokens.h"
#include "tokenizer/tokenizer.h"

/* Opens the tokens of the text at config->paths; encodes it first if the cache does not have it.
 * Processes that need the same text wait for the one that encodes it. *tokenizer: closed by the
 * caller; what: the files, for messages. Folder: config->cache, else penstock/tokens in
 * $XDG_CACHE_HOME or ~/.cache, which is made if it is missing. */
pst_status pst_token_cache_open(const pst_data_config *config, pst_tokens **tokens,
                                pst_tokenizer **tokenizer, char what[PST_OPTIONS_TEXT]);
#endif

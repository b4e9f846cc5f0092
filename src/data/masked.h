/* Samples of tokens for models that predict masked tokens: [CLS], tokens, [SEP], with the
 * tokenizer's own special tokens, some of them hidden (mask.h); zeros after them. */
#ifndef PST_DATA_MASKED_H
#define PST_DATA_MASKED_H
#include "data/data.h"
#include "tokenizer/tokenizer.h"

/* The special tokens before and after a text, and the one that hides a token (mask NULL: not
 * wanted), such as [CLS], [SEP] and [MASK]. EINPUT: names one that the tokenizer lacks. */
pst_status pst_masked_special(const pst_tokenizer *t, int32_t *begin, int32_t *end, int32_t *mask);

/* Fields: "tokens", "targets" (-1 except where a token is predicted) and "lengths" [1]. EINPUT: the
 * tokenizer lacks a special token that is needed; names it. Else as `open` of a pst_data_row. */

/* A sample is a line of text, or of JSON Lines; longer ones are cut. The validation split is the
 * last lines. */
pst_status pst_masked_open_lines(const pst_data_config *c, pst_data **out);
/* A sample is a window of the text, or of the files of tokens, which may cross documents (Liu et
 * al. 2019, "full sentences"). The validation split is the last part. */
pst_status pst_masked_open_text(const pst_data_config *c, pst_data **out);
pst_status pst_masked_open_tokens(const pst_data_config *c, pst_data **out);
#endif

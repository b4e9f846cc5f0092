/* Where a text can be divided without a change of its ids. Between words: the `cut` of each kind of
 * tokenizer. Within a word, which in Chinese may be as long as the text: where no token is on both
 * sides. Merges and the unigram model make nothing but tokens, so none of their steps crosses that
 * place, and the two sides do not depend on each other. */
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"
#include <string.h>

int pst_cut_is_crossed(const pst_tokenizer *t, const pst_vocabulary *tokens, const uint8_t *text,
                       size_t place) {
    for (size_t before = 1; before < t->longest; before++)
        for (size_t n = before + 1; n <= t->longest; n++)
            if (pst_vocabulary_find(tokens, text + place - before, n) >= 0) return 1;
    return 0;
}

/* --- special tokens --------------------------------------------------------------------------- */

static size_t longest_special(const pst_tokenizer *t) {
    size_t longest = 0;
    for (size_t i = 0; i < t->n_special; i++)
        if (t->special[i].bytes > longest) longest = t->special[i].bytes;
    return longest;
}

/* 1: the text of a special token is on both sides of the place, or touches it. */
static int in_special(const pst_tokenizer *t, const char *text, size_t bytes, size_t place) {
    size_t longest = longest_special(t), from = place > longest ? place - longest : 0;
    for (size_t at = from; at <= place && at < bytes; at++) {
        const uint8_t *here = (const uint8_t *)text + at;
        for (size_t i = 0; t->special_first[*here] && i < t->n_special; i++) {
            const pst_special *s = &t->special[i];
            if (at + s->bytes >= place && s->bytes <= bytes - at &&
                !memcmp(s->text, here, s->bytes))
                return 1;
        }
    }
    return 0;
}

size_t pst_tokenizer_cut(const pst_tokenizer *t, const char *text, size_t bytes) {
    size_t at = t->row->cut(t, (const uint8_t *)text, bytes);
    while (at && in_special(t, text, bytes, at)) at = t->row->cut(t, (const uint8_t *)text, at);
    return at;
}

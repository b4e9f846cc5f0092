/* The vocabulary of a WordPiece: the alphabet of the words, and the texts that merges make; see
 * train.h. */
#include "base/grow.h"
#include "tokenizer/train_parts.h"
#include "tokenizer/unicode.h"
#include <stdlib.h>
#include <string.h>

static const char to_learn[] = "to learn a tokenizer", continues[] = "##";
enum { CONTINUES = 2, MOST_CHARACTERS = 100 };
static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
enum { N_SPECIAL = sizeof special / sizeof *special };

pst_status pst_wordpiece_lesson_open(int cased, pst_wordpiece_lesson **out) {
    pst_wordpiece_lesson *l = calloc(1, sizeof *l);
    if (!l) return pst_no_memory(to_learn);
    *out = l;
    l->cased = cased;
    l->rules.row = &pst_tokenizer_wordpiece;
    l->rules.wordpiece = (pst_wordpiece_options){
        .lower = !cased, .accents = !cased, .clean = 1, .han = 1, .most = MOST_CHARACTERS};
    return pst_encoder_open(&l->rules, 0, &l->encoder);
}

void pst_wordpiece_lesson_close(pst_wordpiece_lesson *l) {
    if (!l) return;
    pst_encoder_close(l->encoder);
    pst_vocabulary_free(&l->alphabet);
    pst_vocabulary_free(&l->tokens);
    pst_text_free(&l->text);
    free(l->token);
    free(l->word);
    free(l);
}

/* --- words ------------------------------------------------------------------------------------ */

/* The symbol of a character. */
static pst_status symbol_of(pst_wordpiece_lesson *l, const uint8_t *at, size_t n, int begins,
                            int32_t *symbol) {
    uint8_t text[8];
    const size_t before = begins ? 0 : CONTINUES;
    memcpy(text, continues, before);
    memcpy(text + before, at, n);
    *symbol = pst_vocabulary_find(&l->alphabet, text, before + n);
    if (*symbol >= 0) return PST_OK;
    *symbol = (int32_t)l->alphabet.n;
    return pst_vocabulary_add(&l->alphabet, l->alphabet.n, text, before + n);
}

static pst_status count_word(pst_bpe_training *t, const uint8_t *at, const uint8_t *to) {
    pst_wordpiece_lesson *l = t->wordpiece;
    const uint8_t *word = at;
    size_t n = 0;
    if (pst_unicode_count(at, (size_t)(to - at)) > MOST_CHARACTERS) return PST_OK;
    while (at < to) {
        uint32_t bytes = 1;
        if (*at >= 0x80) pst_unicode_decode(at, to, &bytes);
        PST_TRY(pst_grow(&l->word, sizeof *l->word, n, &l->word_capacity, to_learn));
        PST_TRY(symbol_of(l, at, bytes, at == word, &l->word[n++]));
        at += bytes;
    }
    return pst_bpe_training_count(t, l->word, n);
}

pst_status pst_wordpiece_count_text(void *training, const char *text, size_t bytes, int first) {
    pst_bpe_training *t = training;
    pst_encoder *e = t->wordpiece->encoder;
    const uint8_t *classes = pst_unicode_bert_classes();
    (void)first;
    PST_TRY(pst_bert_normalize(e, (const uint8_t *)text, bytes));
    const uint8_t *at = (const uint8_t *)e->normal.byte, *end = at + e->normal.n, *word = at;
    for (const uint8_t *next; at < end; at = next) {
        uint32_t n = 1;
        const uint8_t class = classes[*at < 0x80 ? *at : pst_unicode_decode(at, end, &n)];
        next = at + n;
        if (!(class & (PST_SPACE | PST_PUNCT))) continue;
        if (word < at) PST_TRY(count_word(t, word, at));
        if (class & PST_PUNCT) PST_TRY(count_word(t, at, next));
        word = next;
    }
    return word < end ? count_word(t, word, end) : PST_OK;
}

size_t pst_wordpiece_text_cut(const void *training, const char *text, size_t bytes) {
    const pst_bpe_training *t = training;
    return pst_tokenizer_wordpiece.cut(&t->wordpiece->rules, (const uint8_t *)text, bytes);
}

/* --- tokens ----------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *text;
    uint32_t bytes, symbol;
} letter;

static int by_text(const void *a, const void *b) {
    const letter *x = a;
    const letter *y = b;
    const uint32_t n = x->bytes < y->bytes ? x->bytes : y->bytes;
    const int order = memcmp(x->text, y->text, n);
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static pst_status add_token(pst_wordpiece_lesson *l, const uint8_t *text, size_t bytes) {
    return pst_vocabulary_add(&l->tokens, l->tokens.n, text, bytes);
}

/* The symbols of words get the numbers of the sorted alphabet: the result does not depend on the
 * order of the files. */
static pst_status sort_alphabet(pst_bpe_training *t, letter *list) {
    pst_wordpiece_lesson *l = t->wordpiece;
    const uint32_t n = l->alphabet.n;
    for (uint32_t i = 0; i < n; i++) {
        list[i].text = pst_vocabulary_text(&l->alphabet, i, &list[i].bytes);
        list[i].symbol = i;
    }
    qsort(list, n, sizeof *list, by_text);
    for (uint32_t i = 0; i < n; i++) {
        PST_TRY(add_token(l, list[i].text, list[i].bytes));
        l->token[list[i].symbol] = i;
    }
    for (size_t i = 0; i < t->n_symbol; i++)
        t->symbol[i] = (int32_t)l->token[(uint32_t)t->symbol[i]];
    for (uint32_t i = 0; i < n; i++) l->token[i] = N_SPECIAL + i;
    t->n_first = n;
    return PST_OK;
}

static int has_capital(const pst_vocabulary *v) {
    for (uint32_t i = 0; i < v->n; i++) {
        uint32_t bytes;
        const uint8_t *text = pst_vocabulary_text(v, i, &bytes);
        if (text[bytes - 1] >= 'A' && text[bytes - 1] <= 'Z') return 1;
    }
    return 0;
}

pst_status pst_wordpiece_begin(pst_bpe_training *t, uint32_t vocabulary) {
    pst_wordpiece_lesson *l = t->wordpiece;
    const uint32_t n = l->alphabet.n;
    if (n + N_SPECIAL > vocabulary)
        return pst_fail(PST_EINPUT,
                        "a vocabulary of %u is too small: %d special tokens and the characters of "
                        "the text are %u",
                        vocabulary, N_SPECIAL, n + N_SPECIAL);
    if (l->cased && !has_capital(&l->alphabet))
        return pst_fail(PST_EINPUT, "the text has no letter from A to Z, by which a vocab.txt is "
                                    "known to be cased; omit --cased");
    for (int i = 0; i < N_SPECIAL; i++)
        PST_TRY(add_token(l, (const uint8_t *)special[i], strlen(special[i])));
    letter *list = malloc((n + (size_t)1) * sizeof *list);
    l->token = malloc((n + (size_t)1) * sizeof *l->token);
    l->token_capacity = n + (size_t)1;
    pst_status status = list && l->token ? sort_alphabet(t, list) : pst_no_memory(to_learn);
    free(list);
    return status;
}

static pst_status add_text(pst_wordpiece_lesson *l, int32_t symbol, size_t from) {
    uint32_t bytes;
    const uint8_t *text = pst_vocabulary_text(&l->tokens, l->token[(uint32_t)symbol], &bytes);
    return pst_text_add(&l->text, text + from, bytes - from);
}

pst_status pst_wordpiece_merged(pst_bpe_training *t) {
    pst_wordpiece_lesson *l = t->wordpiece;
    const int32_t *halves = t->merge[t->n_merge - 1];
    const size_t symbol = t->n_first + t->n_merge - 1;
    l->text.n = 0;
    PST_TRY(add_text(l, halves[0], 0));
    PST_TRY(add_text(l, halves[1], CONTINUES));
    const uint8_t *text = (const uint8_t *)l->text.byte;
    const int32_t known = pst_vocabulary_find(&l->tokens, text, l->text.n);
    PST_TRY(pst_grow(&l->token, sizeof *l->token, symbol, &l->token_capacity, to_learn));
    l->token[symbol] = known >= 0 ? (uint32_t)known : l->tokens.n;
    return known >= 0 ? PST_OK : add_token(l, text, l->text.n);
}

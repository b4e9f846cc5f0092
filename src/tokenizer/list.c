/* See list.h. */
#include "tokenizer/list.h"
#include "tokenizer/parts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char for_list[] = "for a list of tokens";

static int by_rank(const void *a, const void *b) {
    const pst_pair *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Appends each byte as the character that stands for it. */
static pst_status add_characters(pst_text *out, const uint8_t *text, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++) {
        const uint32_t code = pst_character_of_byte(text[i]);
        const char two[2] = {(char)(0xc0 | code >> 6), (char)(0x80 | (code & 0x3f))};
        const char one = (char)code;
        PST_TRY(code < 0x80 ? pst_text_add(out, &one, 1) : pst_text_add(out, two, 2));
    }
    return PST_OK;
}

/* Copies the text, with a zero at its end. */
static pst_status keep(const pst_text *text, char **out) {
    if (!(*out = malloc(text->n + 1))) return pst_no_memory(for_list);
    if (text->n) memcpy(*out, text->byte, text->n);
    (*out)[text->n] = 0;
    return PST_OK;
}

static pst_status list_tokens(const pst_tokenizer *t, pst_token_list *list, pst_text *text) {
    for (size_t i = 0; i < t->n_special; i++)
        list->kind[t->special[i].id] = t->special[i].always ? PST_TOKEN_ADDED : PST_TOKEN_SPECIAL;
    for (uint32_t id = 0; id < t->size; id++) {
        uint32_t bytes;
        const uint8_t *at = pst_vocabulary_text(&t->vocabulary, id, &bytes);
        if (!at) continue;
        text->n = 0;
        if (!list->kind[id]) {
            list->kind[id] = PST_TOKEN_TEXT;
            PST_TRY(add_characters(text, at, bytes));
        } else {
            PST_TRY(pst_text_add(text, at, bytes));
        }
        PST_TRY(keep(text, &list->token[id]));
    }
    return PST_OK;
}

/* Texts stay as they are, with U+2581 for blanks. */
static pst_status list_scored(const pst_tokenizer *t, pst_token_list *list, pst_text *text) {
    for (uint32_t id = 0; id < t->size; id++) {
        uint32_t bytes;
        const float score = t->sentencepiece.score[id];
        list->score[id] = isnan(score) ? 0 : score;
        if (pst_vocabulary_text(&t->matched, id, &bytes)) list->kind[id] = PST_TOKEN_TEXT;
        const uint8_t *at = pst_vocabulary_text(&t->vocabulary, id, &bytes);
        text->n = 0;
        if (at) PST_TRY(pst_text_add(text, at, bytes));
        if (at) PST_TRY(keep(text, &list->token[id]));
    }
    for (int i = 0; i < 256; i++) list->kind[t->byte_id[i]] = PST_TOKEN_BYTE;
    for (size_t i = 0; i < t->n_special; i++)
        list->kind[t->special[i].id] = t->special[i].inner ? PST_TOKEN_ADDED : PST_TOKEN_SPECIAL;
    return PST_OK;
}

/* The merges of p, which are in order of rank. */
static pst_status list_merges(const pst_tokenizer *t, const pst_pair *p, pst_token_list *list,
                              pst_text *text) {
    for (uint32_t i = 0; i < list->n_merge; i++) {
        uint32_t bytes;
        if (i && p[i].rank == p[i - 1].rank)
            return pst_fail(PST_EINPUT,
                            "the tokenizer has ranks of tokens (.tiktoken) and no list of merges; "
                            "use its tokenizer.json");
        text->n = 0;
        const uint8_t *at = pst_vocabulary_text(&t->vocabulary, p[i].left, &bytes);
        PST_TRY(add_characters(text, at, bytes));
        PST_TRY(pst_text_add(text, " ", 1));
        at = pst_vocabulary_text(&t->vocabulary, p[i].right, &bytes);
        PST_TRY(add_characters(text, at, bytes));
        PST_TRY(keep(text, &list->merge[i]));
    }
    return PST_OK;
}

static pst_status sort_and_list_merges(const pst_tokenizer *t, pst_token_list *list,
                                       pst_text *text) {
    uint32_t n = 0;
    pst_pair *sorted = malloc((t->pairs.n + 1) * sizeof *sorted);
    if (!sorted) return pst_no_memory(for_list);
    for (size_t i = 0; i < t->pairs.n_slot; i++)
        if (t->pairs.slot[i].left != (uint32_t)PST_PAIR_NONE) sorted[n++] = t->pairs.slot[i];
    qsort(sorted, n, sizeof *sorted, by_rank);
    list->n_merge = n;
    pst_status status = list_merges(t, sorted, list, text);
    free(sorted);
    return status;
}

/* Checks that tokens and scores define the tokenizer. */
static pst_status check_scored(const pst_tokenizer *t) {
    const pst_sentencepiece *sp = &t->sentencepiece;
    if (!sp->unigram && sp->bytes && !sp->collapse && !sp->charsmap.unit) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "the model of SentencePiece is not a BPE with tokens for bytes that "
                    "keeps all characters, as that of Llama 2 is");
}

/* Checks that tokens, merges and one known pattern define the tokenizer. */
static pst_status check(const pst_tokenizer *t) {
    if (t->row == &pst_tokenizer_sentencepiece) return check_scored(t);
    if (t->row != &pst_tokenizer_bpe)
        return pst_fail(PST_EINPUT,
                        "the tokenizer is %s; expected byte-level BPE, SentencePiece "
                        "or bytes",
                        t->row->name);
    if (t->prefix)
        return pst_fail(PST_EINPUT, "the tokenizer puts a blank before each text "
                                    "(add_prefix_space)");
    const pst_split_row *row = t->n_step == 1 ? t->step[0].row : NULL;
    if (!row || row->to_end)
        return pst_fail(PST_EINPUT, "the tokenizer splits text by a pattern other than those of "
                                    "GPT-2, Llama 3 and Qwen 2");
    return PST_OK;
}

pst_status pst_token_list_make(const pst_tokenizer *t, pst_token_list *out) {
    const int bytes = t->row == &pst_tokenizer_byte;
    const int scored = t->row == &pst_tokenizer_sentencepiece;
    pst_text text = {0};
    if (!bytes) PST_TRY(check(t));
    pst_token_list list = {.split = t->n_step ? t->step[0].row->name : "gpt2",
                           .prefix = scored && t->sentencepiece.prefix,
                           .score = scored ? calloc(t->size, sizeof *list.score) : NULL,
                           .whole_words = t->whole_words,
                           .n = t->size,
                           .unknown = t->unknown,
                           .token = calloc(t->size, sizeof *list.token),
                           .kind = calloc(t->size, sizeof *list.kind),
                           .merge = calloc(t->pairs.n + 1, sizeof *list.merge)};
    const int memory = list.token && list.kind && list.merge && (list.score || !scored);
    pst_status status = memory ? PST_OK : pst_no_memory(for_list);
    if (scored) list.split = NULL;
    if (status == PST_OK)
        status = scored ? list_scored(t, &list, &text) : list_tokens(t, &list, &text);
    if (status == PST_OK && !scored) status = sort_and_list_merges(t, &list, &text);
    pst_text_free(&text);
    if (status == PST_OK) *out = list;
    else pst_token_list_free(&list);
    return status;
}

void pst_token_list_free(pst_token_list *list) {
    for (uint32_t i = 0; list->token && i < list->n; i++) free(list->token[i]);
    for (uint32_t i = 0; list->merge && i < list->n_merge; i++) free(list->merge[i]);
    free(list->token);
    free(list->kind);
    free(list->merge);
    free(list->score);
    *list = (pst_token_list){0};
}

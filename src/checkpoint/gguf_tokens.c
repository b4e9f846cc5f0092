/* See gguf_tokens.h. */
#include "checkpoint/gguf_tokens.h"
#include "tokenizer/list.h"
#include <stdlib.h>
#include <string.h>

/* tokenizer.ggml.token_type */
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };
enum { FILLER = 24 };

/* tokenizer.ggml.pre, which names how text is split. llama-bpe takes a word that is a token as it
 * is; smaug-bpe splits alike and merges every word. NULL: none. */
static const char *pre_of(const pst_token_list *list) {
    const int whole = list->whole_words;
    if (!list->split) return "default";
    if (!strcmp(list->split, "llama3")) return whole ? "llama-bpe" : "smaug-bpe";
    if (whole) return NULL;
    return strcmp(list->split, "gpt2") ? "qwen2" : "gpt-2";
}

static int32_t type_of(const pst_token_list *list, uint32_t id) {
    static const int32_t types[] = {UNUSED, NORMAL, CONTROL, USER_DEFINED, BYTE};
    if (id >= list->n) return UNUSED;
    return (int32_t)id == list->unknown ? UNKNOWN : types[list->kind[id]];
}

/* All ids of the model, those without a token too. filler: memory for the texts of these. */
static void fill(const pst_token_list *list, uint32_t n, const char **token, int32_t *type,
                 char (*filler)[FILLER]) {
    for (uint32_t id = 0; id < n; id++) {
        token[id] = id < list->n ? list->token[id] : NULL;
        type[id] = type_of(list, id);
        if (token[id]) continue;
        snprintf(filler[id], FILLER, "[PAD%u]", id);
        token[id] = filler[id];
    }
}

static pst_status add_tokens(pst_gguf *g, const pst_token_list *list, uint32_t n) {
    const char **token = calloc(n, sizeof *token);
    int32_t *type = calloc(n, sizeof *type);
    char(*filler)[FILLER] = calloc(n, sizeof *filler);
    const int memory = token && type && filler;
    if (memory) {
        fill(list, n, token, type, filler);
        pst_gguf_texts(g, "tokenizer.ggml.tokens", token, n);
        pst_gguf_i32s(g, "tokenizer.ggml.token_type", type, n);
    }
    free(token);
    free(type);
    free(filler);
    return memory ? PST_OK : pst_no_memory("for a list of tokens");
}

static pst_status add_scores(pst_gguf *g, const pst_token_list *list, uint32_t n) {
    float *score = calloc(n, sizeof *score);
    if (!score) return pst_no_memory("for a list of tokens");
    memcpy(score, list->score, list->n * sizeof *score);
    pst_gguf_f32s(g, "tokenizer.ggml.scores", score, n);
    pst_gguf_bool(g, "tokenizer.ggml.add_space_prefix", list->prefix);
    free(score);
    return PST_OK;
}

/* The token before a text: that of Llama, else the one that ends documents. */
static int32_t begin_of(const pst_tokenizer *t) {
    static const char *const begins[] = {"<|begin_of_text|>", "<s>"};
    int32_t id = -1;
    for (size_t i = 0; id < 0 && i < sizeof begins / sizeof *begins; i++)
        if (pst_tokenizer_special(t, begins[i], &id) != PST_OK) id = -1;
    pst_error_clear();
    return id < 0 ? pst_tokenizer_end(t) : id;
}

static pst_status add_list(pst_gguf *g, const pst_export *e, const pst_tokenizer *t,
                           const pst_token_list *list) {
    const uint32_t n = e->model.config->vocabulary;
    const char *pre = pre_of(list);
    const int32_t end = pst_tokenizer_end(t), begin = begin_of(t);
    if (!pre)
        return pst_fail(PST_EINPUT, "the tokenizer takes words that are tokens as they are "
                                    "(ignore_merges), but does not split text as Llama 3 does");
    if (list->n > n)
        return pst_fail(PST_EINPUT, "the tokenizer has %u tokens, but the model has %u", list->n,
                        n);
    pst_gguf_text(g, "tokenizer.ggml.model", list->score ? "llama" : "gpt2");
    pst_gguf_text(g, "tokenizer.ggml.pre", pre);
    PST_TRY(add_tokens(g, list, n));
    if (list->score) PST_TRY(add_scores(g, list, n));
    else
        pst_gguf_texts(g, "tokenizer.ggml.merges", (const char *const *)list->merge, list->n_merge);
    if (begin >= 0) pst_gguf_u32(g, "tokenizer.ggml.bos_token_id", (uint32_t)begin);
    if (end >= 0) pst_gguf_u32(g, "tokenizer.ggml.eos_token_id", (uint32_t)end);
    if (list->unknown >= 0)
        pst_gguf_u32(g, "tokenizer.ggml.unknown_token_id", (uint32_t)list->unknown);
    pst_gguf_bool(g, "tokenizer.ggml.add_bos_token", 0); /* training adds none */
    return PST_OK;
}

static pst_status add_tokenizer(pst_gguf *g, const pst_export *e, const pst_tokenizer *t) {
    pst_token_list list;
    PST_TRY(pst_token_list_make(t, &list));
    pst_status status = add_list(g, e, t, &list);
    pst_token_list_free(&list);
    return status;
}

pst_status pst_gguf_tokens(pst_gguf *g, const pst_export *e) {
    pst_tokenizer *bytes = NULL;
    pst_status status = PST_OK;
    if (!e->tokenizer && strcmp(e->model.config->tokenizer, "byte"))
        return pst_fail(PST_EINPUT, "the tokenizer of the model is unknown, and a GGUF file needs "
                                    "one; train with data.tokenizer");
    if (!e->tokenizer) status = pst_tokenizer_open("byte", &bytes);
    if (status == PST_OK) status = add_tokenizer(g, e, bytes ? bytes : e->tokenizer);
    pst_tokenizer_close(bytes);
    return status == PST_EINPUT ? pst_fail_in(status, "GGUF") : status;
}

/* .tiktoken files: one token per line, in base64, and its rank, which is its id. The split pattern
 * and the special tokens are not in the file; the number of tokens tells the family. */
#include "tokenizer/parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LLAMA_SPECIALS = 256, LLAMA_NAMED = 10, LINE_MOST = 1 << 16 };

typedef struct {
    const char *text;
    int32_t id;
} named;
typedef struct {
    uint32_t ranks; /* number of lines */
    const char *in_name, *split, *pattern;
    named special[6];
} family;
static const family families[] = {
    {100256,
     "cl100k",
     "cl100k",
     NULL,
     {{"<|endoftext|>", 100257},
      {"<|fim_prefix|>", 100258},
      {"<|fim_middle|>", 100259},
      {"<|fim_suffix|>", 100260},
      {"<|endofprompt|>", 100276}}},
    {128000, "llama", "llama3", NULL, {{0}}},
    {151643,
     "qwen",
     "qwen2",
     NULL,
     {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}}},
    {199998,
     "o200k",
     NULL,
     pst_split_o200k,
     {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}},
    {50256, "r50k", "gpt2", NULL, {{"<|endoftext|>", 50256}}},
    {50280, "p50k", "gpt2", NULL, {{"<|endoftext|>", 50256}}},
    {0, "gpt2", "gpt2", NULL, {{0}}},
};

/* By the file's name, else by the number of tokens, else cl100k. */
static const family *family_of(const char *path, uint32_t ranks) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcasestr(name, families[i].in_name)) return &families[i];
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i].ranks == ranks) return &families[i];
    return &families[0];
}

/* --- lines ------------------------------------------------------------------------------------ */

static int digit_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

/* Decodes n characters; returns the number of bytes, 0: not base64. */
static size_t from_base64(const char *at, size_t n, uint8_t *out) {
    uint32_t bits = 0, held = 0;
    size_t bytes = 0;
    if (!n || n % 4) return 0;
    while (n && at[n - 1] == '=') n--;
    for (size_t i = 0; i < n; i++) {
        int digit = digit_of(at[i]);
        if (digit < 0) return 0;
        bits = bits << 6 | (uint32_t)digit;
        held += 6;
        if (held < 8) continue;
        held -= 8;
        out[bytes++] = (uint8_t)(bits >> held);
    }
    return bytes;
}

/* 0: the line is not a token and its rank. */
static size_t parse_line(const char *line, size_t n, uint8_t *token, uint64_t *rank) {
    const char *blank = memchr(line, ' ', n);
    if (!blank || n > LINE_MOST || blank + 1 == line + n) return 0;
    *rank = 0;
    for (const char *at = blank + 1; at < line + n; at++) {
        if (*at < '0' || *at > '9' || *rank > PST_VOCABULARY_MOST) return 0;
        *rank = *rank * 10 + (uint64_t)(*at - '0');
    }
    return from_base64(line, (size_t)(blank - line), token);
}

int pst_ranks_is(const char *text, size_t bytes) {
    uint8_t token[LINE_MOST];
    uint64_t rank;
    const char *end = memchr(text, '\n', bytes);
    return end && parse_line(text, (size_t)(end - text), token, &rank) > 0;
}

static pst_status parse(pst_tokenizer *t, const char *text, size_t bytes) {
    uint8_t token[LINE_MOST];
    uint64_t rank;
    uint32_t line = 0;
    for (const char *at = text, *end = text + bytes, *to; at < end; at = to + 1) {
        to = memchr(at, '\n', (size_t)(end - at));
        if (!to) to = end;
        line++;
        if (to == at) continue;
        size_t n = parse_line(at, (size_t)(to - at), token, &rank);
        if (!n) return pst_fail(PST_EINPUT, "line %u is not a token in base64 and its rank", line);
        pst_status status = pst_vocabulary_add(&t->vocabulary, rank, token, n);
        if (status != PST_OK) return pst_fail_in(status, "line %u", line);
    }
    return PST_OK;
}

/* --- special tokens --------------------------------------------------------------------------- */

static const named llama[LLAMA_NAMED] = {
    {"<|begin_of_text|>", 0},   {"<|end_of_text|>", 1},   {"<|finetune_right_pad_id|>", 4},
    {"<|start_header_id|>", 6}, {"<|end_header_id|>", 7}, {"<|eom_id|>", 8},
    {"<|eot_id|>", 9},          {"<|python_tag|>", 10},
};

/* The special tokens of Llama 3: 256 ids after the ranks, of which a few have names. */
static pst_status add_llama(pst_tokenizer *t, int32_t first) {
    char reserved[40];
    int32_t n = 0;
    for (int32_t i = 0; i < LLAMA_SPECIALS; i++) {
        const char *name = NULL;
        for (int k = 0; k < LLAMA_NAMED && !name; k++)
            if (llama[k].text && llama[k].id == i) name = llama[k].text;
        if (!name) snprintf(reserved, sizeof reserved, "<|reserved_special_token_%d|>", n++);
        PST_TRY(pst_tokenizer_add_special(t, name ? name : reserved, first + i));
    }
    return PST_OK;
}

static pst_status add_specials(pst_tokenizer *t, const family *f, uint32_t ranks) {
    if (f->ranks != ranks) return PST_OK; /* another vocabulary of this family */
    if (!strcmp(f->in_name, "llama")) return add_llama(t, (int32_t)ranks);
    for (const named *s = f->special; s->text; s++)
        PST_TRY(pst_tokenizer_add_special(t, s->text, s->id));
    return PST_OK;
}

pst_status pst_tokenizer_read_ranks(pst_tokenizer *t, const char *path) {
    char *text;
    size_t bytes;
    t->row = &pst_tokenizer_bpe;
    t->whole_words = 1;
    PST_TRY(pst_tokenizer_read(path, &text, &bytes));
    pst_status status = parse(t, text, bytes);
    free(text);
    const family *f = family_of(path, t->vocabulary.n_set);
    if (status == PST_OK)
        status = pst_bpe_add_step(t, f->split ? pst_split_find(f->split)->pattern[0] : f->pattern);
    if (status == PST_OK) status = pst_bpe_pairs_of_ranks(t);
    if (status == PST_OK) pst_bpe_set_bytes(t);
    if (status == PST_OK) status = add_specials(t, f, t->vocabulary.n_set);
    return status == PST_OK ? PST_OK : pst_fail_in(status, "%s", path);
}

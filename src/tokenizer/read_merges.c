/* Files of byte-level BPE: vocab.json and merges.txt, also under the names that GPT-2 gave
 * them. */
#include "tokenizer/parts.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static pst_status read_vocabulary(pst_tokenizer *t, const char *path) {
    char *text;
    size_t bytes;
    json_error_t error;
    PST_TRY(pst_tokenizer_read(path, &text, &bytes));
    json_t *root = json_loadb(text, bytes, 0, &error);
    free(text);
    pst_status status =
        root ? pst_json_vocabulary(t, root) : pst_fail(PST_EINPUT, "%s", error.text);
    json_decref(root);
    return status == PST_OK ? PST_OK : pst_fail_in(status, "%s", path);
}

/* One line without its end: two tokens with a blank between them. */
static pst_status add_line(pst_tokenizer *t, const char *line, size_t n, uint32_t rank) {
    pst_text left = {0}, right = {0};
    const char *blank = memchr(line, ' ', n);
    if (!blank || memchr(blank + 1, ' ', n - (size_t)(blank + 1 - line)))
        return pst_fail(PST_EINPUT, "\"%.*s\" is not two tokens", n < 40 ? (int)n : 40, line);
    pst_status status = pst_bytes_of_token(line, (size_t)(blank - line), &left);
    if (status == PST_OK)
        status = pst_bytes_of_token(blank + 1, n - (size_t)(blank + 1 - line), &right);
    if (status == PST_OK && left.n && right.n) status = pst_bpe_add_merge(t, &left, &right, rank);
    pst_text_free(&left);
    pst_text_free(&right);
    return status;
}

static pst_status parse_merges(pst_tokenizer *t, const char *text, size_t bytes) {
    uint32_t rank = 0, line = 0;
    for (const char *at = text, *end = text + bytes, *to; at < end; at = to + 1) {
        to = memchr(at, '\n', (size_t)(end - at));
        if (!to) to = end;
        size_t n = (size_t)(to - at);
        if (n && at[n - 1] == '\r') n--;
        line++;
        if (!n || (line == 1 && !strncmp(at, "#version", 8))) continue;
        pst_status status = add_line(t, at, n, rank++);
        if (status != PST_OK) return pst_fail_in(status, "line %u", line);
    }
    return PST_OK;
}

pst_status pst_tokenizer_read_merges(pst_tokenizer *t, const char *vocabulary, const char *merges) {
    char *text;
    size_t bytes;
    int32_t id;
    t->row = &pst_tokenizer_bpe;
    PST_TRY(read_vocabulary(t, vocabulary));
    PST_TRY(pst_tokenizer_read(merges, &text, &bytes));
    pst_status status = parse_merges(t, text, bytes);
    free(text);
    if (status != PST_OK) return pst_fail_in(status, "%s", merges);
    PST_TRY(pst_bpe_add_step(t, pst_split_find("gpt2")->pattern[0]));
    static const char *const specials[] = {"<|endoftext|>", "<unk>", "<s>",
                                           "</s>",          "<pad>", "<mask>"};
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        id = pst_vocabulary_find(&t->vocabulary, (const uint8_t *)specials[i], strlen(specials[i]));
        if (id >= 0) PST_TRY(pst_tokenizer_add_special(t, specials[i], id));
        if (id >= 0 && !strcmp(specials[i], "<unk>")) t->unknown = id;
    }
    pst_bpe_set_bytes(t);
    return PST_OK;
}

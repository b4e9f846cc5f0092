/* Hugging Face's tokenizer.json: a model (BPE or WordPiece), how text is normalized and split
 * before it, and added tokens. What is not supported is refused by name: ids would differ. */
#include "tokenizer/parts.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *string_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static int is_true(const json_t *object, const char *key, int otherwise) {
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static pst_status unsupported(const char *what, const char *type) {
    return pst_fail(PST_EINPUT, "%s of type \"%.60s\" is not supported", what, type);
}

/* --- the vocabulary --------------------------------------------------------------------------- */

/* A merge is ["a", "b"], or "a b" in older files. */
static pst_status add_merge(pst_tokenizer *t, const json_t *merge, uint32_t rank) {
    const char *a = json_string_value(json_array_get(merge, 0)),
               *b = json_string_value(json_array_get(merge, 1)), *line = json_string_value(merge);
    size_t n = a ? strlen(a) : 0;
    if (line) {
        const char *blank = strchr(line, ' ');
        a = line;
        b = blank ? blank + 1 : NULL;
        n = blank ? (size_t)(blank - line) : 0;
    }
    if (!a || !b || !n || !*b) return pst_fail(PST_EINPUT, "merge %u is not two tokens", rank + 1);
    pst_text left = {0}, right = {0};
    pst_status status = pst_bytes_of_token(a, n, &left);
    if (status == PST_OK) status = pst_bytes_of_token(b, strlen(b), &right);
    if (status == PST_OK) status = pst_bpe_add_merge(t, &left, &right, rank);
    pst_text_free(&left);
    pst_text_free(&right);
    return status;
}

static pst_status read_bpe(pst_tokenizer *t, const json_t *model) {
    const json_t *merges = json_object_get(model, "merges");
    const char *unknown = string_of(model, "unk_token");
    t->row = &pst_tokenizer_bpe;
    if (is_true(model, "byte_fallback", 0))
        return pst_fail(PST_EINPUT, "\"byte_fallback\" is not supported");
    if (*string_of(model, "continuing_subword_prefix") || *string_of(model, "end_of_word_suffix"))
        return pst_fail(PST_EINPUT, "prefixes and suffixes of subwords are not supported for BPE");
    PST_TRY(pst_json_vocabulary(t, json_object_get(model, "vocab")));
    if (!json_is_array(merges)) return pst_fail(PST_EINPUT, "the model has no list \"merges\"");
    for (size_t i = 0; i < json_array_size(merges); i++)
        PST_TRY(add_merge(t, json_array_get(merges, i), (uint32_t)i));
    t->whole_words = is_true(model, "ignore_merges", 0);
    t->unknown =
        *unknown ? pst_vocabulary_find(&t->vocabulary, (const uint8_t *)unknown, strlen(unknown))
                 : -1;
    pst_bpe_set_bytes(t);
    return PST_OK;
}

static pst_status read_wordpiece(pst_tokenizer *t, const json_t *model) {
    const char *unknown = string_of(model, "unk_token"),
               *prefix = string_of(model, "continuing_subword_prefix");
    json_int_t most = json_integer_value(json_object_get(model, "max_input_chars_per_word"));
    t->row = &pst_tokenizer_wordpiece;
    t->wordpiece.most = most > 0 && most < UINT32_MAX ? (uint32_t)most : 100;
    PST_TRY(pst_json_vocabulary(t, json_object_get(model, "vocab")));
    return pst_wordpiece_set_tokens(t, *unknown ? unknown : "[UNK]", *prefix ? prefix : "##");
}

static pst_status read_model(pst_tokenizer *t, const json_t *model) {
    const char *type = string_of(model, "type");
    if (!strcmp(type, "WordPiece")) return read_wordpiece(t, model);
    if (!strcmp(type, "BPE") || (!*type && json_object_get(model, "merges")))
        return read_bpe(t, model);
    return unsupported("a model", type);
}

/* --- normalization and splitting -------------------------------------------------------------- */

static pst_status read_normalizer(pst_tokenizer *t, const json_t *n) {
    const char *type = string_of(n, "type");
    if (!n || json_is_null(n)) return PST_OK;
    if (!strcmp(type, "Sequence")) {
        const json_t *list = json_object_get(n, "normalizers");
        for (size_t i = 0; i < json_array_size(list); i++)
            PST_TRY(read_normalizer(t, json_array_get(list, i)));
        return PST_OK;
    }
    if (!strcmp(type, "NFC") && t->row == &pst_tokenizer_bpe) {
        t->compose = 1;
        return PST_OK;
    }
    if (strcmp(type, "BertNormalizer") || t->row != &pst_tokenizer_wordpiece)
        return unsupported("a normalizer", type);
    t->wordpiece.lower = is_true(n, "lowercase", 1);
    t->wordpiece.accents = is_true(n, "strip_accents", t->wordpiece.lower);
    t->wordpiece.clean = is_true(n, "clean_text", 1);
    t->wordpiece.han = is_true(n, "handle_chinese_chars", 1);
    return PST_OK;
}

static pst_status add_split(pst_tokenizer *t, const json_t *p) {
    const char *regex = string_of(json_object_get(p, "pattern"), "Regex"),
               *behavior = string_of(p, "behavior");
    int invert = is_true(p, "invert", 0);
    if (!*regex) return pst_fail(PST_EINPUT, "a split without a regular expression");
    if (strcmp(behavior, invert ? "Removed" : "Isolated"))
        return pst_fail(PST_EINPUT, "a split with behavior \"%.40s\" is not supported", behavior);
    return pst_bpe_add_step(t, regex);
}

/* *by_bytes becomes 1 if text is split into bytes. */
static pst_status read_splitter(pst_tokenizer *t, const json_t *p, int *by_bytes) {
    const char *type = string_of(p, "type");
    int wordpiece = t->row == &pst_tokenizer_wordpiece;
    if (!strcmp(type, "Sequence") && !wordpiece) {
        const json_t *list = json_object_get(p, "pretokenizers");
        for (size_t i = 0; i < json_array_size(list); i++)
            PST_TRY(read_splitter(t, json_array_get(list, i), by_bytes));
        return PST_OK;
    }
    if (!strcmp(type, "BertPreTokenizer") && wordpiece) return PST_OK;
    if (wordpiece) return unsupported("a pre-tokenizer", type);
    if (!strcmp(type, "Split")) return add_split(t, p);
    if (!strcmp(type, "Digits"))
        return pst_bpe_add_step(t, is_true(p, "individual_digits", 0) ? "\\p{N}" : "\\p{N}+");
    if (strcmp(type, "ByteLevel")) return unsupported("a pre-tokenizer", type);
    *by_bytes = 1;
    t->prefix |= is_true(p, "add_prefix_space", 1);
    if (!is_true(p, "use_regex", 1)) return PST_OK;
    return pst_bpe_add_step(t, pst_split_find("gpt2")->pattern[0]);
}

/* Whether text is normalized in a way that the text of an added token would not survive. */
static int is_normalized(const pst_tokenizer *t, const char *content) {
    int ascii = 1;
    for (; *content; content++) ascii &= (uint8_t)*content < 0x80;
    return t->row == &pst_tokenizer_wordpiece || (t->compose && !ascii);
}

static pst_status read_options(pst_tokenizer *t, const json_t *added, const char *content) {
    pst_special *s = t->special;
    while (strcmp(s->text, content)) s++;
    s->always = !is_true(added, "special", 0);
    s->left = is_true(added, "lstrip", 0);
    s->right = is_true(added, "rstrip", 0);
    t->has_always |= s->always;
    if (is_true(added, "single_word", 0))
        return pst_fail(PST_EINPUT, "the added token \"%.40s\": \"single_word\" is not supported",
                        content);
    if (s->always && is_true(added, "normalized", 0) && is_normalized(t, content))
        return pst_fail(PST_EINPUT,
                        "the added token \"%.40s\" would be found in normalized text "
                        "(\"normalized\"), which is not supported with this normalizer",
                        content);
    return PST_OK;
}

static pst_status read_added(pst_tokenizer *t, const json_t *added) {
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *a = json_array_get(added, i), *id = json_object_get(a, "id");
        json_int_t value = json_integer_value(id);
        int32_t found;
        const char *content = string_of(a, "content");
        if (!json_is_integer(id) || value < 0 || value >= PST_VOCABULARY_MOST)
            return pst_fail(PST_EINPUT, "the added token \"%.40s\" has no id", content);
        if (pst_tokenizer_special(t, content, &found) != PST_OK || found != value)
            PST_TRY(pst_tokenizer_add_special(t, content, (int32_t)value));
        PST_TRY(read_options(t, a, content));
    }
    return PST_OK;
}

static pst_status read_root(pst_tokenizer *t, const json_t *root) {
    const json_t *model = json_object_get(root, "model");
    int by_bytes = 0;
    if (!json_is_object(model))
        return pst_fail(PST_EINPUT, "no \"model\": this is not a tokenizer.json");
    PST_TRY(read_model(t, model));
    PST_TRY(read_normalizer(t, json_object_get(root, "normalizer")));
    const json_t *splitter = json_object_get(root, "pre_tokenizer");
    if (!json_is_object(splitter)) return unsupported("a pre-tokenizer", "none");
    PST_TRY(read_splitter(t, splitter, &by_bytes));
    if (t->row == &pst_tokenizer_bpe && !by_bytes)
        return pst_fail(PST_EINPUT, "BPE of characters is not supported: no pre-tokenizer "
                                    "\"ByteLevel\" makes bytes of them");
    return read_added(t, json_object_get(root, "added_tokens"));
}

pst_status pst_tokenizer_read_json(pst_tokenizer *t, const char *path) {
    char *text;
    size_t bytes;
    json_error_t error;
    PST_TRY(pst_tokenizer_read(path, &text, &bytes));
    json_t *root = json_loadb(text, bytes, 0, &error);
    free(text);
    pst_status status = PST_OK;
    if (root) status = read_root(t, root);
    else status = pst_fail(PST_EINPUT, "line %d: %s", error.line, error.text);
    json_decref(root);
    return status == PST_OK ? PST_OK : pst_fail_in(status, "%s", path);
}

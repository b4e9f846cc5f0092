/* Data sets "text" and "tokens": windows of one long sequence, the concatenation of all files
 * (windows may cross from file to file); its last part is the validation split. Text without a
 * tokenizer has one token per byte; with one, it is encoded once, into a cache. */
#include "base/hash.h"
#include "data/cache.h"
#include "data/joined.h"
#include "data/masked.h"
#include "data/options.h"
#include "data/order.h"
#include "data/tokens.h"
#include "tokenizer/tokenizer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256 };

typedef struct {
    pst_data base;
    pst_joined *text;   /* bytes, or NULL */
    pst_tokens *tokens; /* else */
    pst_order order;
    uint64_t train, validation, hash; /* tokens of the splits; the training split comes first */
    uint64_t tokenizer;               /* its hash; 0: none, or unknown */
    uint32_t *token_bytes, n_token;   /* [n_token] bytes of each token; NULL: unknown */
    uint32_t context;
    uint8_t *bytes;  /* [context + 1] of one sample */
    int32_t *window; /* [context + 1] tokens of one sample */
    /* with data.isolate: */
    pst_data_row row;  /* base.row, with more functions */
    int32_t end;       /* the token that ends a document; -1: documents are not kept apart */
    char end_name[64]; /* its text */
    int32_t *counted;  /* [context] the sample whose targets are counted */
} text_data;

static pst_status split(text_data *d, const pst_data_config *c, const char *what) {
    const char *unit = d->text ? "bytes" : "tokens";
    uint64_t total = d->text ? pst_joined_bytes(d->text) : pst_tokens_count(d->tokens);
    d->validation = c->held_out ? total : (uint64_t)((double)total * c->validation);
    d->train = total - d->validation;
    d->order = pst_order_make(c->seed, d->train, c->context);
    if (c->held_out && total < 2)
        return pst_fail(PST_EINPUT, "data: %s has %llu %s to evaluate on; at least 2 are needed",
                        what, (unsigned long long)total, unit);
    if (c->held_out) return PST_OK;
    if (total == 0)
        return pst_fail(PST_EINPUT, "data: %s is empty: there is nothing to train on", what);
    if (d->order.windows == 0)
        return pst_fail(PST_EINPUT,
                        "data: %s: %llu %s to train on are too few for a context of %u, which "
                        "needs at least %llu",
                        what, (unsigned long long)d->train, unit, c->context, c->context + 1ull);
    if (c->validation > 0 && d->validation < 2)
        return pst_fail(PST_EINPUT,
                        "data: %s: validation %g of %llu %s is %llu %s, but needs at least 2; use "
                        "more data or validation: 0",
                        what, c->validation, (unsigned long long)total, unit,
                        (unsigned long long)d->validation, unit);
    return PST_OK;
}

static void text_close(pst_data *data) {
    text_data *d = (text_data *)data;
    if (!d) return;
    pst_joined_close(d->text);
    pst_tokens_close(d->tokens);
    free(d->token_bytes);
    free(d->bytes);
    free(d->window);
    free(d->counted);
    free(d);
}

/* Opens the sequence; `what` describes it for messages. */
static pst_status open_bytes(text_data *d, const pst_data_config *c, char what[PST_OPTIONS_TEXT]) {
    pst_file_list list = {0};
    PST_TRY(pst_files_expand(c->paths, c->n_path, &list));
    pst_options_describe(&list, what, PST_OPTIONS_TEXT);
    pst_status status = pst_joined_open(&list, &d->text);
    pst_files_free(&list);
    if (status == PST_OK) d->hash = pst_options_hash(c, 0, pst_joined_hash(d->text));
    return status;
}

/* Keeps what is needed of the tokenizer, and closes it. */
static pst_status take_tokenizer(text_data *d, pst_tokenizer *t) {
    d->tokenizer = pst_tokenizer_hash(t);
    d->n_token = pst_tokenizer_size(t);
    pst_status status = pst_tokenizer_text_bytes(t, &d->token_bytes);
    pst_tokenizer_close(t);
    return status;
}

/* 1: a file is compressed, or its text is in fields of JSON: its bytes are encoded too. */
static pst_status has_encoded(const pst_data_config *c, int *encoded) {
    pst_file_list list = {0};
    PST_TRY(pst_files_expand(c->paths, c->n_path, &list));
    *encoded = 0;
    for (uint32_t i = 0; i < list.n; i++)
        *encoded |= pst_json_lines_is(list.file[i].path) || pst_files_format(list.file[i].path);
    pst_files_free(&list);
    return PST_OK;
}

static pst_status open_text(text_data *d, const pst_data_config *c, char what[PST_OPTIONS_TEXT]) {
    int bytes = !strcmp(c->tokenizer, "byte"), encoded = 1;
    if (bytes) PST_TRY(has_encoded(c, &encoded));
    if (!encoded) return open_bytes(d, c, what);
    pst_tokenizer *t;
    char *prefix;
    PST_TRY(pst_token_cache_find(c, &pst_encode_as_files, &prefix, &t, what));
    pst_status status = pst_tokens_open(&prefix, 1, c->vocabulary, &d->tokens);
    free(prefix);
    if (bytes || status != PST_OK) pst_tokenizer_close(t);
    else status = take_tokenizer(d, t);
    PST_TRY(status);
    d->hash = pst_options_hash(c, d->tokenizer, pst_tokens_hash(d->tokens));
    return PST_OK;
}

/* Files of tokens may have been written without the ends of documents. */
static pst_status no_ends(const text_data *d, const char *what, uint64_t seen) {
    const uint64_t documents = pst_tokens_documents(d->tokens), all = pst_tokens_count(d->tokens);
    char borders[120] = "";
    if (documents > 1)
        snprintf(borders, sizeof borders,
                 "; the borders of %llu documents in the .idx file are not used",
                 (unsigned long long)documents);
    return pst_fail(PST_EINPUT,
                    "data.isolate: %s has no token %d (%s), which ends a document, among %llu of "
                    "its %llu tokens%s; write the tokens with penstock tokenize --end '%s', or use "
                    "data.isolate: false",
                    what, d->end, d->end_name, (unsigned long long)seen, (unsigned long long)all,
                    borders, d->end_name);
}

static pst_status open_tokens(text_data *d, const pst_data_config *c, char what[PST_OPTIONS_TEXT]) {
    pst_tokens_seen seen;
    if (strcmp(c->tokenizer, "byte")) {
        pst_tokenizer *t;
        PST_TRY(pst_tokenizer_open(c->tokenizer, &t));
        PST_TRY(take_tokenizer(d, t));
    }
    PST_TRY(pst_tokens_open(c->paths, c->n_path, c->vocabulary, &d->tokens));
    d->hash =
        pst_options_hash(c, d->tokenizer, pst_hash64("tokens", 6, pst_tokens_hash(d->tokens)));
    pst_options_describe_paths(c->paths, c->n_path, what);
    PST_TRY(pst_tokens_look(d->tokens, d->end, &seen));
    const int apart = d->end >= 0 && !c->held_out;
    return apart && seen.n && !seen.found ? no_ends(d, what, seen.n) : PST_OK;
}

static pst_status name_end(text_data *d, const pst_tokenizer *t) {
    pst_text text = {0};
    pst_status status = pst_tokenizer_decode(t, &d->end, 1, 0, &text);
    if (status == PST_OK) snprintf(d->end_name, sizeof d->end_name, "%.*s", (int)text.n, text.byte);
    pst_text_free(&text);
    return status;
}

static uint64_t text_targets(const pst_data *data, uint64_t first, uint64_t n);

/* Finds the token at which documents end. */
static pst_status isolate(text_data *d, const pst_data_config *c) {
    pst_tokenizer *t;
    if (!strcmp(c->tokenizer, "byte"))
        return pst_fail(PST_EINPUT, "data.isolate needs data.tokenizer: a token of it, such as "
                                    "<|endoftext|>, tells where a document ends");
    pst_status status = pst_tokenizer_open(c->tokenizer, &t);
    if (status != PST_OK) return pst_fail_in(status, "data.tokenizer");
    d->end = pst_tokenizer_end(t);
    status = d->end < 0 ? PST_OK : name_end(d, t);
    pst_tokenizer_close(t);
    PST_TRY(status);
    if (d->end < 0)
        return pst_fail(PST_EINPUT,
                        "data.isolate: the tokenizer %s has no token that ends a document, such as "
                        "<|endoftext|>",
                        c->tokenizer);
    d->counted = malloc(c->context * sizeof *d->counted);
    if (!d->counted) return pst_fail(PST_ENOMEM, "no memory for a context of %u", c->context);
    d->row = *d->base.row;
    d->row.targets = text_targets;
    d->base.row = &d->row;
    return PST_OK;
}

typedef pst_status (*opener)(text_data *d, const pst_data_config *c, char what[PST_OPTIONS_TEXT]);
static pst_status open_row(const pst_data_row *row, const pst_data_config *c, opener open,
                           pst_data **out) {
    char what[PST_OPTIONS_TEXT];
    PST_TRY(pst_options_check(c));
    text_data *d = calloc(1, sizeof *d);
    if (!d || !(d->bytes = malloc(c->context + (size_t)1)) ||
        !(d->window = malloc((c->context + (size_t)1) * sizeof *d->window))) {
        text_close((pst_data *)d);
        return pst_fail(PST_ENOMEM, "no memory for a context of %u", c->context);
    }
    d->base.row = row;
    d->context = c->context;
    d->end = -1;
    pst_status status = c->isolate ? isolate(d, c) : PST_OK;
    if (status == PST_OK) status = open(d, c, what);
    if (status == PST_OK) status = split(d, c, what);
    if (status == PST_OK) *out = &d->base;
    else text_close((pst_data *)d);
    return status;
}

static pst_status text_open(const pst_data_config *c, pst_data **out) {
    if (c->masked && strcmp(c->tokenizer, "byte")) return pst_masked_open_text(c, out);
    return open_row(&pst_data_text, c, open_text, out);
}

static pst_status tokens_open(const pst_data_config *c, pst_data **out) {
    if (c->masked) return pst_masked_open_tokens(c, out);
    return open_row(&pst_data_tokens, c, open_tokens, out);
}

/* Tokens [at, at + n), at most context + 1, into the window. */
static pst_status read_window(text_data *d, uint64_t at, uint64_t n) {
    if (d->tokens) return pst_tokens_read(d->tokens, at, n, d->window);
    PST_TRY(pst_joined_read(d->text, at, n, d->bytes));
    for (uint64_t i = 0; i < n; i++) d->window[i] = d->bytes[i];
    return PST_OK;
}

static uint64_t text_size(const pst_data *data, pst_split split) {
    const text_data *d = (const text_data *)data;
    if (split == PST_SPLIT_TRAIN) return d->order.windows;
    return d->validation < 2 ? 0 : (d->validation - 2) / d->context + 1;
}

/* The first n tokens of the window: those behind an end begin another document, which the end does
 * not predict. */
static void keep_apart(const text_data *d, uint64_t n, int32_t *targets, int32_t *starts) {
    int32_t start = 0;
    for (uint64_t i = 0; i < d->context; i++) {
        starts[i] = start;
        if (i >= n || d->window[i] != d->end) continue;
        targets[i] = -1;
        start = (int32_t)i + 1;
    }
}

static pst_status text_sample(pst_data *data, pst_split split, uint64_t index,
                              int32_t *const *out) {
    text_data *d = (text_data *)data;
    int32_t *tokens = out[0], *targets = out[1];
    uint64_t at, n = d->context; /* number of tokens that have a target */
    if (split == PST_SPLIT_TRAIN) {
        at = pst_order_start(&d->order, index);
    } else {
        uint64_t windows = text_size(data, split);
        if (index >= windows)
            return pst_fail(PST_EINPUT,
                            "data: there is no validation window %llu; the split has %llu windows",
                            (unsigned long long)index, (unsigned long long)windows);
        at = d->train + index * d->context;
        uint64_t left = d->train + d->validation - at - 1;
        if (left < n) n = left;
    }
    PST_TRY(read_window(d, at, n + 1));
    for (uint64_t i = 0; i < n; i++) {
        tokens[i] = d->window[i];
        targets[i] = d->window[i + 1];
    }
    for (uint64_t i = n; i < d->context; i++) {
        tokens[i] = 0;
        targets[i] = -1;
    }
    if (d->end >= 0) keep_apart(d, n, targets, out[2]);
    return PST_OK;
}

/* A sample that cannot be read has none here; `sample` says why. */
static uint64_t text_targets(const pst_data *data, uint64_t first, uint64_t n) {
    const text_data *d = (const text_data *)data;
    uint64_t sum = 0;
    for (uint64_t i = first; i < first + n; i++) {
        const uint64_t at = pst_order_start(&d->order, i);
        if (pst_tokens_read(d->tokens, at, d->context, d->counted) != PST_OK) continue;
        for (uint32_t k = 0; k < d->context; k++) sum += d->counted[k] != d->end;
    }
    return sum;
}

static pst_status text_shape(const char *tokenizer, pst_data_shape *shape) {
    return pst_options_vocabulary(tokenizer, BYTES, &shape->vocabulary);
}

/* Bytes may be the tokens of the files, but need not: nothing says so. */
static pst_status tokens_shape(const char *tokenizer, pst_data_shape *shape) {
    return pst_options_vocabulary(tokenizer, 0, &shape->vocabulary);
}

static uint32_t text_fields(const pst_data *data, pst_data_field out[PST_DATA_FIELDS]) {
    uint64_t n = ((const text_data *)data)->context;
    out[0] = (pst_data_field){"tokens", n};
    out[1] = (pst_data_field){"targets", n};
    if (((const text_data *)data)->end < 0) return 2;
    out[2] = (pst_data_field){"starts", n};
    return 3;
}

static uint64_t text_bytes(const pst_data *data, pst_split split) {
    const text_data *d = (const text_data *)data;
    return split == PST_SPLIT_TRAIN ? d->train : d->validation;
}

static uint64_t text_hash(const pst_data *data) { return ((const text_data *)data)->hash; }
static uint64_t text_tokenizer(const pst_data *data) {
    return ((const text_data *)data)->tokenizer;
}

static const uint32_t *text_token_bytes(const pst_data *data, uint32_t *n) {
    const text_data *d = (const text_data *)data;
    *n = d->token_bytes ? d->n_token : 0;
    return d->token_bytes;
}

const pst_data_row pst_data_text = {.name = "text",
                                    .shape = text_shape,
                                    .open = text_open,
                                    .fields = text_fields,
                                    .sample = text_sample,
                                    .size = text_size,
                                    .bytes = text_bytes,
                                    .hash = text_hash,
                                    .tokenizer = text_tokenizer,
                                    .token_bytes = text_token_bytes,
                                    .close = text_close};
const pst_data_row pst_data_tokens = {.name = "tokens",
                                      .shape = tokens_shape,
                                      .open = tokens_open,
                                      .fields = text_fields,
                                      .sample = text_sample,
                                      .size = text_size,
                                      .bytes = text_bytes,
                                      .hash = text_hash,
                                      .tokenizer = text_tokenizer,
                                      .token_bytes = text_token_bytes,
                                      .close = text_close};

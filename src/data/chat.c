/* Data set "chat": conversations, one in each line of JSON Lines, written as a chat template says
 * (chat_template.h). A sample is a conversation, cut to the context or padded with 0; the targets
 * are the answers of the assistant. The validation split is the last conversations. */
#include "base/grow.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/cache.h"
#include "data/chat_template.h"
#include "data/indexed.h"
#include "data/options.h"
#include "data/order.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A conversation with something to learn within the context. */
typedef struct {
    uint64_t at;          /* its first number in the cache */
    uint32_t n, n_target; /* tokens that have one behind them, at most the context; targets */
} conversation;

typedef struct {
    pst_data base;
    pst_indexed *numbers;              /* of chat_template.h */
    conversation *list;                /* the last `validation` of `n` are that split */
    uint64_t n, validation, tokens[2]; /* tokens by split */
    size_t capacity;
    uint64_t seed, hash, tokenizer;
    uint32_t context;
    int32_t *read; /* [context + 1] */
} chat_data;

/* --- the cache -------------------------------------------------------------------------------- */

typedef struct {
    const pst_chat_template *template;
    int skip;
} line_options;

static pst_status encode_line(const void *arg, pst_encoder *e, char *line, size_t n,
                              const pst_documents *out, uint64_t *skipped) {
    const line_options *o = arg;
    json_error_t error;
    json_t *root = pst_json_lines_parse(line, n, &error);
    pst_ids ids = {0};
    pst_status status = root ? pst_chat_encode(o->template, e, root, &ids)
                             : pst_fail(PST_EINPUT, "not JSON: %s", error.text);
    json_decref(root);
    const int leave_out = status == PST_EINPUT && o->skip;
    if (status == PST_OK) status = out->add(out->to, ids.id, ids.n);
    if (status == PST_OK) status = out->end(out->to);
    pst_ids_free(&ids);
    if (!leave_out) return status;
    ++*skipped;
    return PST_OK;
}

/* --- opening ---------------------------------------------------------------------------------- */

static pst_status check_tokenizer(const pst_data_config *c) {
    const pst_chat_template *template;
    pst_tokenizer *t;
    PST_TRY(pst_chat_template_find(c->template, &template));
    pst_status status = pst_tokenizer_open(c->tokenizer, &t);
    if (status != PST_OK) return pst_fail_in(status, "data.tokenizer");
    status = pst_chat_template_check(template, t);
    pst_tokenizer_close(t);
    return status == PST_OK ? PST_OK : pst_fail_in(status, "data.tokenizer: %s", c->tokenizer);
}

static pst_status open_cache(chat_data *d, const pst_data_config *c, char what[PST_OPTIONS_TEXT]) {
    char key[64], *prefix;
    pst_tokenizer *t;
    line_options o = {.skip = c->lines.skip};
    PST_TRY(pst_chat_template_find(c->template, &o.template));
    snprintf(key, sizeof key, "chat %s %s", c->template, o.skip ? "skip" : "stop");
    const pst_encode_form form = {.name = key,
                                  .line = &(pst_line_form){encode_line, &o, 0},
                                  .all = 1,
                                  .special = 1,
                                  .scale = 2,
                                  .lacking = "without a conversation"};
    PST_TRY(pst_token_cache_find(c, &form, &prefix, &t, what));
    d->tokenizer = pst_tokenizer_hash(t);
    pst_tokenizer_close(t);
    pst_status status = pst_indexed_open(prefix, &d->numbers);
    const char *name = strrchr(prefix, '/') + 1; /* follows from what it was made of */
    d->hash = pst_options_hash(c, d->tokenizer, pst_hash64(name, strlen(name), 0));
    free(prefix);
    return status;
}

/* Adds document i; *cut: 1: it is longer than the context. */
static pst_status add_document(chat_data *d, uint64_t i, int *cut) {
    const uint64_t at = pst_indexed_document(d->numbers, i),
                   all = pst_indexed_document(d->numbers, i + 1) - at,
                   n = all <= d->context ? all : d->context + UINT64_C(1);
    conversation found = {.at = at, .n = (uint32_t)(n - (n > 0))};
    PST_TRY(pst_indexed_read(d->numbers, at, n, d->read));
    for (uint64_t k = 1; k < n; k++) found.n_target += d->read[k] & 1;
    *cut = all > n;
    if (!found.n_target) return PST_OK;
    PST_TRY(pst_grow(&d->list, sizeof *d->list, d->n, &d->capacity, "for conversations"));
    d->list[d->n++] = found;
    return PST_OK;
}

static pst_status list_documents(chat_data *d, const char *what) {
    const uint64_t all = pst_indexed_documents(d->numbers);
    uint64_t n_cut = 0;
    for (uint64_t i = 0; i < all; i++) {
        int cut;
        PST_TRY(add_document(d, i, &cut));
        n_cut += (uint64_t)cut;
    }
    if (n_cut)
        pst_log(PST_LOG_WARN,
                "data: %llu of %llu conversations of %s have more than model.context, %u tokens; "
                "the rest of them is not used, and %llu without an answer before it are left out",
                (unsigned long long)n_cut, (unsigned long long)all, what, d->context,
                (unsigned long long)(all - d->n));
    return PST_OK;
}

static pst_status split(chat_data *d, const pst_data_config *c, const char *what) {
    if (!d->n)
        return pst_fail(PST_EINPUT,
                        "data: %s: no conversation has an answer within the context of %u tokens",
                        what, d->context);
    PST_TRY(pst_options_held(c, what, d->n, "conversation", &d->validation));
    for (uint64_t i = 0; i < d->n; i++)
        d->tokens[i < d->n - d->validation ? PST_SPLIT_TRAIN : PST_SPLIT_VALIDATION] +=
            d->list[i].n;
    return PST_OK;
}

static void chat_close(pst_data *data) {
    chat_data *d = (chat_data *)data;
    if (!d) return;
    pst_indexed_close(d->numbers);
    free(d->list);
    free(d->read);
    free(d);
}

static pst_status fill(chat_data *d, const pst_data_config *c) {
    char what[PST_OPTIONS_TEXT];
    d->base.row = &pst_data_chat;
    d->context = c->context;
    d->seed = c->seed;
    PST_TRY(check_tokenizer(c));
    PST_TRY(open_cache(d, c, what));
    PST_TRY(list_documents(d, what));
    return split(d, c, what);
}

static pst_status chat_open(const pst_data_config *c, pst_data **out) {
    PST_TRY(pst_options_check(c));
    chat_data *d = calloc(1, sizeof *d);
    pst_status status = pst_fail(PST_ENOMEM, "no memory for a context of %u", c->context);
    if (d && (d->read = malloc((c->context + (size_t)1) * sizeof *d->read))) status = fill(d, c);
    if (status == PST_OK) *out = &d->base;
    else chat_close((pst_data *)d);
    return status;
}

/* --- samples ---------------------------------------------------------------------------------- */

static uint64_t chat_size(const pst_data *data, pst_split split) {
    const chat_data *d = (const chat_data *)data;
    return split == PST_SPLIT_TRAIN ? d->n - d->validation : d->validation;
}

static uint64_t chat_targets(const pst_data *data, uint64_t first, uint64_t n) {
    const chat_data *d = (const chat_data *)data;
    const uint64_t train = chat_size(data, PST_SPLIT_TRAIN);
    uint64_t sum = 0;
    for (uint64_t i = first; i < first + n; i++)
        sum += d->list[pst_order_shuffled(d->seed, train, i)].n_target;
    return sum;
}

static pst_status chat_sample(pst_data *data, pst_split split, uint64_t index,
                              int32_t *const *out) {
    chat_data *d = (chat_data *)data;
    const uint64_t train = d->n - d->validation;
    int32_t *tokens = out[0], *targets = out[1];
    if (split == PST_SPLIT_VALIDATION && index >= d->validation)
        return pst_fail(PST_EINPUT,
                        "data: there is no validation conversation %llu; the split has %llu",
                        (unsigned long long)index, (unsigned long long)d->validation);
    const conversation *s =
        &d->list[split == PST_SPLIT_TRAIN ? pst_order_shuffled(d->seed, train, index)
                                          : train + index];
    PST_TRY(pst_indexed_read(d->numbers, s->at, s->n + UINT64_C(1), d->read));
    for (uint32_t i = 0; i < d->context; i++) {
        const int there = i < s->n;
        tokens[i] = there ? d->read[i] >> 1 : 0;
        targets[i] = there && d->read[i + 1] & 1 ? d->read[i + 1] >> 1 : -1;
    }
    return PST_OK;
}

static pst_status chat_shape(const char *tokenizer, pst_data_shape *shape) {
    return pst_options_vocabulary(tokenizer, 0, &shape->vocabulary);
}

static uint32_t chat_fields(const pst_data *data, pst_data_field out[PST_DATA_FIELDS]) {
    const uint64_t n = ((const chat_data *)data)->context;
    out[0] = (pst_data_field){"tokens", n};
    out[1] = (pst_data_field){"targets", n};
    return 2;
}

static uint64_t chat_bytes(const pst_data *data, pst_split split) {
    return ((const chat_data *)data)->tokens[split];
}

static uint64_t chat_hash(const pst_data *data) { return ((const chat_data *)data)->hash; }
static uint64_t chat_tokenizer(const pst_data *data) {
    return ((const chat_data *)data)->tokenizer;
}

const pst_data_row pst_data_chat = {.name = "chat",
                                    .shape = chat_shape,
                                    .open = chat_open,
                                    .fields = chat_fields,
                                    .sample = chat_sample,
                                    .targets = chat_targets,
                                    .size = chat_size,
                                    .bytes = chat_bytes,
                                    .hash = chat_hash,
                                    .tokenizer = chat_tokenizer,
                                    .close = chat_close};

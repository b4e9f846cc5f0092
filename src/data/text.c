/* Data set "text": the bytes of files, one token per byte. The text is the concatenation of all
 * files (windows may cross from file to file); its last part is the validation split. */
#include "data/joined.h"
#include "data/options.h"
#include "data/order.h"
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 256 };

typedef struct {
    pst_data base;
    pst_joined *text;
    pst_order order;
    uint64_t train, validation, hash; /* bytes of the splits; the training split comes first */
    uint32_t context;
    uint8_t *window; /* [context + 1] the bytes of one sample */
} text_data;

static pst_status split(text_data *d, const pst_data_config *c, const char *what) {
    uint64_t total = pst_joined_bytes(d->text);
    d->validation = c->held_out ? total : (uint64_t)((double)total * c->validation);
    d->train = total - d->validation;
    d->order = pst_order_make(c->seed, d->train, c->context);
    if (c->held_out && total < 2)
        return pst_fail(PST_EINPUT, "data: %s has %llu bytes to evaluate on; at least 2 are needed",
                        what, (unsigned long long)total);
    if (c->held_out) return PST_OK;
    if (total == 0)
        return pst_fail(PST_EINPUT, "data: %s is empty: there is nothing to train on", what);
    if (d->order.windows == 0)
        return pst_fail(PST_EINPUT,
                        "data: %s: %llu bytes to train on are too few for a context of %u, which "
                        "needs at least %llu",
                        what, (unsigned long long)d->train, c->context, c->context + 1ull);
    if (c->validation > 0 && d->validation < 2)
        return pst_fail(PST_EINPUT,
                        "data: %s: validation %g of %llu bytes is %llu bytes, but needs at least "
                        "2; use more data or validation: 0",
                        what, c->validation, (unsigned long long)total,
                        (unsigned long long)d->validation);
    return PST_OK;
}

static void text_close(pst_data *data) {
    text_data *d = (text_data *)data;
    if (!d) return;
    pst_joined_close(d->text);
    free(d->window);
    free(d);
}

static pst_status text_open(const pst_data_config *c, pst_data **out) {
    char what[512];
    pst_file_list list = {0};
    PST_TRY(pst_options_check(c));
    PST_TRY(pst_files_expand(c->paths, c->n_path, &list));
    pst_options_describe(&list, what, sizeof what);
    pst_status status = PST_ENOMEM;
    text_data *d = calloc(1, sizeof *d);
    if (!d || !(d->window = malloc(c->context + (size_t)1))) {
        pst_fail(status, "no memory for a context of %u", c->context);
        goto fail;
    }
    d->base.row = &pst_data_text;
    d->context = c->context;
    if ((status = pst_joined_open(&list, &d->text)) != PST_OK) goto fail;
    if ((status = split(d, c, what)) != PST_OK) goto fail;
    d->hash = pst_options_hash(c, pst_joined_hash(d->text));
    *out = &d->base;
    return PST_OK;
fail:
    pst_files_free(&list);
    text_close((pst_data *)d);
    return status;
}

static uint64_t text_size(const pst_data *data, pst_split split) {
    const text_data *d = (const text_data *)data;
    if (split == PST_SPLIT_TRAIN) return d->order.windows;
    return d->validation < 2 ? 0 : (d->validation - 2) / d->context + 1;
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
    PST_TRY(pst_joined_read(d->text, at, n + 1, d->window));
    for (uint64_t i = 0; i < n; i++) {
        tokens[i] = d->window[i];
        targets[i] = d->window[i + 1];
    }
    for (uint64_t i = n; i < d->context; i++) {
        tokens[i] = 0;
        targets[i] = -1;
    }
    return PST_OK;
}

static pst_data_shape text_shape(const char *tokenizer) {
    return (pst_data_shape){.vocabulary = strcmp(tokenizer, "byte") ? 0 : VOCABULARY};
}

static uint32_t text_fields(const pst_data *data, pst_data_field out[PST_DATA_FIELDS]) {
    uint64_t n = ((const text_data *)data)->context;
    out[0] = (pst_data_field){"tokens", n};
    out[1] = (pst_data_field){"targets", n};
    return 2;
}

static uint64_t text_bytes(const pst_data *data, pst_split split) {
    const text_data *d = (const text_data *)data;
    return split == PST_SPLIT_TRAIN ? d->train : d->validation;
}

static uint64_t text_hash(const pst_data *data) { return ((const text_data *)data)->hash; }

const pst_data_row pst_data_text = {.name = "text",
                                    .shape = text_shape,
                                    .open = text_open,
                                    .fields = text_fields,
                                    .sample = text_sample,
                                    .size = text_size,
                                    .bytes = text_bytes,
                                    .hash = text_hash,
                                    .close = text_close};

/* Data set "labels": texts with a label each (labelled.h). A sample is [CLS], the tokens of a text,
 * cut to the context, [SEP], and zeros; its target is the label. The validation split is chosen by
 * the seed, because the texts of many files stand in the order of their labels. */
#include "base/hash.h"
#include "base/log.h"
#include "base/rng.h"
#include "data/labelled.h"
#include "data/masked.h"
#include "data/options.h"
#include "data/order.h"
#include <stdlib.h>
#include <string.h>

enum { AROUND = 2 /* tokens around a text */ };

typedef struct {
    pst_data base;
    pst_labelled all;
    pst_tokenizer *tokenizer;
    pst_encoder *encoder;
    pst_ids ids;
    uint64_t n[2], bytes[2]; /* texts, and their bytes, by split */
    uint64_t seed, hash;
    uint32_t context;
    int32_t begin, end;
    int types, held_out;
} labels_data;

/* The text of a sample; that of the validation split comes behind all of the training split. */
static const pst_labelled_row *row_of(const labels_data *d, pst_split split, uint64_t index) {
    const uint64_t train = d->n[PST_SPLIT_TRAIN];
    uint64_t at = train + index;
    if (d->held_out) return &d->all.row[index];
    if (split == PST_SPLIT_TRAIN) at = pst_order_shuffled(d->seed, train, index);
    return &d->all.row[pst_rng_permute(pst_rng_key(d->seed, "data.labels"), d->all.n, at)];
}

static uint64_t labels_size(const pst_data *data, pst_split split) {
    return ((const labels_data *)data)->n[split];
}

static pst_status labels_sample(pst_data *data, pst_split split, uint64_t index,
                                int32_t *const *out) {
    labels_data *d = (labels_data *)data;
    if (split == PST_SPLIT_VALIDATION && index >= d->n[split])
        return pst_fail(PST_EINPUT,
                        "data: there is no validation text %llu; the split has %llu texts",
                        (unsigned long long)index, (unsigned long long)d->n[split]);
    const pst_labelled_row *row = row_of(d, split, index);
    d->ids.n = 0;
    PST_TRY(pst_encode(d->encoder, d->all.text.byte + row->at, row->n, 1, &d->ids));
    const size_t room = d->context - (size_t)AROUND, n = d->ids.n < room ? d->ids.n : room;
    out[0][0] = d->begin;
    memcpy(out[0] + 1, d->ids.id, n * sizeof *out[0]);
    out[0][n + 1] = d->end;
    memset(out[0] + n + AROUND, 0, (room - n) * sizeof *out[0]);
    out[1][0] = row->label;
    out[2][0] = (int32_t)(n + AROUND);
    if (d->types) memset(out[3], 0, d->context * sizeof *out[3]);
    return PST_OK;
}

static uint32_t labels_fields(const pst_data *data, pst_data_field out[PST_DATA_FIELDS]) {
    const labels_data *d = (const labels_data *)data;
    out[0] = (pst_data_field){"tokens", d->context};
    out[1] = (pst_data_field){"targets", 1};
    out[2] = (pst_data_field){"lengths", 1};
    out[3] = (pst_data_field){"types", d->context};
    return d->types ? 4 : 3;
}

static uint64_t labels_bytes(const pst_data *data, pst_split split) {
    return ((const labels_data *)data)->bytes[split];
}
static uint64_t labels_hash(const pst_data *data) { return ((const labels_data *)data)->hash; }
static uint64_t labels_tokenizer(const pst_data *data) {
    return pst_tokenizer_hash(((const labels_data *)data)->tokenizer);
}

static void labels_close(pst_data *data) {
    labels_data *d = (labels_data *)data;
    if (!d) return;
    pst_labelled_free(&d->all);
    pst_encoder_close(d->encoder);
    pst_tokenizer_close(d->tokenizer);
    pst_ids_free(&d->ids);
    free(d);
}

/* --- opening ---------------------------------------------------------------------------------- */

static pst_status open_tokenizer(labels_data *d, const char *path) {
    if (!strcmp(path, "byte"))
        return pst_fail(PST_EINPUT, "data.kind labels needs a tokenizer, for its special tokens "
                                    "around a text; set data.tokenizer");
    pst_status status = pst_tokenizer_open(path, &d->tokenizer);
    if (status != PST_OK) return pst_fail_in(status, "data.tokenizer");
    status = pst_masked_special(d->tokenizer, &d->begin, &d->end, NULL);
    if (status != PST_OK) return pst_fail_in(status, "data.tokenizer: %s: to classify texts", path);
    return pst_encoder_open(d->tokenizer, 0, &d->encoder);
}

static pst_status split(labels_data *d, const pst_data_config *c, const char *what) {
    uint64_t held;
    if (!d->all.n)
        return pst_fail(PST_EINPUT, "data: %s has no texts to %s on", what,
                        c->held_out ? "evaluate" : "train");
    PST_TRY(pst_options_held(c, what, d->all.n, "text", &held));
    d->n[PST_SPLIT_TRAIN] = d->all.n - held;
    d->n[PST_SPLIT_VALIDATION] = held;
    for (int s = 0; s < 2; s++)
        for (uint64_t i = 0; i < d->n[s]; i++) d->bytes[s] += row_of(d, (pst_split)s, i)->n;
    if (d->all.skipped)
        pst_log(PST_LOG_INFO, "data: %s: %llu lines were left out (data.on_error: skip)", what,
                (unsigned long long)d->all.skipped);
    return PST_OK;
}

/* Of all texts with their labels, and of the options. */
static uint64_t hash_all(const labels_data *d, const pst_data_config *c) {
    uint64_t h = pst_hash64("labels", 6, 0);
    for (uint64_t i = 0; i < d->all.n; i++) {
        const pst_labelled_row *row = &d->all.row[i];
        h = pst_hash64(d->all.text.byte + row->at, row->n, h);
        h = pst_hash64(&row->label, sizeof row->label, h);
    }
    h = pst_hash64(&d->all.labels.n, sizeof d->all.labels.n, h);
    return pst_options_hash(c, pst_tokenizer_hash(d->tokenizer), h);
}

static pst_status fill(labels_data *d, const pst_data_config *c) {
    char what[PST_OPTIONS_TEXT];
    d->base.row = &pst_data_labels;
    d->context = c->context;
    d->seed = c->seed;
    d->types = c->types;
    d->held_out = c->held_out;
    pst_options_describe_paths(c->paths, c->n_path, what);
    PST_TRY(open_tokenizer(d, c->tokenizer));
    PST_TRY(pst_labelled_read(c, &d->all));
    PST_TRY(split(d, c, what));
    d->hash = hash_all(d, c);
    return PST_OK;
}

static pst_status labels_open(const pst_data_config *c, pst_data **out) {
    PST_TRY(pst_options_check(c));
    if (c->context <= AROUND)
        return pst_fail(PST_EINPUT,
                        "model.context is %u; a text with a label needs at least %d: two special "
                        "tokens surround it",
                        c->context, AROUND + 1);
    labels_data *d = calloc(1, sizeof *d);
    pst_status status = d ? fill(d, c) : pst_no_memory("for texts with labels");
    if (status == PST_OK) *out = &d->base;
    else labels_close((pst_data *)d);
    return status;
}

static pst_status labels_shape(const char *tokenizer, pst_data_shape *shape) {
    return pst_options_vocabulary(tokenizer, 256, &shape->vocabulary);
}

const pst_data_row pst_data_labels = {.name = "labels",
                                      .shape = labels_shape,
                                      .open = labels_open,
                                      .fields = labels_fields,
                                      .sample = labels_sample,
                                      .size = labels_size,
                                      .bytes = labels_bytes,
                                      .hash = labels_hash,
                                      .tokenizer = labels_tokenizer,
                                      .close = labels_close};

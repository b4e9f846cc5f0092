/* Data set "lines": each non-empty line of the files is a sample, for models that predict masked
 * tokens (mask.h). A token is a byte, or 256, the mask; longer lines are cut to the context,
 * shorter ones padded with 0. The validation split is the last lines. With a tokenizer: masked.c.
 */
#include "base/hash.h"
#include "base/grow.h"
#include "data/joined.h"
#include "data/json_lines.h"
#include "data/mask.h"
#include "data/masked.h"
#include "data/options.h"
#include "data/order.h"
#include <stdlib.h>
#include <string.h>

enum { MASK = 256, VOCABULARY, BLOCK = 1 << 16 };

/* Offset of a line in the text, and its bytes in a sample. */
typedef struct {
    uint64_t at : 40, n : 24;
} line;
static const uint64_t MOST_BYTES = UINT64_C(1) << 40;
static const uint32_t MOST_CONTEXT = (1 << 24) - 1;

typedef struct {
    pst_data base;
    pst_joined *text;
    line *line; /* in file order; the last `validation` of `n` lines are that split */
    uint64_t n, validation;
    size_t capacity;
    uint64_t bytes[2]; /* by split */
    uint64_t seed, hash;
    uint32_t context;
    pst_mask mask;
    pst_mask_fields fields;
    int32_t *all;  /* [context] targets of all positions of a sample */
    uint8_t *read; /* [BLOCK or context] */
} lines_data;

/* --- finding lines ---------------------------------------------------------------------------- */

/* The bytes [at, end) without their line feed. */
static pst_status add_line(lines_data *d, uint64_t at, uint64_t end, int carriage_return) {
    uint64_t n = end - at - (carriage_return && end > at);
    if (!n) return PST_OK;
    PST_TRY(pst_grow(&d->line, sizeof *d->line, d->n, &d->capacity, "for the list of lines"));
    d->line[d->n++] = (line){at, n < d->context ? n : d->context};
    return PST_OK;
}

/* The last line of a file may lack its line feed; a line never continues in the next file. */
static pst_status scan_file(lines_data *d, uint64_t from, uint64_t end) {
    uint64_t begins = from;
    uint8_t last = 0;
    for (uint64_t at = from; at < end;) {
        uint64_t n = end - at < BLOCK ? end - at : BLOCK;
        PST_TRY(pst_joined_read(d->text, at, n, d->read));
        for (uint64_t i = 0; i < n; i++, at++) {
            if (d->read[i] == '\n') {
                PST_TRY(add_line(d, begins, at, last == '\r'));
                begins = at + 1;
            }
            last = d->read[i];
        }
    }
    return add_line(d, begins, end, last == '\r');
}

static pst_status scan(lines_data *d) {
    if (pst_joined_bytes(d->text) >= MOST_BYTES)
        return pst_fail(PST_EINPUT,
                        "data: the files have 1 TiB or more; data.kind lines supports less");
    for (uint32_t i = 0; i < pst_joined_files(d->text); i++)
        PST_TRY(scan_file(d, pst_joined_start(d->text, i), pst_joined_start(d->text, i + 1)));
    return PST_OK;
}

/* --- opening ---------------------------------------------------------------------------------- */

static pst_status split(lines_data *d, const pst_data_config *c, const char *what) {
    if (!d->n)
        return pst_fail(PST_EINPUT, "data: %s: all lines are empty, so there is nothing to %s on",
                        what, c->held_out ? "evaluate" : "train");
    PST_TRY(pst_options_held(c, what, d->n, "line", &d->validation));
    for (uint64_t i = 0; i < d->n; i++) d->bytes[i >= d->n - d->validation] += d->line[i].n;
    return PST_OK;
}

static void lines_close(pst_data *data) {
    lines_data *d = (lines_data *)data;
    if (!d) return;
    pst_joined_close(d->text);
    free(d->line);
    free(d->all);
    free(d->read);
    free(d);
}

static pst_status fill(lines_data *d, const pst_data_config *c, pst_file_list *list) {
    char what[512];
    pst_options_describe(list, what, sizeof what);
    for (uint32_t i = 0; i < list->n; i++)
        if (pst_json_lines_is(list->file[i].path))
            return pst_fail(PST_EINPUT,
                            "data: %s: data.kind lines reads JSON Lines with a tokenizer only; set "
                            "data.tokenizer",
                            list->file[i].path);
    PST_TRY(pst_joined_open(list, &d->text));
    PST_TRY(scan(d));
    PST_TRY(split(d, c, what));
    d->hash = pst_options_hash(c, 0, pst_hash64("lines", 5, pst_joined_hash(d->text)));
    return PST_OK;
}

static pst_status lines_open(const pst_data_config *c, pst_data **out) {
    pst_file_list list = {0};
    if (strcmp(c->tokenizer, "byte")) return pst_masked_open_lines(c, out);
    PST_TRY(pst_options_check(c));
    if (c->pairs)
        return pst_fail(PST_EINPUT,
                        "model.next_sentence: pairs of segments need a tokenizer, for its token "
                        "that separates them; set data.tokenizer, or model.next_sentence: false");
    if (c->whole_words)
        return pst_fail(PST_EINPUT,
                        "data.mask: words: words consist of tokens with a tokenizer only; set "
                        "data.tokenizer, or data.mask: tokens");
    if (c->context > MOST_CONTEXT)
        return pst_fail(PST_EINPUT, "model.context is %u; the maximum with data.kind lines is %u",
                        c->context, MOST_CONTEXT);
    PST_TRY(pst_files_expand(c->paths, c->n_path, &list));
    pst_status status = pst_fail(PST_ENOMEM, "no memory for a context of %u", c->context);
    lines_data *d = calloc(1, sizeof *d);
    if (d && (d->read = malloc(c->context > BLOCK ? c->context : BLOCK)) &&
        (d->all = malloc(c->context * sizeof *d->all))) {
        d->mask =
            (pst_mask){.mask = MASK, .never = {-1, -1}, .vocabulary = MASK, .most = c->predictions};
        d->fields = pst_mask_fields_of(c);
        d->base.row = &pst_data_lines;
        d->context = c->context;
        d->seed = c->seed;
        status = fill(d, c, &list);
    }
    pst_files_free(&list);
    if (status == PST_OK) *out = &d->base;
    else lines_close((pst_data *)d);
    return status;
}

/* --- samples ---------------------------------------------------------------------------------- */

static uint64_t lines_size(const pst_data *data, pst_split split) {
    const lines_data *d = (const lines_data *)data;
    return split == PST_SPLIT_TRAIN ? d->n - d->validation : d->validation;
}

static uint64_t lines_targets(const pst_data *data, uint64_t first, uint64_t n) {
    const lines_data *d = (const lines_data *)data;
    const uint64_t train = lines_size(data, PST_SPLIT_TRAIN);
    uint64_t sum = 0;
    for (uint64_t sample = first; sample < first + n; sample++) {
        const uint64_t length = d->line[pst_order_shuffled(d->seed, train, sample)].n;
        sum +=
            pst_mask_count(&d->mask, pst_mask_key(d->seed, PST_SPLIT_TRAIN), sample, length, NULL);
    }
    return sum;
}

static pst_status lines_sample(pst_data *data, pst_split split, uint64_t index,
                               int32_t *const *out) {
    lines_data *d = (lines_data *)data;
    const uint64_t size = lines_size(data, split), train = d->n - d->validation;
    if (split == PST_SPLIT_VALIDATION && index >= size)
        return pst_fail(PST_EINPUT,
                        "data: there is no validation line %llu; the split has %llu lines",
                        (unsigned long long)index, (unsigned long long)size);
    line l = d->line[split == PST_SPLIT_TRAIN ? pst_order_shuffled(d->seed, train, index)
                                              : train + index];
    PST_TRY(pst_joined_read(d->text, l.at, l.n, d->read));
    for (uint64_t i = 0; i < l.n; i++) out[0][i] = d->read[i];
    const pst_mask_sample sample = {.index = index, .n = l.n, .first = l.n};
    pst_mask_fill(&d->mask, &d->fields, pst_mask_key(d->seed, split), &sample, d->all, out);
    return PST_OK;
}

static pst_status lines_shape(const char *tokenizer, pst_data_shape *shape) {
    return pst_options_vocabulary(tokenizer, VOCABULARY, &shape->vocabulary);
}

static uint32_t lines_fields(const pst_data *data, pst_data_field out[PST_DATA_FIELDS]) {
    return pst_mask_list_fields(&((const lines_data *)data)->fields, out);
}

static uint64_t lines_bytes(const pst_data *data, pst_split split) {
    return ((const lines_data *)data)->bytes[split == PST_SPLIT_VALIDATION];
}

static uint64_t lines_hash(const pst_data *data) { return ((const lines_data *)data)->hash; }

const pst_data_row pst_data_lines = {.name = "lines",
                                     .shape = lines_shape,
                                     .open = lines_open,
                                     .fields = lines_fields,
                                     .sample = lines_sample,
                                     .targets = lines_targets,
                                     .size = lines_size,
                                     .bytes = lines_bytes,
                                     .hash = lines_hash,
                                     .close = lines_close};

/* See masked.h. */
#include "data/masked.h"
#include "base/hash.h"
#include "data/cache.h"
#include "data/indexed.h"
#include "data/mask.h"
#include "data/options.h"
#include "data/order.h"
#include "data/tokens.h"
#include "tokenizer/tokenizer.h"
#include <stdlib.h>
#include <string.h>

enum { AROUND = 2 /* tokens before and after the text of a sample */ };

/* The special tokens of BERT, and of RoBERTa and its successors. */
typedef struct {
    const char *begin, *end, *mask;
} names;
static const names families[] = {{"[CLS]", "[SEP]", "[MASK]"}, {"<s>", "</s>", "<mask>"}};

typedef struct {
    pst_data base;
    pst_data_row row;   /* base.row: its name is that of data.kind */
    pst_indexed *lines; /* a sample is one of its documents; or NULL: */
    pst_tokens *tokens; /* a sample is a window */
    pst_order order;    /* of windows */
    uint64_t n[2];      /* lines, or tokens, by split; the training split comes first */
    uint64_t length[2]; /* tokens by split */
    uint64_t seed, hash, tokenizer;
    int32_t begin, end; /* special tokens */
    pst_mask mask;
    uint32_t context, room; /* room: tokens of text in a sample */
    int32_t *counted;       /* [context] the sample whose targets are counted */
} masked;

/* A part of the text: document `at`, or tokens from `at` on. */
typedef struct {
    uint64_t at, n; /* n: number of tokens */
} part;

/* --- samples ---------------------------------------------------------------------------------- */

static uint64_t masked_size(const pst_data *data, pst_split split) {
    const masked *d = (const masked *)data;
    if (d->lines) return d->n[split];
    if (split == PST_SPLIT_TRAIN) return d->order.windows;
    return (d->n[split] + d->room - 1) / d->room;
}

static part line_at(const masked *d, uint64_t i) {
    const uint64_t at = pst_indexed_document(d->lines, i),
                   n = pst_indexed_document(d->lines, i + 1) - at;
    return (part){at, n < d->room ? n : d->room};
}

static part part_of(const masked *d, pst_split split, uint64_t index) {
    const uint64_t train = d->n[PST_SPLIT_TRAIN];
    const int trains = split == PST_SPLIT_TRAIN;
    if (d->lines)
        return line_at(d, trains ? pst_order_shuffled(d->seed, train, index) : train + index);
    if (trains) return (part){pst_order_start(&d->order, index), d->room};
    const uint64_t left = d->n[split] - index * d->room;
    return (part){train + index * d->room, left < d->room ? left : d->room};
}

/* Writes the tokens of a sample, none of them hidden: begin, text, end. */
static pst_status read_part(const masked *d, part p, int32_t *tokens) {
    tokens[0] = d->begin;
    PST_TRY(d->lines ? pst_indexed_read(d->lines, p.at, p.n, tokens + 1)
                     : pst_tokens_read(d->tokens, p.at, p.n, tokens + 1));
    tokens[p.n + 1] = d->end;
    return PST_OK;
}

static pst_status masked_sample(pst_data *data, pst_split split, uint64_t index,
                                int32_t *const *out) {
    masked *d = (masked *)data;
    const uint64_t size = masked_size(data, split);
    if (split == PST_SPLIT_VALIDATION && index >= size)
        return pst_fail(PST_EINPUT,
                        "data: there is no validation sample %llu; the split has %llu samples",
                        (unsigned long long)index, (unsigned long long)size);
    const part p = part_of(d, split, index);
    const uint64_t n = p.n + AROUND;
    int32_t *tokens = out[0], *targets = out[1];
    PST_TRY(read_part(d, p, tokens));
    pst_mask_apply(&d->mask, pst_mask_key(d->seed, split), index, n, tokens, targets);
    for (uint64_t i = n; i < d->context; i++) {
        tokens[i] = 0;
        targets[i] = -1;
    }
    out[2][0] = (int32_t)n;
    return PST_OK;
}

/* A sample that cannot be read has none here; `sample` says why. */
static uint64_t masked_targets(const pst_data *data, uint64_t first, uint64_t n) {
    const masked *d = (const masked *)data;
    const uint64_t key = pst_mask_key(d->seed, PST_SPLIT_TRAIN);
    uint64_t sum = 0;
    for (uint64_t i = first; i < first + n; i++) {
        const part p = part_of(d, PST_SPLIT_TRAIN, i);
        if (read_part(d, p, d->counted) == PST_OK)
            sum += pst_mask_count(&d->mask, key, i, p.n + AROUND, d->counted);
    }
    return sum;
}

static uint32_t masked_fields(const pst_data *data, pst_data_field out[PST_DATA_FIELDS]) {
    const uint64_t n = ((const masked *)data)->context;
    out[0] = (pst_data_field){"tokens", n};
    out[1] = (pst_data_field){"targets", n};
    out[2] = (pst_data_field){"lengths", 1};
    return 3;
}

static uint64_t masked_bytes(const pst_data *data, pst_split split) {
    return ((const masked *)data)->length[split];
}

static uint64_t masked_hash(const pst_data *data) { return ((const masked *)data)->hash; }
static uint64_t masked_tokenizer(const pst_data *data) { return ((const masked *)data)->tokenizer; }

static void masked_close(pst_data *data) {
    masked *d = (masked *)data;
    if (!d) return;
    pst_indexed_close(d->lines);
    pst_tokens_close(d->tokens);
    free(d->counted);
    free(d);
}

/* --- opening ---------------------------------------------------------------------------------- */

static pst_status find_special(const pst_tokenizer *t, masked *d) {
    const names *f = &families[0];
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (pst_tokenizer_special(t, families[i].mask, &d->mask.mask) == PST_OK) f = &families[i];
    PST_TRY(pst_tokenizer_special(t, f->mask, &d->mask.mask));
    PST_TRY(pst_tokenizer_special(t, f->begin, &d->begin));
    return pst_tokenizer_special(t, f->end, &d->end);
}

static pst_status read_tokenizer(masked *d, const char *path) {
    pst_tokenizer *t;
    if (!strcmp(path, "byte"))
        return pst_fail(PST_EINPUT, "data.tokenizer: models that predict masked tokens need the "
                                    "tokenizer that made the tokens, for its special tokens");
    pst_status status = pst_tokenizer_open(path, &t);
    if (status != PST_OK) return pst_fail_in(status, "data.tokenizer");
    status = find_special(t, d);
    d->tokenizer = pst_tokenizer_hash(t);
    d->mask.vocabulary = pst_tokenizer_size(t);
    d->mask.never[0] = d->begin;
    d->mask.never[1] = d->end;
    pst_tokenizer_close(t);
    if (status == PST_OK) return PST_OK;
    return pst_fail_in(status, "data.tokenizer: %s: to predict masked tokens", path);
}

/* Number of lines, or tokens, of each split. */
static pst_status split(masked *d, const pst_data_config *c, const char *what) {
    const uint64_t all = d->lines ? pst_indexed_documents(d->lines) : pst_tokens_count(d->tokens);
    uint64_t held;
    if (!all)
        return pst_fail(PST_EINPUT, "data: %s has no text to %s on", what,
                        c->held_out ? "evaluate" : "train");
    PST_TRY(pst_options_held(c, what, all, d->lines ? "line" : "token", &held));
    d->n[PST_SPLIT_TRAIN] = all - held;
    d->n[PST_SPLIT_VALIDATION] = held;
    d->order = pst_order_make(c->seed, all - held, d->room);
    if (!d->lines && !c->held_out && !d->order.windows)
        return pst_fail(PST_EINPUT,
                        "data: %s: %llu tokens to train on are too few for a context of %u, which "
                        "needs at least %u",
                        what, (unsigned long long)(all - held), c->context, d->room + 1);
    const uint64_t train = d->lines ? pst_indexed_document(d->lines, all - held) : all - held;
    d->length[PST_SPLIT_TRAIN] = train;
    d->length[PST_SPLIT_VALIDATION] = (d->lines ? pst_indexed_tokens(d->lines) : all) - train;
    return PST_OK;
}

typedef pst_status (*opener)(masked *d, const pst_data_config *c, char what[PST_OPTIONS_TEXT]);

/* `prefix` is in the cache: its name follows from what it was made of. */
static pst_status open_lines(masked *d, const pst_data_config *c, char what[PST_OPTIONS_TEXT]) {
    char *prefix;
    pst_tokenizer *t;
    PST_TRY(pst_token_cache_find(c, &pst_encode_as_lines, &prefix, &t, what));
    pst_tokenizer_close(t); /* known since read_tokenizer */
    pst_status status = pst_indexed_open(prefix, &d->lines);
    const char *name = strrchr(prefix, '/') + 1;
    d->hash = pst_hash64(name, strlen(name), 0);
    free(prefix);
    return status;
}

static pst_status open_text(masked *d, const pst_data_config *c, char what[PST_OPTIONS_TEXT]) {
    char *prefix;
    pst_tokenizer *t;
    PST_TRY(pst_token_cache_find(c, &pst_encode_as_files, &prefix, &t, what));
    pst_tokenizer_close(t);
    pst_status status = pst_tokens_open(&prefix, 1, c->vocabulary, &d->tokens);
    free(prefix);
    return status;
}

static pst_status open_tokens(masked *d, const pst_data_config *c, char what[PST_OPTIONS_TEXT]) {
    pst_tokens_seen seen;
    pst_options_describe_paths(c->paths, c->n_path, what);
    PST_TRY(pst_tokens_open(c->paths, c->n_path, c->vocabulary, &d->tokens));
    return pst_tokens_look(d->tokens, -1, &seen);
}

static pst_status fill(masked *d, const pst_data_config *c, opener open) {
    char what[PST_OPTIONS_TEXT];
    d->base.row = &d->row;
    d->context = c->context;
    d->room = c->context - AROUND;
    d->seed = c->seed;
    PST_TRY(read_tokenizer(d, c->tokenizer));
    PST_TRY(open(d, c, what));
    PST_TRY(split(d, c, what));
    if (d->tokens) d->hash = pst_tokens_hash(d->tokens);
    d->hash = pst_options_hash(c, d->tokenizer, pst_hash64("masked", 6, d->hash));
    return PST_OK;
}

static pst_status open_named(const char *name, const pst_data_config *c, opener open,
                             pst_data **out) {
    PST_TRY(pst_options_check(c));
    if (c->context <= AROUND)
        return pst_fail(PST_EINPUT,
                        "model.context is %u; with a tokenizer, models that predict masked tokens "
                        "need at least %d: two special tokens surround a sample",
                        c->context, AROUND + 1);
    masked *d = calloc(1, sizeof *d);
    pst_status status = pst_fail(PST_ENOMEM, "no memory for a context of %u", c->context);
    if (d && (d->counted = malloc(c->context * sizeof *d->counted))) {
        d->row = (pst_data_row){.name = name,
                                .fields = masked_fields,
                                .sample = masked_sample,
                                .targets = masked_targets,
                                .size = masked_size,
                                .bytes = masked_bytes,
                                .hash = masked_hash,
                                .tokenizer = masked_tokenizer,
                                .close = masked_close};
        status = fill(d, c, open);
    }
    if (status == PST_OK) *out = &d->base;
    else masked_close((pst_data *)d);
    return status;
}

pst_status pst_masked_open_lines(const pst_data_config *c, pst_data **out) {
    return open_named("lines", c, open_lines, out);
}

pst_status pst_masked_open_text(const pst_data_config *c, pst_data **out) {
    return open_named("text", c, open_text, out);
}

pst_status pst_masked_open_tokens(const pst_data_config *c, pst_data **out) {
    return open_named("tokens", c, open_tokens, out);
}

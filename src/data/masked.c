/* See masked.h. */
#include "data/masked.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/cache.h"
#include "data/indexed.h"
#include "data/mask.h"
#include "data/options.h"
#include "data/order.h"
#include "data/pairs.h"
#include "data/tokens.h"
#include "tokenizer/tokenizer.h"
#include <stdlib.h>
#include <string.h>

/* Special tokens of a sample: before and after its text and, in pairs, between the segments. */
enum { AROUND = 2, AROUND_PAIRS = 3 };

/* The special tokens of BERT, and of RoBERTa and its successors. */
typedef struct {
    const char *begin, *end, *mask;
} names;
static const names families[] = {{"[CLS]", "[SEP]", "[MASK]"}, {"<s>", "</s>", "<mask>"}};

typedef struct {
    pst_data base;
    pst_data_row row;         /* base.row: its name is that of data.kind */
    pst_indexed *lines;       /* a sample is one of its documents; or NULL: */
    pst_tokens *tokens;       /* a sample is a window */
    pst_segment_pairs *pairs; /* NULL, or a sample is a pair of segments of `lines` */
    pst_order order;          /* of windows */
    uint64_t n[2];            /* lines, or tokens, by split; the training split comes first */
    uint64_t length[2];       /* tokens by split */
    uint64_t seed, hash, tokenizer;
    int32_t begin, end, end_of_document; /* special tokens; the last one -1: none */
    pst_mask mask;
    uint8_t *continues;     /* mask.continues; NULL: tokens are masked one by one */
    uint32_t context, room; /* room: tokens of text in a sample */
    pst_mask_fields fields;
    int32_t *counted; /* [context] the sample whose targets are counted */
    int32_t *all;     /* [context] targets of all positions of a sample */
} masked;

/* A part of the text: document `at`, or tokens from `at` on. */
typedef struct {
    uint64_t at, n; /* n: number of tokens */
} part;

/* --- samples ---------------------------------------------------------------------------------- */

static uint64_t masked_size(const pst_data *data, pst_split split) {
    const masked *d = (const masked *)data;
    if (d->lines || d->pairs) return d->n[split];
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

/* Begin, segment A, end, segment B, end. */
static pst_status read_pair(const masked *d, pst_split split, int32_t *tokens, pst_mask_sample *s) {
    pst_segment_pair pair;
    PST_TRY(pst_segment_pairs_read(d->pairs, split, s->index, &pair, tokens + 1));
    const uint32_t a = pair.n[0], b = pair.n[1];
    memmove(tokens + a + 2, tokens + a + 1, b * sizeof *tokens);
    tokens[0] = d->begin;
    tokens[a + 1] = tokens[a + b + 2] = d->end;
    s->first = a + UINT64_C(2);
    s->n = a + b + (uint64_t)AROUND_PAIRS;
    s->follows = pair.follows;
    return PST_OK;
}

/* Writes the tokens of sample s->index, none of them hidden: begin, text, end; or a pair. */
static pst_status read_sample(const masked *d, pst_split split, int32_t *tokens,
                              pst_mask_sample *s) {
    if (d->pairs) return read_pair(d, split, tokens, s);
    const part p = part_of(d, split, s->index);
    tokens[0] = d->begin;
    PST_TRY(d->lines ? pst_indexed_read(d->lines, p.at, p.n, tokens + 1)
                     : pst_tokens_read(d->tokens, p.at, p.n, tokens + 1));
    tokens[p.n + 1] = d->end;
    s->n = s->first = p.n + AROUND;
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
    pst_mask_sample s = {.index = index};
    PST_TRY(read_sample(d, split, out[0], &s));
    pst_mask_fill(&d->mask, &d->fields, pst_mask_key(d->seed, split), &s, d->all, out);
    return PST_OK;
}

/* A sample that cannot be read has none here; `sample` says why. */
static uint64_t masked_targets(const pst_data *data, uint64_t first, uint64_t n) {
    const masked *d = (const masked *)data;
    const uint64_t key = pst_mask_key(d->seed, PST_SPLIT_TRAIN);
    uint64_t sum = 0;
    for (uint64_t i = first; i < first + n; i++) {
        pst_mask_sample s = {.index = i};
        if (read_sample(d, PST_SPLIT_TRAIN, d->counted, &s) == PST_OK)
            sum += pst_mask_count(&d->mask, key, i, s.n, d->counted);
    }
    return sum;
}

static uint32_t masked_fields(const pst_data *data, pst_data_field out[PST_DATA_FIELDS]) {
    return pst_mask_list_fields(&((const masked *)data)->fields, out);
}

static uint64_t masked_bytes(const pst_data *data, pst_split split) {
    return ((const masked *)data)->length[split];
}

static uint64_t masked_hash(const pst_data *data) { return ((const masked *)data)->hash; }
static uint64_t masked_tokenizer(const pst_data *data) { return ((const masked *)data)->tokenizer; }

static void masked_close(pst_data *data) {
    masked *d = (masked *)data;
    if (!d) return;
    pst_segment_pairs_close(d->pairs);
    pst_indexed_close(d->lines);
    pst_tokens_close(d->tokens);
    free(d->continues);
    free(d->counted);
    free(d->all);
    free(d);
}

/* --- opening ---------------------------------------------------------------------------------- */

pst_status pst_masked_special(const pst_tokenizer *t, int32_t *begin, int32_t *end, int32_t *mask) {
    const names *f = &families[0];
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (pst_tokenizer_special(t, mask ? families[i].mask : families[i].begin, begin) == PST_OK)
            f = &families[i];
    if (mask) PST_TRY(pst_tokenizer_special(t, f->mask, mask));
    PST_TRY(pst_tokenizer_special(t, f->begin, begin));
    return pst_tokenizer_special(t, f->end, end);
}

/* Which tokens continue words. A sample's share is then exact, so that words can be added up. */
static pst_status list_words(const pst_tokenizer *t, masked *d) {
    const uint32_t n = pst_tokenizer_size(t);
    int known = 1;
    if (!(d->continues = calloc(n, 1))) return pst_no_memory("for the tokens that continue words");
    for (uint32_t i = 0; i < n; i++)
        d->continues[i] = (uint8_t)pst_tokenizer_continues(t, (int32_t)i, &known);
    d->mask.continues = d->continues;
    if (!d->mask.most) d->mask.most = d->context;
    return known ? PST_OK
                 : pst_fail(PST_EINPUT,
                            "%s tokenizers do not say which tokens continue a word; use data.mask: "
                            "tokens, or a WordPiece vocabulary",
                            pst_tokenizer_kind(t));
}

static pst_status read_tokenizer(masked *d, const char *path, int whole_words) {
    pst_tokenizer *t;
    if (!strcmp(path, "byte"))
        return pst_fail(PST_EINPUT, "data.tokenizer: models that predict masked tokens need the "
                                    "tokenizer that made the tokens, for its special tokens");
    pst_status status = pst_tokenizer_open(path, &t);
    if (status != PST_OK) return pst_fail_in(status, "data.tokenizer");
    status = pst_masked_special(t, &d->begin, &d->end, &d->mask.mask);
    if (status == PST_OK && whole_words) status = list_words(t, d);
    d->end_of_document = pst_tokenizer_end(t);
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

/* Number of pairs of each split. */
static pst_status split_pairs(masked *d, const pst_data_config *c, const char *what) {
    const uint64_t all = pst_segment_pairs_count(d->pairs);
    uint64_t held;
    PST_TRY(pst_options_held(c, what, all, "pair of segments", &held));
    if (all - held < 2 && !c->held_out)
        return pst_fail(PST_EINPUT,
                        "data: %s has too little text for pairs of segments (model.next_sentence): "
                        "%llu of %u tokens to train on, at least 2 are needed",
                        what, (unsigned long long)(all - held), d->room);
    d->n[PST_SPLIT_TRAIN] = all - held;
    d->n[PST_SPLIT_VALIDATION] = held;
    pst_segment_pairs_split(d->pairs, all - held);
    for (int i = 0; i < 2; i++) d->length[i] = pst_segment_pairs_tokens(d->pairs, (pst_split)i);
    if (pst_segment_pairs_documents(d->pairs, c->held_out) > 1) return PST_OK;
    if (!c->held_out)
        return pst_fail(PST_EINPUT,
                        "data: %s: the text to train on is one document, but model.next_sentence "
                        "needs segments of other documents: with data.kind text a file is a "
                        "document, with lines a blank line ends one; or set model.next_sentence: "
                        "false",
                        what);
    pst_log(PST_LOG_WARN,
            "data: %s is one document, so segments that do not follow each other are of the same "
            "document: the loss of model.next_sentence says little",
            what);
    return PST_OK;
}

/* From a text in the cache whose lines or files are documents of d->lines. */
static pst_status open_pairs(masked *d, const pst_data_config *c, int lines, const char *what) {
    const pst_segment_pairs_options o = {.tokens = d->lines,
                                         .lines = lines,
                                         .end = lines ? -1 : d->end_of_document,
                                         .room = d->room,
                                         .seed = c->seed};
    if (!pst_indexed_tokens(d->lines))
        return pst_fail(PST_EINPUT, "data: %s has no text to %s on", what,
                        c->held_out ? "evaluate" : "train");
    return pst_segment_pairs_open(&o, &d->pairs);
}

typedef pst_status (*opener)(masked *d, const pst_data_config *c, char what[PST_OPTIONS_TEXT]);

/* Of pairs, lines of JSON would have no documents around them. */
static pst_status check_plain(const pst_data_config *c) {
    pst_file_list list = {0};
    pst_status status = PST_OK;
    PST_TRY(pst_files_expand(c->paths, c->n_path, &list));
    for (uint32_t i = 0; status == PST_OK && i < list.n; i++)
        if (pst_json_lines_is(list.file[i].path))
            status = pst_fail(PST_EINPUT,
                              "data: %s: pairs of segments (model.next_sentence) are read from "
                              "JSON Lines with data.kind: text only",
                              list.file[i].path);
    pst_files_free(&list);
    return status;
}

/* `prefix` is in the cache: its name follows from what it was made of. */
static pst_status open_cached(masked *d, const pst_data_config *c, const pst_encode_form *form,
                              char what[PST_OPTIONS_TEXT]) {
    char *prefix;
    pst_tokenizer *t;
    PST_TRY(pst_token_cache_find(c, form, &prefix, &t, what));
    pst_tokenizer_close(t); /* known since read_tokenizer */
    pst_status status = pst_indexed_open(prefix, &d->lines);
    const char *name = strrchr(prefix, '/') + 1;
    d->hash = pst_hash64(name, strlen(name), 0);
    free(prefix);
    return status;
}

static pst_status open_lines(masked *d, const pst_data_config *c, char what[PST_OPTIONS_TEXT]) {
    if (!c->pairs) return open_cached(d, c, &pst_encode_as_lines, what);
    PST_TRY(check_plain(c));
    PST_TRY(open_cached(d, c, &pst_encode_as_sentences, what));
    return open_pairs(d, c, 1, what);
}

static pst_status open_text(masked *d, const pst_data_config *c, char what[PST_OPTIONS_TEXT]) {
    char *prefix;
    pst_tokenizer *t;
    if (c->pairs) {
        PST_TRY(open_cached(d, c, &pst_encode_as_files, what));
        return open_pairs(d, c, 0, what);
    }
    PST_TRY(pst_token_cache_find(c, &pst_encode_as_files, &prefix, &t, what));
    pst_tokenizer_close(t);
    pst_status status = pst_tokens_open(&prefix, 1, c->vocabulary, &d->tokens);
    free(prefix);
    return status;
}

static pst_status open_tokens(masked *d, const pst_data_config *c, char what[PST_OPTIONS_TEXT]) {
    pst_tokens_seen seen;
    if (c->pairs)
        return pst_fail(PST_EINPUT,
                        "model.next_sentence: files of tokens have no segments; use data.kind: "
                        "lines or text, or model.next_sentence: false");
    pst_options_describe_paths(c->paths, c->n_path, what);
    PST_TRY(pst_tokens_open(c->paths, c->n_path, c->vocabulary, &d->tokens));
    return pst_tokens_look(d->tokens, -1, &seen);
}

static pst_status fill(masked *d, const pst_data_config *c, opener open) {
    char what[PST_OPTIONS_TEXT];
    d->base.row = &d->row;
    d->context = c->context;
    d->room = c->context - (c->pairs ? AROUND_PAIRS : AROUND);
    d->seed = c->seed;
    d->fields = pst_mask_fields_of(c);
    d->mask.most = c->predictions;
    PST_TRY(read_tokenizer(d, c->tokenizer, c->whole_words));
    PST_TRY(open(d, c, what));
    PST_TRY(d->pairs ? split_pairs(d, c, what) : split(d, c, what));
    if (d->tokens) d->hash = pst_tokens_hash(d->tokens);
    d->hash = pst_options_hash(c, d->tokenizer, pst_hash64("masked", 6, d->hash));
    return PST_OK;
}

static pst_status open_named(const char *name, const pst_data_config *c, opener open,
                             pst_data **out) {
    PST_TRY(pst_options_check(c));
    const uint32_t least = c->pairs ? AROUND_PAIRS + 2 : AROUND + 1;
    if (c->context < least)
        return pst_fail(PST_EINPUT,
                        "model.context is %u; with a tokenizer, models that predict masked tokens "
                        "need at least %u: %s special tokens surround a sample",
                        c->context, least, c->pairs ? "three" : "two");
    masked *d = calloc(1, sizeof *d);
    pst_status status = pst_fail(PST_ENOMEM, "no memory for a context of %u", c->context);
    if (d && (d->counted = malloc(c->context * sizeof *d->counted)) &&
        (d->all = malloc(c->context * sizeof *d->all))) {
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

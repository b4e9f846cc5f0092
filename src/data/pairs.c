/* See pairs.h. A unit is what no segment divides: a line or, in whole documents, a token. A stretch
 * is a sequence of units of one document that fills a sample; its first units are segment A, and
 * the rest is segment B, in the place of which the sample may have units of another document. */
#include "data/pairs.h"
#include "base/grow.h"
#include "base/rng.h"
#include "data/order.h"
#include <stdlib.h>

enum { TRIES = 10 /* to find another document, as in the authors' program */ };

typedef struct {
    uint64_t unit;
    uint32_t n, document;
} stretch;

typedef struct {
    uint64_t from, to; /* units */
} document;

struct pst_segment_pairs {
    pst_segment_pairs_options o;
    stretch *list;
    uint64_t n, train;
    document *document;
    uint64_t n_document;
    size_t cap_list, cap_document;
    uint64_t key[2]; /* of random choices, by split */
};

/* The number of the unit's first token. */
static uint64_t place(const pst_segment_pairs *p, uint64_t unit) {
    return p->o.lines ? pst_indexed_document(p->o.tokens, unit) : unit;
}

/* --- stretches -------------------------------------------------------------------------------- */

static pst_status add_stretch(pst_segment_pairs *p, uint64_t unit, uint64_t n) {
    PST_TRY(pst_grow(&p->list, sizeof *p->list, p->n, &p->cap_list, "for pairs of segments"));
    p->list[p->n++] = (stretch){unit, (uint32_t)n, (uint32_t)(p->n_document - 1)};
    return PST_OK;
}

/* Units until a sample is full. */
static uint64_t units_from(const pst_segment_pairs *p, uint64_t unit, uint64_t to) {
    const uint64_t at = place(p, unit);
    uint64_t end = unit + 1;
    while (end < to && place(p, end) - at < p->o.room) end++;
    return end - unit;
}

static pst_status add_document(pst_segment_pairs *p, uint64_t from, uint64_t to) {
    if (from == to) return PST_OK;
    if (p->n_document == UINT32_MAX)
        return pst_fail(PST_EINPUT, "data: more than 2^32 - 1 documents are not supported");
    PST_TRY(pst_grow(&p->document, sizeof *p->document, p->n_document, &p->cap_document,
                     "for documents"));
    p->document[p->n_document++] = (document){from, to};
    for (uint64_t unit = from, n; unit < to; unit += n) {
        n = p->o.lines ? units_from(p, unit, to) : to - unit;
        if (!p->o.lines && n > p->o.room) n = p->o.room;
        PST_TRY(add_stretch(p, unit, n));
    }
    return PST_OK;
}

static pst_status add_lines(pst_segment_pairs *p) {
    const uint64_t all = pst_indexed_documents(p->o.tokens);
    uint64_t from = 0;
    for (uint64_t i = 0; i < all; i++) {
        if (place(p, i) < place(p, i + 1)) continue;
        PST_TRY(add_document(p, from, i));
        from = i + 1;
    }
    return add_document(p, from, all);
}

static pst_status add_texts(pst_segment_pairs *p) {
    const uint64_t all = pst_indexed_documents(p->o.tokens);
    for (uint64_t i = 0; i < all; i++) {
        const uint64_t from = pst_indexed_document(p->o.tokens, i);
        uint64_t to = pst_indexed_document(p->o.tokens, i + 1);
        int32_t last = -1;
        if (from < to) PST_TRY(pst_indexed_read(p->o.tokens, to - 1, 1, &last));
        if (last >= 0 && last == p->o.end) to--;
        PST_TRY(add_document(p, from, to));
    }
    return PST_OK;
}

pst_status pst_segment_pairs_open(const pst_segment_pairs_options *o, pst_segment_pairs **out) {
    pst_segment_pairs *p = calloc(1, sizeof *p);
    if (!p) return pst_no_memory("for pairs of segments");
    p->o = *o;
    p->key[PST_SPLIT_TRAIN] = pst_rng_key(o->seed, "data.pairs");
    p->key[PST_SPLIT_VALIDATION] = pst_rng_key(o->seed, "data.pairs.validation");
    pst_status status = o->lines ? add_lines(p) : add_texts(p);
    p->train = p->n;
    if (status == PST_OK) *out = p;
    else pst_segment_pairs_close(p);
    return status;
}

void pst_segment_pairs_close(pst_segment_pairs *p) {
    if (!p) return;
    free(p->list);
    free(p->document);
    free(p);
}

uint64_t pst_segment_pairs_count(const pst_segment_pairs *p) { return p->n; }
uint64_t pst_segment_pairs_documents(const pst_segment_pairs *p, int all) {
    if (all || !p->train) return p->n_document;
    return p->list[p->train - 1].document + (uint64_t)1;
}
void pst_segment_pairs_split(pst_segment_pairs *p, uint64_t train) { p->train = train; }

uint64_t pst_segment_pairs_tokens(const pst_segment_pairs *p, pst_split split) {
    const uint64_t from = split == PST_SPLIT_TRAIN ? 0 : p->train;
    const uint64_t to = split == PST_SPLIT_TRAIN ? p->train : p->n;
    uint64_t sum = 0;
    for (uint64_t i = from; i < to; i++)
        sum += place(p, p->list[i].unit + p->list[i].n) - place(p, p->list[i].unit);
    return sum;
}

/* --- samples ---------------------------------------------------------------------------------- */

/* A random stream of one sample. */
typedef struct {
    uint64_t key, sample, drawn;
    uint32_t word[4];
} dice;

static uint64_t below(dice *d, uint64_t n) {
    if (d->drawn % 2 == 0) pst_rng_words(d->key, d->sample, d->drawn / 2, d->word);
    const uint32_t *two = d->word + 2 * (d->drawn++ % 2);
    return ((uint64_t)two[0] << 32 | two[1]) % n;
}

/* A range of tokens. */
typedef struct {
    uint64_t at, n;
} segment;

/* From a random unit of another document of the training split, or of all text, to its end. */
static segment elsewhere(const pst_segment_pairs *p, pst_split split, const stretch *own, dice *d) {
    const uint64_t n = split == PST_SPLIT_TRAIN ? p->train : p->n;
    const stretch *other = &p->list[below(d, n)];
    for (int i = 1; i < TRIES && other->document == own->document; i++)
        other = &p->list[below(d, n)];
    const uint64_t at = place(p, other->unit + below(d, other->n)),
                   last = p->list[n - 1].unit + p->list[n - 1].n,
                   to = p->document[other->document].to;
    return (segment){at, place(p, to < last ? to : last) - at};
}

/* Shortens the longer one, at its front or its back, until both fit. */
static void shorten(segment *a, segment *b, uint64_t room, dice *d) {
    while (a->n + b->n > room) {
        segment *longer = a->n > b->n ? a : b;
        uint64_t most = a->n + b->n - room, apart = longer == a ? a->n - b->n : b->n - a->n,
                 drop = apart < most ? apart : most, front;
        if (!drop) drop = 1;
        front = below(d, drop + 1);
        longer->at += front;
        longer->n -= drop;
    }
}

pst_status pst_segment_pairs_read(const pst_segment_pairs *p, pst_split split, uint64_t index,
                                  pst_segment_pair *pair, int32_t *tokens) {
    const uint64_t k = split == PST_SPLIT_TRAIN ? pst_order_shuffled(p->o.seed, p->train, index)
                                                : p->train + index;
    const stretch *own = &p->list[k];
    dice d = {.key = p->key[split], .sample = index};
    const uint64_t border = own->n > 1 ? 1 + below(&d, own->n - 1) : own->n,
                   begin = place(p, own->unit), middle = place(p, own->unit + border);
    pair->follows = border < own->n && below(&d, 2);
    segment a = {begin, middle - begin}, b = {middle, place(p, own->unit + own->n) - middle};
    if (!pair->follows) {
        b = elsewhere(p, split, own, &d);
        const uint64_t left = p->o.room > a.n ? p->o.room - a.n : 1;
        if (b.n > left && a.n < p->o.room) b.n = left;
    }
    shorten(&a, &b, p->o.room, &d);
    pair->n[0] = (uint32_t)a.n;
    pair->n[1] = (uint32_t)b.n;
    PST_TRY(pst_indexed_read(p->o.tokens, a.at, a.n, tokens));
    return pst_indexed_read(p->o.tokens, b.at, b.n, tokens + a.n);
}

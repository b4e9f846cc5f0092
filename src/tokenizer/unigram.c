/* The unigram model of SentencePiece (Kudo 2018): the most probable way to divide a word, found
 * from left to right. */
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"
#include <math.h>
#include <stdlib.h>

enum { NO_WAY = -2, UNKNOWN = -1 };

static pst_status reserve(pst_encoder *e, size_t n) {
    if (e->lattice_capacity >= n) return PST_OK;
    pst_lattice *more = realloc(e->lattice, n * sizeof *more);
    if (!more) return pst_no_memory("to encode a word");
    e->lattice = more;
    e->lattice_capacity = n;
    return PST_OK;
}

pst_status pst_unigram_open(pst_tokenizer *t) {
    pst_pairs *trie = &t->sentencepiece.trie;
    for (uint32_t id = 0, nodes = 1; id < t->matched.n; id++) {
        uint32_t bytes, node = 0;
        const uint8_t *text = pst_vocabulary_text(&t->matched, id, &bytes);
        for (uint32_t i = 0; text && i < bytes; i++) {
            pst_pair *next = (pst_pair *)pst_pairs_find(trie, node, text[i]);
            if (!next) {
                PST_TRY(pst_pairs_add(trie, (pst_pair){node, text[i], 0, nodes++}));
                next = (pst_pair *)pst_pairs_find(trie, node, text[i]);
            }
            node = next->id;
            if (i + 1 == bytes && !next->rank) next->rank = id + 1;
        }
    }
    return PST_OK;
}

/* A token from `from` to `to`, if that is better. Sums are those of SentencePiece, to the bit:
 * equal ones are frequent. */
static void offer(pst_lattice *l, size_t from, size_t to, int32_t id, double sum) {
    if (l[to].id != NO_WAY && !(sum > l[to].score)) return;
    l[to] = (pst_lattice){id, (float)sum, from};
}

static double score_of(const pst_sentencepiece *o, int32_t id, size_t bytes) {
    float score = o->score[id];
    return isnan(score) ? (float)bytes * o->most - 0.1 : score;
}

/* All tokens that begin at `from`; a character without one is unknown. */
static void step(const pst_tokenizer *t, const uint8_t *word, size_t bytes, size_t from,
                 uint32_t character, pst_lattice *l) {
    const pst_sentencepiece *o = &t->sentencepiece;
    const pst_pair *next;
    uint32_t node = 0;
    int single = 0;
    for (size_t to = from; to < bytes && (next = pst_pairs_find(&o->trie, node, word[to]));) {
        node = next->id;
        to++;
        if (!next->rank) continue;
        int32_t id = (int32_t)next->rank - 1;
        single |= to - from == character;
        offer(l, from, to, id, l[from].score + score_of(o, id, to - from));
    }
    float unknown = l[from].score + o->unknown;
    if (!single) offer(l, from, from + character, UNKNOWN, unknown);
}

pst_status pst_unigram_encode(pst_encoder *e, const uint8_t *word, size_t bytes) {
    uint32_t character;
    PST_TRY(reserve(e, bytes + 1));
    pst_lattice *l = e->lattice;
    l[0] = (pst_lattice){0, e->score, 0};
    for (size_t i = 1; i <= bytes; i++) l[i].id = NO_WAY;
    for (size_t from = 0; from < bytes; from += character) {
        pst_unicode_decode(word + from, word + bytes, &character);
        step(e->t, word, bytes, from, character, l);
    }
    e->score = l[bytes].score;
    size_t n = 0;
    int32_t *id = e->out->id + e->out->n;
    for (size_t at = bytes; at; at = l[at].from) n++;
    e->out->n += n;
    for (size_t at = bytes; at; at = l[at].from) id[--n] = l[at].id;
    return PST_OK;
}

/* The merges of a BPE, from words and their counts; see train.h. A heap has the pairs by count;
 * counts that have decreased since are corrected when a pair comes to its top. */
#include "tokenizer/train.h"
#include "base/grow.h"
#include "tokenizer/parts.h"
#include "tokenizer/train_parts.h"
#include "tokenizer/unicode.h"
#include <stdlib.h>
#include <string.h>

static const char to_learn[] = "to learn a tokenizer";
enum { BYTES = 256, FIRST_SLOTS = 4096 };

typedef struct {
    int64_t count;
    int32_t left, right;
    uint32_t pair;
} entry;
typedef struct {
    pst_bpe_training *t;
    entry *heap;
    size_t n, capacity;
    uint32_t *grown; /* pairs whose count has grown by this merge */
    size_t n_grown, grown_capacity;
    uint32_t merge; /* number of the merge in progress, from 1 */
} learner;

/* --- pairs ------------------------------------------------------------------------------------ */

static size_t pair_place(const pst_bpe_training *t, int32_t left, int32_t right) {
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = (size_t)(h >> 24) & (t->n_pair_slot - 1);
    while (t->pair_slot[i]) {
        const pst_counted_pair *p = &t->pair[t->pair_slot[i] - 1];
        if (p->left == left && p->right == right) break;
        i = (i + 1) & (t->n_pair_slot - 1);
    }
    return i;
}

static pst_status grow_pairs(pst_bpe_training *t) {
    size_t n = t->n_pair_slot ? 2 * t->n_pair_slot : FIRST_SLOTS;
    uint32_t *slot = calloc(n, sizeof *slot);
    if (!slot) return pst_no_memory(to_learn);
    free(t->pair_slot);
    t->pair_slot = slot;
    t->n_pair_slot = n;
    for (size_t k = 0; k < t->n_pair; k++)
        slot[pair_place(t, t->pair[k].left, t->pair[k].right)] = (uint32_t)k + 1;
    return PST_OK;
}

/* The pair, made if it is new; *index: its number. */
static pst_status find_pair(pst_bpe_training *t, int32_t left, int32_t right, uint32_t *index) {
    if (2 * (t->n_pair + 1) > t->n_pair_slot) PST_TRY(grow_pairs(t));
    size_t i = pair_place(t, left, right);
    if (!t->pair_slot[i]) {
        PST_TRY(pst_grow(&t->pair, sizeof *t->pair, t->n_pair, &t->pair_capacity, to_learn));
        t->pair[t->n_pair++] = (pst_counted_pair){.left = left, .right = right};
        t->pair_slot[i] = (uint32_t)t->n_pair;
    }
    *index = t->pair_slot[i] - 1;
    return PST_OK;
}

/* Adds occurrences of a pair in a word. */
static pst_status add_pair(learner *l, int32_t left, int32_t right, uint32_t word) {
    pst_bpe_training *t = l->t;
    uint32_t index;
    PST_TRY(find_pair(t, left, right, &index));
    pst_counted_pair *p = &t->pair[index];
    p->count += (int64_t)t->word[word].count;
    if (!p->n || p->word[p->n - 1] != word) {
        PST_TRY(pst_grow(&p->word, sizeof *p->word, p->n, &p->capacity, to_learn));
        p->word[p->n++] = word;
    }
    if (p->changed == l->merge + 1) return PST_OK;
    p->changed = l->merge + 1;
    PST_TRY(pst_grow(&l->grown, sizeof *l->grown, l->n_grown, &l->grown_capacity, to_learn));
    l->grown[l->n_grown++] = index;
    return PST_OK;
}

static pst_status remove_pair(learner *l, int32_t left, int32_t right, uint32_t word) {
    uint32_t index;
    PST_TRY(find_pair(l->t, left, right, &index));
    l->t->pair[index].count -= (int64_t)l->t->word[word].count;
    return PST_OK;
}

/* --- the heap --------------------------------------------------------------------------------- */

static int is_before(const entry *a, const entry *b) {
    if (a->count != b->count) return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static pst_status push(learner *l, uint32_t pair) {
    const pst_counted_pair *p = &l->t->pair[pair];
    const entry e = {p->count, p->left, p->right, pair};
    PST_TRY(pst_grow(&l->heap, sizeof *l->heap, l->n, &l->capacity, to_learn));
    size_t at = l->n++;
    while (at && is_before(&e, &l->heap[(at - 1) / 2])) {
        l->heap[at] = l->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    l->heap[at] = e;
    return PST_OK;
}

static entry pop(learner *l) {
    entry top = l->heap[0], last = l->heap[--l->n];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < l->n) {
        if (child + 1 < l->n && is_before(&l->heap[child + 1], &l->heap[child])) child++;
        if (!is_before(&l->heap[child], &last)) break;
        l->heap[at] = l->heap[child];
        at = child;
    }
    l->heap[at] = last;
    return top;
}

static pst_status push_grown(learner *l) {
    for (size_t i = 0; i < l->n_grown; i++) PST_TRY(push(l, l->grown[i]));
    l->n_grown = 0;
    return PST_OK;
}

/* --- merges ----------------------------------------------------------------------------------- */

static pst_status merge_word(learner *l, uint32_t word, const entry *e, int32_t id) {
    pst_counted_word *w = &l->t->word[word];
    int32_t *s = l->t->symbol + w->at;
    for (uint32_t i = 0; i + 1 < w->n; i++) {
        if (s[i] != e->left || s[i + 1] != e->right) continue;
        PST_TRY(remove_pair(l, e->left, e->right, word));
        if (i) {
            PST_TRY(remove_pair(l, s[i - 1], e->left, word));
            PST_TRY(add_pair(l, s[i - 1], id, word));
        }
        if (i + 2 < w->n) {
            PST_TRY(remove_pair(l, e->right, s[i + 2], word));
            PST_TRY(add_pair(l, id, s[i + 2], word));
        }
        s[i] = id;
        memmove(s + i + 1, s + i + 2, (w->n - i - 2) * sizeof *s);
        w->n--;
    }
    return PST_OK;
}

static pst_status merge(learner *l, const entry *e) {
    pst_bpe_training *t = l->t;
    int32_t id = (int32_t)(t->n_first + t->n_merge);
    PST_TRY(pst_grow(&t->merge, sizeof *t->merge, t->n_merge, &t->merge_capacity, to_learn));
    t->merge[t->n_merge][0] = e->left;
    t->merge[t->n_merge++][1] = e->right;
    if (t->wordpiece) PST_TRY(pst_wordpiece_merged(t));
    l->merge++;
    /* the list does not grow meanwhile: no merge makes new occurrences of its own pair */
    uint32_t *word = t->pair[e->pair].word;
    size_t n = t->pair[e->pair].n;
    t->pair[e->pair].word = NULL;
    t->pair[e->pair].n = t->pair[e->pair].capacity = 0;
    pst_status status = PST_OK;
    for (size_t i = 0; status == PST_OK && i < n; i++) status = merge_word(l, word[i], e, id);
    free(word);
    return status == PST_OK ? push_grown(l) : status;
}

/* Tokens so far. */
static size_t tokens_of(const pst_bpe_training *t) {
    return t->wordpiece ? t->wordpiece->tokens.n : BYTES + 1 + t->n_merge;
}

static pst_status too_few(const pst_bpe_training *t) {
    if (t->wordpiece)
        return pst_fail(PST_EINPUT,
                        "the text has pairs for only %zu tokens; use a vocabulary of at most that, "
                        "or more text",
                        tokens_of(t));
    return pst_fail(PST_EINPUT,
                    "the text has pairs for only %zu tokens besides the 256 bytes; use a "
                    "vocabulary of at most %zu, or more text",
                    t->n_merge, tokens_of(t));
}

static pst_status learn(learner *l, uint32_t vocabulary) {
    pst_bpe_training *t = l->t;
    for (uint32_t w = 0; w < t->n_word; w++) {
        const int32_t *s = t->symbol + t->word[w].at;
        for (uint32_t i = 0; i + 1 < t->word[w].n; i++) PST_TRY(add_pair(l, s[i], s[i + 1], w));
    }
    PST_TRY(push_grown(l));
    while (tokens_of(t) < vocabulary) {
        if (!l->n) return too_few(t);
        entry e = pop(l);
        int64_t now = t->pair[e.pair].count;
        if (now == e.count && now > 0) PST_TRY(merge(l, &e));
        else if (now > 0 && now < e.count) PST_TRY(push(l, e.pair));
    }
    return PST_OK;
}

pst_status pst_bpe_training_learn(pst_bpe_training *t, uint32_t vocabulary) {
    learner l = {.t = t};
    if (t->wordpiece) PST_TRY(pst_wordpiece_begin(t, vocabulary));
    if (!t->wordpiece && vocabulary <= BYTES)
        return pst_fail(PST_EINPUT, "a vocabulary of %u is too small: 256 bytes and %s are 257",
                        vocabulary, "<|endoftext|>");
    pst_status status = learn(&l, vocabulary);
    free(l.heap);
    free(l.grown);
    return status;
}

/* --- tokenizer.json --------------------------------------------------------------------------- */

/* A byte as GPT-2 writes it, as a JSON string needs it. */
static void print_byte(uint8_t byte, FILE *out) {
    uint8_t text[4];
    uint32_t n = pst_unicode_encode(pst_character_of_byte(byte), text);
    if (*text == '"' || *text == '\\') fputc('\\', out);
    fwrite(text, 1, n, out);
}

static void print_symbol(const pst_bpe_training *t, int32_t id, FILE *out) {
    if (id < BYTES) {
        print_byte((uint8_t)id, out);
        return;
    }
    print_symbol(t, t->merge[id - BYTES][0], out);
    print_symbol(t, t->merge[id - BYTES][1], out);
}

/* vocab.txt: a token on each line. */
static pst_status print_tokens(const pst_vocabulary *v, FILE *out) {
    for (uint32_t id = 0; id < v->n; id++) {
        uint32_t bytes;
        const uint8_t *text = pst_vocabulary_text(v, id, &bytes);
        fprintf(out, "%.*s\n", (int)bytes, (const char *)text);
    }
    return ferror(out) ? pst_fail(PST_ENOMEM, "cannot write the vocabulary") : PST_OK;
}

pst_status pst_bpe_training_print(const void *what, FILE *out) {
    const pst_bpe_training *t = what;
    if (t->wordpiece) return print_tokens(&t->wordpiece->tokens, out);
    int32_t n = (int32_t)(BYTES + t->n_merge);
    fprintf(out,
            "{\n  \"version\": \"1.0\",\n  \"added_tokens\": [{\"id\": %d, \"content\": "
            "\"<|endoftext|>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
            "\"normalized\": false, \"special\": true}],\n  \"normalizer\": null,\n"
            "  \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
            "\"trim_offsets\": true, \"use_regex\": true},\n  \"post_processor\": null,\n"
            "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
            "\"trim_offsets\": true, \"use_regex\": true},\n  \"model\": {\n"
            "    \"type\": \"BPE\",\n    \"vocab\": {",
            n);
    for (int32_t id = 0; id < n; id++) {
        fputs(id ? ",\n      \"" : "\n      \"", out);
        print_symbol(t, id, out);
        fprintf(out, "\": %d", id);
    }
    fputs("\n    },\n    \"merges\": [", out);
    for (size_t i = 0; i < t->n_merge; i++) {
        fputs(i ? ",\n      [\"" : "\n      [\"", out);
        print_symbol(t, t->merge[i][0], out);
        fputs("\", \"", out);
        print_symbol(t, t->merge[i][1], out);
        fputs("\"]", out);
    }
    fputs("\n    ]\n  }\n}\n", out);
    return ferror(out) ? pst_fail(PST_ENOMEM, "cannot write the tokenizer") : PST_OK;
}

/* Samples for masked tokens from a tokenizer's tokens: special tokens around them, masks, windows
 * and lines, padding, and a tokenizer without a token that is needed. */
#include "base/folder.h"
#include "data/blend.h"
#include "data/indexed.h"
#include "data/masked.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CONTEXT = 16, ROOM = CONTEXT - 2 };
enum { PAD, UNK, CLS, SEP, MASK, FIRST, WORDS = 40, SIZE = FIRST + WORDS };

/* The words w0, w1, ... are the tokens FIRST, FIRST + 1, ... `without`: a special token left out.
 */
static void put_vocabulary(const char *name, const char *without) {
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    for (int i = 0; i < FIRST; i++)
        fprintf(f, "%s\n", strcmp(special[i], without) ? special[i] : "[unused]");
    for (int i = 0; i < WORDS; i++) fprintf(f, "w%d\n", i);
    fclose(f);
}

static int make(void **state) {
    if (folder_open(state)) return 1;
    put_vocabulary("vocab.txt", "");
    return 0;
}

typedef struct {
    int32_t tokens[CONTEXT], targets[CONTEXT], lengths[1];
} sample;

static pst_data_config config_of(char **path, uint32_t n, double validation) {
    return (pst_data_config){.paths = path,
                             .n_path = n,
                             .validation = validation,
                             .context = CONTEXT,
                             .seed = 7,
                             .tokenizer = "vocab.txt",
                             .cache = "cache",
                             .vocabulary = SIZE,
                             .lines = {"text", 0},
                             .masked = 1};
}

static pst_data *open_data(const pst_data_row *row, const pst_data_config *c) {
    pst_data *d;
    if (row->open(c, &d) != PST_OK) fail_msg("%s", pst_error());
    return d;
}

static sample get(pst_data *d, pst_split split, uint64_t index) {
    sample s;
    memset(&s, 0x55, sizeof s);
    if (d->row->sample(d, split, index, (int32_t *[]){s.tokens, s.targets, s.lengths}) != PST_OK)
        fail_msg("%s", pst_error());
    return s;
}

static uint64_t targets_of(const sample *s) {
    uint64_t n = 0;
    for (int i = 0; i < CONTEXT; i++) n += s->targets[i] >= 0;
    return n;
}

/* Puts back what was hidden and checks the tokens around; returns the number of tokens between. */
static int original(const sample *s, int32_t out[CONTEXT]) {
    const int n = s->lengths[0];
    assert_in_range(n, 2, CONTEXT);
    for (int i = 0; i < n; i++) out[i] = s->targets[i] < 0 ? s->tokens[i] : s->targets[i];
    for (int i = n; i < CONTEXT; i++) assert_true(s->tokens[i] == 0 && s->targets[i] == -1);
    assert_true(out[0] == CLS && out[n - 1] == SEP);
    for (int i = 0; i < n; i++) assert_true(s->targets[i] != CLS && s->targets[i] != SEP);
    memmove(out, out + 1, (size_t)(n - 2) * sizeof *out);
    return n - 2;
}

/* Lines of 1, 2, 3, ... words, cut to what the context has room for. */
static void lines(void **state) {
    (void)state;
    enum { N = 20 };
    FILE *f = fopen("lines.txt", "w");
    assert_non_null(f);
    for (int i = 0; i < N; i++, fputs(i % 3 ? "\n" : "\r\n\n", f))
        for (int k = 0; k <= i; k++) fprintf(f, "w%d ", i + k);
    fclose(f);
    char *path[] = {"lines.txt"};
    const pst_data_config c = config_of(path, 1, 0.25);
    pst_data *d = open_data(&pst_data_lines, &c);
    pst_data_shape shape = {0};
    assert_int_equal(pst_data_lines.shape("vocab.txt", &shape), PST_OK);
    assert_int_equal(shape.vocabulary, SIZE);
    assert_string_equal(d->row->name, "lines");
    assert_int_equal(d->row->size(d, PST_SPLIT_TRAIN), N - N / 4);
    assert_int_equal(d->row->size(d, PST_SPLIT_VALIDATION), N / 4);
    assert_true(pst_data_tokenizer(d) != 0);
    int32_t text[CONTEXT];
    uint32_t seen = 0;
    for (uint64_t i = 0; i < N; i++) {
        const int trains = i < N - N / 4;
        sample s =
            get(d, trains ? PST_SPLIT_TRAIN : PST_SPLIT_VALIDATION, trains ? i : i - (N - N / 4));
        const int n = original(&s, text), line = text[0] - FIRST;
        assert_in_range(line, 0, N - 1);
        assert_int_equal(n, line + 1 < ROOM ? line + 1 : ROOM);
        for (int k = 0; k < n; k++) assert_int_equal(text[k], FIRST + line + k);
        assert_true(trains || line == (int)i);
        assert_true(targets_of(&s) >= 1);
        if (trains) assert_int_equal(d->row->targets(d, i, 1), targets_of(&s));
        seen |= 1u << line;
    }
    assert_int_equal(seen, (1u << N) - 1);
    d->row->close(d);
    folder_write("docs.jsonl", "{\"text\": \"w1 w2\"}\n{\"text\": \"\"}\n{\"text\": \"w3\"}\n");
    char *docs[] = {"docs.jsonl"};
    const pst_data_config json = config_of(docs, 1, 0);
    d = open_data(&pst_data_lines, &json);
    assert_int_equal(d->row->size(d, PST_SPLIT_TRAIN), 3);
    uint64_t none = 0;
    for (uint64_t i = 0; i < 3; i++) {
        sample s = get(d, PST_SPLIT_TRAIN, i);
        none += original(&s, text) == 0 && targets_of(&s) == 0;
        assert_int_equal(d->row->targets(d, i, 1), targets_of(&s));
    }
    assert_int_equal(none, 1); /* the empty document: nothing to predict */
    d->row->close(d);
}

/* Text, and the same tokens in an indexed data set, give the same windows; the document's end is a
 * token of the text that is never predicted. */
static void windows(void **state) {
    (void)state;
    enum { TEXTS = 40, EACH = 11, ALL = TEXTS * (EACH + 1) };
    pst_indexed_writer *w;
    int32_t text[CONTEXT];
    char *path[TEXTS], *set[] = {"set"};
    assert_int_equal(pst_indexed_create("set", SIZE, &w), PST_OK);
    for (int i = 0; i < TEXTS; i++) {
        char name[16], words[256] = "";
        int32_t ids[EACH + 1];
        for (int k = 0; k < EACH; k++) {
            ids[k] = FIRST + (i + 7 * k) % WORDS;
            sprintf(words + strlen(words), "w%d ", (i + 7 * k) % WORDS);
        }
        ids[EACH] = SEP;
        sprintf(name, "t%02d", i);
        folder_write(name, words);
        path[i] = strdup(name);
        assert_int_equal(pst_indexed_add(w, ids, EACH + 1), PST_OK);
        assert_int_equal(pst_indexed_end(w), PST_OK);
    }
    assert_int_equal(pst_indexed_finish(w, PST_OK), PST_OK);
    const pst_data_config from_text = config_of(path, TEXTS, 0.1),
                          from_set = config_of(set, 1, 0.1);
    pst_data *a = open_data(&pst_data_text, &from_text),
             *b = open_data(&pst_data_tokens, &from_set);
    const uint64_t train = a->row->size(a, PST_SPLIT_TRAIN),
                   held = a->row->size(a, PST_SPLIT_VALIDATION), held_tokens = ALL / 10;
    assert_int_equal(held, (held_tokens + ROOM - 1) / ROOM);
    assert_int_equal(a->row->bytes(a, PST_SPLIT_TRAIN), ALL - held_tokens);
    uint64_t counted = 0, others = 0, ends = 0;
    for (uint64_t i = 0; i < 50 * train; i++) {
        sample x = get(a, PST_SPLIT_TRAIN, i), y = get(b, PST_SPLIT_TRAIN, i);
        assert_memory_equal(&x, &y, sizeof x);
        assert_int_equal(original(&x, text), ROOM);
        for (int k = 0; k < ROOM; k++) ends += text[k] == SEP;
        counted += targets_of(&x);
        for (int k = 0; k < CONTEXT; k++)
            others += x.targets[k] >= 0 && x.tokens[k] != MASK && x.tokens[k] != x.targets[k];
    }
    assert_int_equal(a->row->targets(a, 0, 50 * train), counted);
    assert_int_equal(b->row->targets(b, 0, 50 * train), counted);
    const double predicted = (double)counted / (double)(50 * train * ROOM - ends),
                 none = pow(0.85, ROOM - 1) / ROOM; /* windows that would have no target get one */
    assert_true(ends > 0 && fabs(predicted - 0.15 - none) < 0.01);
    assert_true(fabs((double)others / (double)counted - 0.1) < 0.02);
    sample last = get(a, PST_SPLIT_VALIDATION, held - 1);
    assert_int_equal(original(&last, text), held_tokens - (held - 1) * ROOM);
    sample again = get(a, PST_SPLIT_VALIDATION, held - 1);
    assert_memory_equal(&last, &again, sizeof last);
    int32_t *out[] = {last.tokens, last.targets, last.lengths};
    assert_int_equal(a->row->sample(a, PST_SPLIT_VALIDATION, held, out), PST_EINPUT);
    a->row->close(a);
    b->row->close(b);
    for (int i = 0; i < TEXTS; i++) free(path[i]);
}

/* A blend has the fields of its sources. */
static void blended(void **state) {
    (void)state;
    folder_write("x.txt",
                 "w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1 w1\n");
    folder_write("y.txt",
                 "w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2 w2\n");
    char *path[] = {"x.txt", "y.txt"}, *weights[] = {"1", "3"};
    pst_data_config c = config_of(path, 2, 0);
    c.weights = weights;
    c.n_weight = 2;
    pst_data *d;
    if (pst_blend_open(&pst_data_text, &c, &d) != PST_OK) fail_msg("%s", pst_error());
    pst_data_field f[PST_DATA_FIELDS];
    assert_int_equal(d->row->fields(d, f), 3);
    uint64_t second = 0, counted = 0;
    for (uint64_t i = 0; i < 4096; i++) {
        sample s = get(d, PST_SPLIT_TRAIN, i);
        int32_t text[CONTEXT];
        original(&s, text);
        second += text[0] == FIRST + 2;
        counted += targets_of(&s);
    }
    assert_int_equal(second, 3072);
    assert_int_equal(d->row->targets(d, 0, 4096), counted);
    d->row->close(d);
}

static void expect(const pst_data_row *row, const pst_data_config *c, const char *sentence) {
    pst_data *d = NULL;
    assert_int_equal(row->open(c, &d), PST_EINPUT);
    if (!strstr(pst_error(), sentence)) fail_msg("\"%s\" is not in \"%s\"", sentence, pst_error());
    assert_null(d);
}

static void refused(void **state) {
    static const char *const needed[] = {"[CLS]", "[SEP]", "[MASK]"};
    (void)state;
    folder_write("short.txt", "w1 w2 w3\n");
    folder_write("empty.txt", "\n \n");
    char *path[] = {"short.txt"}, *empty[] = {"empty.txt"};
    for (int i = 0; i < 3; i++) {
        char sentence[64];
        pst_data_config c = config_of(path, 1, 0);
        c.tokenizer = "lacks.txt";
        put_vocabulary("lacks.txt", needed[i]);
        snprintf(sentence, sizeof sentence, "no special token \"%s\"", needed[i]);
        expect(&pst_data_lines, &c, sentence);
        expect(&pst_data_text, &c, sentence);
        expect(&pst_data_tokens, &c, sentence);
    }
    pst_data_config c = config_of(path, 1, 0);
    expect(&pst_data_text, &c, "short.txt: 4 tokens to train on are too few for a context of 16");
    c.context = 2;
    expect(&pst_data_lines, &c, "need at least 3");
    c = config_of(path, 1, 0.5);
    expect(&pst_data_lines, &c, "validation 0.5 of 1 lines is less than one");
    c = config_of(empty, 1, 0);
    expect(&pst_data_lines, &c, "empty.txt has no text to train on");
    c = config_of(path, 1, 0);
    c.tokenizer = "byte";
    expect(&pst_data_tokens, &c, "need the tokenizer that made the tokens");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines), cmocka_unit_test(windows),
                                       cmocka_unit_test(blended), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, make, folder_close);
}

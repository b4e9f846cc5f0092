/* Pairs of segments for the prediction of the next sentence: segments of lines, whose documents end
 * at blank lines and at the ends of files, and of whole texts; types, labels and positions of
 * predictions; whole-word masking; text that has no pairs. */
#include "base/folder.h"
#include "data/masked.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CONTEXT = 40, ROOM = CONTEXT - 3, PREDICTIONS = 6 };
enum { PAD, UNK, CLS, SEP, MASK, FIRST, WORDS = 60, PIECES = 8, SIZE = FIRST + WORDS + PIECES };

/* The words w0, w1, ... are the tokens FIRST, FIRST + 1, ...; ##x0, ##x1, ... come after them. */
static int make(void **state) {
    if (folder_open(state)) return 1;
    FILE *f = fopen("vocab.txt", "w");
    assert_non_null(f);
    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", f);
    for (int i = 0; i < WORDS; i++) fprintf(f, "w%d\n", i);
    for (int i = 0; i < PIECES; i++) fprintf(f, "##x%d\n", i);
    fclose(f);
    return 0;
}

typedef struct {
    int32_t tokens[CONTEXT], targets[CONTEXT], lengths[1], positions[CONTEXT], types[CONTEXT],
        next[1];
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
                             .masked = 1,
                             .predictions = PREDICTIONS,
                             .types = 1,
                             .pairs = 1};
}

static pst_data *open_data(const pst_data_row *row, const pst_data_config *c) {
    pst_data *d;
    if (row->open(c, &d) != PST_OK) fail_msg("%s", pst_error());
    return d;
}

static sample get(pst_data *d, pst_split split, uint64_t index) {
    sample s;
    memset(&s, 0x55, sizeof s);
    int32_t *out[] = {s.tokens, s.targets, s.lengths, s.positions, s.types, s.next};
    if (d->row->sample(d, split, index, out) != PST_OK) fail_msg("%s", pst_error());
    return s;
}

/* Puts the targets back; returns their number. They are in ascending order, and never special
 * tokens or padding. */
static uint32_t restore(sample *s) {
    uint32_t n = 0;
    while (n < PREDICTIONS && s->targets[n] >= 0) {
        const int32_t at = s->positions[n];
        assert_in_range(at, 1, s->lengths[0] - 2);
        assert_true(!n || s->positions[n - 1] < at);
        s->tokens[at] = s->targets[n++];
        assert_true(s->tokens[at] >= FIRST);
    }
    for (uint32_t i = n; i < PREDICTIONS; i++)
        assert_true(s->targets[i] == -1 && s->positions[i] == -1);
    return n;
}

/* [CLS] A [SEP] B [SEP]; *border: the position of B. */
static void check_form(const sample *s, int *border) {
    const int n = s->lengths[0];
    assert_in_range(n, 5, CONTEXT);
    assert_int_equal(s->tokens[0], CLS);
    assert_int_equal(s->tokens[n - 1], SEP);
    for (*border = 1; s->tokens[*border] != SEP; ++*border) assert_true(*border < n - 2);
    ++*border;
    assert_true(*border > 2 && *border < n - 1);
    for (int i = 0; i < CONTEXT; i++) {
        assert_int_equal(s->types[i], i >= *border && i < n);
        assert_true(i < n ? i == 0 || i == *border - 1 || i == n - 1 || s->tokens[i] >= FIRST
                          : s->tokens[i] == PAD);
    }
    assert_in_range(s->next[0], 0, 1);
}

/* Line k of document d: the word d, then 1 to 3 times the word DOCUMENTS + k. */
enum { DOCUMENTS = 9, LINES = 12 };

static void put_line(FILE *f, int d, int k) {
    fprintf(f, "w%d", d);
    for (int i = 0; i <= k % 3; i++) fprintf(f, " w%d", DOCUMENTS + k);
    fputc('\n', f);
}

/* The documents are in two files, with one or more blank lines between them. */
static void put_documents(void) {
    FILE *f[] = {fopen("a.txt", "w"), fopen("b.txt", "w")};
    assert_true(f[0] && f[1]);
    for (int d = 0; d < DOCUMENTS; d++) {
        FILE *to = f[d >= 4];
        if (d && d != 4) fputs(d % 2 ? "\n" : " \n\r\n\n", to);
        for (int k = 0; k < LINES; k++) put_line(to, d, k);
    }
    fclose(f[0]);
    fclose(f[1]);
}

/* A segment of whole lines [*first, *last] of one document, which is returned; -1: it is cut. */
static int read_lines(const int32_t *token, int n, int *first, int *last) {
    int document = -1;
    *first = *last = -1;
    for (int i = 0; i < n;) {
        if (token[i] >= FIRST + DOCUMENTS || i + 1 == n) return -1;
        assert_true(document < 0 || document == token[i] - FIRST);
        document = token[i] - FIRST;
        const int line = token[i + 1] - FIRST - DOCUMENTS, words = line % 3 + 1;
        assert_in_range(line, 0, LINES - 1);
        assert_true(*last < 0 || line == *last + 1);
        if (*first < 0) *first = line;
        *last = line;
        for (int k = 0; k < words; k++)
            if (i + 1 + k >= n) return -1;
            else assert_int_equal(token[i + 1 + k], FIRST + DOCUMENTS + line);
        i += 1 + words;
    }
    return document;
}

static void lines(void **state) {
    (void)state;
    put_documents();
    char *path[] = {"a.txt", "b.txt"};
    const pst_data_config c = config_of(path, 2, 0);
    pst_data *d = open_data(&pst_data_lines, &c);
    pst_data_field f[PST_DATA_FIELDS];
    assert_int_equal(d->row->fields(d, f), 6);
    assert_string_equal(f[3].name, "positions");
    assert_string_equal(f[4].name, "types");
    assert_string_equal(f[5].name, "next_sentence");
    assert_true(f[1].elements == PREDICTIONS && f[3].elements == PREDICTIONS);
    const uint64_t n = 200 * d->row->size(d, PST_SPLIT_TRAIN);
    uint64_t targets = 0, follows = 0, whole = 0, begins[DOCUMENTS] = {0};
    for (uint64_t i = 0; i < n; i++) {
        int border, first[2], last[2], document[2];
        sample s = get(d, PST_SPLIT_TRAIN, i);
        const uint32_t here = restore(&s), text = (uint32_t)s.lengths[0] - 3;
        const uint32_t share = (text * 15 + 50) / 100;
        assert_in_range(share, 1, CONTEXT);
        assert_int_equal(here, share < PREDICTIONS ? share : PREDICTIONS);
        check_form(&s, &border);
        targets += here;
        follows += !s.next[0];
        document[0] = read_lines(s.tokens + 1, border - 2, &first[0], &last[0]);
        document[1] = read_lines(s.tokens + border, s.lengths[0] - 1 - border, &first[1], &last[1]);
        if (document[0] < 0 || document[1] < 0) continue;
        whole++;
        begins[document[0]]++;
        if (s.next[0]) assert_true(document[0] != document[1]);
        else assert_true(document[0] == document[1] && first[1] == last[0] + 1);
    }
    assert_int_equal(d->row->targets(d, 0, n), targets);
    assert_true(whole > n / 4);
    assert_true(follows > n * 42 / 100 && follows < n * 54 / 100);
    for (int i = 0; i < DOCUMENTS; i++) assert_true(begins[i] > 0);
    d->row->close(d);
}

/* Documents are files, whose words are numbered: in a pair that follows, so are its words. */
static void texts(void **state) {
    (void)state;
    char *path[3], names[3][16];
    for (int k = 0; k < 3; k++) {
        sprintf(names[k], "t%d.txt", k);
        path[k] = names[k];
        FILE *f = fopen(names[k], "w");
        assert_non_null(f);
        for (int i = 0; i < 200 + k; i++) fprintf(f, "w%d ", k * 20 + i % 20);
        fclose(f);
    }
    const pst_data_config c = config_of(path, 3, 0.2);
    pst_data *d = open_data(&pst_data_text, &c);
    const uint64_t train = d->row->size(d, PST_SPLIT_TRAIN),
                   held = d->row->size(d, PST_SPLIT_VALIDATION);
    assert_int_equal(train + held, 3 * 6); /* 200 words are 5 samples of 37, and a rest */
    uint64_t follows = 0;
    for (uint64_t i = 0; i < 100 * train; i++) {
        int border;
        sample s = get(d, PST_SPLIT_TRAIN, i);
        restore(&s);
        check_form(&s, &border);
        const int document = (s.tokens[1] - FIRST) / 20, other = (s.tokens[border] - FIRST) / 20;
        for (int k = 1; k + 1 < s.lengths[0]; k++) {
            const int of = k < border ? document : other;
            if (k != border - 1) assert_int_equal((s.tokens[k] - FIRST) / 20, of);
            if (k > 1 && k != border && k != border - 1)
                assert_int_equal((s.tokens[k] - s.tokens[k - 1] + 20) % 20, 1);
        }
        follows += !s.next[0];
        if (s.next[0]) continue;
        assert_int_equal(document, other);
        assert_int_equal((s.tokens[border] - s.tokens[border - 2] + 20) % 20, 1);
    }
    assert_true(follows > 100 * train * 42 / 100 && follows < 100 * train * 56 / 100);
    for (uint64_t i = 0; i < held; i++) {
        const sample s = get(d, PST_SPLIT_VALIDATION, i), again = get(d, PST_SPLIT_VALIDATION, i);
        assert_memory_equal(&s, &again, sizeof s);
    }
    d->row->close(d);
}

/* Words of one to three tokens: all of them are targets, or none. */
static void whole_words(void **state) {
    (void)state;
    FILE *f = fopen("words.txt", "w");
    assert_non_null(f);
    for (int i = 0; i < 400; i++) {
        fprintf(f, "w%d", i * 7 % WORDS);
        for (int k = 0; k < i % 3; k++) fprintf(f, "x%d", (i + k) % PIECES);
        fputs(i % 9 == 8 ? "\n" : " ", f);
    }
    fclose(f);
    char *path[] = {"words.txt"};
    pst_data_config c = config_of(path, 1, 0);
    c.pairs = c.types = 0;
    c.whole_words = 1;
    for (int all = 0; all < 2; all++) {
        c.predictions = all ? 0 : PREDICTIONS;
        pst_data *d = open_data(&pst_data_lines, &c);
        const uint64_t n = 100 * d->row->size(d, PST_SPLIT_TRAIN);
        uint64_t counted = 0, tokens = 0, longer = 0;
        for (uint64_t i = 0; i < n; i++) {
            int32_t hidden[CONTEXT] = {0};
            sample s = get(d, PST_SPLIT_TRAIN, i);
            for (int k = 0; all && k < CONTEXT; k++) {
                hidden[k] = s.targets[k] >= 0;
                if (hidden[k]) s.tokens[k] = s.targets[k];
                counted += (uint64_t)hidden[k];
            }
            if (!all) counted += restore(&s);
            for (int k = 0; !all && k < PREDICTIONS && s.targets[k] >= 0; k++)
                hidden[s.positions[k]] = 1;
            tokens += (uint64_t)s.lengths[0] - 2;
            for (int k = 2; k + 1 < s.lengths[0]; k++) {
                if (s.tokens[k] < FIRST + WORDS) continue;
                assert_int_equal(hidden[k], hidden[k - 1]);
                longer += (uint64_t)hidden[k];
            }
        }
        assert_int_equal(d->row->targets(d, 0, n), counted);
        assert_true(counted > tokens * 11 / 100 && counted < tokens * 18 / 100 && longer > 0);
        d->row->close(d);
    }
}

static void expect(const pst_data_row *row, const pst_data_config *c, const char *sentence) {
    pst_data *d = NULL;
    assert_int_equal(row->open(c, &d), PST_EINPUT);
    if (!strstr(pst_error(), sentence)) fail_msg("\"%s\" is not in \"%s\"", sentence, pst_error());
    assert_null(d);
}

static void refused(void **state) {
    (void)state;
    folder_write("short.txt", "w1 w2 w3\n");
    folder_write("blank.txt", "\n \n\n");
    folder_write("docs.jsonl", "{\"text\": \"w1 w2\"}\n");
    char *path[] = {"short.txt"}, *blank[] = {"blank.txt"}, *docs[] = {"docs.jsonl"};
    pst_data_config c = config_of(path, 1, 0);
    expect(&pst_data_lines, &c, "too little text for pairs of segments");
    expect(&pst_data_text, &c, "too little text for pairs of segments");
    expect(&pst_data_tokens, &c, "files of tokens have no segments");
    c.context = 4;
    expect(&pst_data_lines, &c, "need at least 5: three special tokens");
    c = config_of(blank, 1, 0);
    expect(&pst_data_lines, &c, "blank.txt has no text to train on");
    c = config_of(docs, 1, 0);
    expect(&pst_data_lines, &c,
           "docs.jsonl: pairs of segments (model.next_sentence) are read from");
    c = config_of(path, 1, 0);
    c.tokenizer = "byte";
    expect(&pst_data_lines, &c, "pairs of segments need a tokenizer");
    c.pairs = 0;
    c.whole_words = 1;
    expect(&pst_data_lines, &c, "words consist of tokens with a tokenizer only");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines), cmocka_unit_test(texts),
                                       cmocka_unit_test(whole_words), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, make, folder_close);
}

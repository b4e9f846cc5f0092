/* Lines as samples: where they begin and end, which tokens are masked, and a sentence for what
 * cannot be trained on. */
#include "base/folder.h"
#include "base/rng.h"
#include "data/data.h"
#include "data/order.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CONTEXT = 16, MASK = 256 };

typedef struct {
    int32_t tokens[CONTEXT], targets[CONTEXT], lengths[1];
} sample;

static pst_data *open_files(char **path, uint32_t n, double validation, uint64_t seed) {
    const pst_data_config config = {.paths = path,
                                    .n_path = n,
                                    .validation = validation,
                                    .context = CONTEXT,
                                    .seed = seed,
                                    .tokenizer = "byte"};
    pst_data *d;
    if (pst_data_lines.open(&config, &d) != PST_OK) fail_msg("%s", pst_error());
    return d;
}

static sample get(pst_data *d, pst_split split, uint64_t index) {
    sample s;
    memset(&s, 0x55, sizeof s);
    assert_int_equal(d->row->sample(d, split, index, (int32_t *[]){s.tokens, s.targets, s.lengths}),
                     PST_OK);
    return s;
}

/* The line that a sample was made of: what is no target stands there still. */
static void original(const sample *s, char out[CONTEXT + 1]) {
    memset(out, 0, CONTEXT + 1);
    for (int i = 0; i < s->lengths[0]; i++) {
        out[i] = (char)(s->targets[i] < 0 ? s->tokens[i] : s->targets[i]);
        assert_in_range(s->tokens[i], 0, MASK);
    }
    for (int i = s->lengths[0]; i < CONTEXT; i++)
        assert_true(s->tokens[i] == 0 && s->targets[i] == -1);
}

/* Empty lines and line feeds are left out, long lines are cut, and no line goes on in the next
 * file. */
static void lines_are_samples(void **state) {
    (void)state;
    static const char *const want[] = {
        "one", "two", "three", "no line feed", "four", "a line that is l", "five", "x"};
    enum { N = sizeof want / sizeof *want };
    folder_write("a", "one\n\n\ntwo\r\n\r\nthree\nno line feed");
    folder_write("b", "");
    folder_write("c", "\n");
    folder_write("d", "four\na line that is longer than the context\nfive\nx\n");
    char *path[] = {"a", "b", "c", "d"}, text[CONTEXT + 1];
    pst_data *d = open_files(path, 4, 0.3, 7);
    pst_data_field f[PST_DATA_FIELDS];
    assert_int_equal(d->row->fields(d, f), 3);
    assert_string_equal(f[2].name, "lengths");
    assert_true(f[0].elements == CONTEXT && f[1].elements == CONTEXT && f[2].elements == 1);
    pst_data_shape shape = {0};
    assert_int_equal(d->row->shape("byte", &shape), PST_OK);
    assert_int_equal(shape.vocabulary, MASK + 1);
    assert_int_equal(d->row->size(d, PST_SPLIT_TRAIN), N - 2);
    assert_int_equal(d->row->size(d, PST_SPLIT_VALIDATION), 2);
    assert_int_equal(d->row->bytes(d, PST_SPLIT_TRAIN), 3 + 3 + 5 + 12 + 4 + 16);
    assert_int_equal(d->row->bytes(d, PST_SPLIT_VALIDATION), 4 + 1);
    for (uint64_t i = 0; i < 2; i++) {
        sample s = get(d, PST_SPLIT_VALIDATION, i);
        original(&s, text);
        assert_string_equal(text, want[N - 2 + i]);
    }
    for (uint64_t epoch = 0; epoch < 5; epoch++) {
        int seen[N] = {0};
        for (uint64_t i = 0; i < N - 2; i++) {
            uint64_t index = epoch * (N - 2) + i, k = pst_order_shuffled(7, N - 2, index);
            sample s = get(d, PST_SPLIT_TRAIN, index);
            original(&s, text);
            assert_string_equal(text, want[k]);
            seen[k]++;
        }
        for (int k = 0; k < N - 2; k++) assert_int_equal(seen[k], 1);
    }
    sample s;
    assert_int_equal(
        d->row->sample(d, PST_SPLIT_VALIDATION, 2, (int32_t *[]){s.tokens, s.targets, s.lengths}),
        PST_EINPUT);
    d->row->close(d);
}

/* A file of lines of random lengths, those of one byte among them. */
static uint64_t put_random(const char *name, uint64_t lines) {
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    for (uint64_t i = 0; i < lines; i++) {
        uint32_t word[4];
        pst_rng_words(3, 0, i, word);
        for (uint32_t k = 0; k <= word[0] % (2 * CONTEXT); k++)
            putc('a' + (int)((word[1] + k * word[2]) % 26), f);
        putc('\n', f);
    }
    fclose(f);
    return lines;
}

/* 15 % are targets, one at least; of these 80 % are masked, 10 % are another byte, 10 % as they
 * were. */
static void shares_of_masks(void **state) {
    (void)state;
    char *path[] = {"random"};
    uint64_t n = put_random("random", 20000), tokens = 0, targets = 0, masked = 0, kept = 0,
             replaced = 0, samples = 0;
    pst_data *d = open_files(path, 1, 0, 11);
    for (uint64_t i = 0; i < n; i++) {
        sample s = get(d, PST_SPLIT_TRAIN, i);
        uint64_t here = 0;
        for (int k = 0; k < s.lengths[0]; k++) {
            if (s.targets[k] < 0) continue;
            here++;
            masked += s.tokens[k] == MASK;
            kept += s.tokens[k] == s.targets[k];
            replaced += s.tokens[k] != MASK && s.tokens[k] != s.targets[k];
        }
        assert_true(here >= 1);
        if (s.lengths[0] < CONTEXT) continue; /* short ones have more, as they have one at least */
        tokens += CONTEXT;
        targets += here;
        samples++;
    }
    uint64_t known = 0;
    for (uint64_t i = 0; i < n; i += 100) known += d->row->targets(d, i, 100);
    assert_int_equal(known, masked + kept + replaced);
    double all = (double)targets / (double)tokens, none = pow(0.85, CONTEXT) / CONTEXT;
    assert_true(samples > n / 3);
    assert_true(fabs(all - 0.15 - none) < 0.005);
    assert_true(fabs((double)masked / (double)known - 0.8) < 0.01);
    assert_true(fabs((double)kept / (double)known - 0.1) < 0.01);
    d->row->close(d);
}

/* By seed and number alone: the same in whatever order, others in the next epoch and by another
 * seed. */
static void masks_depend_on_seed_and_sample(void **state) {
    (void)state;
    char *path[] = {"random"};
    const uint64_t n = put_random("random", 500);
    pst_data *a = open_files(path, 1, 0.2, 5), *b = open_files(path, 1, 0.2, 5),
             *c = open_files(path, 1, 0.2, 6);
    uint64_t train = a->row->size(a, PST_SPLIT_TRAIN), other_epoch = 0, other_seed = 0;
    assert_int_equal(train, n - n / 5);
    for (uint64_t i = 0; i < 2 * train; i++) {
        sample first = get(a, PST_SPLIT_TRAIN, i);
        get(b, PST_SPLIT_TRAIN, 2 * train - 1 - i);
        sample again = get(b, PST_SPLIT_TRAIN, i);
        assert_memory_equal(&first, &again, sizeof first);
    }
    for (uint64_t k = 0; k < train; k++) { /* the line's place in one epoch and in the next */
        uint64_t i = 0, next = train;
        while (pst_order_shuffled(5, train, i) != k) i++;
        while (pst_order_shuffled(5, train, next) != k) next++;
        sample x = get(a, PST_SPLIT_TRAIN, i), y = get(a, PST_SPLIT_TRAIN, next);
        char text[CONTEXT + 1], same[CONTEXT + 1];
        original(&x, text);
        original(&y, same);
        assert_string_equal(text, same);
        other_epoch += memcmp(&x, &y, sizeof x) != 0;
    }
    for (uint64_t i = 0; i < n / 5; i++) {
        sample x = get(a, PST_SPLIT_VALIDATION, i), y = get(b, PST_SPLIT_VALIDATION, i);
        sample z = get(c, PST_SPLIT_VALIDATION, i);
        assert_memory_equal(&x, &y, sizeof x);
        other_seed += memcmp(&x, &z, sizeof x) != 0;
    }
    assert_true(other_epoch > train / 2 && other_seed > n / 10);
    assert_true(a->row->hash(a) == b->row->hash(b) && a->row->hash(a) != c->row->hash(c));
    const pst_data_config config = {.paths = path,
                                    .n_path = 1,
                                    .validation = 0.2,
                                    .context = CONTEXT,
                                    .seed = 5,
                                    .tokenizer = "byte"};
    pst_data *text;
    assert_int_equal(pst_data_text.open(&config, &text), PST_OK);
    assert_true(text->row->hash(text) != a->row->hash(a));
    a->row->close(a);
    b->row->close(b);
    c->row->close(c);
    text->row->close(text);
}

static void expect(char *path, double validation, uint32_t context, const char *tokenizer,
                   const char *sentence) {
    const pst_data_config config = {.paths = &path,
                                    .n_path = 1,
                                    .validation = validation,
                                    .context = context,
                                    .seed = 1,
                                    .tokenizer = tokenizer};
    pst_data *d = NULL;
    assert_int_equal(pst_data_lines.open(&config, &d), PST_EINPUT);
    if (!strstr(pst_error(), sentence)) fail_msg("\"%s\" is not in \"%s\"", sentence, pst_error());
    assert_null(d);
}

static void sentences(void **state) {
    (void)state;
    folder_write("empty", "\n\n\r\n");
    folder_write("two", "a\nb\n");
    expect("empty", 0, 4, "byte", "empty: all lines are empty");
    expect("two", 0.4, 4, "byte", "validation 0.4 of 2 lines is less than one line");
    expect("two", 1, 4, "byte", "data.validation is 1");
    expect("two", 0, 0, "byte", "context is 0");
    expect("two", 0, 1 << 24, "byte", "the maximum with data.kind lines is 16777215");
    expect("two", 0, 4, "words", "data.tokenizer: words: no such file or folder");
    expect("missing", 0, 4, "byte", "cannot read missing");
    char *path[] = {"two"};
    pst_data *d = open_files(path, 1, 0, 1);
    sample s;
    folder_write("two", "a\n");
    assert_int_equal(
        d->row->sample(d, PST_SPLIT_TRAIN, 0, (int32_t *[]){s.tokens, s.targets, s.lengths}),
        PST_EINPUT);
    d->row->close(d);
}

/* Longer than what is read at a time, and a line that lies across two such parts. */
static void long_lines(void **state) {
    (void)state;
    FILE *f = fopen("long", "w");
    assert_non_null(f);
    for (int i = 0; i < 200000; i++) putc('a' + i % 26, f);
    fputs("\nshort\n", f);
    fclose(f);
    char *path[] = {"long"};
    const pst_data_config config = {.paths = path,
                                    .n_path = 1,
                                    .validation = 0.5,
                                    .context = 150000,
                                    .seed = 1,
                                    .tokenizer = "byte"};
    int32_t *tokens = malloc(150000 * sizeof *tokens), *targets = malloc(150000 * sizeof *targets),
            length;
    pst_data *d;
    assert_int_equal(pst_data_lines.open(&config, &d), PST_OK);
    assert_int_equal(d->row->sample(d, PST_SPLIT_TRAIN, 4, (int32_t *[]){tokens, targets, &length}),
                     PST_OK);
    assert_int_equal(length, 150000);
    for (int i = 0; i < length; i++)
        assert_int_equal(targets[i] < 0 ? tokens[i] : targets[i], 'a' + i % 26);
    assert_int_equal(
        d->row->sample(d, PST_SPLIT_VALIDATION, 0, (int32_t *[]){tokens, targets, &length}),
        PST_OK);
    assert_int_equal(length, 5);
    free(tokens);
    free(targets);
    d->row->close(d);
    const pst_data_config held_out = {.paths = path,
                                      .n_path = 1,
                                      .validation = 0,
                                      .context = 150000,
                                      .seed = 1,
                                      .tokenizer = "byte",
                                      .held_out = 1}; /* to evaluate on only */
    assert_int_equal(pst_data_lines.open(&held_out, &d), PST_OK);
    assert_true(d->row->size(d, PST_SPLIT_VALIDATION) == 2 &&
                d->row->size(d, PST_SPLIT_TRAIN) == 0);
    d->row->close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_are_samples),
                                       cmocka_unit_test(shares_of_masks),
                                       cmocka_unit_test(masks_depend_on_seed_and_sample),
                                       cmocka_unit_test(sentences), cmocka_unit_test(long_lines)};
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}

/* The byte-level text: splits, windows, shuffling, and a sentence for everything that cannot be
 * trained on. */
#include "base/folder.h"
#include "base/rng.h"
#include "data/data.h"
#include "data/order.h"
#include "skip.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

/* A file of n bytes: byte i of the whole text, from `from` on, is (i * 7 + i / 256) % 256. */
static void put(const char *name, uint64_t from, uint64_t n) {
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    for (uint64_t i = from; i < from + n; i++) putc((int)((i * 7 + i / 256) % 256), f);
    fclose(f);
}

static int32_t byte_at(uint64_t i) { return (int32_t)((i * 7 + i / 256) % 256); }

static char *two_files[] = {"a", "empty", "b"};

static pst_data_config config_of(double validation, uint32_t context, uint64_t seed) {
    return (pst_data_config){.paths = two_files,
                             .n_path = 3,
                             .validation = validation,
                             .context = context,
                             .seed = seed,
                             .tokenizer = "byte"};
}

/* Every window of an epoch comes once, windows do not overlap, each epoch has another order and
 * edges. */
static void check_epochs(uint64_t seed, uint64_t tokens, uint32_t context) {
    pst_order o = pst_order_make(seed, tokens, context);
    assert_true(o.windows >= 1 && o.windows >= (tokens - 1) / context - 1);
    uint8_t *seen = malloc(tokens);
    assert_non_null(seen);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        memset(seen, 0, tokens);
        uint64_t lowest = UINT64_MAX;
        for (uint64_t i = 0; i < o.windows; i++) {
            uint64_t start = pst_order_start(&o, epoch * o.windows + i);
            assert_true(start + context < tokens); /* the target of its last token is there */
            for (uint32_t k = 0; k < context; k++) assert_int_equal(seen[start + k]++, 0);
            if (start < lowest) lowest = start;
        }
        assert_true(lowest < o.shifts);
    }
    free(seen);
}

static void test_epochs(void **state) {
    (void)state;
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t trial = 0; trial < 300; trial++) {
        uint32_t word[4];
        pst_rng_words(seed, 0, trial, word);
        uint32_t context = 1 + word[0] % 40;
        check_epochs(word[1], context + 1 + word[2] % 700, context);
    }
    assert_int_equal(pst_order_make(1, 10, 10).windows, 0);
    assert_int_equal(pst_order_make(1, 11, 10).windows, 1);
    assert_int_equal(
        pst_order_start(&(pst_order){.seed = 1, .windows = 1, .shifts = 1, .context = 10}, 5), 0);
}

static void test_order_depends_on_seed(void **state) {
    (void)state;
    pst_order a = pst_order_make(1, 1000, 10), b = pst_order_make(2, 1000, 10);
    int differs_by_seed = 0, differs_by_epoch = 0;
    for (uint64_t i = 0; i < a.windows; i++) {
        uint64_t start = pst_order_start(&a, i);
        differs_by_seed += start != pst_order_start(&b, i);
        differs_by_epoch += start != pst_order_start(&a, a.windows + i);
    }
    assert_true(differs_by_seed > 50 && differs_by_epoch > 50);
}

/* Samples are the text's own bytes wherever files meet, the same in any order of asking. */
static void test_samples(void **state) {
    (void)state;
    put("a", 0, 1000);
    put("empty", 0, 0);
    put("b", 1000, 2345);
    int32_t token[17], target[17], again[17], other[17];
    for (uint32_t context = 1; context <= 17; context += 4) {
        pst_data_config config = config_of(0.1, context, 5);
        pst_data *d, *e;
        assert_int_equal(pst_data_text.open(&config, &d), PST_OK);
        assert_int_equal(pst_data_text.open(&config, &e), PST_OK);
        pst_data_shape shape = {0};
        assert_int_equal(d->row->shape("byte", &shape), PST_OK);
        assert_int_equal(shape.vocabulary, 256);
        assert_int_equal(d->row->bytes(d, PST_SPLIT_TRAIN), 3345 - 334);
        assert_int_equal(d->row->bytes(d, PST_SPLIT_VALIDATION), 334);
        uint64_t size = d->row->size(d, PST_SPLIT_TRAIN);
        pst_order order = pst_order_make(5, 3345 - 334, context);
        assert_int_equal(size, order.windows);
        for (uint64_t i = 0; i < 2 * size; i++) {
            assert_int_equal(d->row->sample(d, PST_SPLIT_TRAIN, i, (int32_t *[]){token, target}),
                             PST_OK);
            uint64_t start = pst_order_start(&order, i), mirror = 2 * size - 1 - i;
            for (uint32_t k = 0; k < context; k++) {
                assert_int_equal(token[k], byte_at(start + k));
                assert_int_equal(target[k], byte_at(start + k + 1));
            }
            assert_int_equal(
                e->row->sample(e, PST_SPLIT_TRAIN, mirror, (int32_t *[]){again, other}), PST_OK);
            assert_int_equal(e->row->sample(e, PST_SPLIT_TRAIN, i, (int32_t *[]){again, other}),
                             PST_OK);
            assert_memory_equal(token, again, context * sizeof *token);
        }
        d->row->close(d);
        e->row->close(e);
    }
}

/* The validation windows cover every byte that has a follower, once. */
static void test_validation(void **state) {
    (void)state;
    put("a", 0, 1000);
    put("empty", 0, 0);
    put("b", 1000, 2345);
    int32_t token[50], target[50];
    for (uint32_t context = 1; context <= 50; context++) {
        pst_data_config config = config_of(0.03, context, 5); /* 100 bytes */
        pst_data *d;
        assert_int_equal(pst_data_text.open(&config, &d), PST_OK);
        uint64_t size = d->row->size(d, PST_SPLIT_VALIDATION), at = 3345 - 100, pairs = 0;
        assert_int_equal(size, (99 + context - 1) / context);
        for (uint64_t i = 0; i < size; i++) {
            assert_int_equal(
                d->row->sample(d, PST_SPLIT_VALIDATION, i, (int32_t *[]){token, target}), PST_OK);
            for (uint32_t k = 0; k < context; k++, at++) {
                if (at + 1 >= 3345) {
                    assert_true(token[k] == 0 && target[k] == -1);
                    continue;
                }
                assert_true(token[k] == byte_at(at) && target[k] == byte_at(at + 1));
                pairs++;
            }
        }
        assert_int_equal(pairs, 99);
        assert_int_equal(
            d->row->sample(d, PST_SPLIT_VALIDATION, size, (int32_t *[]){token, target}),
            PST_EINPUT);
        d->row->close(d);
    }
    pst_data_config none = config_of(0, 8, 1);
    pst_data *d;
    assert_int_equal(pst_data_text.open(&none, &d), PST_OK);
    assert_int_equal(d->row->size(d, PST_SPLIT_VALIDATION), 0);
    assert_int_equal(d->row->bytes(d, PST_SPLIT_TRAIN), 3345);
    d->row->close(d);
}

static void expect(pst_data_config config, const char *sentence) {
    pst_data *d = NULL;
    assert_int_equal(pst_data_text.open(&config, &d), PST_EINPUT);
    if (!strstr(pst_error(), sentence)) fail_msg("\"%s\" is not in \"%s\"", sentence, pst_error());
    assert_null(d);
}

static void test_sentences(void **state) {
    (void)state;
    put("a", 0, 20);
    put("empty", 0, 0);
    put("b", 20, 10);
    expect(config_of(0, 30, 1),
           "a and 2 more files: 30 bytes to train on are too few for a context of 30, which "
           "needs at least 31");
    expect(config_of(0.9, 29, 1), "3 bytes to train on are too few");
    expect(config_of(0.05, 4, 1), "validation 0.05 of 30 bytes is 1 bytes");
    expect(config_of(1, 4, 1), "data.validation is 1");
    expect(config_of(-0.5, 4, 1), "data.validation is -0.5");
    expect(config_of(0, 0, 1), "context is 0");
    pst_data_config words = config_of(0, 4, 1);
    words.tokenizer = "words";
    expect(words, "data.tokenizer: words: no such file or folder");
    char *empty[] = {"empty"}, *missing[] = {"missing.txt"};
    expect((pst_data_config){.paths = empty,
                             .n_path = 1,
                             .validation = 0,
                             .context = 4,
                             .seed = 1,
                             .tokenizer = "byte"},
           "empty is empty: there is nothing to train on");
    expect((pst_data_config){.paths = missing,
                             .n_path = 1,
                             .validation = 0,
                             .context = 4,
                             .seed = 1,
                             .tokenizer = "byte"},
           "cannot read missing.txt");
    pst_data_config tight = config_of(0, 29, 1);
    pst_data *d;
    assert_int_equal(pst_data_text.open(&tight, &d), PST_OK);
    assert_int_equal(d->row->size(d, PST_SPLIT_TRAIN), 1);
    put("b", 20, 5); /* changed between open and the first touch */
    int32_t token[29], target[29];
    assert_int_equal(d->row->sample(d, PST_SPLIT_TRAIN, 0, (int32_t *[]){token, target}),
                     PST_EINPUT);
    assert_non_null(strstr(pst_error(), "b has 5 bytes now, but had 10 when the run began"));
    d->row->close(d);
}

static uint64_t hash_with(pst_data_config config) {
    pst_data *d;
    assert_int_equal(pst_data_text.open(&config, &d), PST_OK);
    uint64_t hash = d->row->hash(d);
    d->row->close(d);
    return hash;
}

static void test_hash(void **state) {
    (void)state;
    put("a", 0, 100);
    put("empty", 0, 0);
    put("b", 100, 100);
    uint64_t hash = hash_with(config_of(0.1, 8, 1));
    assert_true(hash == hash_with(config_of(0.1, 8, 1)));
    assert_true(hash != hash_with(config_of(0.2, 8, 1)));
    assert_true(hash != hash_with(config_of(0.1, 9, 1)));
    assert_true(hash != hash_with(config_of(0.1, 8, 2)));
    put("b", 100, 101);
    assert_true(hash != hash_with(config_of(0.1, 8, 1)));
}

/* More bytes than memory could hold: a sparse file of 10 GB is read at its far end. */
static void test_large(void **state) {
    (void)state;
    uint64_t bytes = 10ull << 30;
    put("large", 0, 10);
    if (truncate("large", (off_t)bytes)) {
        (void)SKIPPED("a text of 10 GB: no sparse files can be made here");
        skip();
    }
    char *path[] = {"large"};
    pst_data_config config = {.paths = path,
                              .n_path = 1,
                              .validation = 0.1,
                              .context = 64,
                              .seed = 3,
                              .tokenizer = "byte"};
    pst_data *d;
    int32_t token[64], target[64];
    assert_int_equal(pst_data_text.open(&config, &d), PST_OK);
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(d->row->sample(d, PST_SPLIT_TRAIN, i, (int32_t *[]){token, target}),
                         PST_OK);
        assert_int_equal(
            d->row->sample(d, PST_SPLIT_VALIDATION, i * 100000, (int32_t *[]){token, target}),
            PST_OK);
    }
    d->row->close(d);
}

/* Written over in place, which first makes it empty, between two samples. */
static void test_cut_short(void **state) {
    (void)state;
    put("a", 0, 1000);
    char *path[] = {"a"};
    pst_data_config config = {
        .paths = path, .n_path = 1, .validation = 0, .context = 8, .seed = 1, .tokenizer = "byte"};
    pst_data *d;
    int32_t token[8], target[8];
    pst_order order = pst_order_make(1, 1000, 8);
    assert_int_equal(pst_data_text.open(&config, &d), PST_OK);
    assert_int_equal(d->row->sample(d, PST_SPLIT_TRAIN, 0, (int32_t *[]){token, target}), PST_OK);
    put("a", 0, 100);
    pst_status status = PST_OK;
    for (uint64_t i = 0; i < order.windows; i++) {
        status = d->row->sample(d, PST_SPLIT_TRAIN, i, (int32_t *[]){token, target});
        assert_int_equal(status, pst_order_start(&order, i) + 9 > 100 ? PST_EINPUT : PST_OK);
        if (status != PST_OK)
            assert_non_null(strstr(pst_error(), "a has 100 bytes now, but had 1000"));
    }
    d->row->close(d);
}

/* More files than are open at once. */
static void test_many_files(void **state) {
    (void)state;
    enum { FILES = 2100 };
    if (mkdir("many", 0755)) fail();
    for (uint64_t i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, "many/%05d", (int)i);
        put(name, i * 3, 3);
    }
    char *path[] = {"many"};
    pst_data_config config = {
        .paths = path, .n_path = 1, .validation = 0, .context = 10, .seed = 3, .tokenizer = "byte"};
    pst_data *d;
    int32_t token[10], target[10];
    assert_int_equal(pst_data_text.open(&config, &d), PST_OK);
    pst_order order = pst_order_make(3, FILES * 3, 10);
    for (uint64_t i = 0; i < 2 * order.windows; i++) {
        assert_int_equal(d->row->sample(d, PST_SPLIT_TRAIN, i, (int32_t *[]){token, target}),
                         PST_OK);
        uint64_t start = pst_order_start(&order, i);
        for (uint32_t k = 0; k < 10; k++)
            assert_true(token[k] == byte_at(start + k) && target[k] == byte_at(start + k + 1));
    }
    d->row->close(d);
}

/* Documents of 0 to 6 tokens and their ends in windows of 8: where each position's document begins,
 * and no target for an end. */
static void test_documents(void **state) {
    (void)state;
    enum { FILES = 40, CONTEXT = 8, END = 1 };
    char *path[FILES];
    FILE *f = fopen("vocab.txt", "w");
    assert_non_null(f);
    fputs("[UNK]\n[SEP]\na\n", f);
    fclose(f);
    for (int i = 0; i < FILES; i++) {
        assert_true(asprintf(&path[i], "doc%02d", i) > 0);
        assert_non_null(f = fopen(path[i], "w"));
        for (int k = 0; k < i % 7; k++) fputs("a ", f);
        fclose(f);
    }
    const pst_data_config config = {.paths = path,
                                    .n_path = FILES,
                                    .validation = 0.2,
                                    .context = CONTEXT,
                                    .seed = 3,
                                    .tokenizer = "vocab.txt",
                                    .cache = "cache",
                                    .isolate = 1};
    pst_data *d;
    pst_data_field field[PST_DATA_FIELDS];
    if (pst_data_text.open(&config, &d) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(d->row->fields(d, field), 3);
    assert_string_equal(field[2].name, "starts");
    const uint64_t train = d->row->size(d, PST_SPLIT_TRAIN),
                   held = d->row->size(d, PST_SPLIT_VALIDATION);
    for (uint64_t i = 0; i < 3 * train + held; i++) {
        const pst_split split = i < 3 * train ? PST_SPLIT_TRAIN : PST_SPLIT_VALIDATION;
        const uint64_t index = split == PST_SPLIT_TRAIN ? i : i - 3 * train;
        int32_t token[CONTEXT], target[CONTEXT], start[CONTEXT], first = 0;
        uint64_t targets = 0;
        assert_int_equal(d->row->sample(d, split, index, (int32_t *[]){token, target, start}),
                         PST_OK);
        for (int k = 0; k < CONTEXT; k++) {
            assert_int_equal(start[k], first);
            if (token[k] == END) {
                assert_int_equal(target[k], -1);
                first = k + 1;
            } else if (split == PST_SPLIT_TRAIN) { /* the last window of the other is not full */
                assert_true(target[k] > 0);
                if (k + 1 < CONTEXT) assert_int_equal(target[k], token[k + 1]);
            }
            targets += target[k] >= 0;
        }
        if (split == PST_SPLIT_TRAIN) assert_int_equal(d->row->targets(d, index, 1), targets);
    }
    const uint64_t hash = d->row->hash(d);
    d->row->close(d);
    pst_data_config together = config;
    together.isolate = 0;
    assert_true(hash != hash_with(together));
    for (int i = 0; i < FILES; i++) free(path[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs),     cmocka_unit_test(test_order_depends_on_seed),
        cmocka_unit_test(test_samples),    cmocka_unit_test(test_validation),
        cmocka_unit_test(test_sentences),  cmocka_unit_test(test_hash),
        cmocka_unit_test(test_large),      cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_many_files), cmocka_unit_test(test_documents)};
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}

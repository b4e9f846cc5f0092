/* Labelled images: what a sample is, epochs, splits, compressed files, and a sentence for
 * everything that is no such file. */
#include "base/folder.h"
#include "base/rng.h"
#include "data/data.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>
#include <cmocka.h>

enum { MNIST = 28 * 28, CIFAR = 3 * 32 * 32, N = 40 };

/* Number k of image i, and its class. */
static uint8_t number(uint32_t i, uint32_t k) { return (uint8_t)(i * 37 + k * 11 + k / 256); }
static uint8_t class_of(uint32_t i) { return (uint8_t)(i * 7 % 10); }

static void put_word(FILE *f, uint32_t word) {
    for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(word >> shift & 255), f);
}

static void put_idx_images(const char *name, uint32_t from, uint32_t n, uint32_t side) {
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    put_word(f, 0x803);
    put_word(f, n);
    put_word(f, side);
    put_word(f, side);
    for (uint32_t i = from; i < from + n; i++)
        for (uint32_t k = 0; k < side * side; k++) fputc(number(i, k), f);
    fclose(f);
}

static void put_idx_labels(const char *name, uint32_t from, uint32_t n, int class) {
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    put_word(f, 0x801);
    put_word(f, n);
    for (uint32_t i = from; i < from + n; i++) fputc(class < 0 ? class_of(i) : class, f);
    fclose(f);
}

static void put_cifar(const char *name, uint32_t n) {
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    for (uint32_t i = 0; i < n; i++) {
        fputc(class_of(i), f);
        for (uint32_t k = 0; k < CIFAR; k++)
            fputc(number(i, k % 1024 * 3 + k / 1024), f); /* planes */
    }
    fclose(f);
}

static void compress_file(const char *from, const char *to) {
    gzFile out = gzopen(to, "wb");
    FILE *f = fopen(from, "r");
    char block[4096];
    size_t n;
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        assert_int_equal(gzwrite(out, block, (unsigned)n), n);
    fclose(f);
    gzclose(out);
}

static pst_data_config config_of(char **paths, uint32_t n, double validation, uint64_t seed) {
    return (pst_data_config){.paths = paths,
                             .n_path = n,
                             .validation = validation,
                             .context = 1,
                             .seed = seed,
                             .tokenizer = "byte"};
}

static void check_held_out(const pst_data_row *row, char **paths, uint32_t n) {
    pst_data *d;
    pst_data_config c = config_of(paths, n, 0, 3);
    c.held_out = 1;
    if (row->open(&c, &d) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(row->size(d, PST_SPLIT_TRAIN), 0);
    assert_int_equal(row->size(d, PST_SPLIT_VALIDATION), N);
    row->close(d);
}

/* Every image of the training split once in an epoch, that of validation in order. */
static void check_set(const pst_data_row *row, char **paths, uint32_t n, uint64_t numbers) {
    pst_data *d;
    pst_data_config c = config_of(paths, n, 0.25, 3);
    check_held_out(row, paths, n);
    if (row->open(&c, &d) != PST_OK) fail_msg("%s", pst_error());
    pst_data_field field[PST_DATA_FIELDS];
    assert_int_equal(row->fields(d, field), 2);
    assert_string_equal(field[0].name, "pixels");
    assert_string_equal(field[1].name, "targets");
    assert_int_equal(field[0].elements, numbers);
    assert_int_equal(field[1].elements, 1);
    assert_int_equal(row->size(d, PST_SPLIT_TRAIN), N - N / 4);
    assert_int_equal(row->size(d, PST_SPLIT_VALIDATION), N / 4);
    int32_t *pixels = malloc(numbers * sizeof *pixels), target, *out[] = {pixels, &target};
    int moved = 0;
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        uint8_t seen[N] = {0};
        for (uint32_t i = 0; i < N - N / 4; i++) {
            assert_int_equal(row->sample(d, PST_SPLIT_TRAIN, epoch * (N - N / 4) + i, out), PST_OK);
            uint32_t which = 0;
            while (which < N && (number(which, 0) != pixels[0] || number(which, 1) != pixels[1]))
                which++;
            assert_true(which < N - N / 4);
            assert_int_equal(seen[which]++, 0);
            moved += which != i;
            for (uint32_t k = 0; k < numbers; k++) assert_int_equal(pixels[k], number(which, k));
            assert_int_equal(target, class_of(which));
        }
    }
    assert_true(moved > N / 2);
    for (uint32_t i = 0; i < N / 4; i++) {
        assert_int_equal(row->sample(d, PST_SPLIT_VALIDATION, i, out), PST_OK);
        assert_int_equal(pixels[5], number(N - N / 4 + i, 5));
        assert_int_equal(target, class_of(N - N / 4 + i));
    }
    assert_int_equal(row->sample(d, PST_SPLIT_VALIDATION, N / 4, out), PST_EINPUT);
    free(pixels);
    row->close(d);
}

static void test_mnist(void **state) {
    (void)state;
    put_idx_images("a-images", 0, 15, 28);
    put_idx_labels("a-labels", 0, 15, -1);
    put_idx_images("b-images", 15, N - 15, 28);
    put_idx_labels("b-labels", 15, N - 15, -1);
    compress_file("b-images", "b-images.gz");
    char *files[] = {"a-images", "b-images", "a-labels", "b-labels"};
    check_set(&pst_data_mnist, files, 4, MNIST);
    char *mixed[] = {"b-labels", "a-images", "b-images.gz", "a-labels"}; /* labels follow each other
                                                                            in this order */
    put_idx_labels("b-labels", 0, 15, -1);
    put_idx_labels("a-labels", 15, N - 15, -1);
    check_set(&pst_data_mnist, mixed, 4, MNIST);
}

static void test_cifar(void **state) {
    (void)state;
    char *one[] = {"batch.bin"}, *compressed[] = {"batch.bin.gz"};
    put_cifar("batch.bin", N);
    compress_file("batch.bin", "batch.bin.gz");
    check_set(&pst_data_cifar10, one, 1, CIFAR);
    check_set(&pst_data_cifar10, compressed, 1, CIFAR);
}

static void refuse(const pst_data_row *row, char **paths, uint32_t n, double validation,
                   const char *words) {
    pst_data *d = NULL;
    pst_data_config c = config_of(paths, n, validation, 1);
    assert_int_equal(row->open(&c, &d), PST_EINPUT);
    assert_null(d);
    if (!strstr(pst_error(), words)) fail_msg("\"%s\" lacks \"%s\"", pst_error(), words);
}

static void test_refused(void **state) {
    (void)state;
    put_idx_images("images", 0, 4, 28);
    put_idx_labels("labels", 0, 4, -1);
    put_idx_images("small", 0, 4, 20);
    put_idx_labels("few", 0, 3, -1);
    put_idx_labels("many", 0, 5, -1);
    put_idx_labels("wrong", 0, 4, 10);
    put_cifar("cifar", 2);
    assert_int_equal(truncate("cifar", 2 * 3073 - 1), 0);
    put_idx_images("short", 0, 4, 28);
    assert_int_equal(truncate("short", 1000), 0);
    FILE *f = fopen("text", "w");
    fputs("some text that is neither", f);
    fclose(f);
    refuse(&pst_data_mnist, (char *[]){"images"}, 1, 0, "4 images have 0 labels");
    refuse(&pst_data_mnist, (char *[]){"images", "few"}, 2, 0, "4 images have 3 labels");
    refuse(&pst_data_mnist, (char *[]){"images", "many"}, 2, 0,
           "many has 5 labels, but only 4 images");
    refuse(&pst_data_mnist, (char *[]){"labels"}, 1, 0, "only 0 images");
    refuse(&pst_data_mnist, (char *[]){"images", "wrong"}, 2, 0, "image 0 has class 10");
    refuse(&pst_data_mnist, (char *[]){"small", "labels"}, 2, 0, "no images of 28x28");
    refuse(&pst_data_mnist, (char *[]){"short", "labels"}, 2, 0, "expected 3152");
    refuse(&pst_data_mnist, (char *[]){"text"}, 1, 0, "not an idx file");
    refuse(&pst_data_mnist, (char *[]){"none"}, 1, 0, "none");
    refuse(&pst_data_mnist, (char *[]){"images", "labels"}, 2, 1.0, "data.validation is 1");
    refuse(&pst_data_mnist, (char *[]){"images", "labels"}, 2, 0.1,
           "of 4 images is less than one image");
    refuse(&pst_data_cifar10, (char *[]){"cifar"}, 1, 0, "not a multiple of 3073");
    refuse(&pst_data_cifar10, (char *[]){"text"}, 1, 0, "not a multiple");
    put_cifar("batch.bin", 2);
    compress_file("batch.bin", "cut.gz");
    assert_int_equal(truncate("cut.gz", 100), 0);
    refuse(&pst_data_cifar10, (char *[]){"cut.gz"}, 1, 0, "cannot read cut.gz");
}

/* Damaged files end in a sentence or in samples of bytes and classes, never elsewhere. */
static void test_damaged(void **state) {
    (void)state;
    uint64_t seed =
        getenv("PST_SEED") ? strtoull(getenv("PST_SEED"), NULL, 10) : (uint64_t)time(NULL);
    print_message("seed %llu (PST_SEED repeats it)\n", (unsigned long long)seed);
    for (uint64_t trial = 0; trial < 300; trial++) {
        uint32_t word[4];
        pst_rng_words(seed, 0, trial, word);
        put_idx_images("images", 0, 3, 28);
        put_idx_labels("labels", 0, 3, -1);
        const char *name = word[3] & 1 ? "images" : "labels";
        FILE *f = fopen(name, "r+");
        fseek(f, word[0] % 20, SEEK_SET);
        fputc((int)(word[1] & 255), f);
        fclose(f);
        if (word[3] & 2) assert_int_equal(truncate(name, word[2] % 2400), 0);
        pst_data *d = NULL;
        pst_data_config c = config_of((char *[]){"images", "labels"}, 2, 0, 1);
        pst_status status = pst_data_mnist.open(&c, &d);
        assert_true(status == PST_OK || (status == PST_EINPUT && *pst_error()));
        if (status != PST_OK) continue;
        int32_t pixels[MNIST], target, *out[] = {pixels, &target};
        for (uint64_t i = 0; i < 3; i++) {
            assert_int_equal(d->row->sample(d, PST_SPLIT_TRAIN, i, out), PST_OK);
            assert_true(target >= 0 && target < 10);
        }
        d->row->close(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mnist), cmocka_unit_test(test_cifar),
                                       cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_damaged)};
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}

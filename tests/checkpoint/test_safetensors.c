/* Safetensors: what is written is read back to the bit; a reader that trusts nothing; a writer
 * whose disk fills up. */
#include "base/folder.h"
#include "checkpoint/durable.h"
#include "checkpoint/safetensors.h"
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* A file of 8 bytes of length, a header, and n zero bytes. */
static const char *file_with(uint64_t length, const char *header, size_t n) {
    FILE *f = fopen("x", "w");
    assert_non_null(f);
    assert_int_equal(fwrite(&length, 8, 1, f), 1);
    fputs(header, f);
    while (n--) putc(0, f);
    fclose(f);
    return "x";
}

static const char *file_of(const char *header, size_t n) {
    return file_with(strlen(header), header, n);
}

static void rejects(const char *path, const char *sentence) {
    pst_safetensors_file *f = NULL;
    assert_int_equal(pst_safetensors_open(path, &f), PST_EINPUT);
    assert_null(f);
    if (!strstr(pst_error(), sentence) || !strstr(pst_error(), path))
        fail_msg("%s: %s", sentence, pst_error());
}

#define ENTRY(name, type, shape, offsets)                                                          \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void test_bad_files(void **state) {
    (void)state;
    rejects("nowhere", "No such file");
    rejects(".", "not a file");
    rejects(file_with(0, "", 0), "only 8 bytes");
    rejects(file_with(INT64_MAX, "{}", 0),
            "the header needs 9223372036854775807 bytes, but the file has 10");
    rejects(file_with(UINT64_MAX, "{}", 0), "the header needs 18446744073709551615 bytes");
    rejects(file_with((uint64_t)1 << 63, "{}", 0), "the header needs 9223372036854775808 bytes");
    rejects(file_with(3, "{}", 0), "the header needs 3 bytes, but the file has 10");
    rejects(file_with(0, "{}", 0), "not JSON");
    rejects(file_of("[]", 0), "not a JSON object");
    rejects(file_of("{\"a\":NaN}", 0), "not JSON");
    rejects(file_of("{\"a\":3}", 0), "a: dtype is missing");
    rejects(file_of("{" ENTRY("a", "F99", "[1]", "[0,4]") "}", 4), "unknown dtype F99");
    rejects(
        file_of("{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("a", "F32", "[1]", "[0,4]") "}", 4),
        "duplicate");
    rejects(file_of("{" ENTRY("a", "F32", "[1]", "[4,0]") "}", 4),
            "data_offsets is missing or not [begin, end]");
    rejects(file_of("{" ENTRY("a", "F32", "[1]", "[0,4.0]") "}", 4),
            "data_offsets is missing or not [begin, end]");
    rejects(file_of("{" ENTRY("a", "F32", "[1]", "[-4,0]") "}", 4),
            "data_offsets is missing or not [begin, end]");
    rejects(file_of("{" ENTRY("a", "F32", "[1]", "[0,9223372036854775808]") "}", 4), "not JSON");
    rejects(file_of("{" ENTRY("a", "F32", "[1]", "[0,9223372036854775807]") "}", 4),
            "at byte 9223372036854775807");
    rejects(file_of("{" ENTRY("a", "F32", "[2]", "[0,8]") "}", 7), "ends at byte 8 of 7");
    rejects(file_of("{" ENTRY("a", "F32", "[2]", "[0,4]") "}", 4),
            "the shape needs 8 bytes, but the offsets give 4");
    rejects(file_of("{" ENTRY("a", "F32", "[-1]", "[0,4]") "}", 4),
            "dimension 0 is not a valid size");
    rejects(file_of("{" ENTRY("a", "F32", "1", "[0,4]") "}", 4), "shape is missing or not a list");
    rejects(file_of("{" ENTRY("a", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0),
            "too many elements");
    rejects(file_of("{" ENTRY("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4), "9 dimensions");
    rejects(
        file_of("{" ENTRY("a", "F32", "[2]", "[0,8]") "," ENTRY("b", "F32", "[2]", "[4,12]") "}",
                12),
        "overlaps");
    rejects(file_of("{" ENTRY("a", "F32", "[1]", "[4,8]") "}", 8),
            "does not start where the previous tensor ends");
    rejects(file_of("{" ENTRY("a", "F32", "[1]", "[0,4]") "}", 5), "1 bytes after the last tensor");
    rejects(file_of("{\"__metadata__\":{\"a\":1}}", 0), "__metadata__");
}

/* An empty tensor, a scalar and metadata are fine. */
static void test_odd_files(void **state) {
    (void)state;
    pst_safetensors_file *f;
    float value = 1;
    assert_int_equal(
        pst_safetensors_open(
            file_of("{\"__metadata__\":{\"k\":\"v\"}," ENTRY(
                        "e", "F32", "[0,7]", "[4,4]") "," ENTRY("s", "F32", "[]", "[0,4]") "}   ",
                    4),
            &f),
        PST_OK);
    assert_int_equal(f->n_entry, 2);
    assert_string_equal(pst_safetensors_meta(f, "k"), "v");
    assert_null(pst_safetensors_meta(f, "x"));
    assert_null(pst_safetensors_find(f, "x"));
    assert_int_equal(pst_safetensors_read_f32(f, pst_safetensors_find(f, "e"), NULL, 0, 0), PST_OK);
    assert_int_equal(pst_safetensors_read_f32(f, pst_safetensors_find(f, "s"), &value, 1, 0),
                     PST_OK);
    assert_true(value == 0);
    assert_int_equal(pst_safetensors_read_f32(f, pst_safetensors_find(f, "s"), &value, 2, 0),
                     PST_EINPUT);
    assert_int_equal(pst_safetensors_read_f32(f, pst_safetensors_find(f, "s"), &value, 1, 1),
                     PST_EINPUT);
    pst_safetensors_close(f);
    assert_int_equal(pst_safetensors_open(file_of("{}", 0), &f), PST_OK);
    assert_null(pst_safetensors_find(f, ""));
    pst_safetensors_close(f);
    assert_int_equal(
        pst_safetensors_open(file_of("{" ENTRY("i", "I64", "[1]", "[0,8]") "}", 8), &f), PST_OK);
    assert_int_equal(pst_safetensors_read_f32(f, f->entry, &value, 1, 0), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "not a floating-point type"));
    pst_safetensors_close(f);
}

static const char *const keys[] = {"format", "quote"}, *const values[] = {"pt", "\"\\\xc3\xa9\n"};

static pst_status write_sample(const char *path, const float *weights, uint64_t n) {
    pst_safetensors_decl decl[] = {
        {"w", PST_F32, 2, {n / 3, 3}}, {"bf \"16\"", PST_BF16, 1, {2}}, {"d", PST_F64, 0, {0}}};
    uint16_t half[] = {pst_bf16_from_f32(1.5f), pst_bf16_from_f32(-INFINITY)};
    double third = 1.0 / 3;
    pst_safetensors_writer *w;
    PST_TRY(
        pst_safetensors_create(path, decl, 3, &(pst_safetensors_meta_list){keys, values, 2}, &w));
    pst_status status = pst_safetensors_write(w, weights, 5 * sizeof *weights);
    if (status == PST_OK) status = pst_safetensors_write(w, weights + 5, (n - 5) * sizeof *weights);
    if (status == PST_OK) status = pst_safetensors_write(w, half, sizeof half);
    if (status == PST_OK) status = pst_safetensors_write(w, &third, sizeof third);
    if (status == PST_OK) return pst_safetensors_finish(w);
    pst_safetensors_discard(w);
    return status;
}

static void test_round_trip(void **state) {
    (void)state;
    enum { N = 300000 };
    float *weights = malloc(N * sizeof *weights), *back = malloc(N * sizeof *back), value[2];
    for (int i = 0; i < N; i++) weights[i] = (float)sin(i);
    weights[7] = NAN;
    weights[8] = -0.0f;
    assert_int_equal(write_sample("y", weights, N), PST_OK);
    pst_safetensors_file *f;
    assert_int_equal(pst_safetensors_open("y", &f), PST_OK);
    assert_string_equal(pst_safetensors_meta(f, "quote"), values[1]);
    const pst_safetensors_entry *w = pst_safetensors_find(f, "w");
    assert_true(w && w->offset % 8 == 0 && w->n_dim == 2 && w->dim[0] == N / 3 &&
                !strcmp(w->dtype, "F32"));
    assert_int_equal(pst_safetensors_read_f32(f, w, back, N, 0), PST_OK);
    assert_memory_equal(weights, back, N * sizeof *back);
    assert_int_equal(pst_safetensors_read_f32(f, w, back, N, 1), PST_OK);
    for (int r = 0; r < N / 3; r++)
        for (int c = 0; c < 3; c++)
            assert_memory_equal(&weights[r * 3 + c], &back[c * (N / 3) + r], sizeof *back);
    assert_int_equal(pst_safetensors_read_f32(f, pst_safetensors_find(f, "bf \"16\""), value, 2, 0),
                     PST_OK);
    assert_true(value[0] == 1.5f && value[1] == -INFINITY);
    assert_int_equal(pst_safetensors_read_f32(f, pst_safetensors_find(f, "d"), value, 1, 0),
                     PST_OK);
    assert_true(value[0] == (float)(1.0 / 3));
    pst_safetensors_close(f);
    assert_int_equal(truncate("y", 1000), 0);
    rejects("y", "truncated");
    free(weights);
    free(back);
}

static void test_half(void **state) {
    (void)state;
    static const struct {
        uint16_t half;
        float value;
    } known[] = {{0x3c00, 1},
                 {0xc000, -2},
                 {0x7bff, 65504},
                 {0x0001, 0x1p-24f},
                 {0x83ff, -1023 * 0x1p-24f},
                 {0x0400, 0x1p-14f},
                 {0x7c00, INFINITY},
                 {0x3555, 0.333251953125f},
                 {0, 0}};
    FILE *out = fopen(file_of("{" ENTRY("h", "F16", "[9]", "[0,18]") "}", 0), "a");
    for (int i = 0; i < 9; i++) assert_int_equal(fwrite(&known[i].half, 2, 1, out), 1);
    fclose(out);
    pst_safetensors_file *f;
    float value[9];
    assert_int_equal(pst_safetensors_open("x", &f), PST_OK);
    assert_int_equal(pst_safetensors_read_f32(f, f->entry, value, 9, 0), PST_OK);
    for (int i = 0; i < 9; i++) assert_true(value[i] == known[i].value);
    pst_safetensors_close(f);
}

static void test_writer_misuse(void **state) {
    (void)state;
    pst_safetensors_decl twice[] = {{"a", PST_F32, 1, {1}}, {"a", PST_F32, 1, {1}}};
    pst_safetensors_decl huge = {"a", PST_F32, 2, {UINT64_MAX / 2, 8}},
                         latin = {"\xe9", PST_F32, 1, {1}};
    pst_safetensors_writer *w;
    assert_int_equal(pst_safetensors_create("z", twice, 2, NULL, &w), PST_EINPUT);
    assert_int_equal(pst_safetensors_create("z", &huge, 1, NULL, &w), PST_EINPUT);
    assert_int_equal(pst_safetensors_create("z", &latin, 1, NULL, &w), PST_EINPUT);
    assert_int_equal(pst_safetensors_create("no/folder", twice, 1, NULL, &w), PST_ENOMEM);
    assert_non_null(strstr(pst_error(), "no/folder: No such file"));
    assert_int_equal(pst_safetensors_create("z", twice, 1, NULL, &w), PST_OK);
    assert_int_equal(pst_safetensors_write(w, twice, 5), PST_EINTERNAL);
    assert_int_equal(pst_safetensors_finish(w), PST_EINTERNAL);
    assert_int_equal(access("z", F_OK), -1);
    assert_int_equal(symlink("elsewhere", "link"), 0); /* the file takes the link's place */
    assert_int_equal(pst_safetensors_create("link", twice, 1, NULL, &w), PST_OK);
    pst_safetensors_discard(w);
    assert_int_equal(access("elsewhere", F_OK), -1);
}

/* Whichever operation fails, the sentence says where and no file stays. */
static void test_full_disk(void **state) {
    (void)state;
    float weights[12] = {1};
    for (uint64_t n = 1;; n++) {
        pst_durable_fail_after(n);
        pst_status status = write_sample("full", weights, 12);
        pst_durable_fail_after(0);
        if (status == PST_OK) {
            assert_int_equal(n, 8); /* create, header, 4 writes, sync: 7 operations */
            break;
        }
        assert_int_equal(status, PST_ENOMEM);
        assert_non_null(strstr(pst_error(), "full: No space left on device"));
        assert_int_equal(access("full", F_OK), -1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_files),     cmocka_unit_test(test_odd_files),
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_half),
        cmocka_unit_test(test_writer_misuse), cmocka_unit_test(test_full_disk)};
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}

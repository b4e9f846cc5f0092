/* Sources mixed by weights: shares, no sample of an epoch twice, the same for any order of asking.
 */
#include "base/folder.h"
#include "data/blend.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { BLOCK = 4096, SOURCES = 3 };

/* Source i has bytes i * 64 to i * 64 + 63, again and again. */
static char *paths[] = {"a", "b", "c"};
static const uint64_t bytes[] = {4000, 900, 20000};

static int make(void **state) {
    if (folder_open(state)) return 1;
    for (int i = 0; i < SOURCES; i++) {
        FILE *f = fopen(paths[i], "wb");
        if (!f) return 1;
        for (uint64_t k = 0; k < bytes[i]; k++) fputc((int)(i * 64 + k % 64), f);
        fclose(f);
    }
    return 0;
}

static pst_status open_blend(char *const *weights, uint32_t n, uint32_t n_weight, pst_data **d) {
    const pst_data_config config = {.paths = paths,
                                    .n_path = n,
                                    .validation = 0.1,
                                    .context = 1,
                                    .seed = 3,
                                    .tokenizer = "byte",
                                    .weights = weights,
                                    .n_weight = n_weight};
    return pst_blend_open(&pst_data_text, &config, d);
}

static void shares_as_given(void **state) {
    char *weights[] = {"1", "0.5", "6.5"};
    static const uint64_t want[] = {BLOCK / 8, BLOCK / 16, BLOCK * 13 / 16};
    pst_data *d;
    int32_t token, target;
    (void)state;
    assert_int_equal(open_blend(weights, SOURCES, SOURCES, &d), PST_OK);
    assert_string_equal(d->row->name, "text");
    for (uint64_t block = 0; block < 3; block++) {
        uint64_t counts[SOURCES] = {0}, changes = 0;
        int before = 0;
        for (uint64_t i = 0; i < BLOCK; i++) {
            assert_int_equal(d->row->sample(d, PST_SPLIT_TRAIN, block * BLOCK + i,
                                            (int32_t *[]){&token, &target}),
                             PST_OK);
            assert_true(target == token + 1 || target == token - 63);
            counts[token / 64]++;
            changes += token / 64 != before;
            before = token / 64;
        }
        for (int i = 0; i < SOURCES; i++) assert_int_equal(counts[i], want[i]);
        assert_true(changes > BLOCK / 8);
    }
    d->row->close(d);
}

/* Every source's samples come in its own order, each once per epoch. */
static void samples_are_those_of_the_sources(void **state) {
    char *weights[] = {"2", "1"};
    pst_data *d, *alone[2];
    uint64_t seen[2] = {0};
    int32_t got[2], want[2];
    (void)state;
    assert_int_equal(open_blend(weights, 2, 2, &d), PST_OK);
    for (int i = 0; i < 2; i++) {
        const pst_data_config one = {.paths = paths + i,
                                     .n_path = 1,
                                     .validation = 0.1,
                                     .context = 1,
                                     .seed = 3,
                                     .tokenizer = "byte"};
        assert_int_equal(pst_data_text.open(&one, &alone[i]), PST_OK);
    }
    /* samples of a block are shuffled: count those of both by what they are, over whole blocks */
    enum { BLOCKS = 2 };
    uint64_t sum[2] = {0}, expected[2] = {0};
    for (uint64_t i = 0; i < (uint64_t)BLOCKS * BLOCK; i++) {
        d->row->sample(d, PST_SPLIT_TRAIN, i, (int32_t *[]){got, got + 1});
        seen[got[0] / 64]++;
        sum[got[0] / 64] += (uint64_t)got[0] * 1000 + (uint64_t)got[1];
    }
    assert_int_equal(seen[0] + seen[1], (uint64_t)BLOCKS * BLOCK);
    assert_in_range(seen[0], BLOCKS * BLOCK * 2 / 3, BLOCKS * BLOCK * 2 / 3 + 1);
    for (int s = 0; s < 2; s++) {
        for (uint64_t i = 0; i < seen[s]; i++) {
            alone[s]->row->sample(alone[s], PST_SPLIT_TRAIN, i, (int32_t *[]){want, want + 1});
            expected[s] += (uint64_t)want[0] * 1000 + (uint64_t)want[1];
        }
        assert_int_equal(sum[s], expected[s]);
    }
    uint64_t size = d->row->size(d, PST_SPLIT_VALIDATION), at = 0;
    for (int s = 0; s < 2; s++)
        for (uint64_t i = 0; i < alone[s]->row->size(alone[s], PST_SPLIT_VALIDATION); i++, at++) {
            d->row->sample(d, PST_SPLIT_VALIDATION, at, (int32_t *[]){got, got + 1});
            alone[s]->row->sample(alone[s], PST_SPLIT_VALIDATION, i, (int32_t *[]){want, want + 1});
            assert_memory_equal(got, want, sizeof got);
        }
    assert_int_equal(at, size);
    assert_int_equal(d->row->sample(d, PST_SPLIT_VALIDATION, at, (int32_t *[]){got, got + 1}),
                     PST_EINPUT);
    d->row->close(d);
    for (int i = 0; i < 2; i++) alone[i]->row->close(alone[i]);
}

static void expect(char *const *weights, uint32_t n_weight, const char *message) {
    pst_data *d = NULL;
    assert_int_equal(open_blend(weights, 2, n_weight, &d), PST_EINPUT);
    if (!strstr(pst_error(), message)) fail_msg("%s", pst_error());
    assert_null(d);
}

static void wrong_weights_are_refused(void **state) {
    (void)state;
    expect((char *[]){"1"}, 1, "data.blend has 1 values, but data.paths has 2");
    expect((char *[]){"1", "0"}, 2, "data.blend: '0' is not a number above 0");
    expect((char *[]){"1", "-2"}, 2, "data.blend: '-2' is not a number above 0");
    expect((char *[]){"nan", "1"}, 2, "data.blend: 'nan' is not");
    expect((char *[]){"1", "1x"}, 2, "data.blend: '1x' is not");
    fclose(fopen("a", "wb"));
    expect((char *[]){"1", "1"}, 2, "data: a is empty");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shares_as_given),
                                       cmocka_unit_test(samples_are_those_of_the_sources),
                                       cmocka_unit_test(wrong_weights_are_refused)};
    return cmocka_run_group_tests(tests, make, folder_close);
}

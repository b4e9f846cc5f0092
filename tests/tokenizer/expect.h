/* EXPECT(tokenizer, special, text, ID...): what a text is encoded as, twice, the second time with
 * words that the encoder has seen. Include after cmocka.h. */
#ifndef TESTS_TOKENIZER_EXPECT_H
#define TESTS_TOKENIZER_EXPECT_H
#include "tokenizer/tokenizer.h"
#include <string.h>

static inline void expect(const pst_tokenizer *t, int special, const char *text, const int32_t *id,
                          size_t n) {
    pst_encoder *e;
    pst_ids ids = {0};
    assert_int_equal(pst_encoder_open(t, special, &e), PST_OK);
    for (int again = 0; again < 2; again++) {
        ids.n = 0;
        assert_int_equal(pst_encode(e, text, strlen(text), 1, &ids), PST_OK);
        if (ids.n != n || (n && memcmp(ids.id, id, n * sizeof *id)))
            fail_msg("\"%s\": %zu ids, the first is %d", text, ids.n, ids.n ? ids.id[0] : -1);
    }
    pst_encoder_close(e);
    pst_ids_free(&ids);
}
/* Parts of a text, divided at random, have the ids of the whole, and none is longer than `most`. */
static inline void expect_parts(const pst_tokenizer *t, const char *text, size_t bytes,
                                size_t most) {
    pst_encoder *e;
    pst_ids whole = {0}, parts = {0};
    uint64_t random = 1;
    assert_int_equal(pst_encoder_open(t, 0, &e), PST_OK);
    assert_int_equal(pst_encode(e, text, bytes, 1, &whole), PST_OK);
    for (size_t at = 0, n; at < bytes; at += n) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        n = most / 2 + (size_t)(random >> 33) % (most / 2);
        if (n < bytes - at) n = pst_tokenizer_cut(t, text + at, n);
        else n = bytes - at;
        if (!n) fail_msg("no place to divide the text at byte %zu", at);
        assert_int_equal(pst_encode(e, text + at, n, at == 0, &parts), PST_OK);
    }
    assert_int_equal(parts.n, whole.n);
    assert_memory_equal(parts.id, whole.id, whole.n * sizeof *whole.id);
    pst_encoder_close(e);
    pst_ids_free(&whole);
    pst_ids_free(&parts);
}
#define EXPECT(t, special, text, ...)                                                              \
    expect(t, special, text, (int32_t[]){__VA_ARGS__},                                             \
           sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))
#endif

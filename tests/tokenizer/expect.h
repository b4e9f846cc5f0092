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
#define EXPECT(t, special, text, ...)                                                              \
    expect(t, special, text, (int32_t[]){__VA_ARGS__},                                             \
           sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))
#endif

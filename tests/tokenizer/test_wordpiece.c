/* WordPiece: normalization as BERT's, cased and uncased, and the longest tokens first. */
#include "base/folder.h"
#include "tokenizer/tokenizer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tokenizer/expect.h"

/* Ids are line numbers from 0. */
static const char lower[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\n##a\nable\ncafe\n,\n!\n"
                            "\xe4\xb8\xad\n[MASK]\n\xcf\x83\n##s\ni\n";
enum { UNK = 1, UN = 4, AFF, ABLE_, A_, ABLE, CAFE, COMMA, BANG, ZHONG, MASK, SIGMA, S_, I };

static pst_tokenizer *open_text(const char *vocabulary) {
    pst_tokenizer *t;
    FILE *f = fopen("vocab.txt", "w");
    assert_non_null(f);
    fputs(vocabulary, f);
    fclose(f);
    if (pst_tokenizer_open(".", &t) != PST_OK) fail_msg("%s", pst_error());
    return t;
}

static void uncased(void **state) {
    (void)state;
    pst_tokenizer *t = open_text(lower);
    assert_string_equal(pst_tokenizer_kind(t), "WordPiece");
    EXPECT(t, 0, "unaffable", UN, AFF, ABLE_);
    EXPECT(t, 0, " UnAffable,able!\n", UN, AFF, ABLE_, COMMA, ABLE, BANG);
    EXPECT(t, 0, "unaffablex able", UNK, ABLE);                /* one unknown piece: all */
    EXPECT(t, 0, "Caf\xc3\xa9 cafe\xcc\x81", CAFE, CAFE);      /* e with its accent, and after */
    EXPECT(t, 0, "un\xe4\xb8\xad\x61\x62le", UN, ZHONG, ABLE); /* Chinese: words */
    EXPECT(t, 0,
           "un\x01\xc2\xad\xef\xbf\xbd"
           "aff\xff\xfe",
           UN, AFF);                                            /* controls and invalid bytes go */
    EXPECT(t, 0, "un\xe2\x80\xa8\xc2\xa0\t\r\nable", UN, ABLE); /* all kinds of blanks */
    EXPECT(t, 0, "\xce\xa3", SIGMA);
    EXPECT(t, 0, "\xc4\xb0", I); /* I with a dot: i, and a mark that goes */
    EXPECT(t, 0, "[MASK]", UNK, UNK, UNK);
    EXPECT(t, 1, "un[MASK]able", UN, MASK, ABLE);
    pst_text text = {0};
    assert_int_equal(pst_tokenizer_decode(t, (int32_t[]){UN, AFF, ABLE_, COMMA}, 4, 1, &text),
                     PST_OK);
    assert_true(text.n == 11 && !memcmp(text.byte, "unaffable ,", 11));
    pst_text_free(&text);
    pst_tokenizer_close(t);
}

/* A vocabulary with capitals keeps them, and accents. */
static void cased(void **state) {
    (void)state;
    pst_tokenizer *t = open_text("[PAD]\n[UNK]\nUn\n##able\nable\ncafe\ncaf\xc3\xa9\n");
    EXPECT(t, 0, "Unable able unable cafe caf\xc3\xa9", 2, 3, 4, 1, 5, 6);
    pst_tokenizer_close(t);
}

static void long_words_are_unknown(void **state) {
    char word[102];
    (void)state;
    pst_tokenizer *t = open_text("[UNK]\na\n##a\n");
    pst_encoder *e;
    pst_ids ids = {0};
    assert_int_equal(pst_encoder_open(t, 0, &e), PST_OK);
    memset(word, 'a', sizeof word);
    assert_int_equal(pst_encode(e, word, 100, 1, &ids), PST_OK);
    assert_true(ids.n == 100 && ids.id[0] == 1 && ids.id[99] == 2);
    assert_int_equal(pst_encode(e, word, 101, 1, &ids), PST_OK);
    assert_true(ids.n == 101 && ids.id[100] == 0);
    pst_encoder_close(e);
    pst_ids_free(&ids);
    pst_tokenizer_close(t);
}

/* Chinese without blanks; words with accents. */
static void text_is_divided(void **state) {
    static const char line[] = "un\xc3\xa9"
                               "affable\xe4\xb8\x80\xe4\xb8\x81"
                               "a\xcc\x81\xe4\xb8\x82"
                               "cafe\x01\xc2\x85"
                               "able";
    enum { N = 1000 };
    char *text = malloc(N * sizeof line);
    pst_tokenizer *t = open_text(lower);
    (void)state;
    for (size_t i = 0; i < N; i++) memcpy(text + i * (sizeof line - 1), line, sizeof line - 1);
    expect_parts(t, text, N * (sizeof line - 1), 300);
    pst_tokenizer_close(t);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(uncased), cmocka_unit_test(cased),
                                       cmocka_unit_test(long_words_are_unknown),
                                       cmocka_unit_test(text_is_divided)};
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}

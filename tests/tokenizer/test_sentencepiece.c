/* SentencePiece: models of both kinds, made here, and what they make of text. */
#include "base/folder.h"
#include "tokenizer/list.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tokenizer/expect.h"

#define B "\xe2\x96\x81" /* a blank */
enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE, UNIGRAM = 1, BPE };
typedef struct {
    const char *text;
    float score;
    int type;
} piece;

static void put_bytes(FILE *f, int number, const void *bytes, size_t n) {
    fputc(number << 3 | 2, f);
    fputc((int)n, f); /* all are shorter than 128 */
    fwrite(bytes, 1, n, f);
}

static void put_piece(FILE *f, const piece *p) {
    char out[128];
    size_t n = strlen(p->text);
    out[0] = 1 << 3 | 2;
    out[1] = (char)n;
    memcpy(out + 2, p->text, n);
    out[n + 2] = 2 << 3 | 5;
    memcpy(out + n + 3, &p->score, 4);
    out[n + 7] = 3 << 3;
    out[n + 8] = (char)p->type;
    put_bytes(f, 1, out, n + 9);
}

/* bytes: byte fallback, with the tokens of all bytes after the others; collapse: of blanks. */
static pst_tokenizer *open_model(const piece *list, size_t n, int kind, int bytes, int collapse) {
    pst_tokenizer *t;
    FILE *f = fopen("a.model", "wb");
    assert_non_null(f);
    for (size_t i = 0; i < n; i++) put_piece(f, &list[i]);
    for (int i = 0; bytes && i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        put_piece(f, &(piece){name, 0, BYTE});
    }
    put_bytes(f, 2, (char[]){3 << 3, (char)kind, (char)0x98, 2, (char)bytes}, 5); /* 35 << 3 */
    put_bytes(f, 3, (char[]){4 << 3, (char)collapse}, 2);
    fclose(f);
    if (pst_tokenizer_open("a.model", &t) != PST_OK) fail_msg("%s", pst_error());
    assert_string_equal(pst_tokenizer_kind(t), "SentencePiece");
    return t;
}

/* The sum of scores counts, not the longest token; characters without token are unknown, several in
 * a row once. */
static void unigram(void **state) {
    static const piece list[] = {{"<unk>", 0, UNKNOWN}, {"</s>", 0, CONTROL},  {B "ab", -1, NORMAL},
                                 {"cd", -1, NORMAL},    {B "abc", -3, NORMAL}, {"d", -3, NORMAL},
                                 {B, -2, NORMAL},       {"<x>", 0, USER}};
    (void)state;
    pst_tokenizer *t = open_model(list, sizeof list / sizeof *list, UNIGRAM, 0, 1);
    assert_int_equal(pst_tokenizer_size(t), 8);
    assert_int_equal(pst_tokenizer_end(t), 1);
    EXPECT(t, 0, "abcd", 2, 3);
    EXPECT(t, 0, "abc", 4);
    EXPECT(t, 0, "  abc   d  ", 4, 6, 5);
    EXPECT(t, 0, "zz\xc3\xa9 d", 6, 0, 6, 5);
    EXPECT(t, 0, "ab<x>d", 2, 7, 5);
    EXPECT(t, 1, "ab</s>d", 2, 1, 5);
    expect(t, 0, "   ", (int32_t[]){0}, 0);
    pst_text text = {0};
    assert_int_equal(pst_tokenizer_decode(t, (int32_t[]){2, 3, 4}, 3, 1, &text), PST_OK);
    assert_true(text.n == 8 && !memcmp(text.byte, "abcd abc", 8));
    pst_text_free(&text);
    pst_tokenizer_close(t);
}

/* Merges by score, also where a longer token would exist; bytes instead of unknown characters;
 * blanks stay. */
static void bpe(void **state) {
    static const piece list[] = {{"<unk>", 0, UNKNOWN}, {"bc", -1, NORMAL}, {"ab", -2, NORMAL},
                                 {"abc", -3, NORMAL},   {B B, -4, NORMAL},  {"a", -9, NORMAL},
                                 {"b", -10, NORMAL},    {"c", -11, NORMAL}, {B, -12, NORMAL}};
    enum { A = 5, BB, C, BLANK, BYTES };
    (void)state;
    pst_tokenizer *t = open_model(list, sizeof list / sizeof *list, BPE, 1, 0);
    EXPECT(t, 0, "abc", BLANK, 3); /* bc first, then a with bc */
    EXPECT(t, 0, "abab", BLANK, 2, 2);
    EXPECT(t, 0, "  a", 4, BLANK, A);
    EXPECT(t, 0,
           "\xc3\xa9"
           "a\n",
           BLANK, BYTES + 0xc3, BYTES + 0xa9, A, BYTES + 10);
    pst_text text = {0};
    assert_int_equal(pst_tokenizer_decode(
                         t, (int32_t[]){BLANK, BYTES + 0xc3, BYTES + 0xa9, BLANK, A}, 5, 1, &text),
                     PST_OK);
    assert_true(text.n == 4 && !memcmp(text.byte, "\xc3\xa9 a", 4));
    pst_text_free(&text);
    pst_tokenizer_close(t);
}

static void lists_tokens_and_scores(void **state) {
    static const piece list[] = {{"<unk>", 0, UNKNOWN}, {"</s>", 0, CONTROL}, {B "a", -1, NORMAL},
                                 {"<x>", 0, USER},      {"b", -2, UNUSED},    {B, -3, NORMAL}};
    enum { N = sizeof list / sizeof *list };
    static const pst_token_kind kinds[N] = {PST_TOKEN_NONE,  PST_TOKEN_SPECIAL, PST_TOKEN_TEXT,
                                            PST_TOKEN_ADDED, PST_TOKEN_NONE,    PST_TOKEN_TEXT};
    pst_token_list out;
    (void)state;
    pst_tokenizer *t = open_model(list, N, BPE, 1, 0);
    if (pst_token_list_make(t, &out) != PST_OK) fail_msg("%s", pst_error());
    assert_true(out.n == N + 256 && !out.n_merge && !out.split && out.prefix && !out.unknown);
    for (int i = 0; i < N; i++) {
        assert_string_equal(out.token[i], list[i].text);
        assert_int_equal(out.kind[i], kinds[i]);
        assert_true(out.score[i] == list[i].score);
    }
    assert_string_equal(out.token[N + 255], "<0xFF>");
    assert_int_equal(out.kind[N + 255], PST_TOKEN_BYTE);
    pst_token_list_free(&out);
    pst_tokenizer_close(t);
    t = open_model(list, N, UNIGRAM, 1, 0);
    assert_int_equal(pst_token_list_make(t, &out), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "as that of Llama 2 is"));
    pst_tokenizer_close(t);
}

/* Text without blanks, of both models: tokens of several characters, characters without token. */
static void text_is_divided(void **state) {
    static const piece list[] = {{"<unk>", 0, UNKNOWN},
                                 {"\xe4\xb8\x80", -2, NORMAL},
                                 {"\xe4\xb8\x81", -2, NORMAL},
                                 {"\xe4\xb8\x82", -3, NORMAL},
                                 {"\xe4\xb8\x80\xe4\xb8\x81", -2.5f, NORMAL},
                                 {"\xe4\xb8\x81\xe4\xb8\x80", -2.6f, NORMAL}};
    enum { N = 30000 };
    char *text = malloc(3 * N);
    uint64_t random = 7;
    for (size_t i = 0; i < N; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        memcpy(text + 3 * i, "\xe4\xb8", 2);
        text[3 * i + 2] = (char)(0x80 + (random >> 33) % 4);
    }
    (void)state;
    for (int kind = UNIGRAM; kind <= BPE; kind++) {
        pst_tokenizer *t = open_model(list, sizeof list / sizeof *list, kind, 0, 1);
        expect_parts(t, text, 3 * N, 9000);
        pst_tokenizer_close(t);
    }
    free(text);
}

static void messages(void **state) {
    static const struct {
        const char *bytes, *message;
        size_t n;
    } cases[] = {
        {"", "damaged", 0},
        {"\x0a\x7f\x0a", "damaged", 3},
        {"\x0a\x03\x0a\x01\x61", "there is no token for unknown characters", 5},
        {"\x0a\x05\x0a\x01\x61\x18\x02\x12\x02\x18\x03", "a model of words or characters", 11},
        {"\x0a\x05\x0a\x01\x61\x18\x02\x12\x03\x98\x02\x01", "the token <0x00> is missing", 12},
        {"\x0a\x05\x0a\x01\x61\x18\x06", "damaged", 7},
        {"\x0a\x05\x0a\x01\x61\x18\x02\x1a\x03\x12\x01\x61", "replaced characters is damaged", 12},
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x61", "damaged", 11},
        {"\x0a\x0a\x0a\x06<0x-1>\x18\x06", "damaged", 12},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pst_tokenizer *t = NULL;
        FILE *f = fopen("b.model", "wb");
        fwrite(cases[i].bytes, 1, cases[i].n, f);
        fclose(f);
        assert_int_equal(pst_tokenizer_open("b.model", &t), PST_EINPUT);
        if (!strstr(pst_error(), cases[i].message)) fail_msg("%zu: %s", i, pst_error());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unigram), cmocka_unit_test(bpe), cmocka_unit_test(lists_tokens_and_scores),
        cmocka_unit_test(text_is_divided), cmocka_unit_test(messages)};
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}

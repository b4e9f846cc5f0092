/* Words by our own code are those of the patterns by PCRE2, on random text in which the characters
 * that patterns name are frequent. */
#include "base/rng.h"
#include "tokenizer/split.h"
#include "tokenizer/unicode.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TEXTS = 400, MOST = 60 };

static const uint32_t often[] = {
    ' ',    ' ',    '\n',   '\r',   '\t',   '\'',   '\'', 's',   'S',     't',    'd',  'm',
    'l',    'L',    'r',    'e',    'v',    '.',    '-',  '1',   '2',     0x17f,  0x85, 0xa0,
    0x1680, 0x180e, 0x200b, 0x2028, 0x3000, 0x2167, 0xbd, 0x301, 0x1f600, 0x4e00, 0xe9};

static size_t random_text(uint64_t seed, uint64_t text, uint8_t *out) {
    uint32_t word[4];
    size_t n = 0;
    pst_rng_words(seed, text, UINT64_MAX, word);
    uint64_t characters = 1 + word[0] % MOST;
    for (uint64_t i = 0; i < characters; i++) {
        pst_rng_words(seed, text, i, word);
        uint32_t code = often[word[1] % (sizeof often / sizeof *often)];
        if (word[0] % 10 == 0) code = word[1] % 0xd800;
        n += pst_unicode_encode(code, out + n);
    }
    return n;
}

static void compare(const char *name, const uint8_t *text, size_t bytes) {
    const pst_split_row *row = pst_split_find(name);
    for (const char *const *pattern = row->pattern; *pattern; pattern++) {
        pst_regex *regex;
        pst_matcher *matcher;
        pst_span match;
        assert_int_equal(pst_regex_open(*pattern, &regex), PST_OK);
        assert_int_equal(pst_matcher_open(regex, &matcher), PST_OK);
        for (size_t at = 0; at < bytes; at = match.to) {
            const uint8_t *to = pst_split_next(row, pst_unicode_classes(), text + at, text + bytes);
            assert_int_equal(pst_regex_next(matcher, text, bytes, at, &match), PST_OK);
            assert_int_equal(match.from, at);
            if (to != text + match.to)
                fail_msg("%s: at byte %zu of \"%.*s\": %zu, PCRE2 %zu", name, at, (int)bytes,
                         (const char *)text, (size_t)(to - text), match.to);
        }
        pst_matcher_close(matcher);
        pst_regex_close(regex);
    }
}

static void words_are_those_of_the_pattern(void **state) {
    static const char *const names[] = {"gpt2", "cl100k", "llama3", "qwen2"};
    const char *given = getenv("PST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    uint8_t text[4 * MOST];
    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < TEXTS; i++) {
        size_t bytes = random_text(seed, i, text);
        compare(names[i % 4], text, bytes);
    }
}

/* Where a text may be divided, all rows divide it, whatever follows. */
static void cuts_are_borders_of_words(void **state) {
    static const char text[] = "one two\n\n three\n4\n five,\nsix\n";
    (void)state;
    size_t cut = pst_split_cut(NULL, text, sizeof text - 1);
    assert_int_equal(cut, sizeof text - 2);
    assert_int_equal(pst_split_cut(NULL, text, cut), strlen("one two\n\n three\n4\n five"));
    static const char chinese[] = "\xe4\xb8\xad\xe6\x96\x87\xef\xbc\x8c\xe4\xb8\xad";
    assert_int_equal(pst_split_cut(NULL, chinese, sizeof chinese - 1), 6);
    assert_int_equal(pst_split_cut(NULL, "4\n5\n .\n", 7), 0);
    assert_int_equal(pst_split_line("a,b\nc\n1\n", 8), 5);
}

static void wrong_patterns_are_refused(void **state) {
    pst_regex *regex = NULL;
    (void)state;
    assert_int_equal(pst_regex_open("a(b", &regex), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "the split pattern \"a(b\" is not understood: missing"));
}

/* Every sequence of bytes is either a character or one invalid byte, as the definition of UTF-8
 * says. */
static void characters_are_decoded(void **state) {
    uint8_t text[4];
    uint32_t bytes;
    (void)state;
    for (uint32_t code = 0; code < PST_INVALID; code++) {
        uint32_t n = pst_unicode_encode(code, text);
        uint32_t found = pst_unicode_decode(text, text + n, &bytes);
        if (code >= 0xd800 && code < 0xe000) assert_int_equal(found, PST_INVALID);
        else assert_true(found == code && bytes == n);
        if (n > 1) assert_int_equal(pst_unicode_decode(text, text + n - 1, &bytes), PST_INVALID);
    }
    static const uint8_t overlong[] = {0xc0, 0x80};
    assert_int_equal(pst_unicode_decode(overlong, overlong + 2, &bytes), PST_INVALID);
    assert_int_equal(pst_unicode_count((const uint8_t *)"a\xff\xc3\xa9\xe2\x82", 6), 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_are_those_of_the_pattern),
                                       cmocka_unit_test(cuts_are_borders_of_words),
                                       cmocka_unit_test(wrong_patterns_are_refused),
                                       cmocka_unit_test(characters_are_decoded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

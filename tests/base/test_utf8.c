/* What is a character and what is not, at the edges of each length. */
#include "base/utf8.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void lengths(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int bytes;
    } rows[] = {{"a", 1},
                {"\x7f", 1},
                {"\x80", 0},
                {"\xbf", 0},
                {"\xc1\xbf", 0},
                {"\xc2\x80", 2},
                {"\xdf\xbf", 2},
                {"\xc3", 0},
                {"\xc3z", 0},
                {"\xe0\x9f\xbf", 0},
                {"\xe0\xa0\x80", 3},
                {"\xed\x9f\xbf", 3},
                {"\xed\xa0\x80", 0},
                {"\xee\x80\x80", 3},
                {"\xef\xbf\xbf", 3},
                {"\xe2\x82", 0},
                {"\xf0\x8f\xbf\xbf", 0},
                {"\xf0\x90\x80\x80", 4},
                {"\xf4\x8f\xbf\xbf", 4},
                {"\xf4\x90\x80\x80", 0},
                {"\xf5\x80\x80\x80", 0},
                {"\xff", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (pst_utf8_bytes(rows[i].text) != rows[i].bytes)
            fail_msg("row %zu: %d", i, pst_utf8_bytes(rows[i].text));
}

static void clean(void **state) {
    (void)state;
    char text[] = "runs/\xff\xc3\xa9\xc3/\xe2\x82", nothing[] = "";
    pst_utf8_clean(text);
    pst_utf8_clean(nothing);
    assert_string_equal(text, "runs/?\xc3\xa9?/??");
    assert_string_equal(nothing, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lengths), cmocka_unit_test(clean)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

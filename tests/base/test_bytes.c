/* test: label=quick */
/* Bytes in words, and arrays that grow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/grow.h"
#include <stdlib.h>

static void units(void **state) {
    (void)state;
    char text[PST_BYTES_TEXT];
    assert_string_equal(pst_bytes_text(1023, PST_BYTES, PST_TIB, 1, text), "1023 B");
    assert_string_equal(pst_bytes_text(1024, PST_BYTES, PST_TIB, 1, text), "1.0 KiB");
    assert_string_equal(pst_bytes_text(512, PST_KIB, PST_GIB, 2, text), "0.50 KiB");
    assert_string_equal(pst_bytes_text((1 << 20) - 1, PST_KIB, PST_GIB, 2, text), "1024.00 KiB");
    assert_string_equal(pst_bytes_text(UINT64_C(5) << 28, PST_KIB, PST_GIB, 2, text), "1.25 GiB");
    assert_string_equal(pst_bytes_text(UINT64_C(3) << 40, PST_KIB, PST_GIB, 2, text),
                        "3072.00 GiB");
    assert_string_equal(pst_bytes_text(UINT64_MAX, PST_BYTES, PST_TIB, 1, text), "16777216.0 TiB");
}

static void growing(void **state) {
    (void)state;
    uint16_t *list = NULL;
    size_t room = 0;
    for (size_t n = 0; n < 1000; n++) {
        assert_int_equal(pst_grow(&list, sizeof *list, n, &room, "for numbers"), PST_OK);
        assert_true(room > n);
        list[n] = (uint16_t)n;
    }
    for (size_t n = 0; n < 1000; n++) assert_int_equal(list[n], n);
    const size_t before = room;
    assert_int_equal(pst_grow(&list, SIZE_MAX / before, before, &room, "for numbers"), PST_ENOMEM);
    assert_string_equal(pst_error(), "no memory for numbers");
    assert_int_equal(room, before);
    free(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(units), cmocka_unit_test(growing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Structures that cross the library's interface: callers of earlier and of later versions. */
#include "base/sized.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

typedef struct {
    size_t size;
    int64_t a;
} early;
typedef struct {
    size_t size;
    int64_t a, b;
    double c;
} now;
typedef struct {
    now known;
    int64_t d;
} late;

static void taken(void **state) {
    (void)state;
    now n;
    memset(&n, 0x5a, sizeof n);
    assert_int_equal(pst_sized_take("f", &(early){sizeof(early), 3}, &n, sizeof n), PST_OK);
    assert_true(n.a == 3 && n.c == 0);
    late l = {{sizeof l, 1, 2, 3}, 0};
    assert_int_equal(pst_sized_take("f", &l, &n, sizeof n), PST_OK);
    assert_true(n.a == 1 && n.b == 2 && n.c == 3);
    l.d = 1;
    assert_int_equal(pst_sized_take("f", &l, &n, sizeof n), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "does not have"));
    assert_int_equal(pst_sized_take("f", &(now){0, 1, 2, 3}, &n, sizeof n), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "f: the member size"));
    assert_int_equal(pst_sized_take("f", NULL, &n, sizeof n), PST_EINPUT);
}

static void given(void **state) {
    (void)state;
    const now n = {99, 1, 2, 3};
    struct {
        early e;
        uint64_t behind;
    } small = {{sizeof(early), 0}, 7};
    assert_int_equal(pst_sized_give("f", &n, sizeof n, &small.e), PST_OK);
    assert_true(small.e.size == sizeof(early) && small.e.a == 1 && small.behind == 7);
    late l = {{sizeof l, 0, 0, 0}, 7};
    assert_int_equal(pst_sized_give("f", &n, sizeof n, &l), PST_OK);
    assert_true(l.known.size == sizeof l && l.known.c == 3 && l.d == 7);
    l.known.size = 3;
    assert_int_equal(pst_sized_give("f", &n, sizeof n, &l), PST_EINPUT);
    assert_int_equal(pst_sized_give("f", &n, sizeof n, NULL), PST_EINPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(taken), cmocka_unit_test(given)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The index of names against a search from the front, while entries come and the newest ones go
 * again. */
#include "graph/names.h"
#include "random_graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { MOST = 400, STEPS = 20000 };

typedef struct {
    char name[8];
    uint32_t more;
} entry;

static uint32_t search(const entry *e, uint32_t n, const char *name) {
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(e[i].name, name)) return i;
    return UINT32_MAX;
}

static void test_against_search(void **state) {
    (void)state;
    const char *text = getenv("PST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 20261122;
    static entry e[MOST];
    pst_names x = {0};
    uint32_t n = 0;
    printf("seed %llu (PST_SEED)\n", (unsigned long long)seed);
    for (int i = 0; i < STEPS; i++) {
        entry new = {.more = 1};
        snprintf(new.name, sizeof new.name, "%u", (uint32_t)(next_random(&seed) % (2 * MOST)));
        uint32_t found = pst_names_find(&x, (pst_named){e, sizeof *e, n}, new.name);
        assert_int_equal(found, search(e, n, new.name));
        if (found == UINT32_MAX && n < MOST) {
            assert_int_equal(pst_names_reserve(&x, (pst_named){e, sizeof *e, n}), PST_OK);
            e[n++] = new;
            pst_names_add(&x, (pst_named){e, sizeof *e, n});
        } else if (next_random(&seed) % 4 == 0) {
            n -= (uint32_t)(next_random(&seed) % (n + 1)); /* what came last is gone */
        }
    }
    free(x.slot);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_search)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

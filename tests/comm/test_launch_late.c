/* test: label=full timeout=60 */
/* A rank that does not come to the others within 10 s is named, once, and waited for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/ranks.h"

enum { LATE_S = 11 };

static int rank_main(void) {
    rank_state r;
    if (!strcmp(getenv("PMIX_RANK"), "1")) sleep(LATE_S);
    rank_open(&r);
    rank_close(&r);
    return 0;
}

static void a_late_rank_is_named(void **state) {
    (void)state;
    char said[4096], host[64] = "", expected[200];
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    int status = launch(3, "late", "", 1000);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = 0;
    fclose(file);
    gethostname(host, sizeof host - 1);
    snprintf(expected, sizeof expected,
             "penstock: waiting for rank 1 on %s: after 10 s it has not joined the others yet\n", host);
    if (status || strcmp(said, expected)) fail_msg("exit status %d: %s", status, said);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "rank")) return rank_main();
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_late_rank_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

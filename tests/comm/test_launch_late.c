/* test: label=full timeout=90 */
/* A rank that does not come to the others within 10 s is named, once, and waited for; while none
 * comes, none is. Of one that goes before only the launcher speaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/ranks.h"
#include "comm/world/world.h"
#include <signal.h>

enum { LATE_S = 14 }; /* for the others may come late themselves */

/* Rank 1 goes before it has come to the others, who have nothing to say of it. */
static int lose_one(void) {
    pst_world *w;
    if (pst_world_pmix.open(&w) != PST_OK) return 97;
    if (w->rank == 1) raise(SIGKILL);
    pst_status status = w->ops->fence(w);
    if (*pst_error()) fprintf(stderr, "rank %u: %s\n", w->rank, pst_error());
    w->ops->close(w);
    return pst_status_exit(status);
}

static int rank_main(const char *scenario) {
    rank_state r;
    if (!strcmp(scenario, "lost")) return lose_one();
    if (!strcmp(scenario, "all") || !strcmp(getenv("PMIX_RANK"), "1")) sleep(LATE_S);
    rank_open(&r);
    rank_close(&r);
    return 0;
}

/* 3 ranks of a scenario say "penstock: BEFORE HOST AFTER" and nothing else; before "": nothing at
 * all. */
static void check(const char *scenario, int ends, const char *before_host, const char *after) {
    char host[64] = "", expected[200] = "";
    gethostname(host, sizeof host - 1);
    if (*before_host)
        snprintf(expected, sizeof expected, "penstock: %s %s%s\n", before_host, host, after);
    char said[4096];
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    int status = launch(3, scenario, "", 1000);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = 0;
    fclose(file);
    if (status != ends || strcmp(said, expected)) fail_msg("exit status %d: %s", status, said);
}

static void a_late_rank_is_named(void **state) {
    (void)state;
    check("late", 0, "the job waits for rank 1 on",
          ", which after 10 s has not joined the other ranks");
}

static void none_waits_for_another(void **state) {
    (void)state;
    check("all", 0, "", "");
}

static void only_the_lost_one_is_named(void **state) {
    (void)state;
    check("lost", 3, "rank 1 on", " was killed by signal 9 during start-up");
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "rank")) return rank_main(argv[2]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_late_rank_is_named),
                                       cmocka_unit_test(none_waits_for_another),
                                       cmocka_unit_test(only_the_lost_one_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

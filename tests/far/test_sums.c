/* test: label=quick timeout=60
 * Training on a device whose layer norms leave sums of rows from B to W: every schedule has the
 * bits of one rank, also where W runs long after B, in no more memory than was laid out; and
 * losses are near to the CPU's, which adds up the rows themselves (SGD: AdamW would not tell a
 * multiple). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "far/far.h"
#include "skip.h"

static run_result run(const char *name, int ranks, const char *device, const char *schedule,
                      const char *more) {
    const char *words[] = {device,         schedule,      more, "train.optimizer=sgd",
                           "train.lr=0.5", "train.clip=0"};
    run_result r = run_here(YAML, name, ranks, "", words, 6);
    if (r.exit_status) fail_msg("%s: status %d", name, r.exit_status);
    for (int k = 0; k < r.n_rank; k++) assert_in_range(r.peak[k], 1, r.predicted[k]);
    return r;
}

static void schedules(void **state) {
    (void)state;
    static const char *const precision[] = {"train.precision=fp32", "train.precision=fp16"};
    static const struct {
        const char *schedule, *name;
        int ranks;
    } others[] = {{"parallel.schedule=1f1b", "plain", 2},
                  {"parallel.schedule=zb-h1", "late", 3},
                  {"parallel.schedule=zb-v", "v", 2},
                  {"parallel.recompute=full", "again", 1}};
    for (int p = 0; p < 2; p++) {
        char name[64];
        snprintf(name, sizeof name, "cpu-%d", p);
        run_result cpu =
            run(name, 1, "parallel.device=cpu", "parallel.schedule=1f1b", precision[p]);
        snprintf(name, sizeof name, "one-%d", p);
        run_result one =
            run(name, 1, "parallel.device=far", "parallel.schedule=1f1b", precision[p]);
        if (!p) run_assert_close(&one, &cpu, "sums of parts");
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            snprintf(name, sizeof name, "%s-%d", others[i].name, p);
            run_result r =
                run(name, others[i].ranks, "parallel.device=far", others[i].schedule, precision[p]);
            run_assert_same(&r, &one, name);
        }
    }
}

int main(void) {
    setenv("PENSTOCK_MODULE", FAR_MODULE, 1);
    setenv("FAR_SUMS", "1", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(schedules)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    run_folder_remove();
    return failed;
}

/* test: label=full timeout=300 isa=any
 * Gradients shared out among replicas (parallel.zero 2) over `self`: with one micro-batch per
 * replica the bits are those of zero 1; with several they are the same in every pipeline, schedule,
 * number of chunks, recomputation and number of threads, and near those of one rank; it takes less
 * memory where there are several chunks, as predicted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "pipeline/schedule/schedule.h"
#include "run/runs_assert.h"
#include "skip.h"
#include <math.h>

#define RUN(layers, channels, train)                                                               \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: " layers ", heads: 2, channels: " channels                         \
    ", context: 20, vocabulary: 256, dropout: 0.1}\n"                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {" train ", micro_batch: 1, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7}\n"             \
    "parallel: {transport: self, threads: 1}\n"                                                    \
    "checkpoint: {every: 3}\n"
#define SMALL RUN("3", "24", "steps: 6, batch: 6")
/* Parameters of several pieces. */
#define WIDE RUN("4", "384", "steps: 3, batch: 4")

/* All of them, and the replicas that they make. */
typedef struct {
    uint32_t all, replicas;
} ranks;

static run_result train(const char *yaml, const char *name, ranks n, const char *resume,
                        const char *const more[3]) {
    char data[64];
    const char *override[] = {data, data, data, data};
    for (int i = 0; i < 3; i++)
        if (more[i]) override[1 + i] = more[i];
    snprintf(data, sizeof data, "parallel.data=%u", n.replicas);
    run_result r = run_here(yaml, name, (int)n.all, resume, override, 4);
    if (r.exit_status) fail_msg("%s: exit status %d", name, r.exit_status);
    for (int k = 0; k < r.n_rank; k++)
        if (!r.peak[k] || r.peak[k] > r.predicted[k])
            fail_msg("%s: rank %d has written other memory than its arena", name, k);
    return r;
}

static void assert_near(const run_result *a, const run_result *b, const char *what) {
    assert_int_equal(a->steps, b->steps);
    for (int i = 0; i < a->steps; i++)
        if (fabs(a->value[i] - b->value[i]) > 1e-5 * b->value[i] ||
            fabs(a->norm[i] - b->norm[i]) > 1e-3 * b->norm[i])
            fail_msg("%s: step %d has loss %.9g, norm %.9g, not %.9g, %.9g", what, i + 1,
                     a->value[i], a->norm[i], b->value[i], b->norm[i]);
}

static void one_micro_batch_each(void **state) {
    (void)state;
    static const char *const more[] = {NULL, "parallel.schedule=zb-h1",
                                       "parallel.schedule=interleaved", "parallel.recompute=full",
                                       "parallel.post_validation=true"};
    for (uint32_t d = 2; d <= 4; d++)
        for (uint32_t p = 1; p <= 2; p++)
            for (int i = 0; i < 5; i++) {
                char name[2][32], batch[32];
                snprintf(batch, sizeof batch, "train.batch=%u", d);
                snprintf(name[0], 32, "one-1-%u-%u-%d", d, p, i);
                snprintf(name[1], 32, "one-2-%u-%u-%d", d, p, i);
                run_result one = train(SMALL, name[0], (ranks){p * d, d}, "",
                                       (const char *[3]){batch, "parallel.zero=1", more[i]});
                run_result two = train(SMALL, name[1], (ranks){p * d, d}, "",
                                       (const char *[3]){batch, "parallel.zero=2", more[i]});
                run_assert_same(&two, &one, name[1]);
            }
    for (uint32_t p = 1; p <= 2; p++) {
        run_result one = train(WIDE, p > 1 ? "wide-1-2" : "wide-1-1", (ranks){4 * p, 4}, "",
                               (const char *[3]){"parallel.zero=1"});
        run_result two = train(WIDE, p > 1 ? "wide-2-2" : "wide-2-1", (ranks){4 * p, 4}, "",
                               (const char *[3]){"parallel.zero=2"});
        run_assert_same(&two, &one, "parameters of several pieces");
    }
}

static void every_layout(void **state) {
    (void)state;
    uint32_t rows;
    const pst_schedule_row *row = pst_schedule_rows(&rows);
    static const char *const more[] = {NULL, "parallel.recompute=selective", "parallel.threads=2",
                                       "parallel.recompute=full", "parallel.post_validation=true"};
    run_result one = train(SMALL, "alone", (ranks){1, 1}, "", (const char *[3]){NULL});
    for (uint32_t d = 2; d <= 3; d++) {
        run_result base = train(SMALL, d == 2 ? "base-2" : "base-3", (ranks){d, d}, "",
                                (const char *[3]){"parallel.zero=2"});
        assert_near(&base, &one, "against one rank");
        for (uint32_t p = 1; p <= 3; p++)
            for (uint32_t s = 0; s + 1 < rows; s++) {
                char schedule[64], name[64];
                if (d == 3 && s % 3 != p % 3) continue; /* enough of them */
                snprintf(schedule, sizeof schedule, "parallel.schedule=%s", row[s].name);
                snprintf(name, sizeof name, "%s-%u-%u", row[s].name, p, d);
                run_result r =
                    train(SMALL, name, (ranks){p * d, d}, "",
                          (const char *[3]){schedule, "parallel.zero=2", more[(p + s) % 5]});
                run_assert_same(&r, &base, name);
            }
    }
    run_result wide[3] = {
        train(WIDE, "wide", (ranks){2, 2}, "", (const char *[3]){"parallel.zero=2"}),
        train(WIDE, "wide-deep", (ranks){4, 2}, "",
              (const char *[3]){"parallel.zero=2", "parallel.schedule=zb-v"}),
        train(WIDE, "wide-chunks", (ranks){2, 2}, "",
              (const char *[3]){"parallel.zero=2", "parallel.schedule=interleaved",
                                "parallel.chunks=3"})};
    run_assert_same(&wide[1], &wide[0], "wide, two stages");
    run_assert_same(&wide[2], &wide[0], "wide, three chunks");
}

/* A replica with fewer micro-batches takes no part in the last rounds. */
static void unequal(void **state) {
    (void)state;
    static const char *const shares[] = {"parallel.replicas=[1,5]", "parallel.replicas=[4,2]"},
                             *const schedules[] = {NULL, "parallel.schedule=interleaved",
                                                   "parallel.schedule=zb-h2"};
    run_result one = train(SMALL, "unequal-one", (ranks){1, 1}, "", (const char *[3]){NULL}), first;
    for (int i = 0; i < 2; i++)
        for (uint32_t p = 1; p <= 3; p++) {
            char name[32];
            snprintf(name, sizeof name, "unequal-%d-%u", i, p);
            run_result r = train(SMALL, name, (ranks){p * 2, 2}, "",
                                 (const char *[3]){shares[i], "parallel.zero=2", schedules[p - 1]});
            if (p == 1) first = r;
            assert_near(&r, &one, name);
            run_assert_same(&r, &first, name);
        }
    run_result many = train(SMALL, "unequal-many", (ranks){8, 4}, "",
                            (const char *[3]){"parallel.replicas=[1,3,1,1]", "parallel.zero=2"});
    assert_near(&many, &one, "four unequal replicas");
}

static void precision_and_tensor(void **state) {
    (void)state;
    static const char *const how[] = {"train.precision=bf16", "train.precision=fp16",
                                      "parallel.tensor=2", "parallel.sequence=true"};
    for (int i = 0; i < 4; i++) {
        char name[2][32];
        const char *tensor = i >= 2 ? "parallel.tensor=2" : NULL;
        uint32_t n = i >= 2 ? 4 : 2;
        snprintf(name[0], 32, "how-1-%d", i);
        snprintf(name[1], 32, "how-2-%d", i);
        if (!i && !has_bf16("zero 2 in bf16")) continue;
        for (int several = 0; several < 2; several++) {
            char batch[96];
            snprintf(batch, sizeof batch, "%s", several ? "train.batch=6" : "train.batch=2");
            const char *one[] = {batch, "parallel.zero=1", how[i], "parallel.data=2",
                                 tensor ? tensor : batch};
            const char *two[] = {batch, "parallel.zero=2", how[i], "parallel.data=2",
                                 tensor ? tensor : batch};
            snprintf(name[0], 32, "how-1-%d-%d", i, several);
            snprintf(name[1], 32, "how-2-%d-%d", i, several);
            run_result a = run_here(SMALL, name[0], (int)n, "", one, 5),
                       b = run_here(SMALL, name[1], (int)n, "", two, 5);
            assert_int_equal(a.exit_status, 0);
            assert_int_equal(b.exit_status, 0);
            for (int k = 0; k < b.n_rank; k++) assert_in_range(b.peak[k], 1, b.predicted[k]);
            snprintf(name[0], 32, "how-3-%d-%d", i, several);
            run_result deep = run_here(SMALL, name[0], (int)(2 * n), "", two, 5);
            run_assert_same(&deep, &b, name[0]);
            if (!several) run_assert_same(&b, &a, name[1]);
        }
    }
}

/* From step 3 on with the other stage of sharding. */
static void resume(void **state) {
    (void)state;
    static const char *const zero[] = {"parallel.zero=1", "parallel.zero=2"};
    run_result base =
        train(SMALL, "resume-base", (ranks){2, 2}, "", (const char *[3]){"train.batch=2", zero[0]});
    for (int i = 0; i < 2; i++) {
        char name[32], command[700], folder[600];
        snprintf(name, sizeof name, "resume-%d", i);
        run_result r =
            train(SMALL, name, (ranks){2, 2}, "", (const char *[3]){"train.batch=2", zero[i]});
        snprintf(command, sizeof command, "rm -r '%s/checkpoints/step-00000006'", r.folder);
        assert_int_equal(system(command), 0);
        snprintf(folder, sizeof folder, "%s", r.folder);
        r = train(SMALL, name, (ranks){4, 2}, folder, (const char *[3]){"train.batch=2", zero[!i]});
        run_assert_same(&r, &base, name);
    }
}

static void takes_less(void **state) {
    (void)state;
    run_result one = train(WIDE, "less-1", (ranks){4, 4}, "",
                           (const char *[3]){"parallel.schedule=interleaved", "parallel.chunks=5"});
    run_result two = train(
        WIDE, "less-2", (ranks){4, 4}, "",
        (const char *[3]){"parallel.schedule=interleaved", "parallel.chunks=5", "parallel.zero=2"});
    /* bytes of what is neither shared nor small */
    uint64_t layers = (uint64_t)4 * 12 * 384 * 384 * 4;
    for (int r = 0; r < 4; r++) /* a quarter, and two chunks of five that are not quite equal; a
                                   piece more or less */
        assert_true(two.predicted[r] + layers * 3 / 4 <
                    one.predicted[r] + layers / 2 + 4 * ((256 << 10) * 4));
    char memory[64];
    const char *little[] = {"parallel.data=4", "parallel.schedule=interleaved", "parallel.chunks=5",
                            memory};
    snprintf(memory, sizeof memory, "parallel.memory=%llu",
             (unsigned long long)one.predicted[0] - 4096);
    assert_int_equal(run_here(WIDE, "little", 4, "", little, 4).exit_status, 4);
    assert_non_null(strstr(pst_error(), "would fit"));
}

static void refused(void **state) {
    (void)state;
    const char *wrong[] = {"parallel.data=2", "parallel.zero=2", "parallel.reproducible=2"};
    assert_int_equal(run_here(SMALL, "wrong", 2, "", wrong, 3).exit_status, 2);
    assert_non_null(strstr(pst_error(), "parallel.zero=1"));
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_micro_batch_each),
                                       cmocka_unit_test(every_layout),
                                       cmocka_unit_test(unequal),
                                       cmocka_unit_test(precision_and_tensor),
                                       cmocka_unit_test(resume),
                                       cmocka_unit_test(takes_less),
                                       cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, cleanup);
}

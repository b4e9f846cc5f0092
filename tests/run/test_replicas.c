/* test: label=full timeout=240 isa=any
 * Data parallelism over `self`: losses, gradient norms and weights are those of one rank up to
 * rounding, never scaled by replicas; with as many replicas they are equal to the bit in every
 * pipeline, schedule, number of threads and stage of sharding, and when run again; no more memory
 * is written than predicted; checkpoints go from any number of replicas to any other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "pipeline/schedule/schedule.h"
#include "run/runs_assert.h"
#include "skip.h"
#include <math.h>

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1}\n"                                                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 6, batch: 6, micro_batch: 1, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7}\n"    \
    "parallel: {transport: self, threads: 1}\n"                                                    \
    "checkpoint: {every: 3}\n"
/* Eight micro-batches. */
#define EIGHT                                                                                      \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1}\n"                                                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 5, batch: 8, micro_batch: 1, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7}\n"    \
    "parallel: {transport: self, threads: 1}\n"                                                    \
    "checkpoint: {every: 0}\n"
/* Parameters of several pieces. */
#define WIDE                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 1, heads: 2, channels: 384, context: 8, vocabulary: 1500}\n"       \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"], validation: 0}\n"            \
    "train: {steps: 3, batch: 6, micro_batch: 1, lr: 1.0e-3, warmup: 0, clip: 0.05, seed: 7}\n"    \
    "parallel: {transport: self, threads: 1}\n"                                                    \
    "checkpoint: {every: 0}\n"

typedef struct {
    uint32_t stages, replicas;
} layout;

static run_result train(const char *yaml, const char *name, layout g, const char *resume,
                        const char *a, const char *b) {
    char data[64];
    const char *override[] = {data, a ? a : data, b ? b : data};
    snprintf(data, sizeof data, "parallel.data=%u", g.replicas);
    run_result r = run_here(yaml, name, (int)(g.stages * g.replicas), resume, override, 3);
    if (r.exit_status) fail_msg("%s: exit status %d", name, r.exit_status);
    for (int k = 0; k < r.n_rank; k++)
        if (!r.peak[k] || r.peak[k] > r.predicted[k])
            fail_msg("%s: rank %d has written other memory than its arena", name, k);
    return r;
}

static void assert_near(const run_result *a, const run_result *b, double tolerance,
                        const char *what) {
    assert_int_equal(a->steps, b->steps);
    for (int i = 0; i < a->steps; i++)
        if (fabs(a->value[i] - b->value[i]) > tolerance * b->value[i] ||
            fabs(a->norm[i] - b->norm[i]) > 100 * tolerance * b->norm[i])
            fail_msg("%s: step %d has loss %.9g, norm %.9g, not %.9g, %.9g", what, i + 1,
                     a->value[i], a->norm[i], b->value[i], b->norm[i]);
    if (fabs(a->validation - b->validation) > tolerance * b->validation)
        fail_msg("%s: validation loss %.9g, not %.9g", what, a->validation, b->validation);
}

static void every_layout(void **state) {
    (void)state;
    uint32_t rows;
    const pst_schedule_row *row = pst_schedule_rows(&rows);
    run_result one = train(YAML, "one", (layout){1, 1}, "", NULL, NULL);
    for (uint32_t d = 2; d <= 4; d++) {
        char of[2][32];
        snprintf(of[0], sizeof of[0], "base-%u", d);
        snprintf(of[1], sizeof of[1], "again-%u", d);
        run_result base = train(YAML, of[0], (layout){1, d}, "", NULL, NULL);
        assert_near(&base, &one, 1e-5, "replicas against one rank");
        run_result again = train(YAML, of[1], (layout){1, d}, "", "parallel.threads=2", NULL);
        run_assert_same(&again, &base, "again, with two threads");
        for (uint32_t p = 1; p <= 3; p++)
            for (uint32_t s = 0; s + 1 < rows; s++) {
                char schedule[64], zero[32], name[64];
                if (d == 3 && s % 3) continue; /* enough of them */
                snprintf(schedule, sizeof schedule, "parallel.schedule=%s", row[s].name);
                snprintf(zero, sizeof zero, "parallel.zero=%u", (p + s) % 2);
                snprintf(name, sizeof name, "%s-%u-%u-%s", row[s].name, p, d, zero);
                run_result r = train(YAML, name, (layout){p, d}, "", schedule, zero);
                run_assert_same(&r, &base, name);
            }
    }
}

static void few_micro_batches(void **state) {
    (void)state;
    run_result one = train(YAML, "few-one", (layout){1, 1}, "", "train.batch=2", NULL);
    /* one each, on four stages */
    run_result r = train(YAML, "few", (layout){4, 2}, "", "train.batch=2", NULL);
    assert_near(&r, &one, 1e-5, "fewer micro-batches than stages");
}

/* Pieces of one parameter belong to several replicas; two stages share the embedding. */
static void pieces(void **state) {
    (void)state;
    run_result one = train(WIDE, "wide-one", (layout){1, 1}, "", NULL, NULL), first = {0};
    run_result deep = train(WIDE, "wide-deep", (layout){3, 1}, "", NULL, NULL);
    run_assert_same(&deep, &one, "three stages");
    for (uint32_t d = 2; d <= 3; d++)
        for (uint32_t p = 1; p <= 2; p++)
            for (int zero = 0; zero < 2; zero++) {
                char text[32], name[64];
                snprintf(text, sizeof text, "parallel.zero=%d", zero);
                snprintf(name, sizeof name, "wide-%u-%u-%d", p, d, zero);
                run_result r = train(WIDE, name, (layout){p, d}, "", text, NULL);
                assert_near(&r, &one, 1e-5, name);
                if (p == 1 && !zero) first = r;
                run_assert_same(&r, &first, name);
            }
}

/* Optimizer state is shared out, and everything else is as it was. */
static void zero_takes_less(void **state) {
    (void)state;
    run_result all = train(WIDE, "less-0", (layout){1, 2}, "", "parallel.zero=0", NULL);
    run_result shared = train(WIDE, "less-1", (layout){1, 2}, "", "parallel.zero=1", NULL);
    uint64_t parameters = 1500 * 384 + 8 * 384 + 12 * 384 * 384; /* at least */
    for (int r = 0; r < 2; r++) /* half of two moments in fp32, evenly but for two pieces */
        assert_true(shared.predicted[r] + 2 * parameters / 2 * 4 <
                    all.predicted[r] + 2 * 2 * (256 << 10) * 4);
    char memory[64]; /* and that is what a run that does not fit is told */
    const char *little[] = {"parallel.data=2", "parallel.zero=0", memory};
    snprintf(memory, sizeof memory, "parallel.memory=%llu",
             (unsigned long long)all.predicted[0] - 4096);
    assert_int_equal(run_here(WIDE, "little", 2, "", little, 3).exit_status, 4);
    assert_non_null(strstr(pst_error(), "parallel.zero=1 would fit"));
}

/* Evaluation between steps has the weights that other replicas have stepped; so has the hash after
 * the last one. */
static void validation(void **state) {
    (void)state;
    for (uint32_t p = 1; p <= 2; p++)
        for (uint32_t d = 2; d <= 3; d++) {
            run_result r[2];
            for (int zero = 0; zero < 2; zero++) {
                char text[32], name[64];
                snprintf(text, sizeof text, "parallel.zero=%d", zero);
                snprintf(name, sizeof name, "validation-%u-%u-%d", p, d, zero);
                r[zero] = train(YAML, name, (layout){p, d}, "", text, "train.validate_every=2");
            }
            assert_true(r[0].validation > 0);
            assert_true(r[0].validation == r[1].validation);
            run_assert_same(&r[1], &r[0], "weights shared out");
        }
}

static void remove_last(const char *folder) {
    char command[1300];
    snprintf(command, sizeof command, "rm -r '%s/checkpoints/step-00000006'", folder);
    assert_int_equal(system(command), 0);
}

/* From step 3 on as another layout: equal to the bit where the number of replicas is the same, near
 * where it is not. */
static void resume(void **state) {
    (void)state;
    static const uint32_t from[][2] = {{1, 2}, {2, 2}, {1, 3}, {3, 1}},
                          to[][2] = {{2, 2}, {1, 1}, {1, 2}, {2, 3}};
    run_result base[4];
    for (uint32_t d = 1; d <= 3; d++) {
        char name[32];
        snprintf(name, sizeof name, "resume-base-%u", d);
        base[d] = train(YAML, name, (layout){1, d}, "", NULL, NULL);
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            char name[32], folder[600];
            snprintf(name, sizeof name, "resume-%d-%d", i, k);
            run_result r = train(YAML, name, (layout){from[i][0], from[i][1]}, "", NULL, NULL);
            remove_last(r.folder);
            snprintf(folder, sizeof folder, "%s", r.folder);
            r = train(YAML, name, (layout){to[k][0], to[k][1]}, folder, NULL, NULL);
            if (from[i][1] == to[k][1]) run_assert_same(&r, &base[to[k][1]], name);
            else assert_near(&r, &base[1], 1e-5, name);
        }
}

/* Parts of tensors read as whole ones. */
static void resume_pieces(void **state) {
    (void)state;
    char folder[600];
    run_result base =
        train(WIDE, "part-base", (layout){1, 2}, "", "train.steps=4", "checkpoint.every=2");
    run_result one =
        train(WIDE, "part-one", (layout){1, 1}, "", "train.steps=4", "checkpoint.every=2");
    for (uint32_t p = 1; p <= 2; p++)
        for (uint32_t d = 1; d <= 3; d++) {
            char command[1300], name[32];
            snprintf(name, sizeof name, "part-%u-%u", p, d);
            run_result r =
                train(WIDE, name, (layout){1, 2}, "", "train.steps=4", "checkpoint.every=2");
            snprintf(command, sizeof command, "rm -r '%s/checkpoints/step-00000004'", r.folder);
            assert_int_equal(system(command), 0);
            snprintf(folder, sizeof folder, "%s", r.folder);
            r = train(WIDE, name, (layout){p, d}, folder, "train.steps=4", "checkpoint.every=2");
            if (d == 2) run_assert_same(&r, &base, name);
            else assert_near(&r, &one, 1e-5, name);
        }
}

/* A slow replica takes fewer micro-batches: the mean stays right, and the bits depend on the shares
 * alone. */
static void unequal(void **state) {
    (void)state;
    static const char *const shares[] = {"parallel.replicas=[1,5]", "parallel.replicas=[4,2]"};
    run_result one = train(YAML, "unequal-one", (layout){1, 1}, "", NULL, NULL), same[2];
    for (int i = 0; i < 2; i++)
        for (uint32_t p = 1; p <= 3; p++) {
            char name[32];
            snprintf(name, sizeof name, "unequal-%d-%u", i, p);
            run_result r =
                train(YAML, name, (layout){p, 2}, "", shares[i], p == 2 ? "parallel.zero=0" : NULL);
            assert_near(&r, &one, 1e-5, name);
            if (p == 1) same[i] = r;
            run_assert_same(&r, &same[i], name);
        }
    /* the replicas take 4 and 2 micro-batches */
    run_result slow = train(YAML, "slow", (layout){1, 2}, "", "parallel.throttle=[1,2]", NULL);
    run_assert_same(&slow, &same[1], "a rank of half the speed");
    run_result solved =
        train(YAML, "unequal-solved", (layout){2, 2}, "", shares[1], "parallel.schedule=solved");
    run_assert_same(&solved, &same[1], "an order for each replica");
    const char *wrong[][2] = {{"parallel.data=2", "parallel.replicas=[3,4]"},
                              {"parallel.data=2", "parallel.replicas=[2,2,2]"},
                              {"parallel.data=2", "parallel.replicas=[0,6]"},
                              {"parallel.data=2", "parallel.throttle=[1,2,3]"},
                              {"parallel.data=2", "parallel.throttle=[0.5]"}};
    for (int i = 0; i < 5; i++)
        assert_int_equal(run_here(YAML, "wrong", 2, "", wrong[i], 2).exit_status, 2);
}

/* One accumulator for each part of a step: the same bits for every number of replicas that divides
 * them, in every pipeline. */
static void reproducible(void **state) {
    (void)state;
    static const uint32_t grid[][2] = {{1, 1}, {2, 1}, {3, 1}, {1, 2},
                                       {2, 2}, {1, 4}, {3, 4}, {2, 4}};
    static const char *const more[] = {NULL, "parallel.schedule=zb-h1", "parallel.threads=2",
                                       "parallel.zero=0"};
    run_result plain = train(EIGHT, "plain", (layout){1, 1}, "", NULL, NULL), first = {0};
    for (int i = 0; i < 8; i++) {
        char name[32];
        snprintf(name, sizeof name, "reproducible-%u-%u", grid[i][0], grid[i][1]);
        run_result r = train(EIGHT, name, (layout){grid[i][0], grid[i][1]}, "",
                             "parallel.reproducible=4", more[i % 4]);
        if (!i) first = r;
        run_assert_same(&r, &first, name);
        assert_near(&r, &plain, 1e-5, name);
    }
    run_result wide =
        train(WIDE, "wide-parts", (layout){1, 1}, "", "parallel.reproducible=2", NULL);
    run_result two =
        train(WIDE, "wide-parts-2", (layout){2, 2}, "", "parallel.reproducible=2", NULL);
    run_assert_same(&two, &wide, "parameters of several pieces");
    const char *wrong[][2] = {{"parallel.data=1", "parallel.reproducible=3"}, /* no power of two */
                              {"parallel.data=4", "parallel.reproducible=2"},
                              {"parallel.data=1", "parallel.reproducible=16"}};
    for (int i = 0; i < 3; i++)
        assert_int_equal(run_here(EIGHT, "wrong-parts", 0, "", wrong[i], 2).exit_status, 2);
}

/* Sixteen bits: what is stepped is the fp32 master, which the hash is of; what is sent is the
 * copy. */
static void sixteen_bits(void **state) {
    (void)state;
    static const char *const precision[] = {"train.precision=bf16", "train.precision=fp16"};
    for (int i = 0; i < 2; i++) {
        char name[3][32];
        const char *probe[] = {precision[i]};
        snprintf(name[0], sizeof name[0], "half-probe-%d", i);
        if (!i && !has_bf16("replicas in bf16")) continue;
        assert_int_equal(run_here(YAML, name[0], 1, "", probe, 1).exit_status, 0);
        for (uint32_t p = 1; p <= 2; p++) {
            snprintf(name[1], sizeof name[1], "half-0-%d-%u", i, p);

            snprintf(name[2], sizeof name[2], "half-1-%d-%u", i, p);
            run_result all =
                train(YAML, name[1], (layout){p, 2}, "", precision[i], "parallel.zero=0");
            run_result shared =
                train(YAML, name[2], (layout){p, 2}, "", precision[i], "parallel.zero=1");
            run_assert_same(&shared, &all, name[2]);
        }
        snprintf(name[1], sizeof name[1], "half-less-0-%d", i);
        snprintf(name[2], sizeof name[2], "half-less-1-%d", i);
        run_result all = train(WIDE, name[1], (layout){1, 2}, "", precision[i], "parallel.zero=0");
        run_result shared =
            train(WIDE, name[2], (layout){1, 2}, "", precision[i], "parallel.zero=1");
        uint64_t parameters = 1500 * 384 + 8 * 384 + 12 * 384 * 384;
        /* half of masters and two moments, evenly but for three pieces */
        for (int r = 0; r < 2; r++)
            assert_true(shared.predicted[r] + 3 * parameters / 2 * 4 <
                        all.predicted[r] + 3 * 2 * (256 << 10) * 4);
        run_assert_same(&shared, &all, name[2]);
    }
}

static void contradictions(void **state) {
    (void)state;
    const char *two[] = {"parallel.data=2"}, *six[] = {"parallel.data=3", "parallel.pipeline=2"},
               *many[] = {"parallel.data=7"};
    assert_int_equal(run_here(YAML, "three", 3, "", two, 1).exit_status, 2);
    assert_int_equal(run_here(YAML, "five", 5, "", six, 2).exit_status, 2);
    assert_int_equal(run_here(YAML, "two", 2, "", six, 2).exit_status, 2);
    /* seven replicas, and 6 micro-batches */
    assert_int_equal(run_here(YAML, "seven", 7, "", many, 1).exit_status, 2);
    run_result r = run_here(YAML, "six", 0, "", six, 2); /* without -n: the product */
    assert_int_equal(r.exit_status, 0);
    assert_int_equal(r.n_rank, 6);
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),  cmocka_unit_test(few_micro_batches),
        cmocka_unit_test(pieces),        cmocka_unit_test(zero_takes_less),
        cmocka_unit_test(validation),    cmocka_unit_test(resume),
        cmocka_unit_test(resume_pieces), cmocka_unit_test(unequal),
        cmocka_unit_test(reproducible),  cmocka_unit_test(sixteen_bits),
        cmocka_unit_test(contradictions)};
    return cmocka_run_group_tests(tests, NULL, cleanup);
}

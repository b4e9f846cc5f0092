/* test: label=full timeout=120
 * parallel.local: islands that take several steps without each other. The same bits in every
 * pipeline, schedule and with every number of threads, after a resume from inner and outer steps.
 * The outer step is that of the formula, from the weights that checkpoints have of each island.
 * With one inner step of SGD and the mean of the weights, the bits are those of zero 1.
 * Evaluations wait for weights that all islands have; other numbers of islands resume. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "checkpoint/checkpoint.h"
#include "prepare/prepare.h"
#include "run/runs_assert.h"
#include <math.h>

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1}\n"                                                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 7, lr: 1.0e-2, warmup: 2, batch: 8, micro_batch: 1, seed: 7}\n"                \
    "parallel: {transport: self, threads: 1, data: 2, local: {steps: 3}}\n"                        \
    "checkpoint: {every: 1, keep: 20}\n"

static run_result base;

static run_result train(const char *resume, int ranks, const char *keys) {
    return run_with(YAML, resume, ranks, keys);
}

static int open_base(void **state) {
    (void)state;
    base = train("", 2, "");
    return base.exit_status;
}

/* --- bits ------------------------------------------------------------------------------------- */

static void same_bits(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *keys;
    } layouts[] = {{2, "parallel.threads=2 parallel.recompute=full"},
                   {4, "parallel.schedule=gpipe"},
                   {4, "parallel.schedule=zb-h1 parallel.zero=1"},
                   {4, "parallel.schedule=zb-v"},
                   {6, "parallel.recompute=selective"}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        run_result r = train("", layouts[i].ranks, layouts[i].keys);
        run_assert_same(&r, &base, layouts[i].keys);
    }
    run_result synchronous = train("", 2, "parallel.local.steps=0");
    assert_string_not_equal(base.hash, synchronous.hash);
    for (int i = 0; i < base.steps; i++)
        assert_true(fabs(base.value[i] - synchronous.value[i]) < 0.2 * base.value[i]);
}

/* Also unequal ones, parts of tensor ranks, and numbers of 16 bits. */
static void several_islands(void **state) {
    (void)state;
    static const struct {
        int data, tensor;
        const char *keys;
    } cases[] = {{3, 1, ""},
                 {5, 1, "parallel.replicas=[3,2,1,1,1] train.optimizer=muon"},
                 {4, 1, "train.precision=fp16 train.loss_scale=256 train.optimizer_state=bf16"},
                 {2, 2, "parallel.reproducible.tensor=2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char keys[300], more[400];
        snprintf(keys, sizeof keys, "parallel.data=%d parallel.tensor=%d train.steps=4 %s",
                 cases[i].data, cases[i].tensor, cases[i].keys);
        snprintf(more, sizeof more, "%s parallel.schedule=zb-h1", keys);
        const int ranks = cases[i].data * cases[i].tensor;
        run_result flat = train("", ranks, keys), deep = train("", 2 * ranks, more);
        assert_int_equal(flat.exit_status, 0);
        run_assert_same(&deep, &flat, more);
    }
    run_result split = train("", 4, "parallel.tensor=2 parallel.reproducible.tensor=2"),
               whole = train("", 2, "parallel.reproducible.tensor=2");
    run_assert_same(&split, &whole, "tensor ranks");
}

/* Islands of several replicas: with other pipelines, schedules and ZeRO stages; unequal ones; tied
 * weights on two stages, which get the new ones from their own island. */
static void islands_of_replicas(void **state) {
    (void)state;
    static const char *const keys[] = {"parallel.replicas=[3,2,2,1]",
                                       "train.precision=bf16 train.optimizer=muon"};
    for (int i = 0; i < 2; i++) {
        char all[300], more[400];
        snprintf(all, sizeof all, "parallel.data=4 parallel.local.islands=2 train.steps=4 %s",
                 keys[i]);
        snprintf(more, sizeof more, "%s parallel.zero=1 parallel.threads=2", all);
        run_result flat = train("", 4, all), sharded = train("", 4, more);
        assert_int_equal(flat.exit_status, 0);
        run_assert_same(&sharded, &flat, more);
        snprintf(more, sizeof more, "%s parallel.zero=%d parallel.schedule=zb-h1", all, i);
        run_result deep = train("", 8, more);
        run_assert_same(&deep, &flat, more);
    }
}

/* The first steps of two islands, with two replicas each, are those of islands with one replica:
 * but for the order in which gradients are added. */
static void replicas_add_up(void **state) {
    (void)state;
    run_result two = train("", 4, "parallel.data=4 parallel.local.islands=2 parallel.zero=1");
    for (int i = 0; i < base.steps; i++)
        assert_true(fabs(two.value[i] - base.value[i]) < 1e-4 * base.value[i]);
    run_result r = train(run_copy_until(&two, 5), 8,
                         "parallel.data=4 parallel.local.islands=2 parallel.schedule=gpipe");
    run_assert_same(&r, &two, "resumed");
    r = train(run_copy_until(&two, 5), 2, ""); /* islands of one replica go on with them */
    assert_int_equal(r.exit_status, 0);
    for (int i = 0; i < r.steps; i++)
        assert_true(fabs(r.value[i] - two.value[i]) < 1e-4 * two.value[i]);
}

#define MEAN                                                                                       \
    "parallel.local.steps=1 parallel.local.outer.lr=1 parallel.local.outer.momentum=0 "            \
    "train.optimizer=sgd "

static void one_step_of_sgd_is_synchronous(void **state) {
    (void)state;
    run_result zero = train("", 2,
                            "parallel.local.steps=0 parallel.zero=1 train.optimizer=sgd "
                            "train.clip=0"),
               local = train("", 2, MEAN "train.clip=0"),
               deep = train("", 4, MEAN "train.clip=0 parallel.zero=1"),
               other = train("", 2, MEAN "train.clip=1e9"); /* by the weights of islands */
    run_assert_same(&local, &zero, "islands");
    run_assert_same(&deep, &zero, "islands of two stages");
    assert_int_equal(other.exit_status, 0);
    for (int i = 0; i < zero.steps; i++)
        assert_true(fabs(other.value[i] - zero.value[i]) < 1e-6 * zero.value[i]);
}

/* --- the outer step --------------------------------------------------------------------------- */

enum { MOST = 256 * 24 };

static void read_tensor(const run_result *r, int step, const char *tensor, float *out) {
    char path[700];
    pst_ckpt *c = NULL;
    snprintf(path, sizeof path, "%s/checkpoints/step-%08d", r->folder, step);
    if (pst_ckpt_open(path, &c) != PST_OK) fail_msg("%s", pst_error());
    const pst_ckpt_tensor *t = pst_ckpt_tensor_find(c, tensor);
    if (!t) fail_msg("%s lacks %s", c->path, tensor);
    assert_true(t->elements <= MOST);
    if (pst_ckpt_read(c, tensor, out, t->elements) != PST_OK) fail_msg("%s", pst_error());
    pst_ckpt_close(c);
}

/* The weights of islands before the outer step of `step` are those of a run whose outer step comes
 * later. */
static void check_outer_step(const run_result *r, const run_result *later, int step,
                             float velocity[MOST]) {
    static float was[MOST], is[MOST], now[MOST], island[2][MOST];
    char name[PST_CKPT_NAME];
    double most = 0;
    read_tensor(later, step, "wte.weight", was);
    read_tensor(r, step, "wte.weight", now);
    for (uint32_t k = 0; k < 2; k++)
        read_tensor(later, step, pst_ckpt_island_name("wte.weight", k, "", name), island[k]);
    for (int i = 0; i < MOST; i++) {
        float gradient = (was[i] - island[0][i]) * 0.5f + (was[i] - island[1][i]) * 0.5f;
        velocity[i] = 0.9f * velocity[i] + gradient;
        const double want = (double)was[i] - 0.7 * ((double)gradient + 0.9 * (double)velocity[i]);
        most = fmax(most, fabs(want - (double)was[i]));
        assert_true(fabs(want - (double)now[i]) < 1e-6);
    }
    assert_true(most > 1e-3);
    for (uint32_t k = 0; k < 2; k++) { /* and all islands have it */
        read_tensor(r, step, pst_ckpt_island_name("wte.weight", k, "", name), is);
        assert_memory_equal(is, now, sizeof is);
    }
    read_tensor(r, step, "wte.weight.outer", is);
    for (int i = 0; i < MOST; i++) assert_true(fabsf(is[i] - velocity[i]) < 1e-6F);
}

static void outer_steps_add_up(void **state) {
    (void)state;
    static float velocity[MOST];
    run_result first = train("", 2, "parallel.local.steps=100");
    check_outer_step(&base, &first, 3, velocity);
    run_result second = train(run_copy_until(&base, 3), 2, "parallel.local.steps=100");
    check_outer_step(&base, &second, 6, velocity);
    for (int i = 0; i < 3; i++) assert_string_equal(first.loss[i], base.loss[i]);
}

/* --- fragments and delays --------------------------------------------------------------------- */

/* Kept after step 3, sent to their owners in step 4, and back in step 5. */
#define DELAYED "parallel.local.delay=2 "

static run_result delayed;

static void a_delayed_step_is_that_of_kept_weights(void **state) {
    (void)state;
    static float was[MOST], is[MOST], now[MOST], kept[2][MOST];
    char name[PST_CKPT_NAME];
    double most = 0;
    delayed = train("", 2, DELAYED);
    read_tensor(&delayed, 3, "wte.weight", was);
    read_tensor(&delayed, 4, "wte.weight", now);
    for (uint32_t k = 0; k < 2; k++) {
        read_tensor(&delayed, 3, pst_ckpt_island_name("wte.weight", k, "kept", name), kept[k]);
        read_tensor(&delayed, 3, pst_ckpt_island_name("wte.weight", k, "", name), is);
        assert_memory_equal(is, kept[k], sizeof is);
        read_tensor(&delayed, 5, pst_ckpt_island_name("wte.weight", k, "", name), is);
        assert_memory_equal(is, now, sizeof is);
    }
    for (int i = 0; i < MOST; i++) {
        const double gradient = was[i] - 0.5 * ((double)kept[0][i] + (double)kept[1][i]),
                     want = was[i] - 0.7 * 1.9 * gradient;
        most = fmax(most, fabs(want - (double)was[i]));
        assert_true(fabs(want - (double)now[i]) < 1e-6);
    }
    assert_true(most > 1e-3);
}

/* The same bits in other layouts, and after a resume when weights are kept, when the outer step has
 * been taken, and when the result has been applied. */
static void delays_have_the_same_bits(void **state) {
    (void)state;
    for (int step = 3; step <= 5; step++) {
        run_result r = train(run_copy_until(&delayed, step), 4, DELAYED "parallel.schedule=gpipe");
        run_assert_same(&r, &delayed, "resumed");
    }
    static const char *const keys[] = {
        "parallel.local.steps=4 parallel.local.fragments=2 parallel.local.delay=1 "
        "parallel.local.alpha=0.5 train.steps=9",
        "parallel.local.steps=3 parallel.local.fragments=3 train.precision=bf16",
        "parallel.local.steps=5 parallel.local.delay=4 train.steps=11"};
    const int from[] = {4, 4, 6}; /* the last: when some weights have been sent */
    for (int i = 0; i < 3; i++) {
        char all[400], more[500];
        snprintf(all, sizeof all, "parallel.data=4 parallel.local.islands=2 %s", keys[i]);
        snprintf(more, sizeof more, "%s parallel.zero=1 parallel.schedule=zb-h1", all);
        run_result flat = train("", 4, all), deep = train("", 8, more);
        assert_int_equal(flat.exit_status, 0);
        run_assert_same(&deep, &flat, more);
        run_result r = train(run_copy_until(&flat, from[i]), 8, more);
        run_assert_same(&r, &flat, "resumed");
    }
}

/* --- when ------------------------------------------------------------------------------------- */

static void resume_has_the_same_bits(void **state) {
    (void)state;
    for (int step = 2; step <= 3; step++) {
        run_result r = train(run_copy_until(&base, step), 4, "parallel.schedule=gpipe");
        run_assert_same(&r, &base, "resumed");
    }
}

static void other_islands_resume(void **state) {
    (void)state;
    static float was[MOST], is[MOST];
    run_result three = train(run_copy_until(&base, 5), 3, "parallel.data=3 train.steps=6"),
               sync = train(run_copy_until(&base, 5), 2, "parallel.local.steps=0"),
               back = train(run_copy_until(&sync, 6), 2, "");
    assert_true(!three.exit_status && !sync.exit_status && !back.exit_status);
    run_result again =
        train(run_copy_until(&base, 5), 3, "parallel.data=3 parallel.local.steps=100");
    read_tensor(&base, 3, "wte.weight", was);
    read_tensor(&again, 6, "wte.weight", is); /* of the last outer step */
    assert_memory_equal(was, is, sizeof was);
}

/* The n-th line of metrics.jsonl with `key`: its step, 0; and the text of the key. */
static int find_line(const run_result *r, const char *key, int n, char text[40]) {
    char path[600], line[4096];
    int step = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", r->folder);
    FILE *f = fopen(path, "r");
    while (f && n > 0 && fgets(line, sizeof line, f)) {
        json_t *j = json_loads(line, 0, NULL);
        const char *value = json_string_value(json_object_get(j, key));
        const char *event = json_string_value(json_object_get(j, "event"));
        const int found = !strcmp(key, "phase") ? value != NULL : event && !strcmp(event, key);
        if (found) step = (int)json_integer_value(json_object_get(j, "step"));
        if (found) snprintf(text, 40, "%s", value ? value : "");
        n -= found;
        json_decref(j);
    }
    if (f) fclose(f);
    return n ? 0 : step;
}

/* Outer steps after 3, 6 and, as the last one, 7; evaluations that are due after 2, 4 and 6. */
static void phases(void **state) {
    (void)state;
    char text[40];
    run_result r = train("", 2, "eval.every=2");
    assert_int_equal(r.exit_status, 0);
    for (int step = 1; step <= 7; step++) {
        assert_int_equal(find_line(&r, "phase", step, text), step);
        assert_string_equal(text, step % 3 && step < 7 ? "inner" : "outer");
    }
    const int evaluated[] = {3, 6, 7, 0};
    for (int i = 0; i < 4; i++)
        assert_int_equal(find_line(&r, "validation", i + 1, text), evaluated[i]);
    run_result never = train("", 2,
                             "parallel.local.steps=1000 parallel.local.outer.lr=1 "
                             "parallel.local.outer.momentum=0");
    assert_int_equal(never.exit_status, 0); /* one outer step, at the end */
    assert_int_equal(find_line(&never, "validation", 1, text), 7);
}

/* Ranks gather reports of several steps together: every step has its line, with its own numbers. */
static void late_reports(void **state) {
    (void)state;
    const char *const keys = "train.steps=34 parallel.local.steps=30 checkpoint.every=0";
    char text[40];
    run_result all = train("", 2, "train.steps=34 parallel.local.steps=30"), /* a checkpoint each */
        few = train("", 2, keys);
    assert_int_equal(few.exit_status, 0);
    assert_int_equal(few.steps, 34);
    for (int i = 0; i < 34; i++) {
        assert_string_equal(few.loss[i], all.loss[i]);
        assert_true(few.norm[i] == all.norm[i]);
        assert_int_equal(find_line(&few, "phase", i + 1, text), i + 1);
    }
    assert_string_equal(few.hash, all.hash);
}

/* Losses that are not finite are found when the reports come. */
static void late_reports_of_divergence(void **state) {
    (void)state;
    run_result r = train("", 2,
                         "train.steps=60 parallel.local.steps=50 checkpoint.every=0 train.lr=1e30 "
                         "train.warmup=0 train.clip=0 train.optimizer=sgd");
    assert_int_equal(r.exit_status, 2);
    assert_non_null(strstr(pst_error(), "diverged"));
}

/* An outer step that is predicted to end after the time limit is not begun. */
static void time_limit_knows_outer_steps(void **state) {
    (void)state;
    run_result r = train("", 2,
                         "train.time_limit=60 parallel.cluster=2x1_cpu_ib:0.01Mb/s "
                         "checkpoint.every=0");
    assert_int_equal(r.exit_status, 0);
    assert_int_equal(r.steps, 2);
}

/* --- preparation ------------------------------------------------------------------------------ */

/* Old weights and outer momentum, each once, and the step between two outer steps. */
static void memory_and_time(void **state) {
    (void)state;
    pst_config *c;
    pst_prepared *p;
    uint64_t bytes = 0, elements = 0;
    const char *keys[] = {"parallel.cluster=2x1 cpu ib:1Gb/s", "parallel.local.steps=4"};
    if (pst_config_parse(YAML, "test", keys, 2, &c) != PST_OK) fail_msg("%s", pst_error());
    const pst_prepare_options options = {
        .n_rank = 2, .threads = 1, .isa = pst_cpu_isa(), .n_eval_micro = 4};
    if (pst_prepare(c, &options, &p) != PST_OK) fail_msg("%s", pst_error());
    for (uint32_t i = 0; i < p->graph->n_param; i++)
        elements += pst_param_elements(p->graph->param + i);
    for (uint32_t r = 0; r < 2; r++) {
        bytes += p->memory[r]->bytes[PST_REGION_OUTER];
        assert_int_equal(p->memory[r]->total, p->inner->memory[r]->total >= p->memory[r]->total
                                                  ? p->inner->memory[r]->total
                                                  : p->memory[r]->total);
    }
    assert_in_range(bytes, 2 * elements * sizeof(float), 2 * elements * sizeof(float) + 4096);
    for (uint32_t i = 0; i < p->inner->job->list->n_instr; i++) /* between replicas: nothing */
        assert_true(pst_opcode_name(p->inner->job->list->instr[i].opcode) &&
                    p->inner->job->list->instr[i].queue == PST_Q_COMPUTE);
    const double inner = (double)p->inner->timing->step_ns, outer = (double)p->timing->step_ns;
    assert_true(outer > inner + 0.9 * 8e9 * (double)elements * sizeof(float) / 1e9);
    assert_true(fabs(pst_prepared_step_ns(p) - (3 * inner + outer) / 4) < 1);
    assert_true(p->plan->step_ns == (uint64_t)pst_prepared_step_ns(p));
    assert_ptr_equal(pst_prepared_at(p, 2), p->inner);
    assert_ptr_equal(pst_prepared_at(p, 3), p);
    assert_ptr_equal(pst_prepared_at(p, 6), p); /* the last step */
    pst_prepared_close(p);
    pst_config_close(c);
}

static void refuses(const char *keys, const char *why) {
    run_result r = train("", 2, keys);
    if (r.exit_status != 2 || !strstr(pst_error(), why))
        fail_msg("%s: status %d, %s", keys, r.exit_status, pst_error());
}

static void bad_input(void **state) {
    (void)state;
    refuses("train.precision=fp16", "give train.loss_scale");
    refuses("train.non_finite=skip", "use train.non_finite=stop");
    refuses("train.spike=rewind", "use train.spike=warn or off");
    refuses("train.batch_warmup.from=4 train.batch_warmup.tokens=100", "not supported together");
    refuses("parallel.compress.up=int8", "use parallel.compress.up=none");
    refuses("parallel.compress.down=int8", "use parallel.compress.down=none");
    refuses("parallel.gradients=bf16", "use parallel.gradients=fp32");
    refuses("parallel.reproducible.data=2", "use parallel.reproducible.data=0");
    refuses("parallel.post_validation=true", "not supported together");
    refuses("parallel.local.fragments=4", "expected at most parallel.local.steps, 3");
    refuses("parallel.local.delay=3", "less than steps / fragments, 3");
    refuses("parallel.local.alpha=0.5", "needs parallel.local.delay");
    refuses("parallel.local.delay=1 stop.patience=1 eval.every=1", "evaluated only then");
    refuses("parallel.local.steps=-1", "expected a whole number");
    refuses("parallel.local.islands=1", "one island has no others");
    refuses("parallel.local.islands=3", "divides the number of replicas (parallel.data), 2");
    refuses("parallel.local.outer.momentum=1", "expected a number >= 0 and < 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits),
                                       cmocka_unit_test(several_islands),
                                       cmocka_unit_test(islands_of_replicas),
                                       cmocka_unit_test(replicas_add_up),
                                       cmocka_unit_test(outer_steps_add_up),
                                       cmocka_unit_test(one_step_of_sgd_is_synchronous),
                                       cmocka_unit_test(a_delayed_step_is_that_of_kept_weights),
                                       cmocka_unit_test(delays_have_the_same_bits),
                                       cmocka_unit_test(phases),
                                       cmocka_unit_test(late_reports),
                                       cmocka_unit_test(late_reports_of_divergence),
                                       cmocka_unit_test(time_limit_knows_outer_steps),
                                       cmocka_unit_test(resume_has_the_same_bits),
                                       cmocka_unit_test(other_islands_resume),
                                       cmocka_unit_test(memory_and_time),
                                       cmocka_unit_test(bad_input)};
    int failed = cmocka_run_group_tests(tests, open_base, NULL);
    run_folder_remove();
    return failed;
}

/* test: label=quick timeout=60
 * Stages with different numbers of tensor ranks, over `self`: losses are those of one rank within
 * 1e-5, the same to the bit in repeated runs, with every way to share out the optimizer, and from
 * the plan that was written; memory is as predicted, checkpoints go from any numbers to any others,
 * tied embeddings lie on stages that differ. And the checker sees every value that is not sent to
 * all who need it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipeline/check/check.h"
#include "prepare/prepare.h"
#include "run/runs_assert.h"
#include <math.h>

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 3, channels: 24, context: 13, vocabulary: 257, "         \
    "dropout: 0.1}\n"                                                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 4, batch: 6, micro_batch: 1, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7}\n"    \
    "parallel: {transport: self, threads: 1}\n"                                                    \
    "checkpoint: {every: 2}\n"

static run_result base;

/* Several words, with blanks between. */
static run_result run(const char *name, const char *from, const char *words) {
    char text[400], *rest = text, *word;
    const char *override[16];
    size_t n = 0;
    snprintf(text, sizeof text, "%s", words);
    while (n < 16 && (word = strsep(&rest, " "))) override[n++] = word;
    return run_here(YAML, name, 0, from, override, n);
}

static void test_base(void **state) {
    (void)state;
    base = run("base", "", "parallel.tensor=1");
    assert_int_equal(base.exit_status, 0);
    assert_true(base.value[3] < base.value[0]);
}

static void test_degrees(void **state) {
    (void)state;
    static const char *const way[] = {
        "parallel.tensor=[1,2]",
        "parallel.tensor=[3,1]",
        "parallel.tensor=[1,3,1]",
        "parallel.tensor=[3,2,3] parallel.schedule=interleaved",
        "parallel.tensor=[2,3] parallel.schedule=zb-v parallel.recompute=full",
        "parallel.tensor=[2,1,3] parallel.schedule=zb-h1 parallel.post_validation=true",
        "parallel.tensor=[1,1,2] parallel.schedule=gpipe parallel.recompute=selective"};
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        char name[40];
        snprintf(name, sizeof name, "degrees-%zu", i);
        run_result r = run(name, "", way[i]);
        run_assert_close(&r, &base, way[i]);
        if (i) continue;
        run_result again = run("again", "", way[i]);
        run_assert_same(&again, &r, way[i]);
    }
}

/* What replicas share out changes no bit; nor do equal numbers in a list. */
static void test_data(void **state) {
    (void)state;
    run_result none = run("none", "", "parallel.tensor=[1,3] parallel.data=2 parallel.zero=0");
    run_assert_close(&none, &base, "zero 0");
    run_result one = run("one", "", "parallel.tensor=[1,3] parallel.data=2 parallel.zero=1");
    run_assert_same(&one, &none, "zero 1");
    run_result two = run("two", "", "parallel.tensor=[3,1,2] parallel.data=2 parallel.zero=2");
    run_assert_close(&two, &base, "zero 2");
    run_result parts =
        run("parts", "", "parallel.tensor=[2,1] parallel.data=2 parallel.reproducible=2");
    run_assert_close(&parts, &base, "reproducible");
    run_result list = run("list", "", "parallel.tensor=[2,2]");
    run_result number = run("number", "", "parallel.tensor=2 parallel.pipeline=2");
    run_assert_same(&list, &number, "a list of equal numbers");
}

static void test_plan(void **state) {
    (void)state;
    char words[700];
    run_result r = run("made", "", "parallel.tensor=[1,3] parallel.data=2");
    assert_int_equal(r.exit_status, 0);
    snprintf(words, sizeof words, "parallel.plan=%s/plan.yaml", r.folder);
    run_result planned = run("planned", "", words);
    run_assert_same(&planned, &r, "planned");
    snprintf(words, sizeof words, "parallel.plan=%s/plan.yaml parallel.tensor=[1,3]", r.folder);
    planned = run("given", "", words);
    run_assert_same(&planned, &r, "planned and given");
    snprintf(words, sizeof words, "parallel.plan=%s/plan.yaml parallel.tensor=[3,1]", r.folder);
    assert_int_equal(run("other", "", words).exit_status, 2);
}

/* From one layout to another in the middle. */
static void test_resume(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
    } way[] = {{"parallel.tensor=[1,3]", "parallel.tensor=1"},
               {"parallel.tensor=2", "parallel.tensor=[3,1,2]"},
               {"parallel.tensor=[3,2] parallel.data=2", "parallel.tensor=[1,2]"}};
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        char name[32], command[700], from[600];
        snprintf(name, sizeof name, "resume-%zu", i);
        run_result r = run(name, "", way[i].from);
        run_assert_close(&r, &base, way[i].from);
        snprintf(command, sizeof command, "rm -r '%s/checkpoints/step-00000004'", r.folder);
        assert_int_equal(system(command), 0);
        snprintf(from, sizeof from, "%s", r.folder);
        r = run(name, from, way[i].to);
        run_assert_close(&r, &base, way[i].to);
    }
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *words, *says;
    } wrong[] = {{"parallel.tensor=[1,4]", "4 tensor ranks are too many"},
                 {"parallel.tensor=[0,1]", "stage 0 has 0 tensor ranks"},
                 {"parallel.tensor=[1,2] parallel.pipeline=3",
                  "parallel.tensor has 2 numbers, but parallel.pipeline is 3"},
                 {"parallel.tensor=[1,2] parallel.sequence=true",
                  "parallel.sequence needs the same number of tensor ranks"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(run("wrong", "", wrong[i].words).exit_status, 2);
        if (!strstr(pst_error(), wrong[i].says)) fail_msg("%s: '%s'", wrong[i].words, pst_error());
    }
}

/* --- the checker ------------------------------------------------------------------------------ */

static pst_prepared *prepare(const char *tensor, const char *zero, uint32_t lane, pst_config **c) {
    const char *override[] = {tensor, "parallel.data=2", zero};
    pst_prepare_options o = {.threads = 1, .n_eval_micro = 2, .lane = lane};
    pst_prepared *p = NULL;
    assert_int_equal(pst_config_parse(YAML, "test.yaml", override, 3, c), PST_OK);
    assert_int_equal(pst_prepare_ranks(*c, 0, &o.n_rank), PST_OK);
    if (pst_prepare(*c, &o, &p) != PST_OK) fail_msg("%s", pst_error());
    return p;
}

static pst_status check(const pst_prepared *p) {
    return pst_job_check_grid(p->job, (const pst_cut *const *)p->cuts, p->slots, PST_CHECK_TAGGED);
}

/* Every SEND, changed one at a time: it goes to the next rank, or waits for nothing. */
static void test_mutations(void **state) {
    (void)state;
    pst_config *c = NULL;
    pst_prepared *p = prepare("parallel.tensor=[1,3]", "parallel.zero=0", 0, &c);
    uint32_t tried = 0;
    assert_int_equal(check(p), PST_OK);
    for (uint32_t r = 0; r < p->job->n_rank; r++)
        for (uint32_t i = 0; i < p->job->list[r].n_instr; i++) {
            pst_instr *in = &p->job->list[r].instr[i], was = *in;
            if (in->opcode != PST_OP_SEND || in->micro > 1) continue;
            in->peer = (in->peer + 1) % p->job->n_rank;
            assert_int_equal(check(p), PST_EINPUT);
            *in = was;
            if (in->local == PST_NONE) continue;
            in->n_dep = 0;
            int behind = i && in[-1].opcode == PST_OP_SEND; /* in its queue, of one that waits */
            if (!behind) assert_int_equal(check(p), PST_EINPUT);
            *in = was;
            tried++;
        }
    assert_true(tried >= 2 * 2 * (3 + 1)); /* two micro-batches of two replicas, there and back */
    assert_int_equal(check(p), PST_OK);
    pst_prepared_close(p);
    pst_config_close(c);
}

/* One pipeline on its own, as plans of many ranks are simulated, has the memory of the whole. */
static void test_lane(void **state) {
    (void)state;
    static const char *const zero[] = {"parallel.zero=0", "parallel.zero=1", "parallel.zero=2"};
    for (int z = 0; z < 3; z++) {
        pst_config *a, *b;
        pst_prepared *whole = prepare("parallel.tensor=[3,1,2]", zero[z], 0, &a);
        pst_prepared *lane = prepare("parallel.tensor=[3,1,2]", zero[z], 2, &b);
        assert_true(lane->timing->step_ns > 0);
        for (uint32_t s = 0; s < 3; s++) {
            uint32_t rank = pst_grid_rank(whole->grid, s, 1, 0);
            assert_int_equal(whole->memory[rank]->total, lane->memory[rank]->total);
            assert_memory_equal(whole->memory[rank]->bytes, lane->memory[rank]->bytes,
                                sizeof whole->memory[rank]->bytes);
        }
        pst_prepared_close(whole);
        pst_prepared_close(lane);
        pst_config_close(a);
        pst_config_close(b);
    }
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base),      cmocka_unit_test(test_degrees),
        cmocka_unit_test(test_data),      cmocka_unit_test(test_plan),
        cmocka_unit_test(test_resume),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_mutations), cmocka_unit_test(test_lane)};
    return cmocka_run_group_tests(tests, NULL, cleanup);
}

/* Sessions of tensor ranks and replicas through the public headers: losses, evaluation and weights
 * of one rank within 1e-5 and, whatever the pipeline, the same bits; checkpoints and plans go from
 * one layout to the other; a plan of other ranks is refused. */
#include "base/folder.h"
#include "base/rng.h"
#include "penstock/train.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum {
    BATCH = 8,
    TIME = 6,
    VOCABULARY = 11,
    CHANNELS = 12,
    STEPS = 5,
    ELEMENTS = 3 * CHANNELS * CHANNELS
};

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PST_OK) fail_msg("%s: %s", #call, pst_error());                              \
    } while (0)

typedef struct {
    double loss[STEPS], evaluated;
    uint64_t hash;
    float weight[ELEMENTS]; /* one that tensor ranks share out by heads */
} course;

static int32_t tokens[BATCH * TIME], targets[BATCH * TIME];
static const int32_t *const batch[] = {tokens, targets};

static void fill(uint64_t k) {
    for (uint32_t i = 0; i < BATCH * TIME; i++) {
        uint32_t word[4];
        pst_rng_words(pst_rng_key(7, "batch"), k, i, word);
        tokens[i] = (int32_t)(word[0] % VOCABULARY);
        targets[i] = word[1] % 8 ? (tokens[i] * 3 + 1) % VOCABULARY : -1;
    }
}

/* Three heads and eleven tokens, so that two ranks have unequal parts. */
static pst_config *config_of(const char *a, const char *b, const char *c) {
    const char *settings[] = {
        "batch=8",         "micro_batch=2",  "steps=20", "warmup=2", "lr=1e-2",   "threads=1",
        "log.level=error", "model.kind=gpt", "layers=2", "heads=3",  "context=6", "channels=12",
        "vocabulary=11",   "dropout=0.1",    a,          b ? b : a,  c ? c : a};
    pst_config *config;
    MUST(pst_config_open("test", settings, sizeof settings / sizeof *settings, &config));
    return config;
}

static pst_session *open_with(const pst_config *config, uint32_t ranks) {
    pst_graph *graph;
    pst_plan *plan;
    pst_session *s;
    MUST(pst_graph_build(config, &graph));
    MUST(pst_plan_solve(config, graph, ranks, &plan));
    MUST(pst_session_open(config, graph, plan, &s));
    pst_plan_close(plan);
    pst_graph_close(graph);
    return s;
}

static pst_session *open_session(uint32_t ranks, const char *a, const char *b, const char *c) {
    pst_config *config = config_of(a, b, c);
    pst_session *s = open_with(config, ranks);
    pst_config_close(config);
    return s;
}

/* Steps `from` to STEPS of the same course, what follows, and closes. */
static course finish(pst_session *s, uint64_t from) {
    course out = {0};
    pst_step_result r;
    pst_step_result_init(&r);
    for (uint64_t k = from; k < STEPS; k++) {
        fill(k);
        MUST(pst_session_step(s, batch, 2, &r));
        assert_int_equal(r.step, k + 1);
        out.loss[k] = r.loss;
    }
    fill(99);
    MUST(pst_session_evaluate(s, batch, 2, &out.evaluated));
    MUST(pst_session_read(s, "h.1.attn.c_attn.weight", out.weight, ELEMENTS));
    MUST(pst_session_hash(s, &out.hash));
    pst_session_close(s);
    return out;
}

static course run(uint32_t ranks, const char *a, const char *b, const char *c) {
    return finish(open_session(ranks, a, b, c), 0);
}

static void assert_near(const course *is, const course *of, uint64_t from) {
    for (uint64_t k = from; k < STEPS; k++)
        if (!(fabs(is->loss[k] - of->loss[k]) <= 1e-5 * of->loss[k]))
            fail_msg("loss of step %d is %.9g, not %.9g", (int)k + 1, is->loss[k], of->loss[k]);
    assert_true(fabs(is->evaluated - of->evaluated) <= 1e-5 * of->evaluated);
    for (int i = 0; i < ELEMENTS; i++)
        if (!(fabsf(is->weight[i] - of->weight[i]) <= 1e-3f))
            fail_msg("weight %d is %.9g, not %.9g", i, (double)is->weight[i],
                     (double)of->weight[i]);
}

static void assert_same(const course *is, const course *of, uint64_t from) {
    assert_memory_equal(is->loss + from, of->loss + from, (STEPS - from) * sizeof *of->loss);
    assert_memory_equal(&is->evaluated, &of->evaluated, sizeof of->evaluated);
    assert_memory_equal(is->weight, of->weight, sizeof of->weight);
    assert_int_equal(is->hash, of->hash);
}

static void layouts(void **state) {
    (void)state;
    course one = run(1, "tensor=1", NULL, NULL);
    course two = run(2, "tensor=2", NULL, NULL), deep = run(4, "tensor=2", "schedule=zb-h1", NULL);
    assert_near(&two, &one, 0);
    assert_same(&deep, &two, 0);
    course along = run(3, "tensor=3", "sequence=true", NULL),
           deep_along = run(6, "tensor=3", "sequence=true", NULL);
    assert_near(&along, &one, 0);
    assert_same(&deep_along, &along, 0);
    course wide = run(4, "tensor=2", "data=2", NULL),
           all = run(8, "tensor=2", "data=2", "recompute=full");
    assert_near(&wide, &one, 0);
    assert_same(&all, &wide, 0);
    /* sums in another order: it was not the same run once more */
    assert_int_not_equal(wide.hash, two.hash);
}

/* Two steps in one layout, the others in another. */
static void checkpoints(void **state) {
    (void)state;
    static const struct {
        uint32_t ranks;
        const char *setting;
    } layout[] = {
        {2, "tensor=2"}, {1, "tensor=1"}, {4, "tensor=2"}, {3, "tensor=3"}, {2, "data=2"}};
    enum { N = sizeof layout / sizeof *layout };
    course straight[N], one = run(1, "tensor=1", NULL, NULL);
    for (int i = 0; i < N; i++) straight[i] = run(layout[i].ranks, layout[i].setting, NULL, NULL);
    for (int i = 0; i < N; i++) {
        char folder[16];
        pst_session *s = open_session(layout[i].ranks, layout[i].setting, NULL, NULL);
        snprintf(folder, sizeof folder, "saved-%d", i);
        for (uint64_t k = 0; k < 2; k++) {
            fill(k);
            MUST(pst_session_step(s, batch, 2, NULL));
        }
        MUST(pst_session_save(s, folder));
        pst_session_close(s);
        for (int to = 0; to < N; to++) {
            s = open_session(layout[to].ranks, layout[to].setting, NULL, NULL);
            MUST(pst_session_load(s, folder));
            assert_int_equal(pst_session_steps(s), 2);
            course r = finish(s, 2);
            if (!strcmp(layout[to].setting, layout[i].setting)) assert_same(&r, &straight[to], 2);
            else assert_near(&r, &one, 2);
        }
    }
}

/* Eight samples in micro-batches of three: the first one has two. */
static void uneven(void **state) {
    (void)state;
    const char *micro = "micro_batch=3";
    course whole = run(1, "micro_batch=8", NULL, NULL), one = run(1, micro, NULL, NULL),
           deep = run(2, micro, "schedule=zb-h1", NULL), wide = run(2, micro, "data=2", NULL),
           split = run(2, micro, "tensor=2", NULL);
    assert_same(&deep, &one, 0);
    assert_near(&one, &whole, 0);
    assert_near(&wide, &whole, 0);
    assert_near(&split, &whole, 0);
    assert_int_not_equal(one.hash, whole.hash);
}

/* What replicas have of each other's weights is as old as the last evaluation, until a load. */
static void evaluated_after_a_load(void **state) {
    (void)state;
    pst_session *s = open_session(2, "data=2", "zero=1", NULL);
    double saved, later, loaded;
    fill(0);
    MUST(pst_session_step(s, batch, 2, NULL));
    MUST(pst_session_evaluate(s, batch, 2, &saved));
    MUST(pst_session_save(s, "evaluated"));
    MUST(pst_session_step(s, batch, 2, NULL));
    MUST(pst_session_evaluate(s, batch, 2, &later));
    MUST(pst_session_load(s, "evaluated"));
    MUST(pst_session_evaluate(s, batch, 2, &loaded));
    assert_true(saved != later);
    assert_memory_equal(&saved, &loaded, sizeof saved);
    pst_session_close(s);
}

/* A step reads the samples of its batch and no others. Stops after `to` steps. */
static void grow(pst_session *s, uint64_t from, uint64_t to) {
    static const uint64_t size[STEPS] = {2, 2, 4, 6, 8};
    for (uint64_t k = from; k < to; k++) {
        fill(k);
        assert_int_equal(pst_session_batch(s), size[k]);
        for (uint64_t i = size[k] * TIME; i < BATCH * TIME; i++) tokens[i] = -1;
        MUST(pst_session_step(s, batch, 2, NULL));
    }
}

static void growing_batches(void **state) {
    (void)state;
    const char *warmup[] = {"train.batch_warmup.from=2", "train.batch_warmup.tokens=72"};
    course of[3];
    for (uint32_t k = 0; k < 3; k++) { /* one rank, two, and resumed in the middle */
        pst_session *s = open_session(k ? 2 : 1, warmup[0], warmup[1], NULL);
        grow(s, 0, k < 2 ? STEPS : 3);
        if (k == 2) {
            MUST(pst_session_save(s, "grown"));
            pst_session_close(s);
            s = open_session(1, warmup[0], warmup[1], NULL);
            MUST(pst_session_load(s, "grown"));
            grow(s, 3, STEPS);
        }
        of[k] = finish(s, STEPS);
    }
    assert_same(&of[1], &of[0], STEPS);
    assert_same(&of[2], &of[0], STEPS);
}

static void plans(void **state) {
    (void)state;
    pst_config *two = config_of("tensor=2", NULL, NULL), *one = config_of("tensor=1", NULL, NULL);
    pst_graph *graph;
    pst_plan *plan, *again;
    pst_session *s = NULL;
    MUST(pst_graph_build(two, &graph));
    MUST(pst_plan_solve(two, graph, 4, &plan));
    assert_int_equal(pst_plan_ranks(plan), 2); /* of one pipeline */
    FILE *f = fopen("plan.yaml", "w");
    /* without names: the operators are those of a part of the graph */
    MUST(pst_plan_print(plan, graph, f));
    fclose(f);
    MUST(pst_plan_load("plan.yaml", &again));
    course straight = run(4, "tensor=2", NULL, NULL);
    MUST(pst_session_open(two, graph, again, &s));
    course loaded = finish(s, 0);
    assert_same(&loaded, &straight, 0);
    s = NULL;
    assert_int_equal(pst_session_open(one, graph, plan, &s), PST_EINPUT); /* operators are others */
    assert_non_null(strstr(pst_error(), "made for "));
    assert_null(s);
    assert_int_equal(pst_plan_solve(two, graph, 3, &again), PST_EINPUT);
    pst_plan_close(plan);
    pst_plan_close(again);
    pst_graph_close(graph);
    pst_config_close(one);
    pst_config_close(two);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts),         cmocka_unit_test(uneven),
        cmocka_unit_test(checkpoints),     cmocka_unit_test(evaluated_after_a_load),
        cmocka_unit_test(growing_batches), cmocka_unit_test(plans)};
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}

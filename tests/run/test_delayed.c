/* test: label=full timeout=120
 * parallel.update: delayed. The same bits in every pipeline, schedule, number of threads, with
 * ZeRO, servers and recomputation, and after a resume from any step in another layout. The update
 * is that of gradients of older weights. What does not go with it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "prepare/prepare.h"
#include "run/embedding.h"
#include "run/runs_assert.h"
#include <math.h>

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1}\n"                                                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 6, lr: 1.0e-2, warmup: 2, batch: 8, micro_batch: 1, seed: 7}\n"                \
    "parallel: {transport: self, threads: 1, data: 2, update: delayed}\n"                          \
    "checkpoint: {every: 1, keep: 20}\n"

enum { MOST = 256 * 24 }; /* elements of the token embedding */

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

typedef struct {
    int ranks;
    const char *keys;
} layout;

static const layout layouts[] = {
    {2, "parallel.threads=2 parallel.recompute=full"},
    {2, "parallel.zero=1 parallel.schedule=gpipe"},
    {4, "parallel.schedule=zb-h1"},
    {4, "parallel.schedule=zb-v parallel.zero=1"},
    {3, "parallel.servers=1"},
    {6, "parallel.servers=2 parallel.cluster=6x1_cpu_ib:1Gb/s"},
    {6, "parallel.recompute=selective"},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static void same_bits(void **state) {
    (void)state;
    for (size_t i = 0; i < LAYOUTS; i++) {
        run_result r = train("", layouts[i].ranks, layouts[i].keys);
        run_assert_same(&r, &base, layouts[i].keys);
    }
    run_result synchronous = train("", 2, "parallel.update=sync");
    assert_string_not_equal(base.hash, synchronous.hash);
}

/* One replica, parts of tensor ranks, other staleness, optimizers and numbers of 16 bits. */
static void same_bits_of_others(void **state) {
    (void)state;
    static const layout cases[] = {
        {1, "parallel.data=1 parallel.staleness=2"},
        {3, "parallel.data=3 parallel.replicas=[3,3,2] parallel.staleness=3 train.optimizer=muon"},
        {2, "train.precision=fp16 train.loss_scale=256 train.optimizer=sgd train.momentum=0.9"},
        {4, "parallel.tensor=2 parallel.sequence=true"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char more[400];
        snprintf(more, sizeof more, "%s parallel.schedule=zb-h1", cases[i].keys);
        run_result flat = train("", cases[i].ranks, cases[i].keys),
                   deep = train("", 2 * cases[i].ranks, more);
        run_assert_same(&deep, &flat, more);
    }
}

static void resume_has_the_same_bits(void **state) {
    (void)state;
    for (int step = 1; step < base.steps; step++) {
        const layout *other = &layouts[step % LAYOUTS];
        run_result r = train(run_copy_until(&base, step), other->ranks, other->keys);
        run_assert_same(&r, &base, other->keys);
    }
    run_result late = train("", 2, "parallel.staleness=3 parallel.zero=1");
    for (int step = 2; step < 5; step += 2) { /* before and after the first update */
        run_result r = train(run_copy_until(&late, step), 4, "parallel.staleness=3");
        run_assert_same(&r, &late, "resumed with staleness 3");
    }
}

/* With sums of a fixed order also other numbers of replicas. */
static void other_replicas_resume(void **state) {
    (void)state;
    const char *keys = "parallel.reproducible.data=4 parallel.staleness=2";
    char more[300];
    run_result two = train("", 2, keys);
    for (int n = 1; n <= 4; n += n) {
        snprintf(more, sizeof more, "%s parallel.data=%d", keys, n);
        run_result r = train("", n, more);
        run_assert_same(&r, &two, more);
        run_result back = train(run_copy_until(&two, 3), n, more);
        run_assert_same(&back, &two, more);
    }
}

/* --- the update ------------------------------------------------------------------------------- */

/* The first update is that of the first step, s steps later. */
static void first_update(void **state) {
    (void)state;
    static float was[MOST], is[MOST], start[MOST];
    run_result sync = train("", 2, "parallel.update=sync"),
               two = train("", 2, "parallel.staleness=2");
    read_embedding(&sync, 1, was, MOST);
    read_embedding(&base, 2, is, MOST);
    assert_memory_equal(was, is, sizeof was);
    read_embedding(&two, 3, is, MOST);
    assert_memory_equal(was, is, sizeof was);
    read_embedding(&two, 2, start, MOST);
    assert_memory_not_equal(was, start, sizeof was);
    read_embedding(&base, 1, is, MOST);
    assert_memory_equal(start, is, sizeof is);
}

#define PLAIN                                                                                      \
    "train.optimizer=sgd train.momentum=0 train.weight_decay=0 train.clip=0 train.warmup=0 "       \
    "train.decay=none model.dropout=0 "

/* The first two updates of SGD are of gradients of the same weights: a step of twice the batch and
 * rate. The third is not. */
static void gradients_are_of_older_weights(void **state) {
    (void)state;
    static float was[MOST], is[MOST], start[MOST];
    double most = 0, moved = 0, later = 0;
    run_result delayed = train("", 2, PLAIN "train.lr=0.1"),
               doubled = train("", 2,
                               PLAIN "train.lr=0.2 train.batch=16 train.steps=1 "
                                     "parallel.update=sync"),
               tripled = train("", 2,
                               PLAIN "train.lr=0.3 train.batch=24 train.steps=1 "
                                     "parallel.update=sync");
    read_embedding(&delayed, 1, start, MOST);
    read_embedding(&doubled, 1, was, MOST);
    read_embedding(&delayed, 3, is, MOST);
    for (int i = 0; i < MOST; i++) {
        most = fmax(most, fabs((double)was[i] - (double)is[i]));
        moved = fmax(moved, fabs((double)was[i] - (double)start[i]));
    }
    read_embedding(&tripled, 1, was, MOST);
    read_embedding(&delayed, 4, is, MOST);
    for (int i = 0; i < MOST; i++) later = fmax(later, fabs((double)was[i] - (double)is[i]));
    assert_true(moved > 1e-3 && most < 1e-6);
    assert_true(later > 100 * most);
}

/* --- other checkpoints ------------------------------------------------------------------------ */

static void synchronous_runs_resume(void **state) {
    (void)state;
    static float was[MOST], is[MOST];
    run_result sync = train(run_copy_until(&base, 4), 2, "parallel.update=sync");
    assert_int_equal(sync.exit_status, 0);
    run_result back = train(run_copy_until(&sync, 5), 2, "");
    read_embedding(&sync, 5, was, MOST);
    read_embedding(&back, 6, is, MOST); /* a first step changes no weights */
    assert_memory_equal(was, is, sizeof was);
    run_result other = train(run_copy_until(&base, 4), 2, "parallel.staleness=2");
    assert_int_equal(other.exit_status, 2);
    assert_non_null(strstr(pst_error(), "parallel.staleness 1, not 2"));
}

/* --- preparation ------------------------------------------------------------------------------ */

static pst_prepared *prepared(const char *key, pst_config **c) {
    pst_prepared *p;
    const char *keys[] = {"parallel.cluster=2x1 cpu ib:100Mb/s", key};
    if (pst_config_parse(YAML, "test", keys, 2, c) != PST_OK) fail_msg("%s", pst_error());
    const pst_prepare_options options = {
        .n_rank = 2, .threads = 1, .isa = pst_cpu_isa(), .n_eval_micro = 4};
    if (pst_prepare(*c, &options, &p) != PST_OK) fail_msg("%s", pst_error());
    return p;
}

/* The exchange takes longer than the passes, and hides them; a set of accumulators per step. */
static void memory_and_time(void **state) {
    (void)state;
    pst_config *c[3];
    pst_prepared *sync = prepared("parallel.update=sync", &c[0]),
                 *one = prepared("parallel.staleness=1", &c[1]),
                 *four = prepared("parallel.staleness=4", &c[2]);
    uint64_t elements = 0;
    for (uint32_t i = 0; i < one->graph->n_param; i++)
        elements += pst_param_elements(one->graph->param + i);
    uint64_t uses = 0; /* the tied embedding has two accumulators */
    for (uint32_t i = 0; i < one->graph->n_param; i++)
        uses +=
            pst_param_elements(one->graph->param + i) * pst_param_gradients(one->graph->param + i);
    const uint64_t more = four->memory[0]->bytes[PST_REGION_GRAD] -
                          one->memory[0]->bytes[PST_REGION_GRAD],
                   bytes = 3 * uses * sizeof(float);
    assert_in_range(more, bytes, bytes + 3 * 4096);
    const double exchange = (double)elements * sizeof(float) * 8e9 / 100e6,
                 passes = (double)sync->timing->busy_ns[0], step = (double)one->timing->step_ns;
    assert_true(exchange > passes && passes > 0.02 * exchange);
    assert_true((double)sync->timing->step_ns > exchange + 0.9 * passes);
    assert_true(step >= exchange && step < exchange + 0.5 * passes);
    pst_prepared_close(sync);
    pst_prepared_close(one);
    pst_prepared_close(four);
    for (int i = 0; i < 3; i++) pst_config_close(c[i]);
}

static void refuses(const char *keys, const char *why) {
    run_result r = train("", 2, keys);
    if (r.exit_status != (strstr(keys, "memory") ? 4 : 2) || !strstr(pst_error(), why))
        fail_msg("%s: status %d, %s", keys, r.exit_status, pst_error());
}

static void bad_input(void **state) {
    (void)state;
    refuses("parallel.update=eager", "sync");
    refuses("parallel.staleness=0", "1 to 1000");
    refuses("parallel.staleness=-1", "expected a whole number");
    refuses("parallel.zero=2", "use parallel.zero=0 or 1");
    refuses("parallel.local.steps=2", "use one of the two");
    refuses("train.precision=fp16", "give train.loss_scale");
    refuses("train.non_finite=skip", "use train.non_finite=stop");
    refuses("train.spike=rewind", "use train.spike=warn or off");
    refuses("train.batch_warmup.from=4 train.batch_warmup.tokens=100", "not supported together");
    refuses("parallel.compress.up=int8", "use parallel.compress.up=none");
    refuses("parallel.gradients=bf16", "use parallel.gradients=fp32");
    refuses("parallel.post_validation=true", "not supported together");
    refuses("parallel.staleness=900 parallel.memory=8M",
            "MiB of memory, but the limit is 8.0 MiB; parallel.staleness=");
    run_result most = train("", 2, "parallel.staleness=900 parallel.memory=8M");
    const char *advised = strstr(pst_error(), "parallel.staleness=");
    int n = 0;
    char keys[100];
    assert_true(most.exit_status == 4 && sscanf(advised, "parallel.staleness=%d", &n) == 1);
    snprintf(keys, sizeof keys, "parallel.memory=8M parallel.staleness=%d", n);
    assert_int_equal(train("", 2, keys).exit_status, 0);
    snprintf(keys, sizeof keys, "parallel.memory=8M parallel.staleness=%d", n + 1);
    refuses(keys, "would fit");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits),
                                       cmocka_unit_test(same_bits_of_others),
                                       cmocka_unit_test(resume_has_the_same_bits),
                                       cmocka_unit_test(other_replicas_resume),
                                       cmocka_unit_test(first_update),
                                       cmocka_unit_test(gradients_are_of_older_weights),
                                       cmocka_unit_test(synchronous_runs_resume),
                                       cmocka_unit_test(memory_and_time),
                                       cmocka_unit_test(bad_input)};
    int failed = cmocka_run_group_tests(tests, open_base, NULL);
    run_folder_remove();
    return failed;
}

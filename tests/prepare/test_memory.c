/* test: label=full isa=any timeout=600
 * Memory is predicted to the byte: for random models, schedules and numbers of ranks, the highest
 * byte that two steps and a validation write is the layout's last one, on every rank and in every
 * region, and the canary behind it survives. The program's resident memory stays near the
 * prediction. The seed is printed; PST_SEED replays it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "comm/world/world.h"
#include "run/runs.h"
#include "run/feed.h"
#include <time.h>

enum { CASES = 120, RESIDENT_SLACK = 32 << 20 };

static uint64_t state;

/* 0 .. n-1 */
static uint32_t below(uint32_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

typedef struct {
    uint32_t ranks, threads, eval_micro;
} shape;

static shape random_yaml(char *yaml, size_t bytes) {
    static const char *const schedules[] = {"gpipe", "1f1b", "1f1b-early"}, *const activations[] = {
                                                                                "gelu_tanh",
                                                                                "gelu_erf", "relu"};
    static const char *const precisions[] = {"fp32", "fp32", "fp16", "bf16"};
    static const char *const optimizers[] = {"adamw", "adamw", "adamw", "sgd", "adam", "lamb"};
    static const char *const ways[] = {"none", "none", "selective", "full", "{full: 1}"};
    uint32_t heads = 1 + below(5), channels = heads * (1 + below(13)), micro_batch = 1 + below(3),
             n_micro = 1 + below(6);
    shape s = {.ranks = 1 + below(4), .threads = 1 + below(2), .eval_micro = 1 + below(7)};
    snprintf(
        yaml, bytes,
        "name: run\nmodel: {kind: gpt, layers: %u, heads: %u, channels: %u, context: %u, "
        "vocabulary: %u, dropout: %g, "
        "activation: %s}\ndata: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/s*.[ch]\"]}\n"
        "train: {steps: 2, batch: %u, micro_batch: %u, optimizer: %s, optimizer_state: %s, "
        "warmup: 0, seed: %u, "
        "precision: %s, residual: %s}\n"
        "parallel: {transport: self, schedule: %s, recompute: %s, post_validation: %s}\n",
        1 + below(5), heads, channels, 1 + below(40), below(2) ? 256 : 256 + below(50),
        below(2) ? 0 : 0.1, activations[below(3)], micro_batch * n_micro, micro_batch,
        optimizers[below(6)], below(2) ? "fp32" : "bf16", below(1000),
        precisions[below(pst_cpu_isa() & PST_ISA_AVX512_BF16 ? 4 : 3)], below(2) ? "fp32" : "same",
        schedules[below(3)], ways[below(5)], below(3) ? "false" : "true");
    return s;
}

static pst_data *open_data(const pst_config *c, uint32_t context) {
    pst_data *data = NULL;
    pst_data_config config = {.paths = c->data.paths,
                              .n_path = c->data.n_path,
                              .validation = c->data.validation,
                              .context = context,
                              .seed = 1,
                              .tokenizer = "byte"};
    assert_int_equal(pst_data_text.open(&config, &data), PST_OK);
    return data;
}

static int is_absent(const uint8_t *at) {
    int32_t target;
    memcpy(&target, at, sizeof target);
    return target == -1;
}

/* Every region that is not shared over time is used to its end. */
static void check_rank(const pst_rank *r, const char *yaml) {
    const pst_memory_map *x = r->memory;
    if (!pst_arena_intact(&r->arena))
        fail_msg("rank %u wrote behind its arena:\n%s", r->rank, yaml);
    uint64_t touched = pst_arena_touched(&r->arena, 0, r->arena.bytes);
    int ahead = r->p->job->post && !r->stepped; /* else what a step ahead keeps may be the end */
    if (ahead ? touched > x->total : touched != x->total)
        fail_msg("rank %u touched %llu of %llu bytes:\n%s", r->rank, (unsigned long long)touched,
                 (unsigned long long)x->total, yaml);
    for (uint32_t k = 0; k < PST_REGION_SLOT; k++) {
        uint64_t end = x->start[k] + x->bytes[k];
        touched = pst_arena_touched(&r->arena, x->start[k], end);
        /* Targets that are not there, -1, may look like the pattern. */
        while (k == PST_REGION_DATA && end > touched && is_absent(r->arena.base + end - 4))
            end -= 4;
        if (x->bytes[k] && touched < end)
            fail_msg("rank %u, %s: touched to %llu, the region is %llu to %llu:\n%s", r->rank,
                     pst_region_name((pst_region)k), (unsigned long long)touched,
                     (unsigned long long)x->start[k], (unsigned long long)end, yaml);
    }
}

static void train_two_steps(pst_trainer *t) {
    pst_evaluation evaluation;
    for (uint32_t i = 0; i < t->group->n_local; i++) {
        assert_int_equal(pst_rank_init_weights(t->group->local[i]), PST_OK);
        pst_rank_refresh(t->group->local[i]);
    }
    for (uint64_t k = 0; k < 2; k++) {
        t->step = k;
        assert_int_equal(pst_feed_batch(t), PST_OK);
        for (uint32_t i = 0; i < t->group->n_local; i++)
            t->group->local[i]->hyper = (pst_optim_hyper){.lr = 1e-3f,
                                                          .beta1 = 0.9f,
                                                          .beta2 = 0.95f,
                                                          .eps = 1e-8f,
                                                          .momentum = 0.9f,
                                                          .grad_scale = 1,
                                                          .t = k + 1,
                                                          .correction1 = 0.1f,
                                                          .correction2 = 0.05f};
        if (pst_group_run(t->group, 1) != PST_OK) fail_msg("step: %s", pst_error());
        if (pst_feed_validate(t, t->data, &evaluation) != PST_OK)
            fail_msg("validation: %s", pst_error());
    }
}

static void run_case(const char *yaml, const shape *s) {
    pst_config *c;
    pst_world *world;
    pst_trainer t = {0};
    if (pst_config_parse(yaml, "case", NULL, 0, &c) != PST_OK)
        fail_msg("%s:\n%s", pst_error(), yaml);
    pst_prepare_options options = {.n_rank = s->ranks,
                                   .threads = s->threads,
                                   .isa = pst_cpu_isa(),
                                   .n_eval_micro = s->eval_micro};
    if (pst_prepare(c, &options, &t.p) != PST_OK) fail_msg("%s:\n%s", pst_error(), yaml);
    t.config = c;
    t.data = open_data(c, t.p->model_config.context);
    assert_int_equal(pst_world_single.open(&world), PST_OK);
    assert_int_equal(pst_group_open(world, "self", s->ranks, &t.group), PST_OK);
    assert_int_equal(pst_group_open_ranks(t.group, t.p, 1), PST_OK);
    assert_int_equal(pst_feed_open(&t), PST_OK);
    train_two_steps(&t);
    for (uint32_t i = 0; i < s->ranks; i++) check_rank(t.group->local[i], yaml);
    pst_feed_close(&t);
    pst_group_close(t.group, 0);
    t.data->row->close(t.data);
    pst_prepared_close(t.p);
    pst_config_close(c);
}

static void test_random(void **unused) {
    (void)unused;
    const char *given = getenv("PST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    printf("PST_SEED=%llu\n", (unsigned long long)seed);
    state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < CASES; i++) {
        char yaml[1000];
        shape s = random_yaml(yaml, sizeof yaml);
        run_case(yaml, &s);
    }
}

/* --- the process ------------------------------------------------------------------------------ */

static void check_resident(const run_result *r, const char *what) {
    if (r->exit_status) fail_msg("%s: exit status %d, see %s", what, r->exit_status, r->folder);
    for (int k = 0; k < r->n_rank; k++) {
        assert_int_equal(r->peak[k], r->predicted[k]);
        if (r->resident[k] > r->peak[k] + RESIDENT_SLACK)
            fail_msg("%s: rank %d has %.1f MiB resident, predicted are %.1f", what, k,
                     (double)r->resident[k] / 1048576, (double)r->predicted[k] / 1048576);
    }
}

#define SMALL                                                                                      \
    "name: run\nmodel: {kind: gpt, layers: 4, heads: 4, channels: 192, context: 96}\n"             \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/**/*.c\"]}\n"                             \
    "train: {steps: 4, batch: 8, micro_batch: 2, warmup: 0, validate_every: 2}\nparallel: "        \
    "{threads: 1}\n"                                                                               \
    "checkpoint: {every: 2}\n"

static void test_resident(void **unused) {
    (void)unused;
    for (int n = 1; n <= 3; n++) {
        char name[32], arguments[64];
        snprintf(name, sizeof name, "resident-%d", n);
        snprintf(arguments, sizeof arguments, "-n %d -q --canary", n);
        run_result r = run_program(PST_BINARY, SMALL, name, arguments);
        assert_int_equal(r.n_rank, n);
        if (!getenv("PST_SANITIZE") || !*getenv("PST_SANITIZE"))
            check_resident(&r, name); /* their shadow is resident, too */
    }
}

static int cleanup(void **unused) {
    (void)unused;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_resident)};
    return cmocka_run_group_tests(tests, NULL, cleanup);
}

/* Sessions through the public headers: the same numbers in every layout and as pst_train's,
 * checkpoints, and a sentence for every wrong use. */
#include "backends/registry.h"
#include "base/folder.h"
#include "base/rng.h"
#include "checkpoint/durable.h"
#include "data/data.h"
#include "penstock/train.h"
#include "run/runs.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { BATCH = 8, MICRO = 2, TIME = 6, VOCABULARY = 11, CHANNELS = 8 };

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PST_OK) fail_msg("%s: %s", #call, pst_error());                              \
    } while (0)
/* The call is the user's mistake, and the message says so with these words. */
#define REFUSED(call, words)                                                                       \
    do {                                                                                           \
        assert_int_equal(call, PST_EINPUT);                                                        \
        if (!strstr(pst_error(), words))                                                           \
            fail_msg("%s: expected \"%s\", found \"%s\"", #call, words, pst_error());              \
    } while (0)

/* --- a model ---------------------------------------------------------------------------------- */

typedef struct {
    pst_config *config;
    pst_graph *graph;
} model;

static pst_config *config_of(const char *const *more, size_t n) {
    const char *settings[16] = {"batch=8", "micro_batch=2", "steps=20",       "warmup=2",
                                "lr=3e-2", "threads=1",     "log.level=error"};
    pst_config *c;
    for (size_t i = 0; i < n; i++) settings[7 + i] = more[i];
    MUST(pst_config_open("test", settings, 7 + n, &c));
    return c;
}

static uint32_t param(pst_graph *g, const char *name, uint64_t n, uint64_t k) {
    uint32_t p;
    MUST(pst_graph_add_param(g, name, k ? 2 : 1, (uint64_t[]){n, k},
                             k ? PST_INIT_NORMAL : PST_INIT_ZERO, 0.3f, k != 0, &p));
    return p;
}

/* Every operator once or more, with a tied table; so many chunks are possible that four ranks are
 * no problem. */
static pst_graph *graph_of(const char *name, float dropout) {
    pst_graph *g;
    uint32_t in, next, table, positions, one, x, y;
    MUST(pst_graph_open(name, MICRO, &g));
    MUST(pst_graph_add_data(g, "tokens", 2, (uint64_t[]){MICRO, TIME}, &in));
    MUST(pst_graph_add_data(g, "targets", 2, (uint64_t[]){MICRO, TIME}, &next));
    table = param(g, "table", VOCABULARY, CHANNELS);
    positions = param(g, "positions", TIME, CHANNELS);
    MUST(
        pst_graph_add_param(g, "norm.weight", 1, (uint64_t[]){CHANNELS}, PST_INIT_ONE, 0, 0, &one));
    MUST(pst_graph_add_embedding(g, "embedding", in, table, positions, &x));
    MUST(
        pst_graph_add_layer_norm(g, "norm", x, one, param(g, "norm.bias", CHANNELS, 0), 1e-5f, &y));
    MUST(pst_graph_add_linear(g, "qkv", y, param(g, "qkv.weight", 3 * CHANNELS, CHANNELS),
                              param(g, "qkv.bias", 3 * CHANNELS, 0), PST_ACT_NONE, &y));
    MUST(pst_graph_add_attention(g, "attention", y, 2, &y));
    MUST(pst_graph_add_dropout(g, "dropout", y, dropout, &y));
    MUST(pst_graph_add_residual(g, "residual", x, y, &x));
    MUST(pst_graph_add_linear(g, "hidden", x, param(g, "hidden.weight", CHANNELS, CHANNELS),
                              PST_NONE, PST_ACT_GELU_TANH, &x));
    MUST(pst_graph_add_linear(g, "head", x, table, PST_NONE, PST_ACT_NONE, &x));
    MUST(pst_graph_add_cross_entropy(g, "loss", x, next, &x));
    return g;
}

static model model_of(float dropout) {
    return (model){config_of(NULL, 0), graph_of("test", dropout)};
}

/* One block that sees all positions but padding. */
static pst_graph *masked_graph(void) {
    pst_graph *g;
    uint32_t in, next, lengths, table, x;
    MUST(pst_graph_open("masked", MICRO, &g));
    MUST(pst_graph_add_data(g, "tokens", 2, (uint64_t[]){MICRO, TIME}, &in));
    MUST(pst_graph_add_data(g, "targets", 2, (uint64_t[]){MICRO, TIME}, &next));
    MUST(pst_graph_add_data(g, "lengths", 1, (uint64_t[]){MICRO}, &lengths));
    table = param(g, "table", VOCABULARY, CHANNELS);
    MUST(pst_graph_add_embedding(g, "embedding", in, table, param(g, "positions", TIME, CHANNELS),
                                 &x));
    for (int i = 0; i < 2; i++) {
        MUST(
            pst_graph_add_dense(g, i ? "qkv.1" : "qkv.0", x, 3 * CHANNELS, 0.3f, PST_ACT_NONE, &x));
        MUST(pst_graph_add_masked_attention(g, i ? "attention.1" : "attention.0", x, lengths, 2, i,
                                            &x));
    }
    MUST(pst_graph_add_linear(g, "head", x, table, PST_NONE, PST_ACT_NONE, &x));
    MUST(pst_graph_add_cross_entropy(g, "loss", x, next, &x));
    return g;
}

static void model_close(model m) {
    pst_graph_close(m.graph);
    pst_config_close(m.config);
}

static pst_session *session_of(model m, uint32_t ranks) {
    pst_plan *plan;
    pst_session *s;
    MUST(pst_plan_solve(m.config, m.graph, ranks, &plan));
    MUST(pst_session_open(m.config, m.graph, plan, &s));
    pst_plan_close(plan);
    return s;
}

static int32_t tokens[BATCH * TIME], targets[BATCH * TIME];
static const int32_t *const batch[] = {tokens, targets};

/* Batch number k; the target follows from the token, and some are left out. */
static void fill(uint64_t k) {
    for (uint32_t i = 0; i < BATCH * TIME; i++) {
        uint32_t word[4];
        pst_rng_words(pst_rng_key(7, "batch"), k, i, word);
        tokens[i] = (int32_t)(word[0] % VOCABULARY);
        targets[i] = word[1] % 8 ? (tokens[i] * 3 + 1) % VOCABULARY : -1;
    }
}

/* Steps from, from + 1, ... of the same course; loss receives each. */
static void train(pst_session *s, uint64_t from, uint64_t n, double *loss) {
    pst_step_result r;
    pst_step_result_init(&r);
    for (uint64_t k = from; k < from + n; k++) {
        fill(k);
        MUST(pst_session_step(s, batch, 2, &r));
        assert_int_equal(r.step, k + 1);
        if (loss) loss[k - from] = r.loss;
    }
}

static uint64_t hash_of(pst_session *s) {
    uint64_t hash;
    MUST(pst_session_hash(s, &hash));
    return hash;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static void every_layout_gives_the_same_bits(void **state) {
    (void)state;
    enum { N = 20 };
    static const struct {
        uint32_t ranks;
        const char *schedule, *threads;
    } layout[] = {{1, "schedule=gpipe", "threads=1"},
                  {2, "schedule=1f1b", "threads=1"},
                  {4, "schedule=1f1b-early", "threads=2"}};
    double loss[3][N];
    uint64_t hash[3];
    for (int i = 0; i < 3; i++) {
        model m = {config_of((const char *[]){layout[i].schedule, layout[i].threads}, 2),
                   graph_of("test", 0.1f)};
        pst_session *s = session_of(m, layout[i].ranks);
        model_close(m); /* a session needs neither any more */
        train(s, 0, N, loss[i]);
        hash[i] = hash_of(s);
        assert_int_equal(pst_session_steps(s), N);
        pst_session_close(s);
        assert_int_equal(hash[i], hash[0]);
        assert_memory_equal(loss[i], loss[0], sizeof loss[0]);
    }
    if (!(loss[0][N - 1] < loss[0][0] * 0.8))
        fail_msg("loss %g, at first %g", loss[0][N - 1], loss[0][0]);
}

static void sessions_do_not_disturb_each_other(void **state) {
    (void)state;
    model m = model_of(0.1f);
    pst_session *a = session_of(m, 1), *b = session_of(m, 3);
    for (uint64_t k = 0; k < 4; k++) {
        train(a, k, 1, NULL);
        train(b, k, 1, NULL);
    }
    assert_int_equal(hash_of(a), hash_of(b));
    pst_session_close(a);
    pst_session_close(b);
    model_close(m);
}

static void results(void **state) {
    (void)state;
    model m = model_of(0);
    pst_session *s = session_of(m, 2);
    double before, after;
    pst_step_result r;
    fill(0);
    pst_step_result_init(&r);
    MUST(pst_session_evaluate(s, batch, 2, &before));
    MUST(pst_session_step(s, batch, 2, &r));
    MUST(pst_session_evaluate(s, batch, 2, &after));
    assert_memory_equal(&before, &r.loss, sizeof before); /* no dropout: the same forward pass */
    assert_true(after < before);
    assert_true(r.step == 1 && r.lr == 1.5e-2 && r.grad_norm > 0 && r.step_s > 0 &&
                r.predicted_step_s > 0);
    assert_true(r.bubble >= 0 && r.bubble < 1 && r.predicted_bubble > 0 && r.predicted_bubble < 1 &&
                r.skipped == 0);

    /* A program of an earlier version knows less of the structure, one of a later version more. */
    unsigned char small[sizeof r + 8], large[sizeof r + 8];
    memset(small, 0x5a, sizeof small);
    memset(large, 0x5a, sizeof large);
    size_t size = offsetof(pst_step_result, lr);
    memcpy(small, &size, sizeof size);
    MUST(pst_session_step(s, batch, 2, (pst_step_result *)(void *)small));
    assert_int_equal(((pst_step_result *)(void *)small)->step, 2);
    for (size_t i = size; i < sizeof small; i++) assert_int_equal(small[i], 0x5a);
    size = sizeof large;
    memcpy(large, &size, sizeof size);
    MUST(pst_session_step(s, batch, 2, (pst_step_result *)(void *)large));
    for (size_t i = sizeof r; i < sizeof large; i++) assert_int_equal(large[i], 0x5a);
    MUST(pst_session_step(s, batch, 2, NULL));

    float table[VOCABULARY * CHANNELS];
    MUST(pst_session_read(s, "table", table, VOCABULARY * CHANNELS));
    double sum = 0;
    for (int i = 0; i < VOCABULARY * CHANNELS; i++) sum += fabs((double)table[i]);
    assert_true(sum > 1 && sum < 100);
    pst_session_close(s);
    model_close(m);
}

/* More steps than the learning rate decays over: it stays where it has come to. */
static void longer_than_the_decay(void **state) {
    (void)state;
    static const char *const decay[] = {"decay=linear", "decay=cosine"};
    for (int i = 0; i < 2; i++) {
        model m = {config_of((const char *[]){decay[i], "steps=4", "lr_min=1e-3"}, 3),
                   graph_of("test", 0)};
        pst_session *s = session_of(m, 1);
        pst_step_result r;
        pst_step_result_init(&r);
        train(s, 0, 4, NULL);
        for (uint64_t k = 4; k < 8; k++) {
            fill(k);
            MUST(pst_session_step(s, batch, 2, &r));
            if (!(fabs(r.lr - 1e-3) < 1e-9))
                fail_msg("%s, step %llu: lr %g", decay[i], (unsigned long long)r.step, r.lr);
        }
        pst_session_close(s);
        model_close(m);
    }
}

/* A run and a session that feeds the same samples are the same training. */
static void as_a_run(void **state) {
    (void)state;
    enum { STEPS = 6, CONTEXT = 8 };
    static const char yaml[] =
        "name: run\nmodel: {kind: mlp, layers: 1, channels: 8, context: 8}\n"
        "data: {kind: text, paths: [text], validation: 0.1}\n"
        "train: {steps: 6, batch: 4, micro_batch: 2, warmup: 2, lr: 1.0e-2}\n"
        "parallel: {threads: 1, pipeline: 2, transport: self}\ncheckpoint: {every: 0}\n";
    FILE *f = fopen("text", "w");
    for (int i = 0; i < 2000; i++) fputc('a' + i * i % 23, f);
    fclose(f);
    run_result run = run_here(yaml, "as-a-run", 0, "", NULL, 0);
    assert_int_equal(run.exit_status, 0);

    model m;
    pst_data *data;
    static char *path[] = {"text"};
    pst_data_config dc = {.paths = path,
                          .n_path = 1,
                          .validation = 0.1,
                          .context = CONTEXT,
                          .seed = 1,
                          .tokenizer = "byte"};
    static int32_t x[4 * CONTEXT], y[4 * CONTEXT];
    MUST(pst_config_parse(yaml, "test.yaml", NULL, 0, &m.config));
    MUST(pst_graph_build(m.config, &m.graph));
    MUST(pst_data_text.open(&dc, &data));
    pst_session *s = session_of(m, 0);
    pst_step_result r;
    pst_step_result_init(&r);
    for (uint64_t k = 0; k < STEPS; k++) {
        for (uint64_t i = 0; i < 4; i++)
            MUST(data->row->sample(data, PST_SPLIT_TRAIN, 4 * k + i,
                                   (int32_t *[]){x + i * CONTEXT, y + i * CONTEXT}));
        MUST(pst_session_step(s, (const int32_t *[]){x, y}, 2, &r));
        assert_memory_equal(&r.loss, &run.value[k], sizeof r.loss);
    }
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)hash_of(s));
    assert_string_equal(hash, run.hash);
    pst_session_close(s);
    data->row->close(data);
    model_close(m);
}

/* A model by its configuration, on the program's data: what is saved becomes a Hugging Face folder
 * like a run's. */
static void model_by_configuration(void **state) {
    (void)state;
    const char *more[] = {"model.kind=gpt", "layers=1",  "heads=2",
                          "channels=8",     "context=6", "vocabulary=11"};
    model m = {config_of(more, 5), NULL};
    REFUSED(pst_graph_build(m.config, &m.graph), "model.vocabulary is 0");
    pst_config_close(m.config);
    m.config = config_of(more, 6);
    MUST(pst_graph_build(m.config, &m.graph));
    pst_session *s = session_of(m, 2);
    train(s, 0, 2, NULL);
    MUST(pst_session_save(s, "gpt"));
    MUST(pst_convert(&(pst_convert_options){
        .size = sizeof(pst_convert_options), .checkpoint = "gpt", .to = "hf"}));
    pst_session_close(s);
    pst_generate_options words = {
        .size = sizeof words, .tokens = 1, .temperature = 1, .source = "gpt"};
    REFUSED(pst_generate(&words, stdout), "defined by the program that trained the model");
    words.source = "hf";
    REFUSED(pst_generate(&words, stdout),
            "the model's 11 tokens come from an unknown tokenizer, because config.json names none");
    pst_train_options o = {.size = sizeof o, .quiet = 1};
    REFUSED(pst_train(m.config, &o), "through the library can use it");
    o.size = 0;
    REFUSED(pst_train(m.config, &o), "pst_train: the member size is not set");
    REFUSED(pst_train(NULL, &o), "config is NULL");
    model_close(m);
}

/* --- plans ------------------------------------------------------------------------------------ */

static void plans(void **state) {
    (void)state;
    model m = model_of(0);
    pst_plan *plan, *again;
    pst_session *s;
    MUST(pst_plan_solve(m.config, m.graph, 3, &plan));
    assert_int_equal(pst_plan_ranks(plan), 3);
    assert_int_equal(pst_plan_micro_batches(plan), BATCH / MICRO);
    assert_string_equal(pst_plan_schedule(plan), "1f1b");
    assert_true(pst_plan_step_s(plan) > 0 && pst_plan_bubble(plan) > 0 &&
                pst_plan_bubble(plan) < 1);
    assert_true(pst_plan_peak_bytes(plan, 2) > 0 && pst_plan_peak_bytes(plan, 3) == 0);
    FILE *f = fopen("plan.yaml", "w");
    MUST(pst_plan_print(plan, m.graph, f));
    fclose(f);
    MUST(pst_plan_load("plan.yaml", &again));
    MUST(pst_plan_check(again, m.graph));
    assert_true(pst_plan_step_s(again) == pst_plan_step_s(plan));
    MUST(pst_session_open(m.config, m.graph, again, &s));
    train(s, 0, 2, NULL);
    pst_session_close(s);
    pst_plan_close(plan);
    pst_plan_close(again);
    model_close(m);
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static void goes_on_from_a_checkpoint(void **state) {
    (void)state;
    model m = model_of(0.1f);
    double straight[4], resumed[4];
    pst_session *a = session_of(m, 2), *b = session_of(m, 3), *c = session_of(m, 1);
    train(a, 0, 4, NULL);
    MUST(pst_session_save(a, "runs/deep/run"));
    train(a, 4, 4, straight);
    MUST(pst_session_save(a, "runs/deep/run"));
    MUST(pst_session_load(b, "runs/deep/run/checkpoints/step-00000004"));
    train(b, 4, 4, resumed);
    assert_memory_equal(straight, resumed, sizeof straight);
    MUST(pst_session_load(c, "runs/deep/run"));
    assert_int_equal(pst_session_steps(c), 8);
    assert_int_equal(hash_of(c), hash_of(a));
    assert_int_equal(hash_of(b), hash_of(a));
    pst_session_close(a);
    pst_session_close(b);
    pst_session_close(c);
    model_close(m);
}

static int exists(const char *path) { return access(path, F_OK) == 0; }

/* The n-th write, sync or rename of a save fails: a full disk. Nothing is left, the session goes
 * on, the next save is good. */
static void full_disk(void **state) {
    (void)state;
    model m = model_of(0);
    pst_session *s = session_of(m, 2);
    train(s, 0, 1, NULL);
    int failed = 0;
    for (uint64_t n = 1; n < 60; n++) {
        pst_durable_fail_after(n);
        pst_status status = pst_session_save(s, "full");
        pst_durable_fail_after(0);
        if (status == PST_OK) break;
        assert_int_equal(status, PST_ENOMEM);
        assert_true(strlen(pst_error()) > 0);
        assert_true(!exists("full/checkpoints/step-00000001") || failed);
        failed++;
    }
    assert_true(failed > 3);
    train(s, 1, 1, NULL);
    MUST(pst_session_save(s, "full"));
    assert_true(exists("full/checkpoints/step-00000002/index.json"));
    pst_session_close(s);
    model_close(m);
}

/* A save that fails takes nothing away of what was saved before, in what is said of it neither. */
static void diverges_after_a_full_disk(void **state) {
    (void)state;
    model m = {config_of((const char *[]){"lr=1e25"}, 1), graph_of("test", 0)};
    pst_session *s = session_of(m, 1);
    train(s, 0, 1, NULL);
    MUST(pst_session_save(s, "diverges"));
    pst_durable_full_after(1);
    assert_int_equal(pst_session_save(s, "diverges"), PST_ENOMEM);
    pst_durable_full_after(0);
    assert_non_null(strstr(pst_error(), "No space left"));
    fill(1);
    REFUSED(pst_session_step(s, batch, 2, NULL), "the last checkpoint is of step 1");
    pst_session_close(s);
    assert_non_null(strstr(pst_error(), "the last checkpoint is of step 1")); /* closing keeps it */
    model_close(m);
}

static void wrong_checkpoints(void **state) {
    (void)state;
    model m = model_of(0),
          other = {config_of((const char *[]){"optimizer=sgd"}, 1), graph_of("test", 0)};
    pst_session *s = session_of(m, 2), *sgd = session_of(other, 1);
    train(s, 0, 1, NULL);
    MUST(pst_session_save(s, "good"));
    REFUSED(pst_session_load(sgd, "good"), "optimizer adamw, not sgd");
    REFUSED(pst_session_load(s, "nowhere"), "nowhere");
    REFUSED(pst_session_save(s, ""), "expected the path of a folder");
    pst_session_close(sgd);
    model_close(other);

    other = (model){config_of((const char *[]){"batch=4"}, 1), graph_of("test", 0)};
    sgd = session_of(other, 1);
    uint64_t hash = hash_of(sgd);
    REFUSED(pst_session_load(sgd, "good"), "train.batch");
    assert_int_equal(hash_of(sgd), hash);
    pst_session_close(sgd);
    model_close(other);
    MUST(pst_session_save(s, "whole"));

    FILE *f = fopen("good/checkpoints/step-00000001/rank-1-of-2.safetensors", "r+");
    assert_non_null(f);
    fseek(f, -4, SEEK_END);
    fputc(0x55, f);
    fclose(f);
    hash = hash_of(s);
    train(s, 1, 1, NULL);
    REFUSED(pst_session_load(s, "good"), "damaged");
    REFUSED(pst_session_step(s, batch, 2, NULL), "failed part-way");
    REFUSED(pst_session_save(s, "good"), "failed part-way");
    MUST(pst_session_load(s, "whole"));
    assert_int_equal(hash_of(s), hash);
    train(s, 1, 1, NULL);
    pst_session_close(s);

    /* What `penstock train` says to such a run file. */
    pst_config *c;
    MUST(pst_config_load("good/checkpoints/step-00000001/run.yaml", NULL, 0, &c));
    REFUSED(pst_train(c, &(pst_train_options){.size = sizeof(pst_train_options), .quiet = 1}),
            "built by a program");
    pst_config_close(c);
    model_close(m);
}

/* --- wrong use -------------------------------------------------------------------------------- */

static void wrong_graphs(void **state) {
    (void)state;
    pst_graph *g = NULL;
    uint32_t t, p, q, x;
    uint64_t dim[4] = {MICRO, TIME};
    REFUSED(pst_graph_open(NULL, 1, &g), "name is NULL");
    REFUSED(pst_graph_open("g", 1, NULL), "graph is NULL");
    REFUSED(pst_graph_open("g", 0, &g), "micro_batch >= 1");
    REFUSED(pst_graph_build(NULL, &g), "config is NULL");
    pst_config *c = config_of(NULL, 0);
    REFUSED(pst_graph_build(c, &g), "built by a program");
    pst_config_close(c);
    assert_null(g);
    MUST(pst_graph_open("g", MICRO, &g));
    REFUSED(pst_graph_add_data(NULL, "t", 2, dim, &t), "the graph is NULL");
    REFUSED(pst_graph_add_data(g, NULL, 2, dim, &t), "the name or shape is NULL");
    REFUSED(pst_graph_add_data(g, "t", 2, NULL, &t), "the name or shape is NULL");
    REFUSED(pst_graph_add_data(g, "t", 2, dim, NULL), "the result is NULL");
    REFUSED(pst_graph_add_data(g, "t", 5, dim, &t), "5 dimensions");
    REFUSED(pst_graph_add_data(g, "t", 2, (uint64_t[]){3, TIME}, &t),
            "must be the micro-batch size, 2");
    MUST(pst_graph_add_data(g, "t", 2, dim, &t));
    REFUSED(pst_graph_add_param(g, "p", 2, (uint64_t[]){4, 0}, PST_INIT_ZERO, 0, 0, &p), "is 0");
    REFUSED(pst_graph_add_param(g, "p q", 1, (uint64_t[]){4}, PST_INIT_ZERO, 0, 0, &p), "space");
    REFUSED(pst_graph_add_param(g, "p", 1, (uint64_t[]){4}, (pst_init)9, 0, 0, &p), "known kind");
    REFUSED(pst_graph_add_param(g, "p", 1, (uint64_t[]){4}, PST_INIT_NORMAL, -1, 0, &p),
            "std >= 0");
    MUST(pst_graph_add_param(g, "p", 2, (uint64_t[]){VOCABULARY, 6}, PST_INIT_NORMAL, 1, 0, &p));
    MUST(pst_graph_add_param(g, "q", 2, (uint64_t[]){5, 7}, PST_INIT_NORMAL, 1, 0, &q));
    REFUSED(pst_graph_add_param(g, "q", 2, (uint64_t[]){5, 7}, PST_INIT_NORMAL, 1, 0, &q),
            "two parameters");
    REFUSED(pst_graph_add_embedding(g, "e", 77, p, PST_NONE, &x), "not a tensor");
    REFUSED(pst_graph_add_embedding(g, "e", t, 77, PST_NONE, &x), "parameter 0 does not exist");
    REFUSED(pst_graph_add_embedding(g, "e", t, PST_NONE, PST_NONE, &x),
            "takes 1 to 2 inputs and 1 to 3 parameters");
    MUST(pst_graph_add_embedding(g, "e", t, p, PST_NONE, &x));
    REFUSED(pst_graph_add_embedding(g, "e", t, p, PST_NONE, &x), "the same name");
    REFUSED(pst_graph_add_linear(g, "l", x, q, PST_NONE, PST_ACT_NONE, &x),
            "linear needs parameter q of shape [5,6]");
    REFUSED(pst_graph_add_linear(g, "l", t, q, PST_NONE, PST_ACT_NONE, &x), "floating point");
    REFUSED(pst_graph_add_linear(g, "l", x, p, PST_NONE, (pst_activation)8, &x), "activation 8");
    REFUSED(pst_graph_add_layer_norm(g, "n", x, p, p, 1e-5f, &x), "of shape [6]");
    REFUSED(pst_graph_add_dense(g, "d", 99, 6, 0.1f, PST_ACT_NONE, &x), "d reads tensor 99, but ");
    char long_name[100] = {0};
    memset(long_name, 'n', sizeof long_name - 1);
    REFUSED(pst_graph_add_dense(g, long_name, x, 6, 0.1f, PST_ACT_NONE, &x),
            "the name of a parameter must have");
    REFUSED(pst_graph_add_attention(g, "a", x, 4, &x), "cannot split");
    REFUSED(pst_graph_add_attention(g, "a", x, 0, &x), "heads > 0");
    REFUSED(pst_graph_add_dropout(g, "d", x, 1, &x), "rate < 1");
    REFUSED(pst_graph_add_dropout(g, "d", x, NAN, &x), "finite");
    REFUSED(pst_graph_add_residual(g, "r", x, t, &x), "floating point");
    REFUSED(pst_graph_add_cross_entropy(g, "c", x, x, &x), "I32");
    REFUSED(pst_graph_set_precision(g, "bf16"), "already has operators");
    REFUSED(pst_graph_set_precision(g, "fp4"), "fp32, tf32, bf16");
    uint32_t n_dim;
    REFUSED(pst_graph_shape(g, 99, &n_dim, dim), "no tensor 99");
    MUST(pst_graph_shape(g, x, &n_dim, dim));
    assert_true(n_dim == 3 && dim[0] == MICRO && dim[1] == TIME && dim[2] == 6);
    assert_int_equal(pst_graph_weights(g), VOCABULARY * 6 + 5 * 7);
    assert_int_equal(pst_graph_weights(NULL), 0);
    REFUSED(pst_graph_print(g, NULL), "out is NULL");
    pst_graph_close(g);
    pst_graph_close(NULL);
}

static void refuse_plan(pst_config *c, pst_graph *g, uint32_t ranks, const char *words) {
    pst_plan *plan = NULL;
    REFUSED(pst_plan_solve(c, g, ranks, &plan), words);
    assert_null(plan);
}

/* A graph that is sound so far but not one to train. */
static void unfinished_graphs(void **state) {
    (void)state;
    pst_config *c = config_of(NULL, 0);
    pst_graph *g;
    uint32_t in, next, table, x, y, loss;
    MUST(pst_graph_open("g", MICRO, &g));
    refuse_plan(c, g, 1, "no loss");
    MUST(pst_graph_add_data(g, "tokens", 2, (uint64_t[]){MICRO, TIME}, &in));
    MUST(pst_graph_add_data(g, "targets", 2, (uint64_t[]){MICRO, TIME}, &next));
    table = param(g, "table", VOCABULARY, CHANNELS);
    MUST(pst_graph_add_embedding(g, "embedding", in, table, PST_NONE, &x));
    refuse_plan(c, g, 1, "no loss");
    MUST(pst_graph_add_dropout(g, "forgotten", x, 0, &y));
    MUST(pst_graph_add_linear(g, "head", x, table, PST_NONE, PST_ACT_NONE, &x));
    MUST(pst_graph_add_cross_entropy(g, "loss", x, next, &loss));
    refuse_plan(c, g, 1, "no operator reads tensor forgotten.out");
    pst_graph_close(g);
    g = graph_of("g", 0);
    refuse_plan(c, g, 99, "99");
    param(g, "unused", 3, 0);
    refuse_plan(c, g, 1, "no operator uses parameter unused");
    pst_graph_close(g);
    pst_config_close(c);
}

static void wrong_plans(void **state) {
    (void)state;
    model m = model_of(0);
    pst_graph *other = graph_of("other", 0);
    pst_plan *plan = NULL, *none = NULL;
    pst_session *s = NULL;
    REFUSED(pst_plan_solve(NULL, m.graph, 1, &plan), "config is NULL");
    REFUSED(pst_plan_solve(m.config, NULL, 1, &plan), "graph is NULL");
    REFUSED(pst_plan_solve(m.config, m.graph, 1, NULL), "plan is NULL");
    REFUSED(pst_plan_load(NULL, &none), "path is NULL");
    REFUSED(pst_plan_load("nowhere", &none), "nowhere");
    MUST(pst_plan_solve(m.config, m.graph, 2, &plan));
    REFUSED(pst_plan_check(plan, NULL), "graph is NULL");
    REFUSED(pst_plan_check(NULL, m.graph), "plan is NULL");
    REFUSED(pst_plan_check(plan, other), "another model");
    REFUSED(pst_plan_print(NULL, m.graph, stdout), "plan is NULL");
    assert_int_equal(pst_plan_ranks(NULL), 0);
    REFUSED(pst_session_open(NULL, m.graph, plan, &s), "config is NULL");
    REFUSED(pst_session_open(m.config, NULL, plan, &s), "graph is NULL");
    REFUSED(pst_session_open(m.config, m.graph, NULL, &s), "plan is NULL");
    REFUSED(pst_session_open(m.config, m.graph, plan, NULL), "session is NULL");
    REFUSED(pst_session_open(m.config, other, plan, &s), "another model");
    const char *unread = "model.weights=x";
    pst_config *refused = NULL;
    REFUSED(pst_config_open("test", &unread, 1, &refused),
            "model.weights is not used by model.kind custom");
    static const struct {
        const char *setting, *words;
    } contradiction[] = {{"batch=16", "train.batch is 16"},
                         {"micro_batch=4", "train.micro_batch is given as 4, but the plan says 2"},
                         {"memory=4096", "the limit is"},
                         {"device=nosuch", "nosuch"}};
    for (size_t i = 0; i < sizeof contradiction / sizeof *contradiction; i++) {
        pst_config *c = config_of(&contradiction[i].setting, 1);
        pst_status status = pst_session_open(c, m.graph, plan, &s);
        assert_int_equal(status, i == 2 ? PST_ENOMEM : PST_EINPUT);
        if (!strstr(pst_error(), contradiction[i].words))
            fail_msg("%s: %s", contradiction[i].setting, pst_error());
        pst_config_close(c);
    }
    assert_null(s);
    pst_plan_close(plan);
    pst_plan_close(NULL);
    pst_graph_close(other);
    model_close(m);
}

static void wrong_generation(void **state) {
    (void)state;
    pst_generate_options o = {.size = sizeof o, .tokens = 1};
    REFUSED(pst_generate(&o, stdout), "source is NULL");
    o.source = "nowhere";
    REFUSED(pst_generate(&o, NULL), "out is NULL");
    REFUSED(pst_generate(&o, stdout), "nowhere: No such file");
    o.tokens = -5;
    REFUSED(pst_generate(&o, stdout), "tokens is -5, expected 0 to 1000000000");
    o.tokens = PST_GENERATE_MAX + INT64_C(1);
    REFUSED(pst_generate(&o, stdout), "tokens is 1000000001");
    o.tokens = 1;
    o.top_k = -1;
    REFUSED(pst_generate(&o, stdout), "top_k is -1, expected 0 or more");
    o.top_k = 0;
    o.temperature = NAN;
    REFUSED(pst_generate(&o, stdout), "expected 0 or more");
}

static void wrong_settings(void **state) {
    (void)state;
    pst_config *c = NULL;
    const char *typo = "batchh=4", *none = NULL;
    REFUSED(pst_config_open("t", &typo, 1, &c), "did you mean 'batch'");
    REFUSED(pst_config_open("t", &none, 1, &c), "override 0 is NULL");
    REFUSED(pst_config_open("t", NULL, 1, &c), "override is NULL");
    REFUSED(pst_config_open(NULL, NULL, 0, &c), "name is NULL");
    REFUSED(pst_config_open("a/b", NULL, 0, &c), "folder name");
    assert_null(c);

    /* Each transport says where ranks are: none is passed over in silence. */
    const char *ucx = "parallel.transport=ucx";
    pst_config *several = config_of(&ucx, 1);
    model m = model_of(0);
    pst_plan *plan;
    pst_session *s = NULL;
    MUST(pst_plan_solve(several, m.graph, 2, &plan));
    REFUSED(pst_session_open(several, m.graph, plan, &s),
            "transport ucx needs one process per rank, but all 2 ranks");
    assert_null(s);
    REFUSED(pst_registry_joins("self", &(pst_world){.size = 2}, 2), "but this job has 2 processes");
    MUST(pst_registry_joins("self", &(pst_world){.size = 1}, 2));
    MUST(pst_registry_joins("ucx", &(pst_world){.size = 1}, 1)); /* there is nothing to carry */
    pst_plan_close(plan);
    pst_config_close(several);
    model_close(m);
}

/* What stands in padding is nobody's concern, in whatever layout; lengths are of the positions that
 * there are. */
static void padding_changes_nothing(void **state) {
    (void)state;
    int32_t lengths[BATCH];
    const int32_t *const data[] = {tokens, targets, lengths};
    double loss[3], evaluated;
    uint64_t hash[3];
    for (uint32_t i = 0; i < 3; i++) {
        model m = {config_of(NULL, 0), masked_graph()};
        pst_session *s = session_of(m, i + 1);
        pst_step_result r;
        pst_step_result_init(&r);
        model_close(m);
        for (uint64_t step = 0; step < 4; step++) {
            fill(step);
            for (uint32_t b = 0; b < BATCH; b++) {
                lengths[b] = (int32_t)((b + step) % (TIME + 1));
                for (uint32_t k = (uint32_t)lengths[b]; k < TIME; k++) {
                    tokens[b * TIME + k] = (int32_t)(i + k) % VOCABULARY;
                    targets[b * TIME + k] = -1;
                }
            }
            MUST(pst_session_step(s, data, 3, &r));
        }
        loss[i] = r.loss;
        hash[i] = hash_of(s);
        lengths[1] = TIME + 1;
        REFUSED(pst_session_step(s, data, 3, NULL), "data tensor lengths contains");
        lengths[1] = -1;
        REFUSED(pst_session_evaluate(s, data, 3, &evaluated),
                "data tensor lengths contains -1; expected 0 to");
        pst_session_close(s);
    }
    for (int i = 1; i < 3; i++) assert_true(loss[i] == loss[0] && hash[i] == hash[0]);
}

static void wrong_steps(void **state) {
    (void)state;
    model m = model_of(0);
    pst_session *s = session_of(m, 2);
    pst_step_result r = {0};
    double loss;
    uint64_t before = hash_of(s), hash;
    float out[4];
    fill(0);
    REFUSED(pst_session_step(NULL, batch, 2, NULL), "session is NULL");
    REFUSED(pst_session_step(s, batch, 1, NULL), "2 data tensors, but 1");
    REFUSED(pst_session_step(s, NULL, 2, NULL), "tokens is NULL");
    REFUSED(pst_session_step(s, (const int32_t *[]){tokens, NULL}, 2, NULL), "targets is NULL");
    REFUSED(pst_session_step(s, batch, 2, &r), "pst_step_result_init");
    tokens[5] = -1;
    REFUSED(pst_session_step(s, batch, 2, NULL), "tokens contains -1; expected 0 to 10");
    tokens[5] = VOCABULARY;
    REFUSED(pst_session_evaluate(s, batch, 2, &loss), "tokens contains 11; expected 0 to 10");
    tokens[5] = 0;
    targets[BATCH * TIME - 1] = VOCABULARY;
    REFUSED(pst_session_step(s, batch, 2, NULL),
            "targets contains 11; expected a negative number, or 0 to 10");
    REFUSED(pst_session_evaluate(s, batch, 2, NULL), "loss is NULL");
    REFUSED(pst_session_save(s, NULL), "folder is NULL");
    REFUSED(pst_session_load(s, NULL), "path is NULL");
    REFUSED(pst_session_read(s, "nosuch", out, 4), "no parameter 'nosuch'");
    REFUSED(pst_session_read(s, "table", out, 4), "88 elements, not 4");
    REFUSED(pst_session_read(s, NULL, out, 4), "param is NULL");
    REFUSED(pst_session_hash(NULL, &hash), "session is NULL");
    assert_int_equal(pst_session_steps(NULL), 0);
    assert_int_equal(hash_of(s), before); /* nothing of all that has changed anything */
    assert_int_equal(pst_session_steps(s), 0);
    train(s, 0, 1, NULL);
    assert_int_not_equal(hash_of(s), before);
    pst_session_close(s);
    pst_session_close(NULL);
    model_close(m);
}

static int close_folders(void **state) {
    run_folder_remove();
    return folder_close(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_gives_the_same_bits),
        cmocka_unit_test(sessions_do_not_disturb_each_other),
        cmocka_unit_test(results),
        cmocka_unit_test(longer_than_the_decay),
        cmocka_unit_test(as_a_run),
        cmocka_unit_test(model_by_configuration),
        cmocka_unit_test(plans),
        cmocka_unit_test(goes_on_from_a_checkpoint),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(diverges_after_a_full_disk),
        cmocka_unit_test(wrong_checkpoints),
        cmocka_unit_test(wrong_graphs),
        cmocka_unit_test(unfinished_graphs),
        cmocka_unit_test(wrong_plans),
        cmocka_unit_test(wrong_generation),
        cmocka_unit_test(wrong_settings),
        cmocka_unit_test(wrong_steps),
        cmocka_unit_test(padding_changes_nothing),
    };
    return cmocka_run_group_tests(tests, folder_open, close_folders);
}

/* test: label=full timeout=300
 * Any layout: random models and steps, each trained in random layouts over `self` (stages, chunks,
 * schedule, threads, recomputation, sharding, post-validation, delayed updates, and stopped and
 * resumed as another layout). Those of as many replicas and tensor ranks, with `reproducible` of
 * any replicas, have the same bits of losses, norms, validation and weights (with zero: 2, those
 * with it), and write no more than the memory that was predicted; all, also those whose stages have
 * different numbers of tensor ranks, are close to one rank; what cannot be is refused in one line,
 * with status 2. PST_SEED=N draws others; PST_VERBOSE=1 says why layouts are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/clock.h"
#include "graph/random_graph.h"
#include "kernels/kernel.h"
#include "pipeline/schedule/schedule.h"
#include "run/runs.h"
#include <math.h>

enum {
    STEPS = 4,
    LAYOUTS = 4,
    LEAST = 6,
    MOST = 400,
    TEXT = 1200,
    MOST_OVERRIDE = 16,
    MOST_KEY = 64
};
#define SECONDS 25

typedef struct {
    uint64_t state;
    char yaml[TEXT];
    uint32_t micros, data, tensor, heads, parts; /* parts: parallel.reproducible, 0 */
    /* given: shares of replicas are; rounds: parallel.zero is 2; exchanges: STEP is an exchange of
     * tensor ranks */
    int sequence, half, given, rounds, exchanges;
    uint32_t staleness; /* of delayed updates; 0: they are not */
    char shares[64];
} model;

typedef struct {
    /* ranks: where not all stages have as many tensor ranks, else 0 */
    uint32_t stages, data, ranks;
    size_t n;
    char override[MOST_OVERRIDE][MOST_KEY];
} layout;

static uint64_t below(uint64_t *state, uint64_t n) { return next_random(state) % n; }

static const char *pick(uint64_t *state, const char *const *list, size_t n) {
    return list[below(state, n)];
}

static void PST_PRINTF(2, 3) set(layout *l, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(l->override[l->n++], MOST_KEY, fmt, args);
    va_end(args);
}

/* --- what is drawn ---------------------------------------------------------------------------- */

/* Text that has something to be learned in it, of this test's own. */
static void write_text(void) {
    char path[600];
    snprintf(path, sizeof path, "%s/text", run_folder());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    uint64_t state = 5;
    for (int i = 0; i < 6000; i++) fputc("abcdefgh "[(i * 3 + (int)below(&state, 3)) % 9], f);
    fclose(f);
}

/* Images in CIFAR-10's form whose class their brightness shows. */
static void write_images(void) {
    char path[600];
    snprintf(path, sizeof path, "%s/images", run_folder());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    uint64_t state = 7;
    for (int i = 0; i < 60; i++) {
        fputc(i % 10, f);
        for (int k = 0; k < 3072; k++) fputc(20 * (i % 10) + (int)below(&state, 60), f);
    }
    fclose(f);
}

static const char *precision_of(uint64_t *state) {
    static const char *const all[] = {"fp32", "fp32", "fp16", "bf16"};
    const char *name = pick(state, all, 4);
    return strcmp(name, "bf16") || pst_cpu_isa() & PST_ISA_AVX512_BF16 ? name : "fp16";
}

/* Two replicas' shares of the micro-batches, as equal as it happens. */
static void draw_shares(model *m) {
    uint32_t first = 1 + (uint32_t)below(&m->state, m->micros - 1);
    m->given = m->data == 2 && !m->parts && below(&m->state, 3) == 0;
    if (m->given)
        snprintf(m->shares, sizeof m->shares, "parallel.replicas=[%u,%u]", first,
                 m->micros - first);
}

/* Residual networks have no hidden matrix. */
static const char *draw_optimizer(model *m, int images) {
    static const char *const any[] = {"adamw", "sgd", "adam", "lamb", "muon"};
    int n = images ? 4 : 5;
    const char *name = pick(&m->state, any, n);
    m->exchanges = m->tensor > 1 && pst_optim_find(name)->whole;
    return name;
}

static void draw_model(model *m, uint64_t seed) {
    static const char *const activation[] = {"gelu_tanh", "gelu_erf", "relu"}, *const clip[] = {
                                                                                   "0", "0.05",
                                                                                   "1"};
    *m = (model){.state = seed};
    uint64_t *s = &m->state;
    uint32_t layers = 1 + (uint32_t)below(s, 3), channels, micro_batch = 1 + (uint32_t)below(s, 2);
    m->heads = 1 + (uint32_t)below(s, 4);
    channels = m->heads * (4 + 4 * (uint32_t)below(s, 3));
    m->micros = 2 + (uint32_t)below(s, 7);
    m->tensor = below(s, 2) ? 1 : 2 + (uint32_t)below(s, 2);
    m->data = 1 + (uint32_t)below(s, 3);
    m->sequence = m->tensor > 1 && below(s, 2);
    if (below(s, 4) == 0) {
        m->parts = 4;
        m->micros = 4 + 4 * (uint32_t)below(s, 2);
        m->data = 1;
    }
    draw_shares(m);
    m->rounds = m->data > 1 && below(s, 3) == 0;
    const char *precision = precision_of(s);
    m->half = strcmp(precision, "fp32") != 0;
    if (!m->rounds && strcmp(precision, "fp16") && below(s, 4) == 0)
        m->staleness = 1 + (uint32_t)below(s, 2);
    char sizes[400];
    if (below(s, 6) == 0) {
        m->tensor = 1;
        m->sequence = 0;
        snprintf(sizes, sizeof sizes,
                 "model: {kind: resnet, layers: %u, channels: %u}\n"
                 "data: {kind: cifar10, paths: [\"%s/images\"], validation: 0.1}\n",
                 8 + 6 * (uint32_t)below(s, 2), 2 + (uint32_t)below(s, 4), run_folder());
    } else {
        char kind[80];
        if (below(s, 5))
            snprintf(kind, sizeof kind, "gpt, heads: %u, dropout: %s, attention_dropout: %s",
                     m->heads, below(s, 2) ? "0.1" : "0", below(s, 3) ? "0" : "0.1");
        else snprintf(kind, sizeof kind, "mlp");
        snprintf(sizes, sizeof sizes,
                 "model: {kind: %s, layers: %u, channels: %u, context: %u, vocabulary: %u, "
                 "activation: %s}\n"
                 "data: {kind: text, paths: [\"%s/text\"], validation: 0.1}\n",
                 kind, layers, channels, 8 + (uint32_t)below(s, 13), 256 + (uint32_t)below(s, 9),
                 pick(s, activation, 3), run_folder());
    }
    snprintf(m->yaml, TEXT,
             "name: run\n"
             "%s"
             "train: {steps: %d, batch: %u, micro_batch: %u, lr: 1.0e-3, warmup: 2, clip: %s, "
             "seed: %u, optimizer: %s, optimizer_state: %s,\n"
             "        precision: %s, residual: %s, loss_scale_start: %s, loss_scale_interval: 2}\n"
             "parallel: {transport: self, tensor: %u, sequence: %s, reproducible: %u, update: %s, "
             "staleness: %u}\n"
             "checkpoint: {every: 2}\n",
             sizes, STEPS, m->micros * micro_batch, micro_batch, pick(s, clip, 3),
             (uint32_t)below(s, 1000), draw_optimizer(m, strstr(sizes, "resnet") != NULL),
             seed % 3 ? "fp32" : "bf16", precision, seed % 2 ? "fp32" : "same",
             below(s, 2) ? "16777216" : "1024", m->tensor, m->sequence ? "true" : "false", m->parts,
             m->staleness ? "delayed" : "sync", m->staleness ? m->staleness : 1);
}

/* The one that the others of its kind are compared with. */
static layout plain(const model *m) {
    layout l = {.stages = 1, .data = m->data};
    set(&l, "parallel.data=%u", m->data);
    set(&l, "parallel.threads=1");
    set(&l, "parallel.zero=%u", m->rounds ? 2 : 0);
    if (m->given) set(&l, "%s", m->shares);
    return l;
}

static layout draw_layout(model *m) {
    static const char *const recompute[] = {"none", "{full: 1}", "selective", "full"};
    uint32_t rows;
    const pst_schedule_row *row = pst_schedule_rows(&rows);
    uint64_t *s = &m->state;
    layout l = {.stages = 1 + (uint32_t)below(s, 4), .data = m->data};
    if (m->parts) l.data = 1u << below(s, 3);
    set(&l, "parallel.data=%u", l.data);
    if (m->given) set(&l, "%s", m->shares);
    set(&l, "parallel.threads=%u", 1 + (uint32_t)below(s, 2));
    /* the last one: forward */
    set(&l, "parallel.schedule=%s", below(s, 12) ? row[below(s, rows - 1)].name : "solved");
    if (below(s, 4) == 0) set(&l, "parallel.chunks=%u", 1 + (uint32_t)below(s, 3));
    set(&l, "parallel.recompute=%s", pick(s, recompute, 4));
    set(&l, "parallel.zero=%u", m->rounds ? 2 : (uint32_t)below(s, 2));
    const int post = below(s, 3) == 0 && !m->exchanges && !m->staleness;
    set(&l, "parallel.post_validation=%s", post ? "true" : "false");
    return l;
}

/* --- running and comparing -------------------------------------------------------------------- */

static void say(const model *m, const layout *l, const char *what) {
    fprintf(stderr, "%s\n%s-n %u", what, m->yaml,
            l->ranks ? l->ranks : l->stages * l->data * m->tensor);
    for (size_t i = 0; i < l->n; i++) fprintf(stderr, " %s", l->override[i]);
    fputc('\n', stderr);
}

static void PST_PRINTF(3, 4) wrong(const model *m, const layout *l, const char *fmt, ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    say(m, l, "the layout at fault:");
    fail_msg("%s", text);
}

static void remove_folder(const char *path) {
    char command[1300];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

static run_result train(const model *m, const layout *l, const char *resume) {
    run_result r = {.exit_status = 5};
    pst_config *c = NULL;
    char runs[300];
    const char *override[MOST_OVERRIDE];
    for (size_t i = 0; i < l->n; i++) override[i] = l->override[i];
    snprintf(runs, sizeof runs, "%s/runs", run_folder());
    pst_train_options o = {.size = sizeof o,
                           .ranks = (int)(l->ranks ? l->ranks : l->stages * l->data * m->tensor),
                           .runs = runs,
                           .resume = resume,
                           /* nothing is written behind the arena, validation included */
                           .canary = 1,
                           .quiet = 1};
    pst_error_clear();
    pst_status status = pst_config_parse(m->yaml, "test.yaml", override, l->n, &c);
    if (status == PST_OK) status = pst_train(c, &o);
    pst_config_close(c);
    r.exit_status = pst_status_exit(status);
    snprintf(r.folder, sizeof r.folder, "%s/run", runs);
    if (status != PST_OK && status != PST_EINPUT)
        wrong(m, l, "status %d: %s", r.exit_status, pst_error());
    if (status == PST_EINPUT && (!*pst_error() || strchr(pst_error(), '\n')))
        wrong(m, l, "refused, but not in one line: '%s'", pst_error());
    if (status == PST_EINPUT && getenv("PST_VERBOSE")) say(m, l, pst_error());
    if (status == PST_EINPUT)
        remove_folder(r.folder); /* it has one where all of its steps were skipped */
    if (status == PST_OK) run_read(&r);
    return r;
}

static void same(const model *m, const layout *l, const run_result *r, const run_result *base,
                 int from) {
    if (r->steps != STEPS) wrong(m, l, "%d steps", r->steps);
    for (int i = from; i < STEPS; i++) {
        if (strcmp(r->loss[i], base->loss[i]))
            wrong(m, l, "loss of step %d is %s, not %s", i + 1, r->loss[i], base->loss[i]);
        if (memcmp(&r->norm[i], &base->norm[i], sizeof r->norm[i]))
            wrong(m, l, "norm of step %d is %.17g, not %.17g", i + 1, r->norm[i], base->norm[i]);
    }
    if (memcmp(&r->validation, &base->validation, sizeof r->validation))
        wrong(m, l, "validation loss %.17g, not %.17g", r->validation, base->validation);
    if (strcmp(r->hash, base->hash)) wrong(m, l, "weights %s, not %s", r->hash, base->hash);
}

/* Replicas and tensor ranks add in another order, and must scale nothing. */
static void near_from(const model *m, const layout *l, const run_result *r, const run_result *one,
                      int from) {
    double tolerance = m->half ? 1e-2 : 1e-5;
    for (int i = from; i < STEPS; i++)
        if (!(fabs(r->value[i] - one->value[i]) <= tolerance * one->value[i]))
            wrong(m, l, "loss of step %d is %s, that of one rank %s", i + 1, r->loss[i],
                  one->loss[i]);
    if (!(fabs(r->norm[from] - one->norm[from]) <= 100 * tolerance * one->norm[from]) && !m->half)
        wrong(m, l, "norm of step %d is %.9g, that of one rank %.9g", from + 1, r->norm[from],
              one->norm[from]);
}

static void near(const model *m, const layout *l, const run_result *r, const run_result *one) {
    near_from(m, l, r, one, 0);
}

/* Stages with different numbers of tensor ranks: as close to one rank. */
static int is_uneven(const layout *l) {
    return l->n && strstr(l->override[l->n - 1], "tensor=[") != NULL;
}

/* The last one has another number than the first, if there are several. */
static void draw_uneven(model *m, layout *l) {
    char text[MOST_KEY] = "parallel.tensor=[";
    uint32_t first = 1 + (uint32_t)below(&m->state, 3), ranks = first;
    snprintf(text + strlen(text), 4, "%u", first);
    for (uint32_t s = 1; s < l->stages; s++) {
        uint32_t degree = 1 + (uint32_t)below(&m->state, 3);
        if (s + 1 == l->stages && degree == first) degree = first % 3 + 1;
        snprintf(text + strlen(text), 4, ",%u", degree);
        ranks += degree;
    }
    set(l, "parallel.sequence=false");
    set(l, "%s]", text);
    l->ranks = ranks * l->data;
}

/* --- one model -------------------------------------------------------------------------------- */

typedef struct {
    uint32_t models, layouts, resumed, refused;
} tally;

static void compare_with_one(const model *m, const layout *first, const run_result *base) {
    model alone = *m;
    layout l = {.stages = 1, .data = 1};
    set(&l, "parallel.threads=1");
    set(&l, "parallel.tensor=1");
    set(&l, "parallel.sequence=false");
    set(&l, "parallel.reproducible=0");
    alone.tensor = 1;
    run_result one = train(&alone, &l, "");
    if (one.exit_status) wrong(m, &l, "one rank: %s", pst_error());
    near(m, first, base, &one);
    remove_folder(one.folder);
}

/* From step 2 on as another layout: the checkpoint of the last step is taken away first. */
static void go_on(model *m, const layout *from, const run_result *run, const run_result *base,
                  tally *n) {
    char last[700], folder[600];
    layout l = draw_layout(m);
    snprintf(last, sizeof last, "%s/checkpoints/step-%08d", run->folder, STEPS);
    snprintf(folder, sizeof folder, "%s", run->folder);
    remove_folder(last);
    int uneven = is_uneven(from) || (l.stages > 1 && below(&m->state, 4) == 0);
    if (uneven && l.stages > 1) draw_uneven(m, &l);
    run_result r = train(m, &l, folder);
    if (r.exit_status) return; /* refused: its own check is another layout's */
    if (uneven) near_from(m, &l, &r, base, 2);
    else same(m, &l, &r, base, 2);
    n->resumed++;
}

static void one_model(uint64_t seed, tally *n) {
    model m;
    draw_model(&m, seed);
    layout first = plain(&m);
    run_result base = train(&m, &first, "");
    if (base.exit_status) { /* heads or micro-batches are too few */
        n->refused++;
        return;
    }
    remove_folder(base.folder);
    if (m.tensor > 1 || m.data > 1 || m.parts) compare_with_one(&m, &first, &base);
    n->models++;
    for (int i = 0; i < LAYOUTS; i++) {
        layout l = draw_layout(&m);
        if (l.stages > 1 && below(&m.state, 4) == 0) draw_uneven(&m, &l);
        run_result r = train(&m, &l, "");
        r.exit_status ? n->refused++ : n->layouts++;
        if (r.exit_status) continue;
        if (is_uneven(&l)) near(&m, &l, &r, &base);
        else same(&m, &l, &r, &base, 0);
        if (below(&m.state, 3) == 0) go_on(&m, &l, &r, &base, n);
        remove_folder(r.folder);
    }
}

static void any_layout(void **state) {
    (void)state;
    uint64_t seed = test_seed(1), until = pst_monotonic_ns() + SECONDS * UINT64_C(1000000000);
    tally n = {0};
    write_text();
    write_images();
    for (uint32_t i = 0; i < MOST && (i < LEAST || pst_monotonic_ns() < until); i++) {
        uint64_t key = seed * 1000003 + i;
        printf("model %u\n", i);
        one_model(key, &n);
    }
    printf("%u models, %u layouts, %u resumed, %u refused\n", n.models, n.layouts, n.resumed,
           n.refused);
    assert_true(n.layouts > 0);
}

/* Replicas answer for other parts of a parameter on one tensor rank than on the next; the norm's
 * sums are added in the order of the parts all the same. (Its last bit was another one in a step
 * out of ten.) */
static void norms_of_parts(void **state) {
    (void)state;
    write_text();
    for (int seed = 1; seed <= 8; seed++) {
        model m = {.tensor = 3, .parts = 4};
        layout one = {.stages = 1, .data = 1}, four = {.stages = 1, .data = 4};
        snprintf(
            m.yaml, TEXT,
            "name: run\n"
            "model: {kind: gpt, layers: 1, heads: 4, channels: 48, context: 12, vocabulary: 261}\n"
            "data: {kind: text, paths: [\"%s/text\"], validation: 0}\n"
            "train: {steps: %d, batch: 4, micro_batch: 1, lr: 1.0e-3, warmup: 2, clip: 0, seed: "
            "%d,\n"
            "        optimizer: sgd}\n"
            "parallel: {transport: self, threads: 1, tensor: 3, reproducible: 4}\n"
            "checkpoint: {every: 0}\n",
            run_folder(), STEPS, seed);
        set(&four, "parallel.data=4");
        run_result base = train(&m, &one, ""), r;
        assert_int_equal(base.exit_status, 0);
        remove_folder(base.folder);
        r = train(&m, &four, "");
        assert_int_equal(r.exit_status, 0);
        same(&m, &four, &r, &base, 0);
        remove_folder(r.folder);
    }
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(norms_of_parts),
                                       cmocka_unit_test(any_layout)};
    return cmocka_run_group_tests(tests, NULL, cleanup);
}

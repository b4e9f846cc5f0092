/* test: label=full timeout=240 isa=any
 * A loss or gradient that is not finite: the step is not applied; the operator and tensor named are
 * those that a player of the tape finds (oracle.h), in every layout alike; the run ends or skips as
 * configured, with the same bits everywhere. The causes are real: a learning rate that is too high,
 * weights that are infinite or too large, data that only some batches hold. PST_SEED repeats a
 * run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/hash.h"
#include "checkpoint/parts.h"
#include "checkpoint/shards.h"
#include "run/oracle.h"
#include "run/process.h"

#define DATA "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"], validation: 0}\n"
#define GPT                                                                                        \
    "name: run\nmodel: {kind: gpt, layers: 3, heads: 2, channels: 16, context: 12, dropout: "      \
    "0.1}\n" DATA
#define MLP "name: run\nmodel: {kind: mlp, layers: 3, channels: 16, context: 12}\n" DATA
#define TRAIN(steps)                                                                               \
    "train: {steps: " #steps                                                                       \
    ", batch: 6, micro_batch: 2, warmup: 0, decay: none, weight_decay: 0, seed: 3, lr: "           \
    "1.0e-3"

enum { MOST_ELEMENTS = 4096 }; /* of a parameter of these models */

static uint64_t random_state;

static uint64_t draw(uint64_t below) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % below;
}

/* --- layouts ---------------------------------------------------------------------------------- */

static const struct {
    int ranks;
    const char *transport, *schedule;
} layouts[] = {{1, "self", "1f1b"},
               {2, "self", "1f1b"},
               {4, "self", "gpipe"},
               {2, "ucx", "1f1b-early"},
               {4, "ucx", "1f1b"}};
enum { N_LAYOUT = sizeof layouts / sizeof *layouts };

static const char *name_of(const char *name, int layout) {
    static char text[96];
    snprintf(text, sizeof text, "%s-%d-%s", name, layouts[layout].ranks, layouts[layout].transport);
    return text;
}

__attribute__((format(printf, 1, 2))) static void shell(const char *format, ...) {
    char command[2600];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (system(command)) fail_msg("%s", command);
}

/* Goes on from a copy of the run folder `from` (NULL: starts anew). */
static run_result run_layout(const char *yaml, const char *name, int layout, const char *from) {
    char words[900], folder[700], resume[760] = "";
    snprintf(folder, sizeof folder, "%s/%s", run_folder(), name_of(name, layout));
    if (from) {
        shell("mkdir -p '%s' && cp -r '%s' '%s/run'", folder, from, folder);
        snprintf(resume, sizeof resume, "--resume '%s/run'", folder);
    }
    snprintf(words, sizeof words,
             "-q -n %d parallel.transport=%s parallel.schedule=%s parallel.threads=1 %s",
             layouts[layout].ranks, layouts[layout].transport, layouts[layout].schedule, resume);
    run_result r = run_program(PST_BINARY, yaml, name_of(name, layout), words);
    return r;
}

/* --- what a run has said
 * ---------------------------------------------------------------------------------------- */

typedef struct {
    int n;
    json_t *line[512];
} events;

static events read_events(const run_result *r) {
    events e = {0};
    char path[600], line[4096];
    snprintf(path, sizeof path, "%s/metrics.jsonl", r->folder);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f) && e.n < 512) {
        json_t *j = json_loads(line, 0, NULL);
        const char *event = json_string_value(json_object_get(j, "event"));
        if (event && !strcmp(event, "non_finite")) e.line[e.n++] = j;
        else json_decref(j);
    }
    if (f) fclose(f);
    return e;
}

static void free_events(events *e) {
    for (int i = 0; i < e->n; i++) json_decref(e->line[i]);
    e->n = 0;
}

static const char *text_of(const json_t *line, const char *key) {
    const char *text = json_string_value(json_object_get(line, key));
    return text ? text : "";
}

/* Row-major index from the index of each dimension of the tensor that the culprit names. */
static void check_event(const json_t *line, const oracle_culprit *c, const char *what) {
    char found[600], wanted[600], *at = json_dumps(json_object_get(line, "index"), JSON_COMPACT);
    snprintf(found, sizeof found, "%s %s %s %s %d weight '%s'", text_of(line, "operator"),
             text_of(line, "tensor"), at, text_of(line, "pass"),
             (int)json_integer_value(json_object_get(line, "micro_batch")),
             text_of(line, "weight"));
    snprintf(wanted, sizeof wanted, "%s %s %s %s %u weight '%s'", c->op, c->tensor, c->at, c->pass,
             c->micro, c->weight);
    free(at);
    if (strcmp(found, wanted)) fail_msg("%s names %s, it was %s", what, found, wanted);
}

static const char *said(const char *name, int layout) {
    process p;
    snprintf(p.log, sizeof p.log, "%s/%s.log", run_folder(), name_of(name, layout));
    return process_said(&p);
}

/* --- checkpoints ------------------------------------------------------------------------------ */

typedef void change_fn(const pst_param *p, float *weight, void *arg);

static int all_finite(const float *x, uint64_t n) { return oracle_bad(x, n) == n; }

static void rename_hash(char *text, size_t bytes, uint64_t old, uint64_t new) {
    char from[20], to[20];
    snprintf(from, sizeof from, "%016llx", (unsigned long long)old);
    snprintf(to, sizeof to, "%016llx", (unsigned long long)new);
    for (char *at = text; (at = memmem(at, bytes - (size_t)(at - text), from, 16)); at += 16)
        memcpy(at, to, 16);
}

static void write_whole(const char *path, const char *text, size_t bytes) {
    FILE *f = fopen(path, "w");
    assert_true(f && fwrite(text, 1, bytes, f) == bytes && fclose(f) == 0);
}

/* penstock writes no checkpoint of weights that are not finite. Here they are put into a good one
 * of one shard, and all hashes of it are made to agree. */
static void poison(const char *folder, const pst_graph *g, float (*weight)[MOST_ELEMENTS]) {
    char index_path[800], shard_path[800], *index, *shard;
    size_t index_bytes, shard_bytes, digits;
    pst_ckpt *c;
    snprintf(index_path, sizeof index_path, "%s/index.json", folder);
    snprintf(shard_path, sizeof shard_path, "%s/rank-0-of-1.safetensors", folder);
    oracle_must(pst_ckpt_text(index_path, 1 << 20, &index, &index_bytes));
    oracle_must(pst_ckpt_text(shard_path, 1 << 20, &shard, &shard_bytes));
    oracle_must(pst_ckpt_open(folder, &c));
    uint64_t first = shard_bytes, hash;
    for (uint32_t i = 0; i < c->shard[0]->n_entry; i++)
        if (c->shard[0]->entry[i].offset < first) first = c->shard[0]->entry[i].offset;
    for (uint32_t i = 0; i < g->n_param; i++) {
        size_t bytes = pst_param_elements(g->param + i) * sizeof(float);
        memcpy(shard + pst_safetensors_find(c->shard[0], g->param[i].name)->offset, weight[i],
               bytes);
        hash = pst_hash_bytes(weight[i], bytes);
        rename_hash(shard, first, pst_ckpt_tensor_find(c, g->param[i].name)->part->xxh3, hash);
        rename_hash(index, index_bytes, pst_ckpt_tensor_find(c, g->param[i].name)->part->xxh3,
                    hash);
    }
    rename_hash(index, index_bytes, c->header_xxh3[0], pst_hash_bytes(shard, first));
    oracle_must(pst_ckpt_index_hash(index, index_bytes, &digits, &hash));
    char text[20];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    memcpy(index + digits, text, 16);
    pst_ckpt_close(c);
    write_whole(index_path, index, index_bytes);
    write_whole(shard_path, shard, shard_bytes);
    free(index);
    free(shard);
}

/* A run folder FOLDER/NAME/run whose only checkpoint is that of `from` with every weight changed by
 * fn, as of step 0 with empty state when restart. */
static const char *forge(const char *yaml, const char *from, const char *name, int restart,
                         change_fn *fn, void *arg) {
    static char run[700];
    /* weights as they were, state, weights as they are to be */
    static float memory[4][64][MOST_ELEMENTS];
    pst_ckpt *ckpt;
    char *folder, checkpoints[760];
    int finite = 1;
    oracle o = oracle_open(yaml, from);
    const pst_graph *g = o.p->graph;
    pst_ckpt_entry entry[64];
    snprintf(run, sizeof run, "%s/%s/run", run_folder(), name);
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", run);
    shell("rm -rf '%s' && mkdir -p '%s'", run, run);
    oracle_must(pst_ckpt_find(from, &folder));
    oracle_must(pst_ckpt_open(folder, &ckpt));
    assert_true(g->n_param <= 64);
    for (uint32_t i = 0; i < g->n_param; i++) {
        void *state[2] = {memory[1][i], memory[2][i]};
        size_t bytes = pst_param_elements(g->param + i) * sizeof(float);
        assert_true(bytes <= sizeof memory[0][0]);
        oracle_must(pst_ckpt_read_param(ckpt, g->param + i, o.p->optim, memory[0][i], state));
        if (restart) {
            memset(state[0], 0, bytes);
            memset(state[1], 0, bytes);
        }
        memcpy(memory[3][i], memory[0][i], bytes);
        fn(g->param + i, memory[3][i], arg);
        finite &= all_finite(memory[3][i], pst_param_elements(g->param + i));
        entry[i] = (pst_ckpt_entry){
            .param = g->param + i, .weight = memory[0][i], .state = {state[0], state[1]}};
    }
    for (uint32_t i = 0; finite && i < g->n_param; i++) entry[i].weight = memory[3][i];
    pst_ckpt_info info = ckpt->info;
    if (restart) info.step = info.next_sample = 0;
    oracle_must(
        shard_write(&(shard_place){checkpoints, info.step, 0, 1}, o.p->optim, entry, g->n_param));
    oracle_must(pst_ckpt_commit(checkpoints, &info, ckpt->config, g, 1, NULL));
    pst_ckpt_close(ckpt);
    free(folder);
    if (!finite) {
        oracle_must(pst_ckpt_find(run, &folder));
        poison(folder, g, memory[3]);
        free(folder);
    }
    oracle_close(&o);
    return run;
}

/* 1 when weights and state of two checkpoints are the same, to the bit. */
static int same_tensors(const char *run, int step_a, int step_b) {
    char path[2][800];
    pst_ckpt *c[2];
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/checkpoints/step-%08d", run, i ? step_b : step_a);
        oracle_must(pst_ckpt_open(path[i], &c[i]));
    }
    assert_int_equal(c[0]->n_tensor, c[1]->n_tensor);
    uint32_t differ = 0;
    for (uint32_t i = 0; i < c[0]->n_tensor; i++)
        differ += c[0]->tensor[i].part->xxh3 != c[1]->tensor[i].part->xxh3;
    pst_ckpt_close(c[0]);
    pst_ckpt_close(c[1]);
    return !differ;
}

/* --- stop: the right one is named
 * ------------------------------------------------------------------------------- */

/* Every layout ends at the step behind the checkpoint of `from` and names what the oracle names. */
static void expect_stop(const char *yaml, const char *name, const char *from, int step) {
    oracle_culprit c = oracle_play(yaml, from);
    char sentence[200];
    assert_true(c.found);
    printf("%s: %s of %s, %s, micro-batch %u%s%s\n", name, c.pass, c.op, c.tensor, c.micro,
           *c.weight ? ", weight " : "", c.weight);
    for (int i = 0; i < N_LAYOUT; i++) {
        run_result r = run_layout(yaml, name, i, from);
        if (r.exit_status != 2)
            fail_msg("%s: exit status %d: %s", name_of(name, i), r.exit_status, said(name, i));
        events e = read_events(&r);
        assert_int_equal(e.n, 1);
        check_event(e.line[0], &c, name_of(name, i));
        assert_int_equal(json_integer_value(json_object_get(e.line[0], "step")), step);
        snprintf(sentence, sizeof sentence, "diverged at step %d: ", step);
        assert_non_null(strstr(said(name, i), sentence));
        snprintf(sentence, sizeof sentence, "written by %s (%s of micro-batch %u on rank %d)", c.op,
                 c.pass, c.micro, (int)json_integer_value(json_object_get(e.line[0], "rank")));
        if (!strstr(said(name, i), sentence))
            fail_msg("'%s' is not in: %s", sentence, said(name, i));
        const char *why =
            *c.weight ? " was " : "the weights and inputs of this operator were finite";
        assert_non_null(strstr(said(name, i), why));
        free_events(&e);
    }
}

static run_result gpt, mlp;

static void test_finite(void **state) {
    (void)state;
    gpt = run_here(GPT TRAIN(8) "}\ncheckpoint: {every: 1, keep: 20}\n", "gpt", 1, "", NULL, 0);
    mlp = run_here(MLP TRAIN(8) "}\ncheckpoint: {every: 1, keep: 20}\n", "mlp", 1, "", NULL, 0);
    assert_int_equal(gpt.exit_status, 0);
    assert_int_equal(mlp.exit_status, 0);
    oracle_culprit a = oracle_play(GPT TRAIN(8) "}\n", gpt.folder),
                   b = oracle_play(MLP TRAIN(8) "}\n", mlp.folder);
    assert_false(a.found || b.found); /* no kernel leaves anything unwritten */
}

/* Some elements of some weights become infinite, NaN or far too large. */
static void spoil(const pst_param *p, float *weight, void *arg) {
    const uint32_t *one_in = arg;
    static const float values[] = {INFINITY, -INFINITY, NAN, 3e38f, -1e37f, -1e30f, 1e25f, 1e20f};
    if (draw(*one_in)) return;
    uint64_t n = pst_param_elements(p);
    float value = values[draw(8)];
    for (uint64_t k = draw(2) ? n : 1; k-- > 0;) weight[draw(n)] = value;
}

static void test_spoilt_weights(void **state) {
    (void)state;
    const char *seed = getenv("PST_SEED"), *runs = getenv("PST_RUNS");
    uint32_t one_in = 12;
    random_state = seed ? strtoull(seed, NULL, 10) : 1;
    printf("seed %llu (PST_SEED repeats it)\n", (unsigned long long)random_state);
    for (int i = 0, done = 0; done < (runs ? atoi(runs) : 4); i++) {
        char name[32];
        int is_gpt = i % 3 != 2;
        const char *yaml = is_gpt ? GPT TRAIN(8) "}\n" : MLP TRAIN(8) "}\n";
        snprintf(name, sizeof name, "spoilt-%d", i);
        char from[800];
        snprintf(from, sizeof from, "%s/checkpoints/step-00000005",
                 is_gpt ? gpt.folder : mlp.folder);
        const char *forged = forge(yaml, from, name, 0, spoil, &one_in);
        oracle_culprit c = oracle_play(yaml, forged);
        if (!c.found) continue; /* too little, or where this batch does not look */
        snprintf(from, sizeof from, "%s", forged);
        snprintf(name, sizeof name, "named-%d", i);
        expect_stop(yaml, name, from, 6);
        done++;
    }
}

/* From the last checkpoint on, at a learning rate that grows until it is too high. */
static void test_high_rate(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        char yaml[1500], name[32];
        snprintf(
            yaml, sizeof yaml,
            "%strain: {steps: 60, batch: 6, micro_batch: 2, warmup: 59, decay: none, seed: %d, "
            "lr: %s, clip: 0, optimizer: %s}\ncheckpoint: {every: 1, keep: 100}\n",
            i == 2 ? MLP : GPT, i + 5, i ? "1.0e+7" : "1.0e+4", i ? "sgd" : "adamw");
        static const char *const rated[] = {"rated-0", "rated-1", "rated-2"};
        snprintf(name, sizeof name, "rate-%d", i);
        run_result r = run_here(yaml, name, 1, "", NULL, 0);
        if (i) assert_int_equal(r.exit_status, 2);
        if (r.exit_status == 2) expect_stop(yaml, rated[i], r.folder, r.steps);
    }
}

/* --- skip ------------------------------------------------------------------------------------- */

typedef struct {
    int byte;                   /* rows of the embedding for this byte are too large */
    int skipped[64], micro[64]; /* the steps, and the first micro-batch that holds it */
    int n;
} rare;

/* Its embedding is finite, but no linear layer can take it: its first output is 2 * 3e38. */
static void plant(const pst_param *p, float *weight, void *arg) {
    const rare *x = arg;
    if (!strcmp(p->name, "embedding.weight"))
        for (uint64_t k = 0; k < p->dim[1]; k++)
            weight[(uint64_t)x->byte * p->dim[1] + k] = k ? 0 : 3e38f;
    if (!strcmp(p->name, "hidden.0.weight")) weight[0] = 2;
}

/* Which of the first `steps` batches hold the byte. */
static rare batches_with(int byte, int steps) {
    rare x = {.byte = byte};
    oracle o = oracle_open(MLP TRAIN(8) "}\n", mlp.folder);
    int32_t tokens[12], targets[12];
    for (int s = 0; s < steps; s++) {
        int first = -1;
        for (int k = 0; k < 6; k++) {
            oracle_must(o.data->row->sample(o.data, PST_SPLIT_TRAIN, (uint64_t)(s * 6 + k),
                                            (int32_t *[]){tokens, targets}));
            for (int i = 0; i < 12; i++) first = tokens[i] == byte && first < 0 ? k / 2 : first;
        }
        if (first >= 0) {
            x.micro[x.n] = first;
            x.skipped[x.n++] = s + 1;
        }
    }
    oracle_close(&o);
    return x;
}

/* The first is skipped, the second is not, and there are others, some but not all of the second
 * half: a run that resumes there must have a step that counts. */
static rare find_rare(int steps) {
    for (int byte = 32; byte < 127; byte++) {
        rare x = batches_with(byte, steps);
        int late = 0;
        for (int i = 0; i < x.n; i++) late += x.skipped[i] > steps / 2;
        if (x.n >= 3 && late && late < steps / 2 && x.skipped[0] == 1 && x.skipped[1] > 2) return x;
    }
    fail_msg("no byte is rare enough");
    return (rare){0};
}

static void check_skipped(const run_result *r, const rare *x, const char *what) {
    events e = read_events(r);
    if (r->exit_status) fail_msg("%s: exit status %d", what, r->exit_status);
    if (e.n != x->n) fail_msg("%s: %d steps were skipped, not %d", what, e.n, x->n);
    for (int i = 0; i < e.n; i++) {
        assert_int_equal(json_integer_value(json_object_get(e.line[i], "step")), x->skipped[i]);
        assert_int_equal(json_integer_value(json_object_get(e.line[i], "skipped")), i + 1);
        assert_int_equal(json_integer_value(json_object_get(e.line[i], "micro_batch")),
                         x->micro[i]);
        assert_string_equal(text_of(e.line[i], "operator"), "hidden.0");
        assert_string_equal(text_of(e.line[i], "tensor"), "hidden.0.out");
        assert_string_equal(text_of(e.line[i], "pass"), "F");
    }
    free_events(&e);
}

/* Without weight decay, AdamW's first update moves every weight with a gradient by lr, whatever its
 * size; the second one by lr * 0.735 when the first gradient was 0. So a skipped step must not
 * count. */
static void check_first_update(const char *run) {
    char path[800];
    float weight[2][16], moved = 0;
    for (int i = 0; i < 2; i++) {
        pst_ckpt *c;
        snprintf(path, sizeof path, "%s/checkpoints/step-%08d", run, i + 1);
        oracle_must(pst_ckpt_open(path, &c));
        assert_int_equal(c->info.skipped, 1);
        oracle_must(pst_ckpt_read(c, "hidden.2.bias", weight[i], 16));
        pst_ckpt_close(c);
    }
    for (int k = 0; k < 16; k++) moved = fmaxf(moved, fabsf(weight[1][k] - weight[0][k]));
    if (fabsf(moved / 1e-3f - 1) > 0.01f)
        fail_msg("the first update moved a weight by %g, not by 0.001", (double)moved);
}

static void test_skip(void **state) {
    (void)state;
    enum { STEPS = 8 };
    const char *yaml = MLP TRAIN(8) ", non_finite: skip}\ncheckpoint: {every: 1, keep: 20}\n";
    rare x = find_rare(STEPS);
    char start[800];
    snprintf(start, sizeof start, "%s", forge(yaml, mlp.folder, "planted", 1, plant, &x));
    printf("byte '%c': %d of %d steps are skipped\n", x.byte, x.n, STEPS);
    run_result base = run_layout(yaml, "skip", 0, start);
    check_skipped(&base, &x, "skip");
    for (int i = 0; i < x.n; i++)
        assert_true(same_tensors(base.folder, x.skipped[i] - 1, x.skipped[i]));
    assert_false(same_tensors(base.folder, 1, 2));
    check_first_update(base.folder);
    assert_int_equal(strlen(base.hash), 16);
    for (int i = 1; i < N_LAYOUT; i++) {
        run_result r = run_layout(yaml, "skip", i, start);
        check_skipped(&r, &x, name_of("skip", i));
        for (int s = 0; s < STEPS; s++) assert_string_equal(r.loss[s], base.loss[s]);
        assert_string_equal(r.hash, base.hash);
    }
    /* Interrupted half-way and resumed elsewhere: the count goes on. */
    char half[800];
    shell("cp -r '%s' '%s-half'", base.folder, base.folder);
    shell("rm -rf '%s-half/checkpoints/step-0000000'[5-8]", base.folder);
    snprintf(half, sizeof half, "%s-half", base.folder);
    char words[900];
    snprintf(words, sizeof words, "-n 3 parallel.transport=self parallel.threads=1 --resume '%s'",
             half);
    run_result r = run_program(PST_BINARY, yaml, name_of("half", 0), words);
    /* it goes on in the folder that it resumes */
    snprintf(r.folder, sizeof r.folder, "%.511s", half);
    run_read(&r);
    check_skipped(&r, &x, "resumed");
    assert_string_equal(r.hash, base.hash);
    /* in this process, and said once */
    const char *first = strstr(said("half", 0), " is skipped: ");
    assert_true(first && !strstr(first + 1, " is skipped: "));
}

/* Weights that are no numbers do not heal, and a hundred skipped steps in a row are enough. */
static void test_bounds(void **state) {
    (void)state;
    const char *yaml = MLP TRAIN(130) ", non_finite: skip}\n";
    rare x = {.byte = ' '};
    char from[800];
    snprintf(from, sizeof from, "%s",
             forge(MLP TRAIN(8) "}\n", mlp.folder, "spaces", 1, plant, &x));
    run_result r = run_layout(yaml, "bound", 1, from);
    events e = read_events(&r);
    assert_int_equal(r.exit_status, 2);
    assert_non_null(
        strstr(said("bound", 1), "100 consecutive steps were skipped, the last is step 100: "));
    assert_int_equal(e.n, 100);
    free_events(&e);
}

/* A run whose weights are those that it began with has not trained: here gradients overflow fp16 in
 * every step. */
static void test_all_skipped(void **state) {
    (void)state;
    const char *yaml = MLP TRAIN(5) ", precision: fp16, loss_scale: 16777216, non_finite: skip}\n";
    for (int layout = 0; layout < 4; layout += 3) {
        run_result r = run_layout(yaml, "all", layout, NULL);
        const char *text = said("all", layout),
                   *why = strstr(text, "all 5 steps were skipped, because ");
        if (r.exit_status != 2 || !why || !strstr(why, "lower train.loss_scale"))
            fail_msg("exit status %d: %s", r.exit_status, text);
        assert_null(strstr(why + 1, "all 5 steps")); /* one rank says it */
    }
}

/* A run that goes on is judged by its own steps: those before it were good. */
static void test_all_skipped_since(void **state) {
    (void)state;
    const char *bad = MLP TRAIN(11) ", precision: fp16, loss_scale: 16777216, non_finite: skip}\n";
    const char *good = MLP TRAIN(11) ", precision: fp16, non_finite: skip}\n";
    for (int layout = 0; layout < 4; layout += 3) {
        run_result r = run_layout(bad, "since", layout, mlp.folder); /* after step 8 */
        const char *text = said("since", layout),
                   *why = strstr(text, "all 3 steps after step 8 were skipped, because ");
        if (r.exit_status != 2 || !why || !strstr(why, "lower train.loss_scale"))
            fail_msg("exit status %d: %s", r.exit_status, text);
        assert_null(strstr(why + 1, "all 3 steps"));
    }
    run_result r = run_layout(good, "since-good", 0, mlp.folder);
    if (r.exit_status) fail_msg("exit status %d: %s", r.exit_status, said("since-good", 0));
}

static int clean(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finite),
        cmocka_unit_test(test_spoilt_weights),
        cmocka_unit_test(test_high_rate),
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_all_skipped),
        cmocka_unit_test(test_all_skipped_since),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}

/* test: label=gpu timeout=300 serial
 * Training on a GPU beside the CPU: the same curve within the tolerance of the type, the same bits
 * twice and across a checkpoint, fp16 with a scale that is found, two ranks that share the GPU,
 * launches that are captured in graphs beside plain ones. It needs nothing but the program, which
 * PENSTOCK names where it is elsewhere; GPU_TRAINS_DEVICE=NAME is another device of the module's
 * than cuda. */
#include "backends/module.h"
#include "base/status.h"
#include "kernels/kernel.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "run/runs_assert.h"
#include "skip.h"

enum { SKIP = 77, STEPS = 8, MOST = 9 };
static char yaml[2000], on_device[80];

/* The text that is learnt, so that nothing but this program has to be at hand; its numbers are no
 * pattern. With three times this learning rate some step's loss rises even in fp32, by how much
 * depends on the last bits. */
static void write_run(void) {
    char path[400];
    uint32_t x = 1;
    snprintf(path, sizeof path, "%s/text.txt", run_folder());
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < 400; i++, x = x * 1664525 + 1013904223)
        fprintf(f, "valve %u of pipe %d carries %u litres;\n", x >> 28, i % 7, (x >> 20) % 50);
    if (f) fclose(f);
    snprintf(
        yaml, sizeof yaml,
        "name: run\n"
        "model: {kind: gpt, layers: 2, heads: 2, channels: 64, context: 32, dropout: 0.1}\n"
        "data: {kind: text, paths: [\"%s\"]}\n"
        "train: {steps: %d, batch: 8, micro_batch: 2, lr: 3.0e-3, warmup: 2, clip: 1.0, seed: 7}\n"
        "parallel: {transport: self, threads: 1, products: library}\n"
        "checkpoint: {every: 4}\n",
        path, STEPS);
}

/* The same on the CPU (device NULL) or there; words: overrides, NULL behind the last. */
static run_result trained(const char *device, const char *name, int ranks, const char *resume,
                          const char *const *words) {
    const char *override[MOST] = {device ? device : "parallel.device=cpu"};
    size_t n = 1;
    for (; words[n - 1]; n++) override[n] = words[n - 1];
    run_result r = run_here(yaml, name, ranks, resume, override, n);
    if (r.exit_status) fail_msg("%s: status %d: %s", name, r.exit_status, pst_error());
    for (int k = 0; k < r.n_rank; k++) assert_in_range(r.peak[k], 1, r.predicted[k]);
    return r;
}
#define TRAINED(device, name, ranks, resume, ...)                                                  \
    trained(device, name, ranks, resume, (const char *const[]){__VA_ARGS__, NULL})

/* Two curves of losses; apart: of each other, relatively. */
static void near(const run_result *is, const run_result *of, double apart, const char *what) {
    assert_int_equal(is->steps, of->steps);
    assert_int_equal(is->steps, STEPS);
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(is->value[i] - of->value[i]) <= apart * of->value[i]))
            fail_msg("%s: step %d: loss %g, not %g", what, i + 1, is->value[i], of->value[i]);
}

static run_result exact; /* the CPU's curve in fp32 */

/* Whether this device's kernels take bf16: a processor's do not everywhere. */
static int takes_bf16(void) {
    return !strcmp(on_device, "parallel.device=cuda") || has_bf16("curves in bf16");
}

static void curves(void **state) {
    (void)state;
    exact = TRAINED(NULL, "exact", 1, "", "train.precision=fp32");
    assert_true(exact.value[STEPS - 1] < 0.9 * exact.value[0]);
    run_result r = TRAINED(on_device, "fp32", 1, "", "train.precision=fp32");
    near(&r, &exact, 1e-3, "fp32");
    r = TRAINED(on_device, "again", 1, "", "parallel.recompute=full");
    near(&r, &exact, 1e-3, "recomputed");
    r = TRAINED(on_device, "tf32", 1, "", "train.precision=tf32");
    near(&r, &exact, 5e-3, "tf32");
    if (!takes_bf16()) return;
    r = TRAINED(on_device, "bf16", 1, "", "train.precision=bf16");
    near(&r, &exact, 2e-2, "bf16");
    run_result twice = TRAINED(on_device, "twice", 1, "", "train.precision=bf16");
    run_assert_same(&twice, &r, "bf16, twice");
}

/* Products of 8 bits, where there are such: the same bits in another layout. */
static void eight_bits(void **state) {
    (void)state;
    const char *override[] = {on_device, "train.precision=fp8", "parallel.recompute=full"};
    if (!takes_bf16()) return;
    run_result one = run_here(yaml, "fp8", 1, "", override, 3);
    if (one.exit_status && strstr(pst_error(), "does not support FP8 matrix products")) return;
    assert_int_equal(one.exit_status, 0);
    near(&one, &exact, 2e-2, "fp8");
    run_result two = TRAINED(on_device, "fp8-two", 2, "", "train.precision=fp8",
                             "parallel.schedule=1f1b", "parallel.recompute=full");
    run_assert_same(&two, &one, "fp8, two ranks");
}

#define PACKS "parallel.compress.links=all", "parallel.compress.min_bytes=0"

/* The rest of what trains, in fp32 beside the CPU; with several ranks, all on one GPU. */
static void others(void **state) {
    (void)state;
    static const struct {
        const char *what;
        int ranks;
        double apart;
        const char *keys[6];
    } way[] = {
        {"lamb", 1, 1e-3, {"train.optimizer=lamb"}},
        {"muon", 1, 5e-3, {"train.optimizer=muon", "train.lr=1.0e-3"}},
        {"sgd", 1, 1e-3, {"train.optimizer=sgd", "train.lr=0.1"}},
        {"state", 1, 1e-2, {"train.optimizer_state=bf16", "train.lr=1.0e-3"}},
        {"batches", 1, 2e-3, {"train.batch_warmup.from=2", "train.batch_warmup.tokens=768"}},
        {"adapters", 1, 1e-3, {"adapt.on=attention", "adapt.rank=4", "train.lr=1.0e-3"}},
        {"frozen", 1, 1e-3, {"train.freeze=h.0.*", "train.lr=1.0e-3"}},
        {"dropped", 1, 1e-3, {"model.attention_dropout=0.2", "train.lr=1.0e-3"}},
        {"llama",
         1,
         2e-3,
         {"model.kind=llama", "model.dropout=0", "model.kv_heads=1", "model.window=20",
          "model.intermediate=96", "train.lr=1.0e-3"}},
        {"bert", 1, 2e-3, {"model.kind=bert", "data.kind=lines", "train.lr=1.0e-3"}},
        {"packed",
         2,
         5e-3,
         {"parallel.data=2", PACKS, "parallel.compress.up=int8", "parallel.compress.down=int8"}},
        {"packed-2bit",
         2,
         5e-3,
         {"parallel.data=2", PACKS, "parallel.compress.up=2bit", "train.lr=1.0e-3"}},
        {"activations", 2, 5e-3, {PACKS, "parallel.compress.stages=int8", "train.lr=1.0e-3"}},
        {"delayed", 2, 1e-3, {"parallel.data=2", "parallel.update=delayed", "train.lr=1.0e-3"}},
        {"zero", 2, 1e-3, {"parallel.data=2", "parallel.zero=2", "train.lr=1.0e-3"}},
        {"tensor", 2, 1e-3, {"parallel.tensor=2", "model.dropout=0", "train.lr=1.0e-3"}},
    };
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        char name[40];
        const char *words[8] = {"train.precision=fp32"};
        for (size_t k = 0; k < 6; k++) words[k + 1] = way[i].keys[k];
        snprintf(name, sizeof name, "%s-cpu", way[i].what);
        run_result want = trained(NULL, name, way[i].ranks, "", words);
        run_result got = trained(on_device, way[i].what, way[i].ranks, "", words);
        near(&got, &want, way[i].apart, way[i].what);
        printf("%s: as the CPU, last loss %g\n", way[i].what, got.value[STEPS - 1]);
    }
}

/* A run that had ended after its first half, from where it went on. */
static void halve(const run_result *r) {
    char command[700];
    snprintf(command, sizeof command, "rm -r '%s/checkpoints/step-%08d'", r->folder, STEPS);
    assert_int_equal(system(command), 0);
}

static void resumed(void **state) {
    (void)state;
    const char *precision = takes_bf16() ? "train.precision=bf16" : "train.precision=fp32";
    run_result whole = TRAINED(on_device, "whole", 1, "", precision);
    halve(&whole);
    run_result rest = TRAINED(on_device, "rest", 1, whole.folder, precision);
    run_assert_same(&rest, &whole, "resumed");
    halve(&exact);
    rest = TRAINED(on_device, "rest-device", 1, exact.folder, "train.precision=fp32");
    near(&rest, &exact, 1e-3, "from the CPU's checkpoint");
}

/* Loss scale and count of skipped steps in the last step's line. */
static void last_scale(const run_result *r, double *scale, int *skipped) {
    char path[600], line[4096];
    *scale = 0;
    *skipped = -1;
    snprintf(path, sizeof path, "%s/metrics.jsonl", r->folder);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        json_t *j = json_loads(line, 0, NULL);
        if (json_object_get(j, "loss_scale") && !json_object_get(j, "event")) {
            *scale = json_number_value(json_object_get(j, "loss_scale"));
            *skipped = (int)json_integer_value(json_object_get(j, "skipped_steps"));
        }
        json_decref(j);
    }
    if (f) fclose(f);
}

static void scaled(void **state) {
    (void)state;
    double scale;
    int skipped;
    run_result r =
        TRAINED(on_device, "fp16", 1, "", "train.precision=fp16", "train.loss_scale_start=1024");
    near(&r, &exact, 1e-2, "fp16");
    last_scale(&r, &scale, &skipped);
    assert_int_equal(skipped, 0);
    assert_true(scale == 1024);
    r = TRAINED(on_device, "large", 1, "", "train.precision=fp16",
                "train.loss_scale_start=16777216");
    last_scale(&r, &scale, &skipped); /* far too large: halved until nothing overflows */
    if (skipped < 1 || skipped >= STEPS || !(scale < 16777216))
        fail_msg("scale %g, %d skipped", scale, skipped);
    assert_true(r.value[STEPS - 1] < r.value[0]);
}

/* In one process, and in two. */
static void shared(void **state) {
    (void)state;
    char more[300];
    const char *program = getenv("PENSTOCK") ? getenv("PENSTOCK") : PST_BINARY;
    const char *precision = takes_bf16() ? "train.precision=bf16" : "train.precision=fp32";
    run_result one = TRAINED(on_device, "one", 1, "", precision);
    run_result two = TRAINED(on_device, "two", 2, "", precision, "parallel.schedule=1f1b");
    near(&two, &one, 1e-2, "two ranks");
    snprintf(more, sizeof more, "-q -n 2 %s %s parallel.schedule=1f1b parallel.transport=ucx",
             on_device, precision);
    run_result apart = run_program(program, yaml, "apart", more);
    if (apart.exit_status)
        fail_msg("two processes: status %d: see %s/apart.log", apart.exit_status, run_folder());
    run_assert_same(&apart, &two, "two processes");
    for (int k = 0; k < apart.n_rank; k++) assert_in_range(apart.peak[k], 1, apart.predicted[k]);
}

/* Launches that are captured in graphs have the bits of those that are not: with dropout,
 * recomputation, slots that come again, accumulated gradients and evaluations between steps. Some
 * were captured, and replayed. */
static void captured(void **state) {
    (void)state;
    static const char *const words[] = {"-n 1",
                                        "-n 1 parallel.recompute=full model.dropout=0",
                                        "-n 2 parallel.schedule=1f1b parallel.recompute=selective",
                                        "-n 2 parallel.schedule=zb-h1",
                                        "-n 1 train.micro_batch=5", /* the first one has one */
                                        "-n 1 train.micro_batch=3 train.batch_warmup.from=8 "
                                        "train.batch_warmup.tokens=768"};
    const char *program = getenv("PENSTOCK") ? getenv("PENSTOCK") : PST_BINARY;
    const char *precision = takes_bf16() ? "train.precision=bf16" : "train.precision=fp32";
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        run_result r[2];
        for (int graphs = 0; graphs < 2; graphs++) {
            char name[32], more[400], said[700];
            snprintf(name, sizeof name, "captured-%zu-%d", i, graphs);
            snprintf(more, sizeof more,
                     "%s %s %s parallel.transport=self log.level=debug log.trace=1 train.batch=16 "
                     "train.validate_every=3 parallel.graphs=%s",
                     words[i], on_device, precision, graphs ? "true" : "false");
            r[graphs] = run_program(program, yaml, name, more);
            if (r[graphs].exit_status) fail_msg("%s: see %s/%s.log", more, run_folder(), name);
            snprintf(said, sizeof said,
                     "grep -q ' [1-9][0-9]* graphs with .* launched [1-9][0-9]* times' '%s/%s.log'",
                     run_folder(), name);
            if ((system(said) == 0) != graphs)
                fail_msg("graphs: see %s/%s.log", run_folder(), name);
        }
        run_assert_same(&r[1], &r[0], words[i]);
        assert_true(r[1].validation == r[0].validation);
    }
}

int main(void) {
    const char *name = getenv("GPU_TRAINS_DEVICE") ? getenv("GPU_TRAINS_DEVICE") : "cuda";
    const pst_device_config config = {.threads = 1};
    const pst_module *m = pst_module_get();
    const char *why = m ? NULL : pst_module_why();
    if (m && m->device->reject) why = m->device->reject(&config);
    if (!why && strcmp(name, m->device->name)) why = "the module has another device";
    if (why) {
        printf("skipped: device %s: %s\n", name, why);
        return SKIP;
    }
    snprintf(on_device, sizeof on_device, "parallel.device=%s", name);
    write_run();
    const struct CMUnitTest tests[] = {cmocka_unit_test(curves),  cmocka_unit_test(eight_bits),
                                       cmocka_unit_test(others),  cmocka_unit_test(resumed),
                                       cmocka_unit_test(scaled),  cmocka_unit_test(shared),
                                       cmocka_unit_test(captured)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (!failed) run_folder_remove(); /* else its logs say more */
    return failed;
}

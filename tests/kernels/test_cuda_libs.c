/* test: label=gpu timeout=300
 * Linear, attention and convolution on a GPU: every row that takes a case against the reference, on
 * odd and on usual sizes, and the same bits when it runs again. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "backends/module.h"
#include "base/arena.h"
#include "kernels/differences.h"

enum { SKIP = 77 };

static const pst_module *module;
static pst_device *device;
static uint8_t *memory;
static uint64_t taken, seed;
static const uint64_t room = UINT64_C(1) << 30;

/* What is stored in bf16 or fp16 is rounded once, and follows from sums in fp32 of another order
 * than the reference's; attention rounds its weights, too, and convolution its sum before the bias
 * is added. */
static double tolerance(const case_buffer *b, const kernel_case *k) {
    pst_dtype dtype = k->dtype;
    double unit = 2e-6;
    if (dtype == PST_F16) unit = 0x1p-11;
    if (dtype == PST_BF16) unit = 0x1p-8;
    if (k->factors == PST_TF32) unit = 0x1p-10;
    if (b->n < 8) unit *= 8;
    return strcmp(k->op, "linear") ? 3 * unit : 1.5 * unit;
}

static void ok(pst_status status, const kernel_case *k) {
    if (status != PST_OK) fail_msg("%s: %s", case_text(k), pst_error());
}

/* Aligned as in an arena, and to no more. */
static void *take(uint64_t bytes) {
    enum { OWN = PST_ARENA_ALIGN, NOT = 4 * PST_ARENA_ALIGN };
    uint8_t *at = memory + taken + OWN;
    taken += OWN + (bytes + NOT - 1) / NOT * NOT + NOT - OWN;
    assert_true(taken <= room);
    return at;
}

typedef struct {
    const pst_kernel_row *row;
    const pst_call *call;
} job;

static pst_status launch(pst_device *d, const void *arg) {
    const job *j = arg;
    return j->row->launch(d, j->call);
}

/* Runs a pass there on copies of the operands, which come back. Scratch is what an earlier run has
 * left. */
static void run(case_state *s, const pst_kernel_row *row, case_flags flags) {
    pst_arg args[PST_MAX_ARG];
    void *arg[PST_MAX_ARG];
    uint64_t event, start, end;
    uint32_t n = s->node->op->args(s->node, row->pass, args);
    taken = 0;
    for (uint32_t i = 0; i < n; i++) {
        const case_buffer *b = case_operand(s, args, i, flags);
        arg[i] = take(b->size * b->n);
        ok(device->ops->copy(device, PST_Q_COMPUTE, arg[i], b->data, b->size * b->n, NULL),
           &s->spec);
    }
    void *scratch = take(row->scratch ? row->scratch(s->graph, s->node, 1) : 0);
    const pst_call call = {.graph = s->graph,
                           .node = s->node,
                           .arg = arg,
                           .scratch = scratch,
                           .first = flags.first,
                           .train = 1};
    const job j = {row, &call};
    if (row->prepare) ok(row->prepare(device, s->graph, s->node), &s->spec);
    ok(device->ops->launch(device, launch, &j, 0, 0, &event), &s->spec);
    for (uint32_t i = 0; i < n; i++) {
        case_buffer *b = case_operand(s, args, i, flags);
        ok(device->ops->copy(device, PST_Q_COMPUTE, b->data, arg[i], b->size * b->n, NULL),
           &s->spec);
    }
    ok(device->ops->test(device, event, &start, &end), &s->spec);
}

static void compare(const case_state *got, const case_state *want, const pst_kernel_row *row,
                    int exact) {
    pst_arg args[PST_MAX_ARG];
    const kernel_case *k = &got->spec;
    uint32_t n = got->node->op->args(got->node, row->pass, args);
    for (uint32_t i = 0; i < n; i++) {
        if (!(args[i].access & PST_WRITE)) continue;
        const case_buffer *a = case_operand(got, args, i, (case_flags){0}),
                          *b = case_operand(want, args, i, (case_flags){0});
        if (exact && memcmp(a->data, b->data, a->size * a->n))
            fail_msg("%s pass %d argument %u: other bits the second time: %s", row->name, row->pass,
                     i, case_text(k));
        float *x = case_floats(a), *y = case_floats(b);
        double distance = case_distance(x, y, a->n);
        free(x);
        free(y);
        if (!(distance <= tolerance(a, k)))
            fail_msg("%s pass %d argument %u is %.3g from the reference: %s", row->name, row->pass,
                     i, distance, case_text(k));
    }
}

static void check_row(const case_state *before, const case_state *want, const pst_kernel_row *row,
                      case_flags flags) {
    case_state got[2];
    for (int i = 0; i < 2; i++) {
        ok(case_open(&before->spec, 0, 0, &got[i]), &before->spec);
        case_copy(&got[i], before);
        run(&got[i], row, flags);
    }
    compare(&got[0], want, row, 0);
    compare(&got[1], &got[0], row, 1);
    case_close(&got[0]);
    case_close(&got[1]);
}

/* Whether the GPU has no products of 8 bits: what prepare says of one. */
static int module_is_old(void) {
    const kernel_case k = {
        .op = "linear", .b = 1, .t = 16, .c = 16, .f = 16, .dtype = PST_BF16, .factors = PST_F8};
    case_state s;
    ok(case_open(&k, 0, 0, &s), &k);
    const pst_kernel_row *row =
        case_row(module->kernel, module->n_kernel, &k, PST_PASS_F, PST_ISA_CUDA);
    pst_status status = row->prepare(device, s.graph, s.node);
    case_close(&s);
    return status != PST_OK;
}

/* All rows, pass after pass; the reference's own results feed the next pass. */
static void check_case(kernel_case k, pst_dtype dtype) {
    uint32_t n_ref, rows = 0;
    const pst_kernel_row *ref_rows = pst_kernels_ref(&n_ref);
    case_state ref, before;
    k.dtype = dtype;
    ok(case_open(&k, seed, 0, &ref), &k);
    for (int pass = 0; pass < PST_PASS_COUNT; pass++) {
        const pst_kernel_row *ref_row = case_row(ref_rows, n_ref, &k, (pst_pass)pass, 0);
        for (int again = 0; ref_row && again < (pass == PST_PASS_W ? 2 : 1); again++) {
            case_flags flags = {.first = !again};
            ok(case_open(&k, 0, 0, &before), &k);
            case_copy(&before, &ref);
            ok(case_run(&ref, ref_row, NULL, flags), &k);
            for (uint32_t i = 0; i < module->n_kernel; i++) {
                const pst_kernel_row *row = &module->kernel[i];
                if (strcmp(row->op, k.op) || row->pass != (pst_pass)pass ||
                    !(row->dtypes >> dtype & 1))
                    continue;
                if (row->reject && row->reject(ref.graph, ref.node, device)) continue;
                check_row(&before, &ref, row, flags);
                rows++;
            }
            case_close(&before);
        }
    }
    if (rows < 2) fail_msg("%u rows for %s", rows, case_text(&k));
    case_close(&ref);
}

static const pst_dtype types[] = {PST_F32, PST_BF16, PST_F16};

static void test_linear(void **state) {
    (void)state;
    static const uint64_t shape[][3] = {
        {1, 1, 1},    {3, 7, 17},     {17, 33, 3},     {129, 3, 515},  {5, 2100, 9},
        {64, 64, 64}, {130, 72, 136}, {128, 768, 192}, {256, 64, 512}, {70, 300, 520}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int act = 0; act <= PST_ACT_TANH; act++)
            check_case((kernel_case){.op = "linear",
                                     .b = 1 + i % 2,
                                     .t = shape[i][0],
                                     .c = shape[i][1],
                                     .f = shape[i][2],
                                     .act = (pst_activation)act,
                                     .second = (int)(i + (size_t)act) % 2},
                       types[(i + (size_t)act) % 3]);
}

/* The first row that takes it, as a run has it. */
static void run_difference(case_state *s, pst_pass pass) {
    for (uint32_t i = 0; i < module->n_kernel; i++) {
        const pst_kernel_row *row = &module->kernel[i];
        if (strcmp(row->op, s->spec.op) || row->pass != pass || !(row->dtypes >> s->spec.dtype & 1))
            continue;
        if (row->reject && row->reject(s->graph, s->node, device)) continue;
        run(s, row, (case_flags){.first = 1});
        return;
    }
    fail_msg("no row for %s", case_text(&s->spec));
}

static int takes_difference(const kernel_case *k) {
    if (k->starts) return 0; /* on CPUs only */
    return !strcmp(k->op, "linear") || !strcmp(k->op, "attention") || !strcmp(k->op, "convolution");
}

static void test_differences(void **state) {
    (void)state;
    check_all_differences(seed, run_difference, takes_difference);
}

static void test_linear_factors(void **state) {
    (void)state;
    static const uint64_t shape[][3] = {
        {16, 16, 16}, {48, 32, 80}, {160, 176, 64}, {256, 512, 336}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int fp8 = 0; fp8 < 2; fp8++) {
            if (fp8 && module_is_old()) continue;
            check_case((kernel_case){.op = "linear",
                                     .b = 1,
                                     .t = shape[i][0],
                                     .c = shape[i][1],
                                     .f = shape[i][2],
                                     .second = (int)i % 2,
                                     .factors = fp8 ? PST_F8 : PST_TF32},
                       fp8 ? PST_BF16 : PST_F32);
        }
}

static void test_attention(void **state) {
    (void)state;
    static const struct {
        uint64_t b, t, d;
        uint32_t heads;
    } shape[] = {{1, 1, 64, 1},    {2, 2, 8, 3},    {1, 17, 16, 2}, {2, 33, 24, 3},
                 {1, 63, 32, 2},   {3, 64, 64, 2},  {1, 65, 40, 2}, {2, 100, 96, 3},
                 {1, 129, 128, 2}, {1, 300, 64, 2}, {2, 37, 12, 2}, {1, 70, 256, 1},
                 {1, 20, 264, 1}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (size_t type = 0; type < 3; type++)
            for (int mask = 0; mask < 4; mask++)
                check_case((kernel_case){.op = "attention",
                                         .b = mask > 1 ? 5 : shape[i].b,
                                         .t = shape[i].t,
                                         .c = shape[i].d * shape[i].heads,
                                         .heads = shape[i].heads,
                                         .bidirectional = mask % 2,
                                         .lengths = mask > 1},
                           types[type]);
}

static void test_grouped_attention(void **state) {
    (void)state;
    static const struct {
        uint64_t b, t, d, window;
        uint32_t heads, kv_heads;
    } shape[] = {{2, 33, 64, 0, 4, 2},     {1, 129, 128, 0, 8, 1}, {2, 200, 64, 64, 4, 4},
                 {1, 300, 128, 100, 8, 2}, {2, 70, 40, 3, 6, 3},   {1, 260, 64, 17, 2, 0}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (size_t type = 0; type < 3; type++)
            for (int lengths = 0; lengths < 2; lengths++)
                check_case((kernel_case){.op = "attention",
                                         .b = lengths ? 5 : shape[i].b,
                                         .t = shape[i].t,
                                         .c = shape[i].d * shape[i].heads,
                                         .heads = shape[i].heads,
                                         .kv_heads = shape[i].kv_heads,
                                         .window = shape[i].window,
                                         .lengths = lengths},
                           types[type]);
}

/* Stems, bottlenecks and CIFAR's layers, and channels that fill no 16 bytes. */
static void test_convolution(void **state) {
    (void)state;
    static const uint64_t shape[][8] = {
        /* b t w c f window stride padding */
        {2, 56, 56, 3, 64, 7, 2, 3},    {3, 14, 15, 64, 64, 3, 1, 1},
        {2, 14, 14, 128, 128, 3, 2, 1}, {2, 28, 28, 64, 256, 1, 1, 0},
        {2, 14, 14, 256, 128, 1, 2, 0}, {4, 32, 32, 3, 16, 3, 1, 1},
        {4, 16, 16, 16, 32, 3, 2, 1},   {3, 9, 10, 3, 5, 3, 1, 1},
        {2, 9, 8, 5, 17, 3, 2, 1},      {3, 7, 7, 17, 3, 3, 1, 0},
        {1, 1, 1, 1, 1, 1, 1, 0},       {2, 11, 9, 17, 17, 5, 3, 4}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (size_t type = 0; type < 4; type++) {
            const uint64_t *s = shape[i];
            check_case((kernel_case){.op = "convolution",
                                     .b = s[0],
                                     .t = s[1],
                                     .w = s[2],
                                     .c = s[3],
                                     .f = s[4],
                                     .window = s[5],
                                     .stride = (uint32_t)s[6],
                                     .padding = (uint32_t)s[7],
                                     .second = (int)(i + type) % 2,
                                     .factors = type == 3 ? PST_TF32 : (pst_dtype)0},
                       types[type % 3]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_linear),
                                       cmocka_unit_test(test_linear_factors),
                                       cmocka_unit_test(test_differences),
                                       cmocka_unit_test(test_attention),
                                       cmocka_unit_test(test_grouped_attention),
                                       cmocka_unit_test(test_convolution)};
    module = pst_module_get();
    const char *why =
        module ? module->device->reject(&(pst_device_config){.threads = 1}) : pst_module_why();
    if (why) {
        printf("skipped: %s\n", why);
        return SKIP;
    }
    if (strcmp(module->name, "cuda")) {
        printf("skipped: the module is %s\n", module->name);
        return SKIP;
    }
    seed = case_seed();
    if (module->device->open(&(pst_device_config){.threads = 1}, &device) != PST_OK ||
        device->ops->memory(device, room, (void **)&memory) != PST_OK) {
        fprintf(stderr, "%s\n", pst_error());
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device->ops->close(device);
    return failed;
}

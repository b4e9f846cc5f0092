/* Our own CUDA kernels and arithmetic against the reference, wherever they run: on emulated threads
 * (test_cuda_host.c), or on a GPU (test_cuda.c). Operands are copied to where the kernels find
 * them, with the guards around them, and back. */
#ifndef PST_TESTS_KERNELS_CUDA_CHECK_H
#define PST_TESTS_KERNELS_CUDA_CHECK_H
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "kernels/differences.h"
#include "kernels/gaps.h"
#include "kernels/cpu/cpu.h"

typedef struct {
    pst_device *device;
    const pst_kernel_row *rows;
    uint32_t n_rows;
    const pst_arith *arith;
    /* A copy of these bytes there; alive until clear. */
    void *(*put)(const void *from, uint64_t bytes);
    /* when all that was launched has ended */
    void (*get)(void *to, const void *from, uint64_t bytes);
    void (*clear)(void);
    void (*turn)(int again);   /* before a run that must give the same bits as another */
    pst_status (*fault)(void); /* what kernels complained of; forgotten then */
} cuda_runner;
extern const cuda_runner *runner;

static uint64_t seed;

/* Relative L2 distance from the reference, which sums in double; of a few elements alone, all may
 * be small differences of larger terms. See test_backends.c. */
static double tolerance(const case_buffer *b) {
    int few = b->n < 8;
    if (b->dtype == PST_BF16) return few ? 0x1p-7 : 0x1p-8;
    if (b->dtype == PST_F16) return few ? 0x1p-10 : 0x1p-11;
    return few ? 1e-4 : 3e-6;
}

/* --- one launch ------------------------------------------------------------------------------- */
static uint64_t block_bytes(const case_buffer *b) {
    return (uint64_t)((uint8_t *)b->data - b->memory) + b->size * b->n + CASE_GUARD / 2;
}

/* The address there of what operand[i] holds; operands that are one memory here are one there. */
static void *placed(case_buffer *const *operand, void *const *base, uint32_t i) {
    for (uint32_t k = 0; k <= i; k++)
        if (operand[k] == operand[i])
            return operand[i]
                       ? (uint8_t *)base[k] + ((uint8_t *)operand[i]->data - operand[i]->memory)
                       : NULL;
    return NULL;
}

static void check_scratch(const pst_kernel_row *row, uint8_t *there, uint64_t bytes) {
    uint8_t *here = malloc(bytes + 64);
    assert_non_null(here);
    runner->get(here, there, bytes + 64);
    for (uint64_t i = 0; i + 8 <= bytes; i += 8)
        if (*(uint64_t *)(here + i) == UINT64_MAX)
            fail_msg("%s did not write byte %lu of its scratch", row->name, (unsigned long)i);
    for (uint64_t i = bytes; i < bytes + 64; i++)
        if (here[i] != 0xff) fail_msg("%s wrote behind its scratch", row->name);
    free(here);
}

/* NULL: an operand that is absent. */
static void run_operands(const case_state *s, const pst_kernel_row *row,
                         case_buffer *const *operand, uint32_t n, case_flags flags) {
    void *base[PST_MAX_ARG], *arg[PST_MAX_ARG];
    for (uint32_t i = 0; i < n; i++) {
        base[i] = operand[i] ? runner->put(operand[i]->memory, block_bytes(operand[i])) : NULL;
        arg[i] = placed(operand, base, i);
    }
    uint64_t bytes = row->scratch ? row->scratch(s->graph, s->node, 1) : 0;
    uint8_t *scratch = malloc(bytes + 64);
    assert_non_null(scratch);
    memset(scratch, 0xff, bytes + 64);
    void *there = runner->put(scratch, bytes + 64);
    free(scratch);
    pst_call call = {.graph = s->graph,
                     .node = s->node,
                     .arg = arg,
                     .scratch = there,
                     .seed = 42,
                     .sample = 1000,
                     .first = flags.first,
                     .train = flags.train,
                     .loss_scale = 1.0f / (float)(s->spec.b * s->spec.t)};
    if (row->launch(runner->device, &call) != PST_OK) fail_msg("%s: %s", row->name, pst_error());
    for (uint32_t i = 0; i < n; i++)
        if (operand[i] &&
            arg[i] == (uint8_t *)base[i] + ((uint8_t *)operand[i]->data - operand[i]->memory))
            runner->get(operand[i]->memory, base[i], block_bytes(operand[i]));
    check_scratch(row, there, strcmp(row->op, "batch_norm") || flags.train ? bytes : 0);
    runner->clear();
    assert_true(case_guards_intact(s));
}

static void run_pass(const case_state *s, const pst_kernel_row *row, case_flags flags) {
    pst_arg args[PST_MAX_ARG];
    case_buffer *operand[PST_MAX_ARG];
    uint32_t n = s->node->op->args(s->node, row->pass, args);
    for (uint32_t i = 0; i < n; i++) {
        operand[i] = case_operand(s, args, i, flags);
        if (args[i].kind == PST_ARG_SUM && flags.no_sum) operand[i] = NULL;
    }
    run_operands(s, row, operand, n, flags);
}

/* --- a pass against the reference ------------------------------------------------------------- */
static void compare_buffers(const case_buffer *got, const case_buffer *want, const char *what,
                            const kernel_case *k) {
    float *x = case_floats(got), *y = case_floats(want);
    double distance = x && y ? case_distance(x, y, got->n) : INFINITY;
    free(x);
    free(y);
    if (!(distance <= tolerance(got)))
        fail_msg("%s: %.3g from the reference: %s", what, distance, case_text(k));
}

static void compare_pass(const case_state *got, const case_state *want, const pst_kernel_row *row,
                         case_flags g, case_flags w, int exact) {
    pst_arg args[PST_MAX_ARG];
    uint32_t n = got->node->op->args(got->node, row->pass, args);
    for (uint32_t i = 0; i < n; i++) {
        if (!(args[i].access & PST_WRITE)) continue;
        const case_buffer *a = case_operand(got, args, i, g), *b = case_operand(want, args, i, w);
        if (!exact) compare_buffers(a, b, row->name, &got->spec);
        else if (memcmp(a->data, b->data, a->size * a->n))
            fail_msg("%s pass %d: other bits the second time: %s", row->name, row->pass,
                     case_text(&got->spec));
    }
}

/* Once, again with operands that share memory, and off every alignment. */
static void check_pass(const kernel_case *k, const pst_kernel_row *row, const case_state *before,
                       case_flags flags) {
    static const uint64_t shift[] = {0, 0, 3};
    uint32_t n_ref;
    const pst_kernel_row *rows = pst_kernels_ref(&n_ref),
                         *ref_row = case_row(rows, n_ref, k, row->pass, 0);
    case_state want, got[3];
    assert_int_equal(case_open(k, 0, 0, &want), PST_OK);
    case_copy(&want, before);
    assert_int_equal(case_run(&want, ref_row, NULL, flags), PST_OK);
    for (int i = 0; i < 3; i++) {
        case_flags f = flags;
        f.share = i == 1;
        assert_int_equal(case_open(k, 0, shift[i], &got[i]), PST_OK);
        case_copy(&got[i], before);
        runner->turn(i == 1);
        run_pass(&got[i], row, f);
        compare_pass(&got[i], &want, row, f, flags, 0);
        if (i == 1) compare_pass(&got[1], &got[0], row, f, flags, 1);
        if (i == 2 && case_is_image(k))
            compare_pass(&got[2], &got[0], row, f, flags, 1); /* wherever they lie */
    }
    for (int i = 0; i < 3; i++) case_close(&got[i]);
    case_close(&want);
    assert_int_equal(runner->fault(), PST_OK);
}

/* All passes of a type; the reference's own results feed the next pass. */
static void check_type(const kernel_case *k) {
    uint32_t n_ref;
    const pst_kernel_row *ref_rows = pst_kernels_ref(&n_ref);
    case_state ref;
    if (case_open(k, seed, 0, &ref) != PST_OK) fail_msg("%s: %s", case_text(k), pst_error());
    for (int pass = 0; pass < PST_PASS_COUNT; pass++) {
        const pst_kernel_row *row =
            case_row(runner->rows, runner->n_rows, k, (pst_pass)pass, PST_ISA_CUDA);
        const pst_kernel_row *ref_row = case_row(ref_rows, n_ref, k, (pst_pass)pass, 0);
        if (!case_has_pass(&ref, (pst_pass)pass) || !ref_row) continue;
        if (!row) fail_msg("no row for pass %d: %s", pass, case_text(k));
        for (int again = 0; again < (pass == PST_PASS_F ? 1 : 2); again++) {
            case_flags flags = {.first = !again, .train = 1, .no_sum = again};
            check_pass(k, row, &ref, flags);
            int overwrites = !strcmp(k->op, "cross_entropy") || !strcmp(k->op, "vocabulary_loss");
            if (!overwrites || pass == PST_PASS_F)
                assert_int_equal(case_run(&ref, ref_row, NULL, flags), PST_OK);
        }
    }
    case_close(&ref);
}

static void check_case(kernel_case k) {
    static const pst_dtype types[] = {PST_F32, PST_BF16, PST_F16};
    for (int i = 0; i < 3; i++) {
        k.dtype = types[i];
        check_type(&k);
    }
}

/* --- operators -------------------------------------------------------------------------------- */
static void test_layer_norm(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 3, 8, 33, 64, 130, 768, 2056};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        check_case((kernel_case){.op = "layer_norm",
                                 .b = 1 + i % 2,
                                 .t = width[i] > 200 ? 2 : 3 + 10 * (i % 4),
                                 .c = width[i]});
    check_type(&(kernel_case){.op = "layer_norm", .b = 1, .t = 1101, .c = 8}); /* many parts of a
                                                                                  sum over rows */
}

/* B leaves W sums over parts of the rows: several lines of a block and one, a last part that is
 * shorter, rows that leave threads of a line over, and rows too long or not aligned for that. */
static void test_layer_norm_sums(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 8, 33, 64, 136, 264, 768, 4200};
    static const uint64_t rows[] = {1, 7, 8, 9, 21};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        check_case(
            (kernel_case){.op = "layer_norm", .b = 1, .t = rows[i % 5], .c = width[i], .sums = 1});
}

static void test_elementwise(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 7, 16, 33, 600};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
        check_case((kernel_case){.op = "add", .b = 2, .t = 9, .c = width[i]});
        for (int r = 0; r < 3; r++)
            check_case((kernel_case){.op = "dropout",
                                     .b = 3,
                                     .t = 9,
                                     .c = width[i],
                                     .rate = 0.45f * (float)r,
                                     .first = 4 * i + (uint64_t)r % 2});
    }
}

static void test_llama(void **state) {
    (void)state;
    static const uint64_t width[] = {3, 7, 16, 33, 600};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
        check_case((kernel_case){.op = "gated", .b = 2, .t = 9, .c = width[i]});
        check_case((kernel_case){.op = "scale", .b = 2, .t = 9, .c = width[i], .factor = -1.75f});
        check_case((kernel_case){
            .op = "activation", .b = 2, .t = 9, .c = width[i], .act = (pst_activation)(1 + i % 4)});
        check_case((kernel_case){.op = "rms_norm", .b = 1 + i % 2, .t = 19, .c = width[i]});
        check_case((kernel_case){.op = "rotary",
                                 .b = 2,
                                 .t = 37,
                                 .c = 2 * (1 + width[i] % 130) * (1 + i % 3),
                                 .heads = 1 + (uint32_t)i % 3,
                                 .scaling = (pst_rope_scaling)(i % 4)});
    }
}

static void test_streams(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 16, 136, 4200};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        case_streams(width[i], 3 * i, 1, check_type);
}

/* Few tokens come often, many seldom, and some are other ranks'. */
static void test_embedding(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 3, 8, 33, 64, 264}, words[] = {1, 2, 9, 40, 700, 3000};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        for (int part = 0; part < 2; part++)
            check_case((kernel_case){.op = "embedding",
                                     .b = 1 + i % 2,
                                     .t = 37 + 40 * (i % 3),
                                     .c = width[i],
                                     .f = words[i],
                                     .second = (int)(i % 2) ^ part,
                                     .first = part ? 5 : 0,
                                     .total = part ? words[i] + 11 : 0});
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        check_case((kernel_case){.op = "embedding",
                                 .b = 2,
                                 .t = 37 + 40 * (i % 3),
                                 .c = width[i],
                                 .f = words[i],
                                 .second = 1,
                                 .types = 1 + (uint32_t)i % 3});
}

static void test_gather_rows(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 3, 8, 33, 64, 264};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
        kernel_case k = {.op = "gather_rows", .b = 1 + i % 3, .t = 5 + 40 * (i % 3), .c = width[i]};
        check_case(k);
        k.f = 9;
        check_case(k);
        k.first = 4;
        k.total = k.t + 7;
        check_case(k);
    }
}

static void test_cross_entropy(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 3, 64, 65, 2049, 5000, 16384};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
        kernel_case k = {.op = "cross_entropy", .b = 1, .t = 3, .c = width[i]};
        uint64_t first = i % 3 * 20, total = first + width[i] + i % 2 * 30;
        check_case(k);
        k.hits = 1;
        check_case(k);
        k.hits = 0;
        k.smoothing = 0.1f;
        k.z_loss = 1e-2f;
        check_case(k);
        k.first = first;
        k.total = total;
        k.op = "vocabulary_part";
        check_case(k);
        k.op = "vocabulary_loss";
        check_case(k);
    }
}

/* Logits with gaps between their rows: NaN when F reads, zeros when B has written. */
static void loss_with_gaps(const kernel_case *k, uint64_t pitch) {
    uint32_t n_ref;
    const pst_kernel_row *refs = pst_kernels_ref(&n_ref);
    case_state want, got;
    assert_int_equal(case_open(k, seed, 0, &want), PST_OK);
    assert_int_equal(case_open(k, 0, 0, &got), PST_OK);
    case_copy(&got, &want);
    got.graph->tensor[got.node->in[0]].pitch = pitch;
    case_buffer *logits = case_find(&got, PST_ARG_IN, 0);
    void *wide = gaps_open(logits, k->c, pitch, 0xff);
    uint64_t bytes = logits->n / k->c * pitch * logits->size;
    for (int pass = PST_PASS_F; pass <= PST_PASS_B; pass++) {
        const pst_kernel_row *row =
            case_row(runner->rows, runner->n_rows, k, (pst_pass)pass, PST_ISA_CUDA);
        pst_arg args[PST_MAX_ARG];
        void *arg[PST_MAX_ARG], *there = runner->put(wide, bytes);
        uint32_t n = got.node->op->args(got.node, row->pass, args);
        assert_int_equal(
            case_run(&want, case_row(refs, n_ref, k, row->pass, 0), NULL, (case_flags){.train = 1}),
            PST_OK);
        for (uint32_t i = 0; i < n; i++) {
            const case_buffer *b = case_operand(&got, args, i, (case_flags){0});
            int wide_one = args[i].index == 0 &&
                           (args[i].kind == PST_ARG_IN || args[i].kind == PST_ARG_DIN) &&
                           b->n == logits->n;
            arg[i] = wide_one ? there : runner->put(b->data, b->size * b->n);
        }
        const pst_call call = {.graph = got.graph,
                               .node = got.node,
                               .arg = arg,
                               .train = 1,
                               .loss_scale = 1.0f / (float)(k->b * k->t)};
        if (row->launch(runner->device, &call) != PST_OK) fail_msg("%s", pst_error());
        for (uint32_t i = 0; i < n; i++) {
            case_buffer *b = case_operand(&got, args, i, (case_flags){0});
            if (arg[i] != there) runner->get(b->data, arg[i], b->size * b->n);
            else runner->get(wide, there, bytes);
            if (arg[i] == there && args[i].access & PST_WRITE)
                assert_true(gaps_take(b, wide, k->c, pitch));
        }
        runner->clear();
        compare_pass(&got, &want, row, (case_flags){0}, (case_flags){0}, 0);
    }
    free(wide);
    case_close(&got);
    case_close(&want);
}

static void test_loss_with_gaps(void **state) {
    (void)state;
    static const pst_dtype types[] = {PST_F32, PST_BF16, PST_F16};
    static const uint64_t width[] = {1, 65, 2049};
    for (size_t i = 0; i < 9; i++) {
        kernel_case k = {
            .op = "cross_entropy", .b = 1, .t = 3, .c = width[i / 3], .dtype = types[i % 3]};
        loss_with_gaps(&k, (k.c + 63) / 64 * 64);
    }
}

/* Evaluation's F, by the running statistics: nothing is summed, so that nothing is in its
 * scratch. */
static void check_evaluation(const kernel_case *k) {
    case_state before;
    if (case_open(k, seed, 0, &before) != PST_OK) fail_msg("%s: %s", case_text(k), pst_error());
    check_pass(k, case_row(runner->rows, runner->n_rows, k, PST_PASS_F, PST_ISA_CUDA), &before,
               (case_flags){0});
    case_close(&before);
}

/* Few columns and many rows, many columns and few rows, several parts of the rows. */
static void test_batch_norm(void **state) {
    (void)state;
    static const uint64_t shape[][4] = {
        /* b t w c */
        {1, 3, 7, 1},   {2, 3, 5, 3},    {1, 9, 7, 8},    {3, 5, 4, 17},  {2, 2, 3, 64},
        {1, 2, 7, 130}, {1, 3, 11, 520}, {2, 40, 13, 16}, {3, 30, 30, 5}, {1, 33, 31, 6}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int way = 0; way < 4; way++) {
            kernel_case k = {.op = "batch_norm",
                             .b = shape[i][0],
                             .t = shape[i][1],
                             .w = shape[i][2],
                             .c = shape[i][3],
                             .second = way / 2,
                             .act = way % 2 ? PST_ACT_RELU : PST_ACT_NONE,
                             .dtype =
                                 (pst_dtype[]){PST_F32, PST_BF16, PST_F16}[(i + (size_t)way) % 3]};
            check_type(&k);
            check_evaluation(&k);
        }
}

static void test_pools(void **state) {
    (void)state;
    static const uint64_t shape[][7] = {/* b t w c window stride padding */
                                        {1, 1, 1, 1, 1, 1, 0},  {2, 6, 5, 3, 3, 2, 1},
                                        {1, 7, 8, 16, 3, 2, 1}, {3, 5, 5, 4, 2, 2, 0},
                                        {1, 9, 6, 8, 3, 1, 1},  {2, 7, 7, 40, 2, 3, 0},
                                        {1, 4, 4, 5, 4, 1, 3}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        const uint64_t *s = shape[i];
        kernel_case k = {.op = "max_pool",
                         .b = s[0],
                         .t = s[1],
                         .w = s[2],
                         .c = s[3],
                         .window = s[4],
                         .stride = (uint32_t)s[5],
                         .padding = (uint32_t)s[6]};
        check_case(k);
        k.op = "average_pool";
        check_case(k);
        k.op = "pixels";
        check_case(k);
    }
}

static const pst_kernel_row *row_of(const char *op) {
    for (uint32_t i = 0; i < runner->n_rows; i++)
        if (!strcmp(runner->rows[i].op, op)) return &runner->rows[i];
    fail_msg("no row for %s", op);
    return NULL;
}

/* Sums of two gradients; y from z. Kinds of operands that are no pass of a node. */
static void test_sum_and_activation(void **state) {
    (void)state;
    static const pst_dtype types[] = {PST_F32, PST_BF16, PST_F16};
    uint32_t n_ref;
    const pst_kernel_row *ref_rows = pst_kernels_ref(&n_ref);
    for (int i = 0; i < 12; i++) {
        kernel_case k = {.op = i < 3 ? "layer_norm" : "linear",
                         .b = 2,
                         .t = 37,
                         .c = 19,
                         .f = 131,
                         .act = i < 3 ? PST_ACT_NONE : (pst_activation)(i / 3),
                         .second = 1,
                         .dtype = types[i % 3]};
        kernel_case of = k;
        case_state want, got;
        assert_int_equal(case_open(&k, seed, 0, &want), PST_OK);
        of.op = i < 3 ? "sum" : "activation";
        const pst_kernel_row *ref = case_row(ref_rows, n_ref, &of, PST_PASS_F, 0);
        if (i >= 3) pst_rng_normal(3, 0, 2, case_find(&want, PST_ARG_IN, 0)->data, 2);
        if (i >= 3)
            case_run(&want, case_row(ref_rows, n_ref, &k, PST_PASS_F, 0), NULL, (case_flags){0});
        assert_int_equal(case_open(&k, 0, i % 2 ? 1 : 0, &got), PST_OK);
        case_copy(&got, &want);
        uint32_t kind[3] = {PST_ARG_SAVED, PST_ARG_OUT, PST_ARG_OUT}, n = i < 3 ? 3 : 2;
        if (i < 3) {
            kind[0] = PST_ARG_IN;
            kind[1] = PST_ARG_DOUT;
            kind[2] = PST_ARG_DIN;
        }
        case_buffer *from[3], *to[3];
        void *arg[3];
        for (uint32_t o = 0; o < n; o++) {
            from[o] = case_find(&want, kind[o], 0);
            to[o] = case_find(&got, kind[o], 0);
            arg[o] = from[o]->data;
        }
        uint64_t bytes = ref->scratch ? ref->scratch(want.graph, want.node, 1) : 0;
        pst_call call = {
            .graph = want.graph, .node = want.node, .arg = arg, .scratch = malloc(bytes + 1)};
        assert_int_equal(ref->launch(NULL, &call), PST_OK);
        free(call.scratch);
        run_operands(&got, row_of(of.op), to, n, (case_flags){0});
        compare_buffers(to[n - 1], from[n - 1], of.op, &k);
        case_close(&want);
        case_close(&got);
    }
}

/* A token or target outside its table is nobody's, and is complained of: operator, index, position
 * and limit. */
static void test_index(void **state) {
    (void)state;
    for (uint32_t i = 0; i < runner->n_rows; i++) {
        const pst_kernel_row *row = &runner->rows[i];
        int embedding = !strcmp(row->op, "embedding"), loss = !strcmp(row->op, "cross_entropy");
        if (!embedding && !loss) continue;
        for (int32_t wrong = 8; wrong >= -1; wrong -= 9) {
            kernel_case k = {.op = row->op, .b = 1, .t = 40, .c = 8, .f = 8};
            case_state s;
            assert_int_equal(case_open(&k, seed, 0, &s), PST_OK);
            ((int32_t *)case_find(&s, PST_ARG_IN, (uint32_t)loss)->data)[37] = wrong;
            run_pass(&s, row, (case_flags){.first = 1});
            int fine = loss && wrong < 0;
            assert_int_equal(runner->fault(), fine ? PST_OK : PST_EINPUT);
            if (!fine) assert_non_null(strstr(pst_error(), "at position 37 is outside of [0, 8)"));
            case_close(&s);
        }
    }
}

static void test_pixel_index(void **state) {
    (void)state;
    for (int32_t wrong = 256; wrong >= -1; wrong -= 257) {
        kernel_case k = {.op = "pixels", .b = 1, .t = 40, .w = 9, .c = 4};
        case_state s;
        assert_int_equal(case_open(&k, seed, 0, &s), PST_OK);
        ((int32_t *)case_find(&s, PST_ARG_IN, 0)->data)[1037] = wrong;
        run_pass(&s, row_of("pixels"), (case_flags){0});
        assert_int_equal(runner->fault(), PST_EINPUT);
        assert_non_null(strstr(pst_error(), "at position 1037 is outside of [0, 256)"));
        case_close(&s);
    }
}

/* What was held to the reference above, once more on its own: B and W against differences of F, all
 * there. */
static void run_difference(case_state *s, pst_pass pass) {
    const pst_kernel_row *row =
        case_row(runner->rows, runner->n_rows, &s->spec, pass, PST_ISA_CUDA);
    assert_non_null(row);
    run_pass(s, row, (case_flags){.first = 1, .train = 1, .no_sum = 1});
}

/* What stands on its own: the libraries' rows want to be prepared (test_cuda_libs.c). */
static int takes_difference(const kernel_case *k) {
    int takes = 0;
    if (k->starts) return 0; /* on CPUs only */
    for (int pass = 0; pass < PST_PASS_COUNT; pass++) {
        const pst_kernel_row *row =
            case_row(runner->rows, runner->n_rows, k, (pst_pass)pass, PST_ISA_CUDA);
        if (row && row->prepare) return 0;
        takes |= row != NULL;
    }
    return takes;
}

static void test_differences(void **state) {
    (void)state;
    check_all_differences(seed, run_difference, takes_difference);
}

#include "kernels/cuda_check_arith.h"
#include "kernels/cuda_check_codec.h"

#define CUDA_TESTS                                                                                 \
    cmocka_unit_test(test_layer_norm), cmocka_unit_test(test_llama),                               \
        cmocka_unit_test(test_layer_norm_sums), cmocka_unit_test(test_elementwise),                \
        cmocka_unit_test(test_streams), cmocka_unit_test(test_embedding),                          \
        cmocka_unit_test(test_gather_rows), cmocka_unit_test(test_cross_entropy),                  \
        cmocka_unit_test(test_loss_with_gaps), cmocka_unit_test(test_sum_and_activation),          \
        cmocka_unit_test(test_index), cmocka_unit_test(test_batch_norm),                           \
        cmocka_unit_test(test_pools), cmocka_unit_test(test_pixel_index),                          \
        cmocka_unit_test(test_average), cmocka_unit_test(test_combine),                            \
        cmocka_unit_test(test_differences), cmocka_unit_test(test_update),                         \
        cmocka_unit_test(test_lamb_squares), cmocka_unit_test(test_muon),                          \
        cmocka_unit_test(test_muon_momentum), cmocka_unit_test(test_sum_squares),                  \
        cmocka_unit_test(test_accumulate_and_narrow), cmocka_unit_test(test_codecs),               \
        cmocka_unit_test(test_codec_errors), cmocka_unit_test(test_scale)
#endif

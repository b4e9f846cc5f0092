/* test: label=quick timeout=240 isa=any */
/* Every kernel row that this machine can run against the reference, on odd sizes; the same bits for
 * 1, 2 and 3 threads, for shifted addresses and in place; nothing written outside the operands;
 * scratch exact. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "backends.h"

/* Results of `row` with other threads, addresses and sharing must be those of `base`, which ran
 * with one thread. */
static void check_same_bits(const kernel_case *k, const pst_kernel_row *row,
                            const case_state *before, const case_state *base, case_flags flags) {
    for (uint32_t variant = 0; variant < 5; variant++) {
        static const uint64_t shift[5] = {0, 1, 7, 13, 0};
        case_state s;
        case_flags f = flags;
        f.share = variant == 4;
        assert_int_equal(case_open(k, 0, shift[variant], &s), PST_OK);
        case_copy(&s, before);
        assert_int_equal(run_on(&s, row, variant % 3 + 1, f), PST_OK);
        pst_arg args[PST_MAX_ARG];
        uint32_t n = s.node->op->args(s.node, row->pass, args);
        for (uint32_t i = 0; i < n; i++) {
            if (!(args[i].access & PST_WRITE)) continue;
            const case_buffer *got = case_operand(&s, args, i, f),
                              *want = case_operand(base, args, i, flags);
            if (memcmp(got->data, want->data, got->size * got->n))
                fail_msg("%s pass %d: other bits in variant %u of %s", row->name, row->pass,
                         variant, case_text(k));
        }
        assert_true(case_guards_intact(&s));
        case_close(&s);
    }
}

static void check_pass(const kernel_case *k, const pst_kernel_row *row, case_state *ref,
                       case_flags flags) {
    uint32_t n_ref;
    const pst_kernel_row *rows = pst_kernels_ref(&n_ref),
                         *ref_row = case_row(rows, n_ref, k, row->pass, 0);
    case_state before, want, got;
    assert_int_equal(case_open(k, 0, 0, &before), PST_OK);
    assert_int_equal(case_open(k, 0, 0, &want), PST_OK);
    assert_int_equal(case_open(k, 0, 0, &got), PST_OK);
    case_copy(&before, ref);
    case_copy(&want, ref);
    case_copy(&got, ref);
    assert_int_equal(case_run(&want, ref_row, NULL, flags), PST_OK);
    if (run_on(&got, row, 1, flags) != PST_OK) fail_msg("%s: %s", case_text(k), pst_error());
    pst_arg args[PST_MAX_ARG];
    uint32_t n = got.node->op->args(got.node, row->pass, args);
    for (uint32_t i = 0; i < n; i++) {
        if (!(args[i].access & PST_WRITE)) continue;
        const case_buffer *a = case_operand(&got, args, i, flags),
                          *b = case_operand(&want, args, i, flags);
        float *x = case_floats(a), *y = case_floats(b);
        double distance = x && y ? case_distance(x, y, a->n) : INFINITY;
        free(x);
        free(y);
        if (!(distance <= tolerance(a)))
            fail_msg("%s pass %d argument %u is %.3g from the reference: %s", row->name, row->pass,
                     i, distance, case_text(k));
    }
    assert_true(case_guards_intact(&got));
    check_same_bits(k, row, &before, &got, flags);
    case_close(&before);
    case_close(&want);
    case_close(&got);
}

/* All rows of the machine, pass after pass; the reference's own results feed the next pass. */
static void check_type(const kernel_case *k) {
    uint32_t n_cpu, n_ref;
    const pst_kernel_row *cpu = pst_kernels_cpu(&n_cpu), *ref_rows = pst_kernels_ref(&n_ref);
    case_state ref;
    if (case_open(k, seed, 0, &ref) != PST_OK) fail_msg("%s: %s", case_text(k), pst_error());
    for (int pass = 0; pass < PST_PASS_COUNT; pass++) {
        if (!case_has_pass(&ref, (pst_pass)pass) ||
            !case_row(ref_rows, n_ref, k, (pst_pass)pass, 0))
            continue;
        case_flags flags = {.first = 1, .train = 1};
        for (int again = 0; again < (pass == PST_PASS_F ? 1 : 2); again++) {
            flags.first = !again;
            flags.no_sum = again;
            for (uint32_t i = 0; i < n_cpu; i++)
                if (!strcmp(cpu[i].op, k->op) && cpu[i].pass == (pst_pass)pass &&
                    !(cpu[i].isa & ~pst_cpu_isa()) && cpu[i].dtypes >> k->dtype & 1)
                    check_pass(k, &cpu[i], &ref, flags);
            /* What the reference overwrites in place is needed no more. */
            const pst_kernel_row *row = case_row(ref_rows, n_ref, k, (pst_pass)pass, 0);
            int overwrites = !strcmp(k->op, "cross_entropy") || !strcmp(k->op, "vocabulary_loss");
            if (!overwrites || pass == PST_PASS_F)
                assert_int_equal(case_run(&ref, row, NULL, flags), PST_OK);
        }
    }
    case_close(&ref);
}

static void check_case(const kernel_case *k) {
    static const pst_dtype type[] = {PST_F32, PST_BF16, PST_F16};
    static uint32_t number;
    kernel_case typed = *k;
    number++;
    for (uint32_t i = 0; i < 3; i++) {
#ifdef __SANITIZE_THREAD__
        if (number % 6 != i) continue; /* slow; races do not depend on the shape */
#elif defined __SANITIZE_ADDRESS__
        if (number % 3 != i) continue; /* slow: one type of each case */
#endif
        typed.dtype = type[i];
        check_type(&typed); /* nothing to compare where the machine cannot */
    }
}

static void test_layer_norm(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 3, 7, 17, 33, 65, 130, 768};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        check_case(&(kernel_case){
            .op = "layer_norm", .b = 1 + i % 3, .t = 3 + 30 * (i % 4), .c = width[i]});
}

static void test_linear(void **state) {
    (void)state;
    static const struct {
        uint64_t t, c, f;
    } shape[] = {{1, 1, 1},     {3, 7, 17},    {17, 33, 3},  {65, 17, 130},
                 {130, 65, 33}, {129, 3, 515}, {5, 2100, 9}, {33, 64, 64}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int act = 0; act <= PST_ACT_TANH; act += i < 4 ? 1 : 3)
            check_case(&(kernel_case){.op = "linear",
                                      .b = 1 + i % 2,
                                      .t = shape[i].t,
                                      .c = shape[i].c,
                                      .f = shape[i].f,
                                      .act = (pst_activation)act,
                                      .second = act != 1 || i % 2});
    check_case(&(kernel_case){
        .op = "linear", .b = 2, .t = 65, .c = 33, .f = 130, .act = PST_ACT_GELU_TANH, .second = 1});
    /* pieces of a sum, several tiles */
    check_case(&(kernel_case){.op = "linear", .b = 1, .t = 70, .c = 300, .f = 520});
}

static void test_attention(void **state) {
    (void)state;
    static const uint64_t length[] = {1, 3, 7, 17, 33, 65, 130}, size[] = {1, 2, 8, 64, 80, 17, 33};
    for (size_t i = 0; i < sizeof length / sizeof *length; i++)
        for (size_t j = 0; j < sizeof size / sizeof *size; j++) {
            if (length[i] > 65 && j % 2 == 0 && size[j] != 80) continue;
            uint32_t heads = 1 + (uint32_t)(i + j) % 3;
            kernel_case k = {.op = "attention",
                             .b = 1 + i % 2,
                             .t = length[i],
                             .c = heads * size[j],
                             .heads = heads};
            check_case(&k);
            k.bidirectional = 1;
            check_case(&k);
            k.b = 5;
            k.lengths = 1;
            k.bidirectional = (int)(i + j) % 2;
            if (i != j % 7) check_case(&k);
            k.lengths = k.bidirectional = 0;
            k.starts = 1;
            if ((i + j) % 3 == 0) check_case(&k);
            k.rate = 0.2f + 0.1f * (float)(j % 4);
            k.first = 5;
            if ((i + j) % 3 == 1) check_case(&k);
            k.starts = 0;
            k.bidirectional = (int)j % 2;
            if ((i + j) % 3 == 2) check_case(&k);
        }
}

static void test_grouped_attention(void **state) {
    (void)state;
    static const uint64_t length[] = {3, 7, 33, 65, 130}, size[] = {2, 8, 64, 17};
    static const uint32_t group[] = {1, 2, 3, 4};
    for (size_t i = 0; i < sizeof length / sizeof *length; i++)
        for (size_t j = 0; j < sizeof size / sizeof *size; j++) {
            const uint32_t kv = 1 + (uint32_t)(i + j) % 2, heads = kv * group[(i + 2 * j) % 4];
            kernel_case k = {.op = "attention",
                             .b = 1 + i % 2,
                             .t = length[i],
                             .c = heads * size[j],
                             .heads = heads,
                             .kv_heads = kv};
            check_case(&k);
            k.starts = (int)(i + j) % 2;
            k.window = 1 + length[i] / 3;
            check_case(&k);
            k.window = k.starts = 0;
            k.b = 5;
            k.lengths = 1;
            k.bidirectional = (int)j % 2;
            check_case(&k);
            /* a tensor rank with all keys, some of which its heads do not use */
            k = (kernel_case){.op = "attention", .b = 2, .t = length[i], .c = 3 * size[j]};
            k.heads = 3;
            k.kv_heads = 4;
            k.first = 3;
            k.total = 8;
            check_case(&k);
        }
    check_case(&(kernel_case){
        .op = "attention", .b = 1, .t = 200, .c = 16, .heads = 2, .window = 70}); /* packed */
}

static void test_rms_norm(void **state) {
    (void)state;
    static const uint64_t width[] = {3, 7, 17, 33, 65, 130, 768}; /* of 1: dx is 0 */
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        check_case(
            &(kernel_case){.op = "rms_norm", .b = 1 + i % 3, .t = 3 + 30 * (i % 4), .c = width[i]});
}

static void test_rotary(void **state) {
    (void)state;
    static const uint64_t size[] = {2, 4, 14, 34, 64, 130};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (int scaling = 0; scaling <= PST_ROPE_YARN; scaling++) {
            kernel_case k = {.op = "rotary",
                             .b = 1 + i % 2,
                             .t = i % 2 ? 19 : 1100,
                             .c = (1 + i % 3) * size[i],
                             .heads = 1 + (uint32_t)i % 3,
                             .scaling = (pst_rope_scaling)scaling};
            check_case(&k);
            k.starts = 1;
            check_case(&k);
        }
}

/* Positions as far as presets reach. */
static void test_rotary_far(void **state) {
    (void)state;
    check_type(&(kernel_case){.op = "rotary", .b = 1, .t = 131072, .c = 2, .heads = 1});
}

static void test_gated(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 17, 33, 768};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        check_case(&(kernel_case){.op = "gated", .b = 2, .t = 33, .c = width[i]});
}

/* Operators that adapters need; in place too. */
static void test_adapter_parts(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 17, 33, 768};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
        check_case(&(kernel_case){.op = "scale", .b = 2, .t = 33, .c = width[i], .factor = -1.75f});
        check_case(&(kernel_case){
            .op = "activation", .b = 2, .t = 33, .c = width[i], .act = (pst_activation)(1 + i)});
    }
}

/* --- documents in a sample -------------------------------------------------------------------- */

static void test_elementwise(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 3, 7, 17, 33, 65, 600};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
        check_case(&(kernel_case){.op = "add", .b = 2, .t = 33, .c = width[i]});
        for (int r = 0; r < 3; r++)
            check_case(&(kernel_case){
                .op = "dropout", .b = 3, .t = 33, .c = width[i], .rate = 0.45f * (float)r});
    }
}

static void test_streams(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 3, 7, 17, 33, 65, 130, 768};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        case_streams(width[i], 4 * i, 0, check_type);
}

static void test_embedding(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 3, 7, 17, 33, 65, 130};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        check_case(&(kernel_case){.op = "embedding",
                                  .b = 1 + i % 3,
                                  .t = 37,
                                  .c = width[i],
                                  .f = 3 + 40 * i,
                                  .second = i % 2 == 0});
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        check_case(&(kernel_case){.op = "embedding",
                                  .b = 1 + i % 3,
                                  .t = 37,
                                  .c = width[i],
                                  .f = 3 + 40 * i,
                                  .second = 1,
                                  .starts = 1});
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        check_case(&(kernel_case){.op = "embedding",
                                  .b = 1 + i % 3,
                                  .t = 37,
                                  .c = width[i],
                                  .f = 3 + 40 * i,
                                  .second = 1,
                                  .types = 1 + (uint32_t)i % 3});
}

/* Positions that are given several times, or not on this rank. */
static void test_gather_rows(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 3, 7, 17, 33, 65, 130};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
        kernel_case k = {.op = "gather_rows", .b = 1 + i % 3, .t = 3 + 17 * i, .c = width[i]};
        check_case(&k);
        k.f = 11;
        check_case(&k);
        k.first = 5;
        k.total = k.t + 9;
        check_case(&k);
    }
}

static void test_cross_entropy(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 3, 7, 17, 33, 65, 2049, 5000};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
        kernel_case k = {.op = "cross_entropy", .b = 2, .t = 9, .c = width[i]};
        check_case(&k);
        k.hits = 1;
        check_case(&k);
        k.hits = 0;
        k.smoothing = 0.1f;
        k.z_loss = 1e-2f;
        check_case(&k);
        k.op = "vocabulary_part";
        k.first = 3;
        k.total = width[i] + 10;
        check_case(&k);
    }
}

/* Rows of the machine with AVX2 or better, in fp32: the same bits from the same operands. */
static void check_isa_bits(const kernel_case *k, pst_pass pass) {
    uint32_t n_cpu;
    const pst_kernel_row *cpu = pst_kernels_cpu(&n_cpu);
    case_state first, other;
    int seen = 0;
    assert_int_equal(case_open(k, seed, 0, &first), PST_OK);
    for (uint32_t i = 0; i < n_cpu; i++) {
        if (strcmp(cpu[i].op, k->op) || cpu[i].pass != pass || !cpu[i].isa ||
            cpu[i].isa & ~pst_cpu_isa() || !(cpu[i].dtypes >> PST_F32 & 1))
            continue;
        case_state *s = seen ? &other : &first;
        if (seen) assert_int_equal(case_open(k, seed, 0, s), PST_OK);
        assert_int_equal(run_on(s, &cpu[i], 2, (case_flags){.first = 1, .train = 1}), PST_OK);
        for (uint32_t b = 0; seen && b < s->n_buffer; b++)
            if (memcmp(s->buffer[b].data, first.buffer[b].data, s->buffer[b].size * s->buffer[b].n))
                fail_msg("%s pass %d: other bits than another instruction set: %s", cpu[i].name,
                         pass, case_text(k));
        if (seen) case_close(s);
        seen = 1;
    }
    case_close(&first);
}

static void test_convolution(void **state) {
    (void)state;
    static const struct {
        uint64_t h, w, c, f, window;
        uint32_t stride, padding;
    } shape[] = {{1, 1, 1, 1, 1, 1, 0},     {5, 7, 3, 4, 3, 1, 1},    {8, 8, 16, 33, 3, 2, 1},
                 {7, 5, 17, 3, 1, 1, 0},    {9, 9, 5, 6, 1, 2, 0},    {15, 13, 3, 8, 7, 2, 3},
                 {6, 6, 2, 3, 5, 3, 4},     {4, 4, 600, 2, 3, 1, 1},  {33, 31, 40, 9, 3, 1, 1},
                 {3, 3, 2, 2, 3, 1, 0},     {9, 12, 40, 33, 3, 1, 1}, {16, 16, 80, 70, 3, 1, 1},
                 {10, 11, 32, 32, 3, 1, 0}, {33, 31, 3, 32, 3, 1, 1}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (uint64_t b = 1; b < 4; b += 2) {
            const kernel_case k = {.op = "convolution",
                                   .b = i == 8 ? 2 * b : b,
                                   .t = shape[i].h,
                                   .w = shape[i].w,
                                   .c = shape[i].c,
                                   .f = shape[i].f,
                                   .window = shape[i].window,
                                   .stride = shape[i].stride,
                                   .padding = shape[i].padding,
                                   .second = i % 2 == 0};
            check_case(&k);
            for (int pass = 0; pass < PST_PASS_COUNT; pass++) check_isa_bits(&k, (pst_pass)pass);
        }
}

static void test_batch_norm(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 3, 7, 17, 33, 65, 130};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        for (int variant = 0; variant < 4; variant++)
            check_case(&(kernel_case){.op = "batch_norm",
                                      .b = 1 + i % 3,
                                      .t = 2 + 10 * (i % 4),
                                      .w = 3 + i % 2 * 17,
                                      .c = width[i],
                                      .act = variant & 1 ? PST_ACT_RELU : PST_ACT_NONE,
                                      .second = variant > 1});
}

static void test_image(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 3, 7, 17, 33, 65, 130};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
        kernel_case k = {.op = "pixels", .b = 1 + i % 3, .t = 5 + i, .w = 6 + 2 * i, .c = width[i]};
        check_case(&k);
        k.op = "average_pool";
        check_case(&k);
        k.op = "max_pool";
        k.window = 2 + i % 2;
        k.stride = 1 + (uint32_t)i % 3;
        k.padding = i % 2;
        check_case(&k);
    }
}

/* A tensor rank's part: some tokens, and some elements of a sample, are others'. */
static void test_part(void **state) {
    (void)state;
    static const uint64_t width[] = {1, 3, 7, 17, 33, 65, 2049};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
        uint64_t first = i % 3 * 20, total = first + width[i] + i % 2 * 30;
        check_case(&(kernel_case){.op = "vocabulary_part",
                                  .b = 2,
                                  .t = 9,
                                  .c = width[i],
                                  .first = first,
                                  .total = total});
        check_case(&(kernel_case){.op = "vocabulary_loss",
                                  .b = 2,
                                  .t = 9,
                                  .c = width[i],
                                  .first = first,
                                  .total = total});
        check_case(&(kernel_case){.op = "embedding",
                                  .b = 2,
                                  .t = 17,
                                  .c = 1 + width[i] % 100,
                                  .f = width[i],
                                  .first = first,
                                  .total = total,
                                  .second = i % 2 == 0});
        check_case(&(kernel_case){
            .op = "dropout", .b = 2, .t = 33, .c = width[i] % 70, .rate = 0.5f, .first = 4 * i});
    }
}

/* The sum of two gradients: rows of their own, not an operator of the graph. */
static void test_sum(void **state) {
    (void)state;
    uint32_t n;
    const pst_kernel_row *rows = pst_kernels_cpu(&n);
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(rows[i].op, "sum") || (rows[i].isa & pst_cpu_isa()) != rows[i].isa) continue;
        case_state s;
        kernel_case k = {
            .op = "layer_norm", .b = 1, .t = 17, .c = 33, .dtype = case_row_dtype(&rows[i])};
        assert_int_equal(case_open(&k, seed, 0, &s), PST_OK);
        const case_buffer *in[] = {case_find(&s, PST_ARG_IN, 0), case_find(&s, PST_ARG_DOUT, 0)};
        const case_buffer *sum = case_find(&s, PST_ARG_DIN, 0);
        float *a = case_floats(in[0]), *b = case_floats(in[1]);
        void *arg[3] = {in[0]->data, in[1]->data, sum->data};
        pst_call call = {.graph = s.graph, .node = s.node, .arg = arg};
        assert_int_equal(rows[i].launch(device[2], &call), PST_OK);
        float *out = case_floats(sum);
        for (uint64_t e = 0; e < 17 * 33; e++) {
            float want = a[e] + b[e];
            assert_true(out[e] ==
                        (k.dtype == PST_F32
                             ? want
                             : pst_f32_from_half(k.dtype, pst_half_from_f32(k.dtype, want))));
        }
        free(a);
        free(b);
        free(out);
        assert_true(case_guards_intact(&s));
        case_close(&s);
    }
}

/* What recomputation restores from z has the bits that F gave, in every table of its own. */
static void check_activation(const pst_kernel_row *rows, uint32_t n, uint32_t linear,
                             pst_device *on) {
    const pst_kernel_row *row = NULL;
    for (uint32_t i = 0; i < n && !row; i++)
        if (!strcmp(rows[i].op, "activation") && rows[i].isa == rows[linear].isa &&
            rows[i].dtypes == rows[linear].dtypes)
            row = &rows[i];
    assert_non_null(row);
    for (int act = PST_ACT_NONE + 1; act <= PST_ACT_TANH; act++) {
        kernel_case k = {.op = "linear",
                         .b = 2,
                         .t = 37,
                         .c = 19,
                         .f = 131,
                         .act = (pst_activation)act,
                         .second = 1};
        k.dtype = case_row_dtype(&rows[linear]);
        case_state s;
        assert_int_equal(case_open(&k, seed, 3, &s), PST_OK);
        assert_int_equal(case_run(&s, &rows[linear], on, (case_flags){0}), PST_OK);
        const case_buffer *z = case_find(&s, PST_ARG_SAVED, 0), *y = case_find(&s, PST_ARG_OUT, 0);
        void *made = malloc(y->n * y->size), *arg[2] = {z->data, y->data};
        memcpy(made, y->data, y->n * y->size);
        memset(y->data, 0xff, y->n * y->size);
        uint64_t bytes = row->scratch ? row->scratch(s.graph, s.node, 1) : 0;
        pst_call call = {
            .graph = s.graph, .node = s.node, .arg = arg, .scratch = malloc(bytes + 1)};
        assert_int_equal(row->launch(on, &call), PST_OK);
        if (memcmp(made, y->data, y->n * y->size))
            fail_msg("%s: not the bits of F: %s", row->name, case_text(&k));
        assert_true(case_guards_intact(&s));
        free(made);
        free(call.scratch);
        case_close(&s);
    }
}

static void test_activation(void **state) {
    (void)state;
    uint32_t n;
    const pst_kernel_row *rows = pst_kernels_cpu(&n);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(rows[i].op, "linear") && rows[i].pass == PST_PASS_F &&
            !(rows[i].isa & ~pst_cpu_isa()))
            check_activation(rows, n, i, device[2]);
    rows = pst_kernels_ref(&n);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(rows[i].op, "linear") && rows[i].pass == PST_PASS_F)
            check_activation(rows, n, i, device[1]);
}

/* The two forms of GELU must not be taken for one another. */
static void test_gelu_forms_differ(void **state) {
    (void)state;
    uint32_t n;
    const pst_kernel_row *rows = pst_kernels_ref(&n), *row;
    kernel_case k = {
        .op = "linear", .b = 1, .t = 33, .c = 17, .f = 33, .act = PST_ACT_GELU_TANH, .second = 1};
    case_state tanh_form, erf_form;
    row = case_row(rows, n, &k, PST_PASS_F, 0);
    assert_int_equal(case_open(&k, seed, 0, &tanh_form), PST_OK);
    k.act = PST_ACT_GELU_ERF;
    assert_int_equal(case_open(&k, seed, 0, &erf_form), PST_OK);
    assert_int_equal(case_run(&tanh_form, row, NULL, (case_flags){0}), PST_OK);
    assert_int_equal(case_run(&erf_form, row, NULL, (case_flags){0}), PST_OK);
    const case_buffer *a = case_find(&tanh_form, PST_ARG_OUT, 0),
                      *b = case_find(&erf_form, PST_ARG_OUT, 0);
    double distance = case_distance(a->data, b->data, a->n);
    assert_true(distance > 1e-5 && distance < 1e-2);
    case_close(&tanh_form);
    case_close(&erf_form);
}

/* A token or target outside the table is refused, not read. */
static void test_index_refused(void **state) {
    (void)state;
    uint32_t n;
    const pst_kernel_row *rows = pst_kernels_cpu(&n);
    for (uint32_t i = 0; i < n; i++) {
        int embedding = !strcmp(rows[i].op, "embedding"),
            loss = !strcmp(rows[i].op, "cross_entropy") || !strcmp(rows[i].op, "gather_rows");
        if ((!embedding && !loss) || (rows[i].isa & pst_cpu_isa()) != rows[i].isa) continue;
        kernel_case k = {
            .op = rows[i].op, .b = 1, .t = 4, .c = 8, .f = 8, .dtype = case_row_dtype(&rows[i])};
        case_state s;
        assert_int_equal(case_open(&k, seed, 0, &s), PST_OK);
        ((int32_t *)case_find(&s, PST_ARG_IN, (uint32_t)loss)->data)[3] = 8;
        assert_int_equal(case_run(&s, &rows[i], device[1], (case_flags){.first = 1}), PST_EINPUT);
        case_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer_norm),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_grouped_attention),
        cmocka_unit_test(test_rms_norm),
        cmocka_unit_test(test_rotary),
        cmocka_unit_test(test_rotary_far),
        cmocka_unit_test(test_gated),
        cmocka_unit_test(test_adapter_parts),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_gather_rows),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_part),
        cmocka_unit_test(test_convolution),
        cmocka_unit_test(test_batch_norm),
        cmocka_unit_test(test_image),
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_activation),
        cmocka_unit_test(test_gelu_forms_differ),
        cmocka_unit_test(test_index_refused),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}

/* test: wrap=pst_monotonic_ns
 * Linear and attention through cuBLASLt and cuDNN that are made up (fake_blas.c, fake_dnn.c): what
 * they are asked to compute is what kernels/ref computes. */
#include "cuda/opened.h"
#include <unistd.h>
#include "kernels/cuda/attention_graph.h"

static const pst_device_ops *ops = &pst_device_cuda;

static void check_pass(const kernel_case *k, const pst_kernel_row *row, case_state *ref,
                       case_flags flags) {
    uint32_t n_ref;
    const pst_kernel_row *rows = pst_kernels_ref(&n_ref),
                         *ref_row = case_row(rows, n_ref, k, row->pass, 0);
    case_state got;
    pst_arg args[PST_MAX_ARG];
    assert_int_equal(case_open(k, 0, 0, &got), PST_OK);
    case_copy(&got, ref);
    if (run_case(&got, row, flags) != PST_OK) fail_msg("%s: %s", case_text(k), pst_error());
    assert_int_equal(case_run(ref, ref_row, NULL, flags), PST_OK);
    uint32_t n = got.node->op->args(got.node, row->pass, args);
    for (uint32_t i = 0; i < n; i++) {
        if (!(args[i].access & PST_WRITE)) continue;
        const case_buffer *a = case_operand(&got, args, i, flags),
                          *b = case_operand(ref, args, i, flags);
        float *x = case_floats(a), *y = case_floats(b);
        double distance = case_distance(x, y, a->n);
        free(x);
        free(y);
        double most = k->factors == PST_TF32 ? 0x1p-9 : tolerance(k->dtype);
        if (!(distance <= tolerance(a->dtype) || distance <= most))
            fail_msg("%s pass %d argument %u is %.3g from the reference: %s", row->name, row->pass,
                     i, distance, case_text(k));
    }
    assert_true(case_guards_intact(&got));
    case_close(&got);
}

static void check_case(const kernel_case *k, pst_cuda_rows rows) {
    case_state ref;
    assert_int_equal(case_open(k, 3, 0, &ref), PST_OK);
    for (int pass = 0; pass < PST_PASS_COUNT; pass++) {
        if (!case_has_pass(&ref, (pst_pass)pass)) continue;
        const pst_kernel_row *row = case_row(rows.row, rows.n, k, (pst_pass)pass, PST_ISA_CUDA);
        assert_non_null(row);
        check_pass(k, row, &ref, (case_flags){.first = 1});
        if (pass == PST_PASS_W) check_pass(k, row, &ref, (case_flags){.first = 0});
    }
    case_close(&ref);
}

static void linear_is_the_reference(void **state) {
    (void)state;
    static const uint64_t shape[][3] = {{1, 1, 1}, {3, 7, 17}, {17, 33, 3}, {9, 16, 8}};
    static const pst_dtype type[] = {PST_F32, PST_BF16, PST_F16};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int act = 0; act <= PST_ACT_RELU; act++)
            for (int bias = 0; bias < 2; bias++)
                check_case(&(kernel_case){.op = "linear",
                                          .b = 2,
                                          .t = shape[i][0],
                                          .c = shape[i][1],
                                          .f = shape[i][2],
                                          .act = (pst_activation)act,
                                          .second = bias,
                                          .dtype = type[(i + (size_t)act) % 3]},
                           pst_cuda_linear_rows());
    assert_false(fake_blas.sums &
                 (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
}

/* Factors that have 8 bits already pass unchanged, so that what is multiplied, turned and scaled is
 * the reference's. */
static void linear_in_8_bits(void **state) {
    (void)state;
    static const uint64_t shape[][3] = {
        {16, 16, 16}, {48, 32, 80}, {16, 176, 64}, {15, 16, 16} /* in bf16 */};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int bias = 0; bias < 2; bias++)
            check_case(&(kernel_case){.op = "linear",
                                      .b = 1,
                                      .t = shape[i][0],
                                      .c = shape[i][1],
                                      .f = shape[i][2],
                                      .second = bias,
                                      .dtype = PST_BF16,
                                      .factors = PST_F8},
                       pst_cuda_linear_rows());
}

static int captures; /* what the row said of the launch below before it */

/* What F gives for one number in x and in the weight, in that step. */
static float product_of(float x, uint64_t step, int train) {
    const kernel_case k = {
        .op = "linear", .b = 1, .t = 16, .c = 16, .f = 16, .dtype = PST_BF16, .factors = PST_F8};
    pst_cuda_rows rows = pst_cuda_linear_rows();
    case_state s;
    assert_int_equal(case_open(&k, 1, 0, &s), PST_OK);
    case_buffer *in = case_find(&s, PST_ARG_IN, 0), *weight = case_find(&s, PST_ARG_PARAM, 0);
    for (uint64_t i = 0; i < in->n; i++) {
        case_put(in, i, i ? 0 : x);
        case_put(weight, i, i ? 0 : 1);
    }
    const pst_kernel_row *row = case_row(rows.row, rows.n, &k, PST_PASS_F, PST_ISA_CUDA);
    void *arg[] = {in->data, weight->data, case_find(&s, PST_ARG_OUT, 0)->data};
    uint8_t *scratch = aligned_alloc(64, row->scratch(s.graph, s.node, 1));
    pst_call call = {.graph = s.graph,
                     .node = s.node,
                     .arg = arg,
                     .scratch = scratch,
                     .step = step,
                     .train = train};
    assert_int_equal(row->prepare(device, s.graph, s.node), PST_OK);
    captures = row->captures(device, &call);
    assert_int_equal(row->launch(device, &call), PST_OK);
    float y = pst_f32_from_bf16(*(const uint16_t *)arg[2]);
    cudaStreamSynchronize(pst_cuda_stream(device));
    free(scratch);
    case_close(&s);
    return y;
}

/* The largest of the 16 steps before says what fits; until there is one, the tensor itself. */
static void scales_are_of_steps_before(void **state) {
    (void)state;
    assert_true(product_of(3, 7, 0) == 3);
    assert_true(product_of(5, 8, 1) == 5 && product_of(1024, 8, 1) == 1024); /* two micro-batches */
    assert_true(product_of(5, 8, 1) == 5);                                   /* as the first time */
    assert_true(product_of(0x1p20f, 9, 0) == 0x1p20f); /* no step has ended yet */
    assert_true(product_of(2000, 9, 1) == 448 * 4);    /* 1024 was the largest, in units of 4 */
    assert_true(product_of(0x1p20f, 9, 0) == 448 * 4);
    for (uint64_t step = 10; step < 25; step++) assert_true(product_of(0.25f, step, 1) == 0.25f);
    assert_true(product_of(2000, 25, 1) == 2048); /* step 9 is known yet, 8 is not: units of 4 */
    for (uint64_t step = 26; step < 42; step++) assert_true(product_of(0.25f, step, 1) == 0.25f);
    assert_true(product_of(2000, 42, 1) == 448 * 0x1p-10f);
}

/* Once its scales in a step are set by what was before: what sets them is not captured, nor what
 * scales a tensor by its own magnitude. */
static void scales_are_not_captured(void **state) {
    (void)state;
    static const struct {
        uint64_t step;
        int train, captures;
    } launch[] = {{7, 0, 0}, {7, 1, 0}, {7, 1, 0}, {8, 0, 0}, {8, 1, 0}, {8, 1, 1},
                  {8, 1, 1}, {8, 0, 1}, {9, 0, 1}, {9, 1, 0}, {9, 1, 1}};
    for (size_t i = 0; i < sizeof launch / sizeof *launch; i++) {
        product_of(1, launch[i].step, launch[i].train);
        assert_int_equal(captures, launch[i].captures);
    }
}

static void old_devices_have_no_8_bits(void **state) {
    (void)state;
    const kernel_case k = {
        .op = "linear", .b = 1, .t = 16, .c = 16, .f = 16, .dtype = PST_BF16, .factors = PST_F8};
    pst_cuda_rows rows = pst_cuda_linear_rows();
    case_state s;
    ((pst_cuda_device *)device)->capability = 86;
    assert_int_equal(case_open(&k, 1, 0, &s), PST_OK);
    assert_int_equal(rows.row->prepare(device, s.graph, s.node), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "fp8: GPU 0 (sm_86) does not support FP8 matrix products, "
                                        "which need sm_89 or later; use bf16"));
    case_close(&s);
}

/* Near the reference, which multiplies fp32, but not as near as products of fp32 are. */
static void linear_in_tf32(void **state) {
    (void)state;
    kernel_case k = {
        .op = "linear", .b = 2, .t = 17, .c = 33, .f = 3, .second = 1, .dtype = PST_F32};
    k.factors = PST_TF32;
    check_case(&k, pst_cuda_linear_rows());
    pst_cuda_rows rows = pst_cuda_linear_rows();
    case_state s[2];
    for (int i = 0; i < 2; i++) {
        k.factors = i ? PST_TF32 : (pst_dtype)0;
        assert_int_equal(case_open(&k, 3, 0, &s[i]), PST_OK);
        assert_int_equal(run_case(&s[i], case_row(rows.row, rows.n, &k, PST_PASS_F, PST_ISA_CUDA),
                                  (case_flags){0}),
                         PST_OK);
    }
    const case_buffer *a = case_find(&s[0], PST_ARG_OUT, 0), *b = case_find(&s[1], PST_ARG_OUT, 0);
    assert_true(case_distance(a->data, b->data, a->n) > 3e-6);
    case_close(&s[0]);
    case_close(&s[1]);
}

static void attention_is_the_reference(void **state) {
    (void)state;
    static const struct {
        uint64_t b, t, d;
        uint32_t heads;
    } shape[] = {{1, 1, 8, 1}, {2, 5, 8, 3}, {1, 17, 24, 2}, {3, 33, 16, 1}, {2, 6, 8, 3}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int mask = 0; mask < 4; mask++)
            check_case(&(kernel_case){.op = "attention",
                                      .b = mask > 1 ? 5 : shape[i].b,
                                      .t = shape[i].t,
                                      .c = shape[i].d * shape[i].heads,
                                      .heads = shape[i].heads,
                                      .bidirectional = mask % 2,
                                      .lengths = mask > 1,
                                      .dtype = i % 2 ? PST_F16 : PST_BF16},
                       pst_cuda_attention_rows());
    assert_int_equal(fake_dnn.runs, 5 * 8);
    assert_int_equal(fake_dnn.plain, 0);
}

/* Returns how many runs of a graph F and B take if heads that share keys are computed one by one.
 */
static uint32_t check_groups(void) {
    static const struct {
        uint64_t b, t, d, window;
        uint32_t heads, kv_heads;
    } shape[] = {{2, 5, 8, 0, 4, 2},  {1, 17, 8, 0, 3, 1}, {1, 33, 16, 7, 2, 2},
                 {2, 20, 8, 2, 6, 3}, {1, 9, 8, 30, 4, 4}, {1, 9, 8, 1, 2, 0}};
    uint32_t runs = 0;
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int lengths = 0; lengths < 2; lengths++) {
            const uint32_t kv_heads = shape[i].kv_heads, heads = shape[i].heads;
            check_case(&(kernel_case){.op = "attention",
                                      .b = lengths ? 5 : shape[i].b,
                                      .t = shape[i].t,
                                      .c = shape[i].d * heads,
                                      .heads = heads,
                                      .kv_heads = kv_heads,
                                      .window = shape[i].window,
                                      .lengths = lengths,
                                      .dtype = i % 2 ? PST_F16 : PST_BF16},
                       pst_cuda_attention_rows());
            runs += 2 * (kv_heads ? heads / kv_heads : 1);
        }
    return runs;
}

/* Heads of queries that share keys: in one graph; and one after the other where the library has no
 * such graph, or if that is asked for. Windows. */
static void grouped_attention_is_the_reference(void **state) {
    (void)state;
    check_groups();
    assert_int_equal(fake_dnn.runs, 6 * 2 * 2);
    for (int asked = 0; asked < 2; asked++) {
        assert_int_equal(close_device(NULL), 0);
        assert_int_equal(open_device(NULL), 0);
        fake_dnn.even = !asked;
        if (asked) setenv("PENSTOCK_ATTENTION", "members", 1);
        const uint32_t runs = check_groups();
        assert_int_equal(fake_dnn.runs, runs);
        unsetenv("PENSTOCK_ATTENTION");
        assert_int_equal(fake_dnn.plain, 0);
    }
}

/* Parts have whole groups. */
static void grouped_attention_goes_in_parts(void **state) {
    (void)state;
    const uint64_t head = 2 * 64 * 128, usual = pst_cuda_attention_part_bytes;
    const kernel_case k = {
        .op = "attention", .b = 2, .t = 7, .c = 48, .heads = 6, .kv_heads = 2, .dtype = PST_BF16};
    const uint64_t most[] = {12 * head, 6 * head, 5 * head, head};
    const uint32_t runs[] = {1, 2, 4, 4};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        pst_cuda_attention_part_bytes = most[i];
        fake_dnn.runs = 0;
        check_case(&k, pst_cuda_attention_rows());
        assert_int_equal(fake_dnn.runs, 1 + runs[i]); /* F in one */
    }
    pst_cuda_attention_part_bytes = usual;
}

/* Tensor ranks: heads 4 and 5 of 8, of which each 4 share keys, do not share those of this rank as
 * the library takes it; heads 4 to 7 with 2 heads of keys of their own do. */
static void uneven_groups_are_left_to_our_kernel(void **state) {
    (void)state;
    const pst_kernel_row *row = pst_cuda_attention_rows().row;
    for (int even = 0; even < 2; even++) {
        pst_graph *g;
        const kernel_case k = {.op = "attention",
                               .b = 2,
                               .t = 9,
                               .c = even ? 32 : 16,
                               .heads = even ? 4 : 2,
                               .kv_heads = 2,
                               .first = even ? 0 : 4,
                               .total = even ? 4 : 8,
                               .dtype = PST_BF16};
        assert_int_equal(case_graph(&k, &g), PST_OK);
        const char *why = row->reject(g, g->node + g->n_node - 1, NULL);
        assert_int_equal(even, !why);
        if (why) assert_non_null(strstr(why, "unevenly"));
        pst_graph_close(g);
    }
}

/* The part of the operands that begins at a sample has its lengths. */
static void padded_attention_goes_in_parts(void **state) {
    (void)state;
    const uint64_t usual = pst_cuda_attention_part_bytes;
    pst_cuda_attention_part_bytes = 2 * 64 * 128;
    check_case(&(kernel_case){.op = "attention",
                              .b = 5,
                              .t = 6,
                              .c = 16,
                              .heads = 2,
                              .bidirectional = 1,
                              .lengths = 1,
                              .dtype = PST_BF16},
               pst_cuda_attention_rows());
    assert_int_equal(fake_dnn.runs, 1 + 10);
    pst_cuda_attention_part_bytes = usual;
}

static void attention_goes_in_parts(void **state) {
    (void)state;
    const kernel_case k = {
        .op = "attention", .b = 4, .t = 5, .c = 48, .heads = 6, .dtype = PST_BF16};
    const uint64_t head = 2 * 64 * 128, usual = pst_cuda_attention_part_bytes;
    const struct {
        uint64_t most;
        uint32_t runs;
    } want[] = {{24 * head, 1}, {23 * head, 2}, {6 * head, 4},
                {5 * head, 8},  {2 * head, 12}, {head - 1, 24}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        pst_cuda_attention_part_bytes = want[i].most;
        fake_dnn.runs = 0;
        check_case(&k, pst_cuda_attention_rows());
        assert_int_equal(fake_dnn.runs, 1 + want[i].runs); /* F in one */
    }
    pst_cuda_attention_part_bytes = usual;
    pst_cuda_attention_shape s = {
        .b = 16, .t = 1000, .c = 768, .heads = 12, .dtype = PST_BF16, .backward = 1};
    pst_cuda_attention_divide(&s);
    assert_int_equal(s.part_b, 8);
    assert_int_equal(pst_cuda_attention_workspace(&s), 8 * 12 * 2 * 1024 * 1024 + 256);
}

static void convolution_is_the_reference(void **state) {
    (void)state;
    static const uint64_t shape[][8] = {/* b t w c f window stride padding */
                                        {1, 1, 1, 1, 1, 1, 1, 0}, {2, 5, 6, 3, 4, 3, 1, 1},
                                        {2, 7, 5, 5, 9, 3, 2, 1}, {1, 9, 8, 3, 8, 7, 2, 3},
                                        {3, 6, 6, 7, 5, 1, 2, 0}, {1, 4, 5, 12, 3, 2, 3, 1}};
    static const pst_dtype type[] = {PST_F32, PST_BF16, PST_F16};
    for (size_t i = 0; i < 18; i++) {
        const uint64_t *s = shape[i / 3];
        fake_dnn.workspace = 64 * (int64_t)i;
        check_case(&(kernel_case){.op = "convolution",
                                  .b = s[0],
                                  .t = s[1],
                                  .w = s[2],
                                  .c = s[3],
                                  .f = s[4],
                                  .window = s[5],
                                  .stride = (uint32_t)s[6],
                                  .padding = (uint32_t)s[7],
                                  .second = (int)i % 2,
                                  .dtype = type[i % 3]},
                   pst_cuda_convolution_rows());
        assert_int_equal(fake_dnn.ran, i % 3 ? 1 : 2); /* fp32 that is fp32 */
    }
    kernel_case tf32 = {
        .op = "convolution", .b = 1, .t = 5, .w = 5, .c = 4, .f = 4, .window = 3, .stride = 1};
    tf32.factors = PST_TF32;
    check_case(&tf32, pst_cuda_convolution_rows());
    assert_int_equal(fake_dnn.ran, 1);
    assert_int_equal(fake_dnn.runs, 19 * 4);
    assert_int_equal(fake_dnn.plain, 0);
}

/* No engine, or none in so little memory: what the library would do is done by our own. */
static void convolution_without_the_library(void **state) {
    (void)state;
    const kernel_case k = {.op = "convolution",
                           .b = 1,
                           .t = 5,
                           .w = 5,
                           .c = 8,
                           .f = 8,
                           .window = 3,
                           .stride = 1,
                           .second = 1,
                           .dtype = PST_BF16};
    pst_cuda_rows rows = pst_cuda_convolution_rows();
    case_state s;
    assert_int_equal(case_open(&k, 1, 0, &s), PST_OK);
    for (int refuses = 0; refuses < 2; refuses++) {
        assert_int_equal(close_device(NULL), 0);
        assert_int_equal(open_device(NULL), 0);
        fake_dnn.refuses = refuses;
        fake_dnn.workspace = refuses ? 0 : INT64_C(1) << 40;
        for (uint32_t i = 0; i < rows.n; i++)
            assert_int_equal(run_case(&s, &rows.row[i], (case_flags){0}), PST_OK);
        assert_int_equal(fake_dnn.plain, 3);
        assert_int_equal(fake_dnn.runs, 0);
    }
    case_close(&s);
}

/* The library is not asked for what has more numbers than it counts. */
static void convolution_too_large(void **state) {
    (void)state;
    const kernel_case k = {.op = "convolution",
                           .b = 1 << 10,
                           .t = 1 << 9,
                           .w = 1 << 9,
                           .c = 8,
                           .f = 1,
                           .window = 1,
                           .stride = 1};
    pst_graph *g;
    assert_int_equal(case_graph(&k, &g), PST_OK);
    const pst_kernel_row *row = pst_cuda_convolution_rows().row;
    assert_non_null(
        strstr(row->reject(g, &g->node[g->n_node - 1], device), "less than 2^31 elements"));
    pst_graph_close(g);
}

static pst_status attend(uint64_t c, uint32_t heads) {
    const kernel_case k = {
        .op = "attention", .b = 1, .t = 5, .c = c, .heads = heads, .dtype = PST_BF16};
    pst_cuda_rows rows = pst_cuda_attention_rows();
    case_state s;
    assert_int_equal(case_open(&k, 1, 0, &s), PST_OK);
    const pst_kernel_row *row = rows.row;
    while (row->reject && row->reject(s.graph, s.node, device)) row++;
    pst_status status = run_case(&s, row, (case_flags){0});
    case_close(&s);
    return status;
}

static void attention_without_the_library(void **state) {
    (void)state;
    assert_int_equal(attend(60, 5), PST_OK); /* 12 channels per head */
    assert_int_equal(attend(264, 1), PST_OK);
    assert_int_equal(fake_dnn.plain, 2);
    fake_dnn.workspace = 1 << 20;
    fake_dnn.workspace = 0;
    fake_dnn.refuses = 1;
    assert_int_equal(attend(64, 8), PST_OK);
    assert_int_equal(fake_dnn.plain, 3);
    assert_int_equal(fake_dnn.runs, 0);
}

/* More than a layout counts: the device has it, from set-up on, and gives it back. */
static void attention_has_its_workspace(void **state) {
    (void)state;
    const int before = fake.live;
    fake_dnn.workspace = 1 << 20;
    assert_int_equal(attend(64, 4), PST_OK);
    fake_dnn.workspace = 2 << 20;
    assert_int_equal(attend(64, 8), PST_OK);
    fake_dnn.workspace = 1 << 20;
    assert_int_equal(attend(64, 2), PST_OK);
    assert_int_equal(fake_dnn.runs, 3);
    assert_int_equal(fake_dnn.plain, 0);
    pst_cuda_device *d = (pst_cuda_device *)device;
    assert_int_equal(d->attention_room_bytes, 2 << 20);
    assert_int_equal(device->ops->workspace_bytes(device), 2 << 20);
    pst_dnn_forget(&d->attentions);
    assert_int_equal(fake.live, before + 1);
    fake_dnn.workspace = 3 << 20;
    fake.free_bytes = 1 << 20;
    assert_int_equal(attend(64, 4), PST_ENOMEM);
    assert_non_null(strstr(pst_error(), "allocating workspace for attention"));
}

/* Sums in a fixed order are not by Blackwell's own kernels: said once for a shape, and of nothing
 * else. */
static void old_kernels_on_blackwell_are_said(void **state) {
    (void)state;
    static const int capability[] = {90, 100, 100};
    char text[300] = "";
    FILE *said = tmpfile();
    assert_non_null(said);
    fflush(stderr);
    int err = dup(2), failed = 0;
    dup2(fileno(said), 2);
    for (int i = 0; i < 3; i++) {
        const kernel_case k = {.op = "attention",
                               .b = 1,
                               .t = 5 + (uint64_t)i,
                               .c = 64,
                               .heads = 8,
                               .dtype = PST_BF16};
        case_state s;
        failed |= case_open(&k, 1, 0, &s) != PST_OK;
        s.graph->loose = i == 2;
        ((pst_cuda_device *)device)->capability = capability[i];
        const pst_kernel_row *row = pst_cuda_attention_rows().row;
        for (pst_pass pass = PST_PASS_F; pass <= PST_PASS_B; pass++)
            failed |= row[pass].prepare(device, s.graph, s.node) != PST_OK;
        case_close(&s);
    }
    dup2(err, 2);
    close(err);
    assert_false(failed);
    rewind(said);
    assert_non_null(fgets(text, sizeof text, said));
    assert_string_equal(text, "warning: attention B: with deterministic sums cuDNN uses its A100 "
                              "kernel on this GPU instead of the faster Blackwell kernel; "
                              "parallel.deterministic=false allows that kernel\n");
    assert_null(fgets(text, sizeof text, said));
    fclose(said);
}

/* CUDA cores beside tensor cores, and what that means for a model whose operators are known. */
static void slow_kernels_are_said(void **state) {
    (void)state;
    static const int capability[] = {80, 86, 89, 90, 100, 103, 120};
    static const uint32_t times[] = {16, 4, 4, 16, 32, 32, 4};
    for (int i = 0; i < 7; i++)
        assert_int_equal(pst_cuda_slowdown(&(pst_cuda_device){.capability = capability[i]}),
                         times[i]);
    FILE *said = tmpfile();
    char text[600] = "";
    assert_non_null(said);
    fflush(stderr);
    int err = dup(2);
    dup2(fileno(said), 2);
    fake_dnn.refuses = 1;
    pst_status status[] = {attend(64, 8), attend(64, 8), attend(60, 5), attend(60, 5)};
    dup2(err, 2);
    close(err);
    for (int i = 0; i < 4; i++) assert_int_equal(status[i], PST_OK);
    rewind(said);
    assert_non_null(fgets(text, sizeof text, said));
    assert_string_equal(text,
                        "warning: attention: pass F of attention runs on CUDA cores instead of "
                        "tensor cores and takes at least 16 times as long; all such operators "
                        "together make a step about 3.3 times as long; reason: cuDNN has no "
                        "fused attention kernel for batch 1, 5 positions, 8 heads of 8 channels: "
                        "more words\n");
    assert_non_null(fgets(text, sizeof text, said));
    assert_non_null(
        strstr(text, "as long; reason: cuDNN's attention needs a multiple of 8 channels"));
    assert_null(fgets(text, sizeof text, said)); /* once for each shape */
    fclose(said);
}

/* --- captures --------------------------------------------------------------------------------- */

/* A launch as the executor makes it, whose block and list of operands are gone afterwards. */
typedef struct {
    const case_state *s;
    const pst_kernel_row *row;
    uint8_t *scratch;
    case_flags flags;
} prepared;

static pst_status launch_once(const prepared *p, int silent, uint64_t *event) {
    pst_arg args[PST_MAX_ARG];
    void *arg[PST_MAX_ARG];
    uint32_t n = p->s->node->op->args(p->s->node, p->row->pass, args);
    for (uint32_t i = 0; i < n; i++) arg[i] = case_operand(p->s, args, i, p->flags)->data;
    pst_call call = {.graph = p->s->graph,
                     .node = p->s->node,
                     .arg = arg,
                     .scratch = p->scratch,
                     .first = p->flags.first,
                     .train = 1};
    pst_status status =
        ops->launch(device, (pst_launch_fn)p->row->launch, &call, 0, 0, silent ? NULL : event);
    memset(arg, 0xa5, sizeof arg);
    memset(&call, 0xa5, sizeof call);
    return status;
}

static uint8_t *scratch_for(const case_state *s, const pst_kernel_row *row, uint64_t *bytes) {
    *bytes = case_round_up(row->scratch ? row->scratch(s->graph, s->node, 1) : 0) + 64;
    uint8_t *scratch = aligned_alloc(64, *bytes);
    assert_non_null(scratch);
    return scratch;
}

static void replays_fail(void *launches) {
    const pst_captured again = {launches, 0};
    uint64_t event, start, end;
    pst_status status = ops->launch(device, ops->replay, &again, 0, 0, &event);
    fake.now += 1000000000;
    if (status == PST_OK) status = ops->test(device, event, &start, &end);
    assert_int_equal(status, PST_EINTERNAL);
    assert_non_null(strstr(pst_error(), "an illegal memory access"));
}

/* What a graph writes is what the reference makes of what lies in the operands now, and not when it
 * was captured. */
static void replay_pass(const kernel_case *k, const pst_kernel_row *row) {
    uint32_t n_ref;
    const pst_kernel_row *rows = pst_kernels_ref(&n_ref),
                         *ref_row = case_row(rows, n_ref, k, row->pass, 0);
    case_state got, ref;
    prepared p = {.s = &got, .row = row, .flags = {.first = 1}};
    uint64_t bytes, event, start, end;
    void *launches = NULL;
    pst_arg args[PST_MAX_ARG];
    assert_int_equal(case_open(k, 3, 0, &got), PST_OK);
    assert_int_equal(case_open(k, 4, 0, &ref), PST_OK);
    for (int pass = 0; pass < (int)row->pass; pass++) { /* what passes before it have left */
        const pst_kernel_row *before = case_row(rows, n_ref, k, (pst_pass)pass, 0);
        if (!case_has_pass(&ref, (pst_pass)pass)) continue;
        assert_int_equal(case_run(&got, before, NULL, p.flags), PST_OK);
        assert_int_equal(case_run(&ref, before, NULL, p.flags), PST_OK);
    }
    p.scratch = scratch_for(&got, row, &bytes);
    if (row->prepare) assert_int_equal(row->prepare(device, got.graph, got.node), PST_OK);
    if (launch_once(&p, 1, NULL) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(ops->capture_begin(device), PST_OK);
    if (launch_once(&p, 1, NULL) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(ops->capture_end(device, &launches), PST_OK);
    case_copy(&got, &ref);
    const pst_captured again = {launches, 0};
    assert_int_equal(ops->launch(device, ops->replay, &again, 0, 0, &event), PST_OK);
    fake.now += 1000000000;
    if (ops->test(device, event, &start, &end) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(case_run(&ref, ref_row, NULL, p.flags), PST_OK);
    uint32_t n = got.node->op->args(got.node, row->pass, args);
    for (uint32_t i = 0; i < n; i++) {
        if (!(args[i].access & PST_WRITE)) continue;
        const case_buffer *b = case_operand(&ref, args, i, p.flags);
        float *x = case_floats(case_operand(&got, args, i, p.flags)), *y = case_floats(b);
        if (!(case_distance(x, y, b->n) <= tolerance(k->dtype)))
            fail_msg("%s pass %d argument %u: a replay is %.3g from the reference: %s", row->name,
                     row->pass, i, case_distance(x, y, b->n), case_text(k));
        free(x);
        free(y);
    }
    /* and now at an address that is no longer there */
    fake_retire(p.scratch, bytes, 1);
    replays_fail(launches);
    case_close(&got);
    case_close(&ref);
}

static void replays_look_anew(void **state) {
    static const kernel_case of[] = {
        {.op = "linear", .b = 2, .t = 3, .c = 8, .f = 16, .second = 1, .dtype = PST_BF16},
        {.op = "linear", .b = 1, .t = 5, .c = 8, .f = 8, .act = PST_ACT_GELU_TANH, .second = 1},
        {.op = "attention", .b = 3, .t = 9, .c = 16, .heads = 2, .dtype = PST_BF16},
        {.op = "attention", .b = 5, .t = 6, .c = 16, .heads = 2, .lengths = 1, .dtype = PST_F16},
        {.op = "convolution",
         .b = 2,
         .t = 5,
         .w = 6,
         .c = 3,
         .f = 4,
         .window = 3,
         .stride = 1,
         .padding = 1,
         .second = 1,
         .dtype = PST_BF16}};
    const pst_cuda_rows rows[] = {pst_cuda_linear_rows(), pst_cuda_linear_rows(),
                                  pst_cuda_attention_rows(), pst_cuda_attention_rows(),
                                  pst_cuda_convolution_rows()};
    for (int i = 0; i < 5; i++)
        for (int pass = 0; pass < PST_PASS_COUNT; pass++) {
            const pst_kernel_row *row =
                case_row(rows[i].row, rows[i].n, &of[i], (pst_pass)pass, PST_ISA_CUDA);
            if (!row) continue;
            replay_pass(&of[i], row);
            assert_int_equal(close_device(state), 0);
            assert_int_equal(open_device(state), 0);
        }
}

/* A graph keeps no plan of cuDNN's alive. */
static void replays_need_their_plans(void **state) {
    (void)state;
    const kernel_case k = {
        .op = "attention", .b = 1, .t = 5, .c = 16, .heads = 2, .dtype = PST_BF16};
    pst_cuda_rows rows = pst_cuda_attention_rows();
    case_state s;
    prepared p = {.s = &s, .row = case_row(rows.row, rows.n, &k, PST_PASS_F, PST_ISA_CUDA)};
    uint64_t bytes;
    void *launches = NULL;
    assert_int_equal(case_open(&k, 3, 0, &s), PST_OK);
    p.scratch = scratch_for(&s, p.row, &bytes);
    assert_int_equal(p.row->prepare(device, s.graph, s.node), PST_OK);
    assert_int_equal(ops->capture_begin(device), PST_OK);
    if (launch_once(&p, 1, NULL) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(ops->capture_end(device, &launches), PST_OK);
    pst_dnn_forget(&((pst_cuda_device *)device)->attentions);
    replays_fail(launches);
    free(p.scratch);
    case_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(linear_is_the_reference, open_device, close_device),
        cmocka_unit_test_setup_teardown(linear_in_8_bits, open_device, close_device),
        cmocka_unit_test_setup_teardown(scales_are_of_steps_before, open_device, close_device),
        cmocka_unit_test_setup_teardown(scales_are_not_captured, open_device, close_device),
        cmocka_unit_test_setup_teardown(old_devices_have_no_8_bits, open_device, close_device),
        cmocka_unit_test_setup_teardown(linear_in_tf32, open_device, close_device),
        cmocka_unit_test_setup_teardown(attention_is_the_reference, open_device, close_device),
        cmocka_unit_test_setup_teardown(grouped_attention_is_the_reference, open_device,
                                        close_device),
        cmocka_unit_test_setup_teardown(grouped_attention_goes_in_parts, open_device, close_device),
        cmocka_unit_test(uneven_groups_are_left_to_our_kernel),
        cmocka_unit_test_setup_teardown(attention_goes_in_parts, open_device, close_device),
        cmocka_unit_test_setup_teardown(padded_attention_goes_in_parts, open_device, close_device),
        cmocka_unit_test_setup_teardown(convolution_is_the_reference, open_device, close_device),
        cmocka_unit_test_setup_teardown(convolution_without_the_library, open_device, close_device),
        cmocka_unit_test_setup_teardown(convolution_too_large, open_device, close_device),
        cmocka_unit_test_setup_teardown(attention_without_the_library, open_device, close_device),
        cmocka_unit_test_setup_teardown(attention_has_its_workspace, open_device, close_device),
        cmocka_unit_test_setup_teardown(old_kernels_on_blackwell_are_said, open_device,
                                        close_device),
        cmocka_unit_test_setup_teardown(slow_kernels_are_said, open_device, close_device),
        cmocka_unit_test_setup_teardown(replays_look_anew, open_device, close_device),
        cmocka_unit_test_setup_teardown(replays_need_their_plans, open_device, close_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

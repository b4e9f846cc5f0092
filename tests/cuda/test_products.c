/* test: wrap=pst_monotonic_ns
 * Forms of linear through a made-up cuBLASLt (fake_blas.c), against kernels/ref: outputs with gaps
 * between their rows; GELU and gradients of biases inside of products, and when. And attention that
 * adds in any order (fake_dnn.c). */
#include "kernels/cuda/own.h"
#include "cuda/opened.h" /* has a `device`, as parameters there */
#include "kernels/gaps.h"

static const pst_kernel_row *cuda_row(const kernel_case *k, pst_pass pass) {
    pst_cuda_rows rows =
        strcmp(k->op, "linear") ? pst_cuda_attention_rows() : pst_cuda_linear_rows();
    const pst_kernel_row *row = case_row(rows.row, rows.n, k, pass, PST_ISA_CUDA);
    assert_non_null(row);
    return row;
}

static void launch(const case_state *s, const pst_kernel_row *row, void *const *arg, int first) {
    uint64_t bytes = row->scratch(s->graph, s->node, 1);
    uint8_t *scratch = aligned_alloc(64, case_round_up(bytes + 64));
    assert_non_null(scratch);
    memset(scratch + bytes, 0xa5, 64);
    const pst_call call = {.graph = s->graph,
                           .node = s->node,
                           .arg = arg,
                           .scratch = scratch,
                           .first = first,
                           .train = 1};
    if (row->prepare(device, s->graph, s->node) != PST_OK)
        fail_msg("%s: %s", row->name, pst_error());
    if (row->launch(device, &call) != PST_OK) fail_msg("%s: %s", row->name, pst_error());
    cudaStreamSynchronize(pst_cuda_stream(device));
    for (int i = 0; i < 64; i++) assert_int_equal(scratch[bytes + (uint64_t)i], 0xa5);
    free(scratch);
}

static void compare_written(const case_state *got, const case_state *want, pst_pass pass) {
    pst_arg args[PST_MAX_ARG];
    uint32_t n = got->node->op->args(got->node, pass, args);
    for (uint32_t i = 0; i < n; i++) {
        if (!(args[i].access & PST_WRITE)) continue;
        const case_buffer *a = case_operand(got, args, i, (case_flags){0}),
                          *b = case_operand(want, args, i, (case_flags){0});
        float *x = case_floats(a), *y = case_floats(b);
        double distance = case_distance(x, y, a->n);
        free(x);
        free(y);
        if (!(distance <= tolerance(got->spec.dtype)))
            fail_msg("pass %d, argument %u: %.3g off: %s", pass, i, distance,
                     case_text(&got->spec));
    }
}

/* F, B, W of the first micro-batch and W of a second, each from the reference's operands. */
static void check_case(const kernel_case *k, void (*run)(case_state *, pst_pass, int first)) {
    uint32_t n_ref;
    const pst_kernel_row *refs = pst_kernels_ref(&n_ref);
    case_state ref, got;
    assert_int_equal(case_open(k, 3, 0, &ref), PST_OK);
    for (int turn = 0; turn < (strcmp(k->op, "linear") ? 2 : 4); turn++) {
        pst_pass pass = turn < 2 ? (pst_pass)turn : PST_PASS_W;
        case_flags flags = {.first = turn != 3};
        assert_int_equal(case_open(k, 0, 0, &got), PST_OK);
        case_copy(&got, &ref);
        run(&got, pass, flags.first);
        assert_int_equal(case_run(&ref, case_row(refs, n_ref, k, pass, 0), NULL, flags), PST_OK);
        compare_written(&got, &ref, pass);
        assert_true(case_guards_intact(&got));
        case_close(&got);
    }
    case_close(&ref);
}

/* As pst_graph_pad leaves it: the output has gaps, weight and bias have zeros behind them, and what
 * lies in gaps of the gradient is 0. */
static void run_with_gaps(case_state *s, pst_pass pass, int first) {
    pst_arg args[PST_MAX_ARG];
    void *arg[PST_MAX_ARG], *wide[PST_MAX_ARG] = {NULL};
    uint32_t n = s->node->op->args(s->node, pass, args);
    uint64_t f = s->spec.f, pitch = (f + 63) / 64 * 64;
    s->graph->tensor[s->node->out[0]].pitch = pitch;
    for (uint32_t i = 0; i < n; i++) {
        case_buffer *b = case_operand(s, args, i, (case_flags){0});
        int output = args[i].kind == PST_ARG_OUT || args[i].kind == PST_ARG_DOUT;
        arg[i] = b->data;
        if (!output && args[i].kind != PST_ARG_PARAM) continue;
        uint8_t fill = args[i].kind == PST_ARG_OUT ? 0xff : 0;
        wide[i] = output ? gaps_open(b, f, pitch, fill) : gaps_open(b, b->n, b->n / f * pitch, 0);
        arg[i] = wide[i];
        assert_non_null(wide[i]);
    }
    launch(s, cuda_row(&s->spec, pass), arg, first);
    for (uint32_t i = 0; i < n; i++) {
        case_buffer *b = case_operand(s, args, i, (case_flags){0});
        if (args[i].kind == PST_ARG_OUT) assert_true(gaps_take(b, wide[i], f, pitch));
        free(wide[i]);
    }
}

static void outputs_with_gaps(void **state) {
    (void)state;
    static const uint64_t outputs[] = {3, 65, 130, 201};
    static const pst_dtype type[] = {PST_F32, PST_BF16, PST_F16};
    for (size_t i = 0; i < 24; i++)
        check_case(&(kernel_case){.op = "linear",
                                  .b = 2,
                                  .t = 5,
                                  .c = 24,
                                  .f = outputs[i / 6],
                                  .second = (int)i % 2,
                                  .dtype = type[i % 3]},
                   run_with_gaps);
}

/* --- fused, or apart -------------------------------------------------------------------------- */

static int final, captures;

static void run_plainly(case_state *s, pst_pass pass, int first) {
    pst_arg args[PST_MAX_ARG];
    void *arg[PST_MAX_ARG];
    uint32_t n = s->node->op->args(s->node, pass, args);
    s->graph->final = final;
    for (uint32_t i = 0; i < n; i++) arg[i] = case_operand(s, args, i, (case_flags){0})->data;
    launch(s, cuda_row(&s->spec, pass), arg, first);
}

/* Products that did more than add a bias, in F, B, W and W. */
static uint32_t ends_of(kernel_case k) {
    fake_blas.ends = 0;
    check_case(&k, run_plainly);
    return fake_blas.ends;
}

static const kernel_case wide = {
    .op = "linear", .b = 2, .t = 5, .c = 16, .f = 24, .act = PST_ACT_GELU_TANH, .second = 1};

static void ends_are_fused(void **state) {
    (void)state;
    static const pst_dtype type[] = {PST_F32, PST_BF16, PST_F16};
    for (int i = 0; i < 3; i++) {
        kernel_case k = wide;
        k.dtype = type[i];
        final = 1;
        assert_int_equal(ends_of(k), 1 + 2);
        k.second = 0;
        assert_int_equal(ends_of(k), 1); /* no bias */
        k.f = 12;
        assert_int_equal(ends_of(k), 0); /* its rows are no multiples of 8 */
        k.act = PST_ACT_GELU_ERF;
        k.f = 24;
        assert_int_equal(ends_of(k), 0); /* the library has another */
        k.second = 1;
        assert_int_equal(ends_of(k), 2);
    }
}

/* What is computed again has to be what it was. */
static void recomputed_gelu_is_apart(void **state) {
    (void)state;
    kernel_case k = wide;
    k.dtype = PST_BF16;
    final = 0;
    assert_int_equal(ends_of(k), 2);
    k.second = 0;
    assert_int_equal(ends_of(k), 0);
}

static void libraries_without(void **state) {
    (void)state;
    kernel_case k = wide;
    k.dtype = PST_BF16;
    final = 1;
    fake_blas.plain = 1;
    assert_int_equal(ends_of(k), 0);
}

static void products_of_8_bits(void **state) {
    (void)state;
    kernel_case k = {.op = "linear",
                     .b = 1,
                     .t = 16,
                     .c = 32,
                     .f = 16,
                     .act = PST_ACT_GELU_TANH,
                     .second = 1,
                     .dtype = PST_BF16,
                     .factors = PST_F8};
    uint32_t n_ref;
    const pst_kernel_row *refs = pst_kernels_ref(&n_ref);
    case_state ref, got;
    final = 1;
    fake_blas.ends = 0;
    assert_int_equal(case_open(&k, 3, 0, &ref), PST_OK);
    assert_int_equal(case_open(&k, 0, 0, &got), PST_OK);
    case_copy(&got, &ref);
    run_plainly(&got, PST_PASS_F, 0);
    assert_int_equal(
        case_run(&ref, case_row(refs, n_ref, &k, PST_PASS_F, 0), NULL, (case_flags){0}), PST_OK);
    compare_written(&got, &ref, PST_PASS_F);
    assert_int_equal(fake_blas.ends, 1);
    case_close(&got);
    run_plainly(&ref, PST_PASS_B, 1);
    run_plainly(&ref, PST_PASS_W, 1);
    assert_int_equal(fake_blas.ends, 1); /* the library sums none of 8 bits */
    case_close(&ref);
}

/* y of one number in x and, at the same place, in the weight; dx of one in dy. */
static float kept_product(case_state *s, pst_pass pass, uint16_t *weight, float value,
                          pst_call of) {
    const pst_kernel_row *row = cuda_row(&s->spec, pass);
    case_buffer *x = case_find(s, pass == PST_PASS_F ? PST_ARG_IN : PST_ARG_DOUT, 0);
    case_buffer *y = case_find(s, pass == PST_PASS_F ? PST_ARG_OUT : PST_ARG_DIN, 0);
    void *arg[3] = {pass == PST_PASS_F ? x->data : weight, pass == PST_PASS_F ? weight : x->data,
                    y->data};
    uint8_t *scratch = aligned_alloc(64, case_round_up(row->scratch(s->graph, s->node, 1)));
    memset(x->data, 0, x->n * x->size);
    case_put(x, 0, 1);
    weight[0] = pst_bf16_from_f32(value);
    of.graph = s->graph;
    of.node = s->node;
    of.arg = arg;
    of.scratch = scratch;
    assert_int_equal(row->prepare(device, s->graph, s->node), PST_OK);
    captures = row->captures(device, &of);
    assert_int_equal(row->launch(device, &of), PST_OK);
    cudaStreamSynchronize(pst_cuda_stream(device));
    free(scratch);
    return pst_f32_from_bf16(*(const uint16_t *)y->data);
}

/* A weight is rounded once in a step for each of F and B; evaluations see what it is. */
static void weights_of_8_bits_are_kept(void **state) {
    (void)state;
    kernel_case k = {
        .op = "linear", .b = 1, .t = 16, .c = 16, .f = 16, .dtype = PST_BF16, .factors = PST_F8};
    for (int pass = PST_PASS_F; pass <= PST_PASS_B; pass++) {
        case_state s;
        uint16_t *weight = aligned_alloc(64, 2 * 256 * sizeof *weight);
        assert_int_equal(case_open(&k, 1, 0, &s), PST_OK);
        s.graph->param[s.node->param[0]].pad = 256;
        memset(weight, 0, 2 * 256 * sizeof *weight);
        const struct {
            uint64_t step;
            int train;
            float weight, is;
            int captures;
        } turn[] = {{7, 1, 2, 2, 0}, {7, 1, 3, 2, 0}, {7, 0, 4, 4, 0}, {8, 1, 2, 2, 0},
                    {8, 1, 1, 2, 1}, {8, 0, 1, 1, 1}, {9, 1, 1, 1, 0}, {9, 1, 2, 1, 1}};
        for (size_t i = 0; i < sizeof turn / sizeof *turn; i++) {
            const pst_call of = {.step = turn[i].step, .train = turn[i].train};
            float is = kept_product(&s, (pst_pass)pass, weight, turn[i].weight, of);
            if (is != turn[i].is)
                fail_msg("pass %d, turn %zu: %g, not %g", pass, i, (double)is, (double)turn[i].is);
            assert_int_equal(captures, turn[i].captures);
            assert_int_equal(fake_blas.fast, pass == PST_PASS_F);
        }
        free(weight);
        case_close(&s);
        close_device(state);
        open_device(state);
    }
}

/* Row-major products of Muon: X X^T or X^T X, A A, and B X or X B, with symmetric A and B. */
static double muon_element(const pst_matrix_shape *of, pst_cuda_muon_kind kind, const float *x,
                           const float *b, const uint64_t at[2]) {
    const uint64_t i = at[0], j = at[1], rows = of->rows, cols = of->cols;
    const int tall = rows > cols;
    const uint64_t least = tall ? cols : rows;
    double sum = 0;
    if (kind == PST_CUDA_MUON_GRAM) {
        for (uint64_t k = 0; k < (tall ? rows : cols); k++)
            sum += tall ? (double)x[k * cols + i] * (double)x[k * cols + j]
                        : (double)x[i * cols + k] * (double)x[j * cols + k];
        return sum;
    }
    for (uint64_t k = 0; k < least; k++) {
        if (kind == PST_CUDA_MUON_SQUARE)
            sum += (double)b[i * least + k] * (double)b[k * least + j];
        else if (tall) sum += (double)x[i * cols + k] * (double)b[k * cols + j];
        else sum += (double)b[i * rows + k] * (double)x[k * cols + j];
    }
    return sum;
}

static void products_of_muon(void **state) {
    (void)state;
    enum { MOST = 12 * 20 };
    static const pst_matrix_shape shapes[] = {{5, 9}, {9, 5}, {6, 6}, {1, 20}, {12, 1}, {12, 20}};
    float x[MOST], b[MOST], got[MOST];
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const pst_muon_rule rule = {.shape = shapes[s], .type = s % 2 ? PST_BF16 : PST_F32};
        const uint64_t rows = shapes[s].rows, cols = shapes[s].cols,
                       least = rows < cols ? rows : cols;
        for (uint64_t i = 0; i < rows * cols; i++) x[i] = (float)((i * 37 + 11) % 23) - 11;
        for (uint64_t i = 0; i < least; i++)
            for (uint64_t j = 0; j < least; j++)
                b[i * least + j] = (float)((i * j + i + j) % 7) - 3;
        assert_int_equal(pst_cuda_muon_prepare(device, &rule), PST_OK);
        for (int kind = 0; kind < PST_CUDA_MUON_KINDS; kind++) {
            const uint64_t n = kind == PST_CUDA_MUON_APPLIED ? cols : least,
                           m = kind == PST_CUDA_MUON_APPLIED ? rows : least;
            void *room = aligned_alloc(64, (pst_cuda_muon_workspace() + 63) / 64 * 64);
            const pst_cuda_muon_operands of = {kind == PST_CUDA_MUON_SQUARE ? b : x,
                                               kind == PST_CUDA_MUON_GRAM ? x : b, got, room};
            assert_int_equal(pst_cuda_muon_product(device, &rule, (pst_cuda_muon_kind)kind, &of),
                             PST_OK);
            cudaStreamSynchronize(pst_cuda_stream(device));
            for (uint64_t i = 0; i < m * n; i++)
                assert_true((double)got[i] == muon_element(shapes + s, (pst_cuda_muon_kind)kind, x,
                                                           b, (uint64_t[]){i / n, i % n}));
            free(room);
        }
    }
}

/* How many choices there are; whether the fused ones are `apart`. */
static uint32_t chosen(pst_choice *list, uint32_t *apart) {
    static const char words[] = "ffffffffffffffff ffffffffffffffff ffffffffffffffff";
    uint32_t n = 0;
    *apart = 0;
    for (; pst_cuda_choices.take(device, n, &list[n]); n++)
        *apart += !strncmp(list[n].is, words, strlen(words));
    return n;
}

/* What is slower inside than beside is done apart; with the list of another run, as that did. */
static void ends_are_measured(void **state) {
    (void)state;
    pst_choice list[2][16];
    uint32_t apart[2], n[2];
    kernel_case k = wide;
    k.dtype = PST_BF16;
    final = 1;
    for (int slow = 0; slow < 2; slow++) {
        assert_int_equal(open_device(state), 0);
        fake_blas.end_ns = slow ? 100000000 : 0;
        assert_int_equal(pst_cuda_choices.give(device, 1, NULL, 0), PST_OK);
        check_case(&k, run_plainly); /* measures, too */
        n[slow] = chosen(list[slow], &apart[slow]);
        fake_blas.ends = 0;
        check_case(&k, run_plainly);
        assert_int_equal(fake_blas.ends, slow ? 0 : 3);
        assert_int_equal(close_device(state), 0);
    }
    assert_int_equal(n[0], 3 + 2); /* F, B and W; F and W with their ends */
    assert_int_equal(n[1], n[0]);
    assert_int_equal(apart[0], 0);
    assert_int_equal(apart[1], 2);
    for (int measures = 0; measures < 2; measures++) {
        assert_int_equal(open_device(state), 0);
        assert_int_equal(pst_cuda_choices.give(device, measures, list[1], n[1]), PST_OK);
        assert_int_equal(ends_of(k), 0);
        assert_int_equal(pst_cuda_choices.give(device, measures, list[0], n[0]), PST_OK);
        assert_int_equal(ends_of(k), 3); /* prepared before, and agreed on later */
        assert_int_equal(close_device(state), 0);
    }
}

/* --- attention -------------------------------------------------------------------------------- */

static void run_loosely(case_state *s, pst_pass pass, int first) {
    pst_arg args[PST_MAX_ARG];
    void *arg[PST_MAX_ARG];
    uint32_t n = s->node->op->args(s->node, pass, args);
    s->graph->loose = 1;
    for (uint32_t i = 0; i < n; i++) arg[i] = case_operand(s, args, i, (case_flags){0})->data;
    launch(s, cuda_row(&s->spec, pass), arg, first);
}

static void attention_adds_in_any_order(void **state) {
    (void)state;
    fake_dnn.loose = 1;
    for (int mask = 0; mask < 4; mask++)
        for (int half = 0; half < 2; half++) {
            kernel_case k = {.op = "attention",
                             .b = 5,
                             .t = 7,
                             .c = 16,
                             .heads = 2,
                             .bidirectional = mask % 2,
                             .lengths = mask > 1,
                             .dtype = half ? PST_F16 : PST_BF16};
            check_case(&k, run_loosely);
            assert_int_equal(fake_dnn.ran, 0);
        }
    assert_int_equal(fake_dnn.runs, 8 * 2);
    assert_int_equal(fake_dnn.plain, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(outputs_with_gaps, open_device, close_device),
        cmocka_unit_test_setup_teardown(ends_are_fused, open_device, close_device),
        cmocka_unit_test_setup_teardown(recomputed_gelu_is_apart, open_device, close_device),
        cmocka_unit_test_setup_teardown(libraries_without, open_device, close_device),
        cmocka_unit_test_setup_teardown(products_of_8_bits, open_device, close_device),
        cmocka_unit_test_setup_teardown(weights_of_8_bits_are_kept, open_device, close_device),
        cmocka_unit_test_setup_teardown(products_of_muon, open_device, close_device),
        cmocka_unit_test(ends_are_measured),
        cmocka_unit_test_setup_teardown(attention_adds_in_any_order, open_device, close_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

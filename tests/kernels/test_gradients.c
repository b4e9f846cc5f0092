/* B and W of the reference against central finite differences of its F, with a random linear functional as the loss.
 * F rounds its results to float, which limits the step; the tolerance is stated below. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "case.h"

static const float STEP = 4e-3f;
static const double TOLERANCE = 1e-3; /* relative L2 distance per operand */

static uint64_t seed;

static const pst_kernel_row *ref_row(const kernel_case *k, pst_pass pass) {
    uint32_t n;
    const pst_kernel_row *rows = pst_kernels_ref(&n);
    return case_row(rows, n, k, pass, 0);
}

/* sum(out * weight): weight is DOUT, or loss_scale where the operator is itself the loss. */
static double loss_of(case_state *s) {
    assert_int_equal(case_run(s, ref_row(&s->spec, PST_PASS_F), NULL, (case_flags){.train = 1}), PST_OK);
    const case_buffer *out = case_find(s, PST_ARG_OUT, 0), *weight = case_find(s, PST_ARG_DOUT, 0);
    double loss = 0, scale = 1.0 / (double)(s->spec.b * s->spec.t);
    for (uint64_t i = 0; i < out->n; i++)
        loss += ((float *)out->data)[i] * (weight ? (double)((float *)weight->data)[i] : scale);
    return loss;
}

/* Fills `slope` with the differences for every element of `x`. */
static void differences(case_state *s, case_buffer *x, float *slope) {
    float *value = x->data;
    for (uint64_t i = 0; i < x->n; i++) {
        float old = value[i], up = old + STEP, down = old - STEP;
        value[i] = up;
        double above = loss_of(s);
        value[i] = down;
        double below = loss_of(s);
        value[i] = old;
        slope[i] = (float)((above - below) / ((double)up - (double)down));
    }
}

static void check_operand(const kernel_case *k, const case_state *grads, uint32_t kind, uint32_t index,
                          uint32_t grad_kind) {
    case_state s;
    assert_int_equal(case_open(k, seed, 0, &s), PST_OK);
    case_buffer *x = case_find(&s, kind, index);
    const case_buffer *got = case_find(grads, grad_kind, index);
    float *want = calloc(x->n, sizeof *want);
    assert_non_null(want);
    differences(&s, x, want);
    double distance = case_distance(got->data, want, x->n);
    if (!(distance <= TOLERANCE))
        fail_msg("%s: gradient %u of operand kind %u is %.3g from the differences", case_text(k), index, kind,
                 distance);
    free(want);
    case_close(&s);
}

static void check_case(const kernel_case *k) {
    case_state s;
    assert_int_equal(case_open(k, seed, 0, &s), PST_OK);
    case_flags flags = {.first = 1, .train = 1, .no_sum = 1};
    assert_int_equal(case_run(&s, ref_row(k, PST_PASS_F), NULL, flags), PST_OK);
    for (int pass = PST_PASS_B; pass <= PST_PASS_W; pass++)
        if (case_has_pass(&s, (pst_pass)pass))
            assert_int_equal(case_run(&s, ref_row(k, (pst_pass)pass), NULL, flags), PST_OK);
    if (case_has_pass(&s, PST_PASS_B)) {
        if (!case_find(&s, PST_ARG_DIN, 0)) { /* in place: the gradient lies where the input was */
            case_buffer *in = case_find(&s, PST_ARG_IN, 0);
            in->kind = PST_ARG_DIN;
        }
        check_operand(k, &s, PST_ARG_IN, 0, PST_ARG_DIN);
    }
    if (case_has_pass(&s, PST_PASS_B) && case_find(&s, PST_ARG_DIN, 1))
        check_operand(k, &s, PST_ARG_IN, 1, PST_ARG_DIN);
    for (uint32_t i = 0; i < s.node->n_param; i++)
        if (!(s.node->op->statistics >> i & 1)) check_operand(k, &s, PST_ARG_PARAM, i, PST_ARG_DPARAM);
    case_close(&s);
}

static void test_all(void **state) {
    (void)state;
    static const kernel_case cases[] = {
        {.op = "embedding", .b = 2, .t = 3, .c = 3, .f = 5, .second = 1},
        {.op = "embedding", .b = 2, .t = 5, .c = 2, .f = 3},
        {.op = "layer_norm", .b = 2, .t = 3, .c = 7},
        {.op = "layer_norm", .b = 1, .t = 1, .c = 17},
        {.op = "linear", .b = 1, .t = 3, .c = 5, .f = 4, .second = 1},
        {.op = "linear", .b = 2, .t = 2, .c = 3, .f = 7, .act = PST_ACT_GELU_TANH, .second = 1},
        {.op = "linear", .b = 2, .t = 2, .c = 3, .f = 7, .act = PST_ACT_GELU_ERF, .second = 1},
        {.op = "linear", .b = 1, .t = 3, .c = 5, .f = 3, .act = PST_ACT_RELU},
        {.op = "attention", .b = 2, .t = 4, .c = 6, .heads = 2},
        {.op = "attention", .b = 1, .t = 7, .c = 3, .heads = 3},
        {.op = "dropout", .b = 2, .t = 3, .c = 5, .rate = 0.4f},
        {.op = "cross_entropy", .b = 2, .t = 3, .c = 7},
        {.op = "convolution",
         .b = 2,
         .t = 4,
         .w = 3,
         .c = 2,
         .f = 3,
         .window = 3,
         .stride = 1,
         .padding = 1,
         .second = 1},
        {.op = "convolution", .b = 1, .t = 6, .w = 7, .c = 3, .f = 2, .window = 3, .stride = 2, .padding = 1},
        {.op = "convolution", .b = 2, .t = 5, .w = 4, .c = 3, .f = 4, .window = 1, .stride = 2, .padding = 0},
        {.op = "batch_norm", .b = 2, .t = 3, .w = 2, .c = 3},
        {.op = "batch_norm", .b = 2, .t = 2, .w = 2, .c = 4, .act = PST_ACT_RELU, .second = 1},
        {.op = "max_pool", .b = 2, .t = 5, .w = 6, .c = 2, .window = 3, .stride = 2, .padding = 1},
        {.op = "average_pool", .b = 2, .t = 3, .w = 4, .c = 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
}

static int setup(void **state) {
    (void)state;
    seed = case_seed();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests(tests, setup, NULL);
}

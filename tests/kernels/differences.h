/* Gradients against central finite differences of F, with a random linear functional as the loss,
 * wherever passes run. F rounds its results to float, which limits the step. */
#ifndef PST_TESTS_KERNELS_DIFFERENCES_H
#define PST_TESTS_KERNELS_DIFFERENCES_H
#include "kernels/case.h"

static const float DIFFERENCE_STEP = 4e-3f;
static const double DIFFERENCE_TOLERANCE = 1e-3; /* relative L2 distance per operand */

/* Runs a pass of the state's operator in training, on operands of its own (no sums). */
typedef void (*case_pass)(case_state *s, pst_pass pass);

/* sum(out * weight): weight is DOUT, or loss_scale where the operator is itself the loss. */
static double loss_of(case_state *s, case_pass run) {
    run(s, PST_PASS_F);
    const case_buffer *out = case_find(s, PST_ARG_OUT, 0), *weight = case_find(s, PST_ARG_DOUT, 0);
    double loss = 0, scale = 1.0 / (double)(s->spec.b * s->spec.t);
    for (uint64_t i = 0; i < out->n; i++)
        loss += ((float *)out->data)[i] * (weight ? (double)((float *)weight->data)[i] : scale);
    return loss;
}

/* Fills `slope` with the differences for every element of `x`. */
static void differences(case_state *s, case_pass run, case_buffer *x, float *slope) {
    float *value = x->data;
    for (uint64_t i = 0; i < x->n; i++) {
        float old = value[i], up = old + DIFFERENCE_STEP, down = old - DIFFERENCE_STEP;
        value[i] = up;
        double above = loss_of(s, run);
        value[i] = down;
        double below = loss_of(s, run);
        value[i] = old;
        slope[i] = (float)((above - below) / ((double)up - (double)down));
    }
}

/* The gradient of a parameter or of an input. */
static void check_operand(const kernel_case *k, uint64_t seed, case_pass run,
                          const case_state *grads, uint32_t kind, uint32_t index) {
    const uint32_t grad_kind = kind == PST_ARG_IN ? PST_ARG_DIN : PST_ARG_DPARAM;
    case_state s;
    assert_int_equal(case_open(k, seed, 0, &s), PST_OK);
    case_buffer *x = case_find(&s, kind, index);
    const case_buffer *got = case_find(grads, grad_kind, index);
    float *want = calloc(x->n, sizeof *want);
    assert_non_null(want);
    differences(&s, run, x, want);
    double distance = case_distance(got->data, want, x->n);
    if (!(distance <= DIFFERENCE_TOLERANCE))
        fail_msg("%s: gradient %u of operand kind %u is %.3g from the differences", case_text(k),
                 index, kind, distance);
    free(want);
    case_close(&s);
}

/* All gradients of a case. */
CASE_USED void check_differences(const kernel_case *k, uint64_t seed, case_pass run) {
    case_state s;
    assert_int_equal(case_open(k, seed, 0, &s), PST_OK);
    for (int pass = PST_PASS_F; pass <= PST_PASS_W; pass++)
        if (case_has_pass(&s, (pst_pass)pass)) run(&s, (pst_pass)pass);
    if (case_has_pass(&s, PST_PASS_B)) {
        if (!case_find(&s, PST_ARG_DIN, 0)) { /* in place: the gradient lies where the input was */
            case_buffer *in = case_find(&s, PST_ARG_IN, 0);
            in->kind = PST_ARG_DIN;
        }
        check_operand(k, seed, run, &s, PST_ARG_IN, 0);
    }
    for (uint32_t i = 1; i < s.node->n_in; i++)
        if (case_find(&s, PST_ARG_DIN, i)) check_operand(k, seed, run, &s, PST_ARG_IN, i);
    for (uint32_t i = 0; i < s.node->n_param; i++)
        if (!(s.node->op->statistics >> i & 1)) check_operand(k, seed, run, &s, PST_ARG_PARAM, i);
    case_close(&s);
}
/* Of every operator, small ones. */
static const kernel_case difference_cases[] = {
    {.op = "embedding", .b = 2, .t = 3, .c = 3, .f = 5, .second = 1},
    {.op = "embedding", .b = 2, .t = 5, .c = 2, .f = 3},
    {.op = "layer_norm", .b = 2, .t = 3, .c = 7},
    {.op = "layer_norm", .b = 1, .t = 1, .c = 17},
    {.op = "layer_norm", .b = 3, .t = 3, .c = 8, .sums = 1},
    {.op = "linear", .b = 1, .t = 3, .c = 5, .f = 4, .second = 1},
    {.op = "linear", .b = 2, .t = 2, .c = 3, .f = 7, .act = PST_ACT_GELU_TANH, .second = 1},
    {.op = "linear", .b = 2, .t = 2, .c = 3, .f = 7, .act = PST_ACT_GELU_ERF, .second = 1},
    {.op = "linear", .b = 1, .t = 3, .c = 5, .f = 3, .act = PST_ACT_RELU},
    {.op = "linear", .b = 2, .t = 2, .c = 3, .f = 7, .act = PST_ACT_TANH, .second = 1},
    {.op = "attention", .b = 2, .t = 4, .c = 6, .heads = 2},
    {.op = "attention", .b = 1, .t = 7, .c = 3, .heads = 3},
    {.op = "attention", .b = 2, .t = 5, .c = 6, .heads = 2, .bidirectional = 1},
    {.op = "attention", .b = 5, .t = 6, .c = 4, .heads = 2, .bidirectional = 1, .lengths = 1},
    {.op = "attention", .b = 5, .t = 4, .c = 3, .heads = 1, .lengths = 1},
    {.op = "attention", .b = 2, .t = 9, .c = 4, .heads = 2, .starts = 1},
    {.op = "attention", .b = 2, .t = 7, .c = 8, .heads = 4, .kv_heads = 2},
    {.op = "attention", .b = 1, .t = 9, .c = 4, .heads = 2, .kv_heads = 1, .window = 3},
    {.op = "attention", .b = 2, .t = 6, .c = 9, .heads = 3, .kv_heads = 1, .starts = 1},
    {.op = "attention", .b = 1, .t = 5, .c = 4, .heads = 2, .kv_heads = 2, .first = 1, .total = 6},
    {.op = "attention", .b = 1, .t = 6, .c = 4, .heads = 2, .window = 2},
    {.op = "attention", .b = 2, .t = 7, .c = 4, .heads = 2, .rate = 0.3f, .first = 3},
    {.op = "attention",
     .b = 5,
     .t = 5,
     .c = 4,
     .heads = 2,
     .bidirectional = 1,
     .lengths = 1,
     .rate = 0.5f},
    {.op = "rms_norm", .b = 2, .t = 3, .c = 7},
    {.op = "rms_norm", .b = 1, .t = 1, .c = 17},
    {.op = "rotary", .b = 2, .t = 5, .c = 12, .heads = 3},
    {.op = "rotary", .b = 1, .t = 7, .c = 8, .heads = 1, .scaling = PST_ROPE_YARN},
    {.op = "rotary", .b = 2, .t = 6, .c = 8, .heads = 2, .starts = 1},
    {.op = "gated", .b = 2, .t = 3, .c = 5},
    {.op = "scale", .b = 2, .t = 3, .c = 5, .factor = 0.75f},
    {.op = "activation", .b = 2, .t = 3, .c = 5, .act = PST_ACT_GELU_TANH},
    {.op = "activation", .b = 2, .t = 3, .c = 5, .act = PST_ACT_TANH},
    {.op = "embedding", .b = 2, .t = 9, .c = 3, .f = 5, .second = 1, .starts = 1},
    {.op = "embedding", .b = 2, .t = 9, .c = 3, .f = 5, .second = 1, .types = 3},
    {.op = "gather_rows", .b = 3, .t = 5, .c = 4, .f = 8},
    {.op = "gather_rows", .b = 3, .t = 4, .c = 3},
    {.op = "dropout", .b = 2, .t = 3, .c = 5, .rate = 0.4f},
    {.op = "narrow", .b = 2, .t = 3, .c = 5, .wide = CASE_WIDE_IN},
    {.op = "cross_entropy", .b = 2, .t = 3, .c = 7},
    {.op = "cross_entropy", .b = 2, .t = 3, .c = 7, .smoothing = 0.2f, .z_loss = 0.01f},
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
    {.op = "convolution",
     .b = 1,
     .t = 6,
     .w = 7,
     .c = 3,
     .f = 2,
     .window = 3,
     .stride = 2,
     .padding = 1},
    {.op = "convolution",
     .b = 2,
     .t = 5,
     .w = 4,
     .c = 3,
     .f = 4,
     .window = 1,
     .stride = 2,
     .padding = 0},
    {.op = "batch_norm", .b = 2, .t = 3, .w = 2, .c = 3},
    {.op = "batch_norm", .b = 2, .t = 2, .w = 2, .c = 4, .act = PST_ACT_RELU, .second = 1},
    {.op = "max_pool", .b = 2, .t = 5, .w = 6, .c = 2, .window = 3, .stride = 2, .padding = 1},
    {.op = "average_pool", .b = 2, .t = 3, .w = 4, .c = 3},
};

/* All of these that `takes` (NULL: all). */
CASE_USED void check_all_differences(uint64_t seed, case_pass run,
                                     int (*takes)(const kernel_case *k)) {
    for (size_t i = 0; i < sizeof difference_cases / sizeof *difference_cases; i++)
        if (!takes || takes(&difference_cases[i]))
            check_differences(&difference_cases[i], seed, run);
}
#endif

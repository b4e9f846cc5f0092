/* test: wrap=pst_monotonic_ns
 * Forms of linear through a made-up cuBLASLt (fake_blas.c), against kernels/ref: outputs with gaps
 * between their rows. */
#include "cuda/fake.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "kernels/case.h"
#include "kernels/cuda/cuda.h"
#include "kernels/gaps.h"

static pst_device *device;

static int open_device(void **state) {
    (void)state;
    fake_reset();
    return pst_device_cuda.open(&(pst_device_config){.threads = 1}, &device) == PST_OK ? 0 : -1;
}

static int close_device(void **state) {
    (void)state;
    device->ops->close(device);
    return fake.live;
}

static double tolerance(pst_dtype dtype) {
    if (dtype == PST_BF16) return 0x1p-7;
    return dtype == PST_F16 ? 0x1p-10 : 3e-6;
}

static const pst_kernel_row *cuda_row(const kernel_case *k, pst_pass pass) {
    pst_cuda_rows rows = pst_cuda_linear_rows();
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
    assert_int_equal(row->prepare(device, s->graph, s->node), PST_OK);
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
    for (int turn = 0; turn < 4; turn++) {
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(outputs_with_gaps, open_device, close_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The CUDA device of the machine that is made up (fake.h), opened for each test, and what tests of
 * kernels do with it. */
#ifndef PST_TESTS_CUDA_OPENED_H
#define PST_TESTS_CUDA_OPENED_H
#include "cuda/fake.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "kernels/case.h"
#include "kernels/cuda/cuda.h"

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

static inline double tolerance(pst_dtype dtype) {
    if (dtype == PST_BF16) return 0x1p-7;
    return dtype == PST_F16 ? 0x1p-10 : 3e-6;
}

/* As case_run, but a library's workspace need not be written. */
static inline pst_status run_case(const case_state *s, const pst_kernel_row *row,
                                  case_flags flags) {
    pst_arg args[PST_MAX_ARG];
    void *arg[PST_MAX_ARG];
    uint32_t n = s->node->op->args(s->node, row->pass, args);
    for (uint32_t i = 0; i < n; i++) arg[i] = case_operand(s, args, i, flags)->data;
    uint64_t bytes = row->scratch ? row->scratch(s->graph, s->node, 1) : 0;
    uint8_t *scratch = aligned_alloc(64, case_round_up(bytes) + 64);
    assert_non_null(scratch);
    memset(scratch + bytes, 0xa5, 64);
    pst_call call = {.graph = s->graph,
                     .node = s->node,
                     .arg = arg,
                     .scratch = scratch,
                     .first = flags.first,
                     .train = 1};
    pst_status status = row->prepare ? row->prepare(device, s->graph, s->node) : PST_OK;
    if (status == PST_OK) status = row->launch(device, &call);
    cudaStreamSynchronize(pst_cuda_stream(device));
    for (int i = 0; i < 64; i++) assert_int_equal(scratch[bytes + (uint64_t)i], 0xa5);
    free(scratch);
    return status;
}
#endif

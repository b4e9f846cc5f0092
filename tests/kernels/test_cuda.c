/* test: label=gpu timeout=300 serial */
/* Our own kernels on a GPU against the reference: what test_cuda_host.c does with emulated threads,
 * and sizes that fill the GPU. Skipped where the module or a GPU is not there. */
#include "backends/module.h"
#include "kernels/cuda_check.h"

enum { ARENA = 1 << 30, STEP = 4096 };

static const pst_device_ops *ops;
static uint8_t *arena;
static uint64_t used;
static cuda_runner gpu;
const cuda_runner *runner = &gpu;

static void fail_unless(pst_status status) {
    if (status != PST_OK) fail_msg("%s", pst_error());
}

static void *put(const void *from, uint64_t bytes) {
    void *to = arena + used;
    used += (bytes + STEP) / STEP * STEP;
    assert_true(used <= ARENA);
    fail_unless(ops->copy(gpu.device, PST_Q_COMPUTE, to, from, bytes, NULL));
    return to;
}

static void get(void *to, const void *from, uint64_t bytes) {
    fail_unless(ops->copy(gpu.device, PST_Q_COMPUTE, to, from, bytes, NULL));
}

static void clear(void) { used = 0; }

static void turn(int again) { (void)again; }

static pst_status nothing(pst_device *device, const void *call) {
    (void)device;
    (void)call;
    return PST_OK;
}

static pst_status fault(void) {
    uint64_t event, start, end;
    pst_status status = ops->launch(gpu.device, nothing, NULL, 0, 0, &event);
    while (status == PST_OK) {
        status = ops->test(gpu.device, event, &start, &end);
        if (status != PST_BUSY) return status;
        status = PST_OK;
    }
    return status;
}

/* More blocks than the GPU has room for at once. */
static void test_large(void **state) {
    (void)state;
    static const pst_dtype types[] = {PST_F32, PST_BF16};
    for (int i = 0; i < 2; i++) {
        kernel_case norm = {.op = "layer_norm", .b = 2, .t = 2049, .c = 1600, .dtype = types[i]};
        check_type(&norm);
        norm.sums = 1;
        check_type(&norm);
        check_type(&(kernel_case){.op = "embedding",
                                  .b = 4,
                                  .t = 1025,
                                  .c = 768,
                                  .f = 50257,
                                  .second = 1,
                                  .dtype = types[i]});
        check_type(&(kernel_case){
            .op = "embedding", .b = 4, .t = 1025, .c = 128, .f = 3, .dtype = types[i]});
        check_type(
            &(kernel_case){.op = "cross_entropy", .b = 1, .t = 300, .c = 50257, .dtype = types[i]});
        check_type(&(kernel_case){
            .op = "dropout", .b = 3, .t = 1025, .c = 768, .rate = 0.1f, .dtype = types[i]});
        check_type(&(kernel_case){.op = "add", .b = 3, .t = 1025, .c = 768, .dtype = types[i]});
        for (uint64_t c = 3; c <= 512; c = c == 3 ? 64 : 8 * c) {
            kernel_case k = {.op = "batch_norm",
                             .b = 4,
                             .t = 60,
                             .w = 57,
                             .c = c,
                             .window = 3,
                             .stride = 2,
                             .padding = 1,
                             .second = 1,
                             .act = PST_ACT_RELU,
                             .dtype = types[i]};
            check_type(&k);
            k.op = "max_pool";
            check_type(&k);
            k.op = "average_pool";
            check_type(&k);
            k.op = "pixels";
            check_type(&k);
        }
    }
}

static int start(void **state) {
    (void)state;
    void *base;
    const pst_module *module = pst_module_get();
    pst_device_config config = {.threads = 1};
    const char *why = module ? module->device->reject(&config) : pst_module_why();
    if (why) {
        printf("skipped: %s\n", why);
        exit(77);
    }
    ops = module->device;
    fail_unless(ops->open(&config, &gpu.device));
    fail_unless(ops->memory(gpu.device, ARENA, &base));
    arena = base;
    seed = case_seed();
    gpu.rows = module->kernel;
    gpu.n_rows = module->n_kernel;
    gpu.arith = module->arith;
    gpu.put = put;
    gpu.get = get;
    gpu.clear = clear;
    gpu.turn = turn;
    gpu.fault = fault;
    return 0;
}

static int stop(void **state) {
    (void)state;
    ops->close(gpu.device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TESTS, cmocka_unit_test(test_large)};
    return cmocka_run_group_tests(tests, start, stop);
}

/* test: label=full timeout=300
 * Attention's graphs before the real cuDNN, for GPUs that are not there: of a device's properties alone it proposes
 * engines and compiles their kernels; only loading them takes a driver. Skips where cuDNN is older than that (9.8). */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "kernels/cuda/attention_graph.h"

enum { SKIP = 77 };

/* In the form in which the library itself writes them; what differs between devices comes in. */
static const char form[] =
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
    "\"multiProcessorCount\":%d,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
    "\"maxSharedMemoryPerBlockOptin\":%d,\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
    "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"totalGlobalMem\":80000000000,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"
    "\"l2CacheSize\":52428800,\"cudaDeviceId\":0,\"deviceVer\":%d,\"driverVer\":13000,\"deviceName\":\"%s\"}";
static const struct {
    int version, processors, shared;
    const char *name;
} machines[] = {
    {900, 132, 232448, "NVIDIA H200"}, {800, 108, 166912, "NVIDIA A100"}, {1000, 148, 232448, "NVIDIA B200"}};
static cudnnBackendDescriptor_t properties[3];

static cudnnStatus_t open_properties(int i) {
    char text[1200];
    int n = snprintf(text, sizeof text, form, machines[i].processors, machines[i].shared, machines[i].version,
                     machines[i].name);
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &properties[i]);
    if (!status)
        status = cudnnBackendSetAttribute(properties[i], CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, n,
                                          text);
    return status ? status : cudnnBackendFinalize(properties[i]);
}

static void check(int machine, const pst_cuda_attention_shape *of) {
    for (uint32_t kind = 0; kind < 8; kind++) {
        uint32_t backward = kind % 2;
        pst_cuda_attention_shape s = *of;
        s.bidirectional = kind / 2 % 2, s.padded = kind / 4;
        pst_dnn_target target = {.properties = properties[machine]};
        pst_dnn_plan plan = {0};
        pst_dnn_graph g;
        s.backward = backward;
        pst_cuda_attention_divide(&s);
        assert_null(pst_cuda_attention_refuses(&s));
        pst_dnn_open(&g);
        pst_cuda_attention_graph(&g, &s);
        pst_status status = pst_dnn_plan_make(&g, &target, pst_cuda_attention_workspace(&s), &plan);
        if (status != PST_OK && !strstr(pst_error(), "cuLibraryLoadData"))
            fail_msg("%s, %s of %d positions, %d heads of %d%s%s: %s", machines[machine].name, backward ? "B" : "F",
                     (int)s.t, (int)s.heads, (int)(s.c / s.heads), s.bidirectional ? ", bidirectional" : "",
                     s.padded ? ", padded" : "", pst_error());
        pst_dnn_plan_close(&plan);
        pst_dnn_close(&g);
    }
}

static void plans_are_found(void **state) {
    (void)state;
    static const pst_cuda_attention_shape shape[] = {
        {.b = 16, .t = 1024, .c = 768, .heads = 12, .dtype = PST_BF16}, /* GPT-2 */
        {.b = 1, .t = 8192, .c = 384, .heads = 6, .dtype = PST_F16},    /* in parts */
        {.b = 2, .t = 37, .c = 72, .heads = 3, .dtype = PST_BF16},
        {.b = 1, .t = 1, .c = 256, .heads = 1, .dtype = PST_BF16},
    };
    for (int i = 0; i < 4; i++) check(0, &shape[i]);
    check(1, &shape[0]);
    check(2, &shape[0]);
}

/* What the library has no kernels for it says so, and we said so before. */
static void refusals_are_its_own(void **state) {
    (void)state;
    pst_dnn_graph g;
    pst_dnn_plan plan = {0};
    pst_cuda_attention_shape s = {.b = 1, .t = 128, .c = 60, .heads = 5, .dtype = PST_BF16};
    pst_dnn_target target = {.properties = properties[0]};
    assert_non_null(pst_cuda_attention_refuses(&s));
    pst_cuda_attention_divide(&s);
    pst_dnn_open(&g);
    pst_cuda_attention_graph(&g, &s);
    assert_int_equal(pst_dnn_plan_make(&g, &target, UINT64_MAX, &plan), PST_EINTERNAL);
    assert_null(plan.plan);
    pst_dnn_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_are_found), cmocka_unit_test(refusals_are_its_own)};
    if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) && !dlopen(PST_CUDA_STUB, RTLD_NOW | RTLD_GLOBAL))
        return printf("skipped: neither a driver nor the toolkit's stub of one\n"), SKIP;
    for (int i = 0; i < 3; i++)
        if (open_properties(i)) return printf("skipped: this cuDNN takes no properties of devices\n"), SKIP;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

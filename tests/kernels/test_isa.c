/* PENSTOCK_ISA: what a level leaves of a machine's instruction sets, which levels are refused, and
 * that the library of products keeps to the level, whether a device has been opened or not. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "kernels/cpu/cpu.h"
#include "skip.h"
#include <oneapi/dnnl/dnnl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of machines that this one need not be. */
static void test_levels(void **state) {
    (void)state;
    static const char *const name[] = {"generic", "avx2", "avx512", "avx512_bf16"};
    const uint32_t has[] = {0, PST_ISA_AVX2 | PST_ISA_F16C,
                            PST_ISA_AVX2 | PST_ISA_F16C | PST_ISA_AVX512,
                            PST_ISA_AVX2 | PST_ISA_F16C | PST_ISA_AVX512 | PST_ISA_AVX512_BF16};
    for (int machine = 0; machine < 4; machine++) {
        assert_string_equal(pst_isa_name(has[machine]), name[machine]);
        assert_int_equal(pst_isa_lower(has[machine], NULL), has[machine]);
        assert_int_equal(pst_isa_lower(has[machine], ""), has[machine]);
        assert_int_equal(pst_isa_check(has[machine], ""), PST_OK);
        for (int level = 0; level < 4; level++) {
            assert_int_equal(pst_isa_lower(has[machine], name[level]),
                             has[level < machine ? level : machine]);
            assert_int_equal(pst_isa_check(has[machine], name[level]),
                             level > machine ? PST_EINPUT : PST_OK);
        }
    }
    assert_int_equal(pst_isa_check(has[1], "avx512"), PST_EINPUT);
    assert_non_null(
        strstr(pst_error(), "PENSTOCK_ISA is avx512, but this CPU supports at most avx2"));
    assert_int_equal(pst_isa_check(has[3], "avx512bf16"), PST_EINPUT);
    assert_non_null(
        strstr(pst_error(), "it can be generic, avx2, avx512 (without bf16) or avx512_bf16"));
}

static void test_here(void **state) {
    (void)state;
    uint32_t full = pst_cpu_isa();
    const char *machine = pst_cpu_no_bf16(); /* already, or whose variable it is */
    isa_lower("avx2");
    assert_int_equal(pst_cpu_isa(), full & (PST_ISA_AVX2 | PST_ISA_F16C));
    assert_string_equal(pst_cpu_no_bf16(),
                        full & PST_ISA_AVX512_BF16 ? "PENSTOCK_ISA hides" : machine);
    isa_restore();
    isa_lower("generic");
    assert_int_equal(pst_cpu_isa(), 0);
    setenv("PENSTOCK_ISA", "sse9", 1);
    pst_device *d;
    assert_int_equal(pst_device_cpu.open(&(pst_device_config){.threads = 1}, &d), PST_EINPUT);
    isa_restore();
    assert_int_equal(pst_cpu_isa(), full);
}

/* In a process of its own, for the library chooses once: what it may use after the first product;
 * -1: it failed. */
static int used_at(const char *level, int opens) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
        float c[4];
        pst_device *d = NULL;
        const pst_gemm gemm = {
            .m = 2, .n = 2, .k = 2, .a = a, .lda = 2, .b = b, .ldb = 2, .c = c, .ldc = 2};
        isa_lower(level);
        pst_gemm_start_thread(NULL);
        if (opens && pst_device_cpu.open(&(pst_device_config){.threads = 1}, &d) != PST_OK)
            _exit(255);
        if (pst_gemm_run(d, &gemm) != PST_OK || c[0] != 19 || c[3] != 50) _exit(255);
        _exit((int)dnnl_get_effective_cpu_isa() & 127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) != 255 ? WEXITSTATUS(status) : -1;
}

static void test_library(void **state) {
    (void)state;
    for (int opens = 0; opens < 2; opens++)
        assert_int_equal(used_at("generic", opens), dnnl_cpu_isa_sse41 & 127);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_levels), cmocka_unit_test(test_here),
                                       cmocka_unit_test(test_library)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

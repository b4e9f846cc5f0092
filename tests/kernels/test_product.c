/* Matrix products of our own: beside sums in double precision, and the same bits with every
 * instruction set and number of threads. */
#include "kernels/cpu/cpu.h"
#include "tests/skip.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct {
    uint64_t m, n, k;
    int trans_a, trans_b, add;
} shape;

/* Edges of panels, tiles, blocks and slices, and one that is larger than a block. */
static const shape shapes[] = {
    {1, 1, 1, 0, 0, 0},        {7, 49, 5, 0, 1, 0},      {8, 48, 256, 0, 0, 1},
    {17, 97, 257, 1, 0, 1},    {129, 385, 300, 0, 1, 1}, {64, 193, 513, 1, 1, 0},
    {1030, 1540, 33, 0, 0, 0}, {3, 200, 1000, 1, 0, 0},  {33, 24, 2, 0, 1, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static float *draw(uint64_t count, uint64_t seed) {
    float *x = malloc(count * sizeof *x);
    assert_non_null(x);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t word = (i + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1b54a32d192ed03u;
        word ^= word >> 29;
        word *= 0xbf58476d1ce4e5b9u;
        x[i] = (float)(word >> 40) / (1 << 23) - 1.0f;
    }
    return x;
}

/* C is `gap` wider than its columns; what lies between stays. */
enum { GAP = 5 };

static float *product(const shape *s, const pst_product_ops *ops, uint32_t threads, const float *a,
                      const float *b, const float *c) {
    uint64_t ld = s->n + GAP;
    float *result = malloc(s->m * ld * sizeof *result);
    assert_non_null(result);
    memcpy(result, c, s->m * ld * sizeof *result);
    pst_device *device = NULL;
    assert_int_equal(
        pst_device_cpu.open(&(pst_device_config){.threads = threads, .clock = NULL}, &device),
        PST_OK);
    const pst_gemm gemm = {.dtype = PST_F32,
                           .trans_a = s->trans_a,
                           .trans_b = s->trans_b,
                           .m = s->m,
                           .n = s->n,
                           .k = s->k,
                           .a = a,
                           .lda = s->trans_a ? s->m : s->k,
                           .b = b,
                           .ldb = s->trans_b ? s->k : s->n,
                           .c = result,
                           .ldc = ld,
                           .add = s->add,
                           .scratch =
                               malloc(pst_gemm_scratch(PST_F32, s->m, s->n, s->k, 1, threads)),
                           .ops = ops};
    assert_non_null(gemm.scratch);
    assert_int_equal(pst_gemm_run(device, &gemm), PST_OK);
    free(gemm.scratch);
    pst_device_cpu.close(device);
    return result;
}

/* Against sums in double precision. */
static void compare(const shape *s, const float *a, const float *b, const float *before,
                    const float *c) {
    uint64_t ld = s->n + GAP;
    for (uint64_t i = 0; i < s->m; i++) {
        for (uint64_t j = 0; j < s->n; j++) {
            double sum = s->add ? before[i * ld + j] : 0, size = fabs(sum);
            for (uint64_t k = 0; k < s->k; k++) {
                double x = a[s->trans_a ? k * s->m + i : i * s->k + k],
                       y = b[s->trans_b ? j * s->k + k : k * s->n + j];
                sum += x * y;
                size += fabs(x * y);
            }
            if (fabs(c[i * ld + j] - sum) > 2e-6 * size)
                fail_msg("%llu x %llu x %llu, element %llu, %llu: %g instead of %g",
                         (unsigned long long)s->m, (unsigned long long)s->n,
                         (unsigned long long)s->k, (unsigned long long)i, (unsigned long long)j,
                         (double)c[i * ld + j], sum);
        }
        assert_memory_equal(c + i * ld + s->n, before + i * ld + s->n, GAP * sizeof *c);
    }
}

static void one_shape(const shape *s, uint64_t seed) {
    float *a = draw(s->m * s->k, seed), *b = draw(s->n * s->k, seed + 1),
          *c = draw(s->m * (s->n + GAP), seed + 2);
    float *first = product(s, pst_cpu_avx2()->product, 1, a, b, c);
    compare(s, a, b, c, first);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        int wide = (pst_cpu_isa() & PST_ISA_AVX512) != 0;
        float *same =
            product(s, (wide ? pst_cpu_avx512() : pst_cpu_avx2())->product, threads, a, b, c);
        assert_memory_equal(first, same, s->m * (s->n + GAP) * sizeof *same);
        free(same);
    }
    free(first);
    free(a);
    free(b);
    free(c);
}

static void test_products(void **state) {
    (void)state;
    if (!(pst_cpu_isa() & PST_ISA_AVX2)) {
        (void)SKIPPED("products: this CPU lacks AVX2, or PENSTOCK_ISA hides it");
        return;
    }
    for (unsigned i = 0; i < SHAPES; i++) one_shape(&shapes[i], 3 * i);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Accuracy of the vector functions against libm in double; the including file says which
 * instruction set. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "kernels/kernel.h"
#include <math.h>
#include <stdio.h>

#include "kernels/cpu/vec.h"

/* Distance in units of the last place of `want`. */
static double ulps(float got, double want) {
    int exponent;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, exponent < -125 ? -149 : exponent - 24);
}

static void test_exp(void **state) {
    (void)state;
    double worst = 0;
    for (double x = -87; x < 88; x += 0.00037) {
        float in[VEC_W], out[VEC_W];
        for (int i = 0; i < VEC_W; i++) in[i] = (float)(x + i * 1e-5);
        v_store(out, v_exp(v_load(in)));
        for (int i = 0; i < VEC_W; i++) worst = fmax(worst, ulps(out[i], exp((double)in[i])));
    }
    printf("exp: %.3f ulp\n", worst);
    assert_true(worst < 1.5);
    float edge[VEC_W] = {-INFINITY, -200, NAN, 0, 89.5f, -100}, out[VEC_W];
    v_store(out, v_exp(v_load(edge)));
    assert_true(out[0] == 0 && out[1] == 0 && isnan(out[2]) && out[3] == 1 && out[4] > 1e38f);
    assert_true(fabs(out[5] - exp(-100)) < 2e-45); /* subnormal */
}

static void test_erf(void **state) {
    (void)state;
    double worst = 0;
    for (double x = -5; x < 5; x += 0.00011) {
        float in[VEC_W], out[VEC_W];
        for (int i = 0; i < VEC_W; i++) in[i] = (float)(x + i * 1e-6);
        v_store(out, v_erf(v_load(in)));
        for (int i = 0; i < VEC_W; i++) worst = fmax(worst, ulps(out[i], erf((double)in[i])));
    }
    printf("erf: %.3f ulp\n", worst);
    assert_true(worst < 2);
}

static void test_lanes(void **state) {
    (void)state;
    float in[2 * VEC_W], out[2 * VEC_W];
    for (unsigned n = 0; n <= VEC_W; n++) {
        for (int i = 0; i < 2 * VEC_W; i++) {
            in[i] = (float)(i + 1);
            out[i] = -1;
        }
        v_store_n(out + 1, v_load_n(in + 1, n), n);
        double sum = 0;
        for (unsigned i = 0; i < 2 * VEC_W; i++)
            assert_true(out[i] == (i >= 1 && i <= n ? in[i] : -1));
        for (unsigned i = 0; i < n; i++) sum += in[i];
        assert_true(v_sum(v_load_n(in, n)) == sum && v_sum(v_keep_n(v_load(in), 0, n)) == sum);
    }
    in[VEC_W / 2] = 1000;
    assert_true(v_max_of(v_load(in)) == 1000);
}

static int run(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exp), cmocka_unit_test(test_erf),
                                       cmocka_unit_test(test_lanes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

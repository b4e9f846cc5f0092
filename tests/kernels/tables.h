/* The tables of flat arithmetic that this machine runs, and pools of threads to run them with. */
#ifndef PST_TESTS_KERNELS_TABLES_H
#define PST_TESTS_KERNELS_TABLES_H
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "base/rng.h"
#include "kernels/cpu/cpu.h"

static pst_pool *pools[4];

static uint32_t tables(const pst_flat *list[6]) {
    uint32_t n = 0, isa = pst_cpu_isa();
    list[n++] = pst_flat_ref();
    if (isa & PST_ISA_AVX2) list[n++] = pst_flat_choose(PST_ISA_AVX2);
    if (isa & PST_ISA_F16C) list[n++] = pst_flat_choose(PST_ISA_AVX2 | PST_ISA_F16C);
    if (isa & PST_ISA_AVX512) list[n++] = pst_flat_choose(isa & ~(uint32_t)PST_ISA_AVX512_BF16);
    if (isa & PST_ISA_AVX512_BF16) list[n++] = pst_flat_choose(isa);
    return n;
}

static int open_pools(void **state) {
    (void)state;
    for (uint32_t i = 1; i < 4; i++)
        if (pst_pool_open(i, NULL, NULL, &pools[i]) != PST_OK) return -1;
    return 0;
}

static int close_pools(void **state) {
    (void)state;
    for (uint32_t i = 1; i < 4; i++) pst_pool_close(pools[i]);
    return 0;
}
#endif

/* The vector functions as compiled for AVX512; skipped where the machine lacks it. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include "skip.h"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")
#define VEC_AVX512
#include "vec_check.h"
#pragma GCC pop_options

int main(void) {
    if (pst_cpu_isa() & PST_ISA_AVX512) return run();
    return SKIPPED("needs AVX-512, which this CPU lacks or PENSTOCK_ISA hides");
}

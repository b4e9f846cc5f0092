/* The sums of collectives, in blocks of a fixed length, which compilers turn into vector
 * instructions. Each element is one addition, so the bits do not depend on the vector width. */
#include "comm/collective/run.h"

enum { BLOCK = 32 };

static void add_f32(float *restrict sum, const float *restrict more, uint64_t n) {
    uint64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        for (uint64_t j = 0; j < BLOCK; j++) sum[i + j] += more[i + j];
    for (; i < n; i++) sum[i] += more[i];
}

static void add_f64(double *restrict sum, const double *restrict more, uint64_t n) {
    uint64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        for (uint64_t j = 0; j < BLOCK; j++) sum[i + j] += more[i + j];
    for (; i < n; i++) sum[i] += more[i];
}

void pst_coll_add(pst_dtype dtype, void *sum, const void *more, uint64_t bytes) {
    if (dtype == PST_F32) add_f32(sum, more, bytes / sizeof(float));
    else add_f64(sum, more, bytes / sizeof(double));
}

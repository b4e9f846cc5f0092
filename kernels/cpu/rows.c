/* The CPU backend's list, best instruction set first, and its measured speed. */
#include "kernels/cpu/cpu.h"
#include <pthread.h>
#include <string.h>

enum { MAX_ROWS = 400, PEAK_NS = 3000000, PEAK_TURNS = 20000 /* well under a millisecond */ };

static pst_kernel_row list[MAX_ROWS];
static uint32_t n_list;

static void append(const pst_cpu_table *table) {
    memcpy(list + n_list, table->rows, table->n_rows * sizeof *list);
    n_list += table->n_rows;
}

static void fill(void) {
    append(pst_cpu_avx512_bf16());
    append(pst_cpu_avx512_fp16());
    append(pst_cpu_avx512());
    append(pst_cpu_avx2_fp16());
    append(pst_cpu_avx2());
    append(pst_cpu_generic());
}

const pst_kernel_row *pst_kernels_cpu(uint32_t *n) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill);
    *n = n_list;
    return list;
}

static const pst_cpu_table *table_of(uint32_t isa, pst_dtype dtype) {
    if (dtype == PST_BF16 && isa & PST_ISA_AVX512_BF16) return pst_cpu_avx512_bf16();
    if (dtype == PST_F16 && isa & PST_ISA_AVX512) return pst_cpu_avx512_fp16();
    if (isa & PST_ISA_AVX512) return pst_cpu_avx512();
    if (dtype == PST_F16 && isa & PST_ISA_AVX2 && isa & PST_ISA_F16C) return pst_cpu_avx2_fp16();
    if (isa & PST_ISA_AVX2) return pst_cpu_avx2();
    return pst_cpu_generic();
}

const pst_flat *pst_flat_choose(uint32_t isa) {
    /* All give the same bits, but rounding to 16 bits is faster with hardware conversion. */
    const pst_flat *flat = table_of(isa, isa & PST_ISA_AVX512_BF16 ? PST_BF16 : PST_F16)->flat;
    return flat ? flat : pst_flat_ref();
}

typedef struct {
    const pst_cpu_table *table;
    double flops; /* per second */
    pthread_t thread;
} probe;

/* The fastest slice counts, because other processes may use the core during the others. */
static void *run_probe(void *arg) {
    probe *p = arg;
    float sink = 0;
    uint64_t start = pst_monotonic_ns(), before = start, now = start;
    for (; now - start < PEAK_NS; before = now) {
        double done = p->table->fma_loop(PEAK_TURNS, &sink);
        now = pst_monotonic_ns();
        double rate = done / (double)(now - before) * 1e9;
        if (rate > p->flops) p->flops = rate;
    }
    volatile float keep = sink;
    (void)keep;
    return NULL;
}

double pst_cpu_peak_flops(uint32_t isa, pst_dtype dtype, uint32_t threads) {
    enum { LIMIT = 256 };
    probe probes[LIMIT];
    uint32_t started = 0;
    if (threads > LIMIT) return pst_cpu_peak_flops(isa, dtype, LIMIT) * threads / LIMIT;
    for (; started + 1 < threads; started++) {
        probes[started] = (probe){.table = table_of(isa, dtype)};
        if (pthread_create(&probes[started].thread, NULL, run_probe, &probes[started])) break;
    }
    probe own = {.table = table_of(isa, dtype)};
    run_probe(&own);
    double sum = own.flops;
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(probes[i].thread, NULL);
        sum += probes[i].flops;
    }
    return sum;
}

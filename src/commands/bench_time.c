/* The clock of suite `kernels`, and its results as rows. */
#include "base/clock.h"
#include "commands/bench_kernels.h"
#include <stdlib.h>
#include <time.h>

static int cpu_time; /* set with one thread: CPU time is measured */

void pst_bench_use_cpu_time(int use) { cpu_time = use; }

uint64_t pst_bench_now_ns(void) {
    struct timespec t;
    if (!cpu_time) return pst_monotonic_ns();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double pst_bench_median(double *x, uint32_t n) {
    qsort(x, n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

pst_bench_poll_times pst_bench_polls;

void pst_bench_note_poll(void *unused) {
    (void)unused;
    uint64_t now = pst_bench_now_ns();
    if (pst_bench_polls.last_ns && now - pst_bench_polls.last_ns > pst_bench_polls.longest_ns)
        pst_bench_polls.longest_ns = now - pst_bench_polls.last_ns;
    pst_bench_polls.last_ns = now;
}

pst_status pst_bench_time_once(pst_bench_kernels *s, pst_launch_fn fn, const void *block,
                               double *seconds) {
    uint64_t ns, start;
    if (s->target.far) {
        PST_TRY(pst_bench_target_time(&s->target, fn, block, &ns));
        *seconds = (double)ns * 1e-9;
        return PST_OK;
    }
    start = pst_bench_now_ns();
    pst_bench_polls.last_ns = 0;
    PST_TRY(fn(s->target.device, block));
    *seconds = (double)(pst_bench_now_ns() - start) * 1e-9;
    return PST_OK;
}

void pst_bench_add_row(pst_bench_kernels *s, const pst_bench_row *r) {
    json_array_append_new(s->rows, json_pack("{s:s,s:s,s:s,s:s%,s:I,s:f,s:f,s:f,s:f}", "op", r->op,
                                             "kernel", r->kernel, "shape", r->shape, "pass",
                                             &r->pass, (size_t)1, "count", (json_int_t)r->count,
                                             "seconds", r->seconds, "flops", r->flops, "bytes",
                                             r->bytes, "longest_poll_s", r->longest_poll_s));
}

/* The files of suite `kernels`: operators (bench_kernels.c); optimizer, norm and sums
 * (bench_flat.c). */
#ifndef PST_COMMANDS_BENCH_KERNELS_H
#define PST_COMMANDS_BENCH_KERNELS_H
#include "commands/bench.h"
#include "commands/bench_case.h"

enum { PST_BENCH_GROUPS = 256 };

/* Nodes of the same shape. count: how often each pass occurs in a micro-batch. */
typedef struct {
    const pst_node *node;
    uint64_t count[PST_PASS_COUNT];
    const pst_kernel_row *row[PST_PASS_COUNT]; /* NULL: the pass does not occur */
    pst_bench_case operands;
} pst_bench_group;

typedef struct {
    const pst_bench *b;
    pst_dtype dtype;
    pst_graph *graph;
    pst_bench_target target;
    uint64_t n_micro; /* micro-batches per step */
    uint32_t n_group, n_peak;
    pst_bench_group groups[PST_BENCH_GROUPS];
    double peak[PST_BENCH_GROUPS]; /* [n_peak] FLOP/s of all threads, measured before passes */
    double bandwidth; /* bytes/s of memory; on a module's device measured before the kernels, like
                         the peak */
    json_t *rows, *products; /* products: the algorithms that a module's kernels could choose for
                                each product */
} pst_bench_kernels;

/* bench_time.c. pst_bench_now_ns: nanoseconds of the thread's CPU time if pst_bench_use_cpu_time
 * was called with 1, else of wall time. */
void pst_bench_use_cpu_time(int use);
uint64_t pst_bench_now_ns(void);
double pst_bench_median(double *x, uint32_t n);
/* last_ns: time of the last poll for transfers; longest_ns: longest time between two polls since
 * the caller cleared it. */
typedef struct {
    uint64_t last_ns, longest_ns;
} pst_bench_poll_times;
extern pst_bench_poll_times pst_bench_polls;
void pst_bench_note_poll(void *unused);
/* Seconds that the work launched by fn takes, on the clock of the host or of a module's device. */
pst_status pst_bench_time_once(pst_bench_kernels *s, pst_launch_fn fn, const void *block,
                               double *seconds);
typedef struct {
    const char *op, *kernel, *shape;
    char pass;
    uint64_t count;                               /* times per step */
    double seconds, flops, bytes, longest_poll_s; /* per call */
} pst_bench_row;
void pst_bench_add_row(pst_bench_kernels *s, const pst_bench_row *row);

/* bench_flat.c: measures optimizer, norm and sums, and adds their rows; on the host also sets the
 * memory bandwidth. */
pst_status pst_bench_flat(pst_bench_kernels *s);
/* Bytes of device memory that pst_bench_flat needs on a module's device. */
uint64_t pst_bench_flat_bytes(const pst_bench_kernels *s);
#endif

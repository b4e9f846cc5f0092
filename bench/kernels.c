/* How fast each kernel is at GPT-2 124M's shapes (micro-batch 4, 256 tokens unless told otherwise), beside the FMA peak
 * of the machine. FLOPs and bytes are those of the operator rows; a time is the median of several runs. With one thread
 * it is the thread's CPU time, which neighbours on the machine disturb less. The last column is the longest time
 * between two polls for transfers, in a measurement of its kind.
 * usage: bench_kernels [threads] [samples] [tokens] [operator, "" for all] [fp32|bf16] */
#include "tests/kernels/case.h"
#include <time.h>

enum { RUNS = 7 };
static const double MIN_SECONDS = 0.05; /* per run: short kernels are repeated */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int one_thread;

static uint64_t now_ns(void) {
    struct timespec t;
    if (!one_thread) return pst_monotonic_ns();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The longest time between polls since it was last cleared. */
static struct { uint64_t last_ns, longest_ns; } polls;

static void note_poll(void *unused) {
    (void)unused;
    uint64_t now = now_ns();
    if (polls.last_ns && now - polls.last_ns > polls.longest_ns) polls.longest_ns = now - polls.last_ns;
    polls.last_ns = now;
}

static double seconds_of(const case_state *s, const pst_kernel_row *row, pst_device *device, void *const *arg,
                         void *scratch) {
    pst_call call = {.graph = s->graph,
                     .node = s->node,
                     .arg = arg,
                     .scratch = scratch,
                     .seed = 42,
                     .train = 1,
                     .loss_scale = 1.0f / 1024};
    double time[RUNS];
    uint64_t turns = 1;
    polls.last_ns = polls.longest_ns = 0;
    row->launch(device, &call);
    for (int run = -1; run < RUNS; run++) {
        uint64_t start = now_ns();
        polls.last_ns = 0;
        for (uint64_t i = 0; i < turns; i++) row->launch(device, &call);
        double seconds = (double)(now_ns() - start) * 1e-9;
        if (run >= 0) time[run] = seconds / (double)turns;
        if (run < 0) turns = 1 + (uint64_t)(MIN_SECONDS / (seconds + 1e-9));
    }
    qsort(time, RUNS, sizeof *time, by_value);
    return time[RUNS / 2];
}

static void time_row(const case_state *s, const pst_kernel_row *row, pst_device *device, double peak, double *total) {
    pst_arg args[PST_MAX_ARG];
    void *arg[PST_MAX_ARG];
    uint32_t n = s->node->op->args(s->node, row->pass, args);
    for (uint32_t i = 0; i < n; i++) arg[i] = case_operand(s, args, i, (case_flags){0})->data;
    uint64_t bytes = row->scratch ? row->scratch(s->graph, s->node, device->threads) : 0, flops = 0, moved = 0;
    void *scratch = aligned_alloc(64, case_round_up(bytes) + 64);
    if (!scratch) return;
    double seconds = seconds_of(s, row, device, arg, scratch);
    s->node->op->cost(s->graph, s->node, row->pass, &flops, &moved);
    printf("%-26s %c %9.3f ms %8.1f GFLOP/s %5.1f %% of peak %7.1f GB/s %6.2f ms\n", row->name, "FBW"[row->pass],
           seconds * 1e3, (double)flops / seconds * 1e-9, 100 * (double)flops / seconds / peak,
           (double)moved / seconds * 1e-9, (double)polls.longest_ns * 1e-6);
    *total += seconds;
    free(scratch);
}

/* times: how often the operator occurs in a step; sums[0]: products, sums[1]: all the rest. */
static void time_case(const kernel_case *k, pst_device *device, double peak, int times, double sums[2]) {
    uint32_t n;
    const pst_kernel_row *rows = pst_kernels_cpu(&n);
    case_state s;
    if (case_open(k, 1, 0, &s) != PST_OK) {
        printf("%s: %s\n", case_text(k), pst_error());
        return;
    }
    printf("%s x %d\n", case_text(k), times);
    double total = 0;
    for (int pass = 0; pass < PST_PASS_COUNT; pass++) {
        const pst_kernel_row *row = case_row(rows, n, k, (pst_pass)pass, device->isa);
        if (case_has_pass(&s, (pst_pass)pass) && row) time_row(&s, row, device, peak, &total);
    }
    sums[strcmp(k->op, "linear") != 0] += times * total;
    case_close(&s);
}

static void time_flat(pst_device *device, double sums[2]) {
    const pst_flat *flat = pst_flat_choose(device->isa);
    uint64_t n = 31u << 20; /* a quarter of the model */
    float *memory = calloc(4 * n, sizeof *memory), *state[2] = {memory + n, memory + 2 * n}, *grad = memory + 3 * n;
    if (!memory) return;
    for (uint64_t i = 0; i < n; i++) grad[i] = 1e-3f;
    pst_optim_hyper h = {.lr = 1e-3f,
                         .decay = 0.1f,
                         .beta1 = 0.9f,
                         .beta2 = 0.999f,
                         .eps = 1e-8f,
                         .grad_scale = 1,
                         .correction1 = 0.1f,
                         .correction2 = 0.001f,
                         .t = 1};
    double time[3], sum = 0;
    for (int warm = 0; warm < 2; warm++) {
        uint64_t t0 = now_ns();
        flat->update(device->pool, PST_OPTIM_ADAMW, &h, memory, grad, state, n);
        uint64_t t1 = now_ns();
        sum += flat->sum_squares(device->pool, grad, n);
        uint64_t t2 = now_ns();
        flat->accumulate(device->pool, state[0], grad, n);
        uint64_t t3 = now_ns();
        time[0] = (double)(t1 - t0) * 1e-9, time[1] = (double)(t2 - t1) * 1e-9, time[2] = (double)(t3 - t2) * 1e-9;
    }
    static const struct {
        const char *name;
        int bytes;
    } row[3] = {{"adamw", 28}, {"sum_squares", 4}, {"accumulate", 12}};
    for (int i = 0; i < 3; i++)
        printf("%s %-16s %9.3f ms %40.1f GB/s\n", flat->name, row[i].name, time[i] * 1e3,
               (double)n * row[i].bytes / time[i] * 1e-9);
    sums[1] += 4 * (time[0] + time[1]);
    printf("(flat arrays of %lu elements; check %g)\n", (unsigned long)n, sum);
    free(memory);
}

int main(int argc, char **argv) {
    uint32_t threads = argc > 1 ? (uint32_t)atoi(argv[1]) : 2;
    uint64_t b = argc > 2 ? (uint64_t)atoi(argv[2]) : 4, t = argc > 3 ? (uint64_t)atoi(argv[3]) : 256;
    const char *only = argc > 4 ? argv[4] : "";
    pst_dtype dtype = argc > 5 && !strcmp(argv[5], "bf16") ? PST_BF16 : PST_F32;
    pst_device *device;
    one_thread = threads == 1;
    if (pst_device_cpu.open(&(pst_device_config){.threads = threads, .poll = note_poll}, &device) != PST_OK) {
        fprintf(stderr, "%s\n", pst_error());
        return 5;
    }
    double peak = pst_cpu_peak_flops(device->isa, dtype, threads), sums[2] = {0, 0};
    printf("%u threads, isa %u, %s, peak %.1f GFLOP/s, b=%lu t=%lu\n", threads, device->isa, pst_dtype_name(dtype),
           peak * 1e-9, (unsigned long)b, (unsigned long)t);
    struct {
        kernel_case k;
        int times;
    } cases[] = {
        {{.op = "embedding", .b = b, .t = t, .c = 768, .f = 50257, .second = 1}, 1},
        {{.op = "layer_norm", .b = b, .t = t, .c = 768}, 25},
        {{.op = "linear", .b = b, .t = t, .c = 768, .f = 2304, .second = 1}, 12},
        {{.op = "attention", .b = b, .t = t, .c = 768, .heads = 12}, 12},
        {{.op = "linear", .b = b, .t = t, .c = 768, .f = 768, .second = 1}, 12},
        {{.op = "add", .b = b, .t = t, .c = 768}, 24},
        {{.op = "dropout", .b = b, .t = t, .c = 768, .rate = 0.1f}, 25},
        {{.op = "linear", .b = b, .t = t, .c = 768, .f = 3072, .act = PST_ACT_GELU_TANH, .second = 1}, 12},
        {{.op = "linear", .b = b, .t = t, .c = 3072, .f = 768, .second = 1}, 12},
        {{.op = "linear", .b = b, .t = t, .c = 768, .f = 50257}, 1},
        {{.op = "cross_entropy", .b = b, .t = t, .c = 50257}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) cases[i].k.dtype = dtype;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strstr(cases[i].k.op, only)) time_case(&cases[i].k, device, peak, cases[i].times, sums);
    if (!*only) time_flat(device, sums);
    printf("a step of GPT-2 124M: linear %.1f ms, the rest %.1f ms, %.1f %% of the sum\n", sums[0] * 1e3, sums[1] * 1e3,
           100 * sums[1] / (sums[0] + sums[1]));
    pst_device_cpu.close(device);
    return 0;
}

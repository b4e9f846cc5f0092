/* test: label=gpu timeout=120 serial
 * The CUDA device on a GPU: copies, order between queues, times beside the host's clock, what a
 * launch costs, memory that is too much, two ranks on one GPU, and a kernel that fails. Operators
 * have tests of their own (kernels.cuda*). */
#include "backends/module.h"
#include "base/clock.h"
#include "base/log.h"
#include "kernels/case.h"
#include "penstock/status.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { SKIP = 77, MIB = 1 << 20 };

static const pst_device_config config = {.threads = 1};
static const pst_device_ops *ops;
static const pst_arith *arith;

typedef struct {
    float *y;
    const float *x;
    uint64_t n;
} addition;

static pst_status add(pst_device *device, const void *call) {
    const addition *a = call;
    return arith->accumulate(device, a->y, a->x, a->n);
}

static pst_device *open_one(void) {
    pst_device *d;
    if (ops->open(&config, &d) != PST_OK) fail_msg("%s", pst_error());
    return d;
}

static void ok(pst_status status) {
    if (status != PST_OK) fail_msg("%s", pst_error());
}

static pst_status wait_for(pst_device *d, uint64_t event, uint64_t *start, uint64_t *end) {
    pst_status status;
    while ((status = ops->test(d, event, start, end)) == PST_BUSY) {}
    return status;
}

static void moves_bytes(void **state) {
    (void)state;
    const uint64_t bytes = 64 * MIB;
    pst_device *d = open_one();
    uint8_t *memory, *pinned, *back;
    uint64_t event[2], start, end;
    ok(ops->memory(d, 2 * bytes, (void **)&memory));
    ok(ops->staging(d, bytes, (void **)&pinned));
    ok(ops->staging(d, bytes, (void **)&back));
    assert_int_equal((uintptr_t)memory % 4096, 0);
    for (uint64_t i = 0; i < bytes; i++) pinned[i] = (uint8_t)(i * 2654435761u >> 13);
    memset(back, 0, bytes);
    ok(ops->copy(d, PST_Q_RECV, memory, pinned, bytes, &event[0]));
    ok(wait_for(d, event[0], &start, &end));
    ok(ops->fill(d, PST_Q_COMPUTE, memory + 5, 9, 1000));
    ok(ops->copy(d, PST_Q_COMPUTE, memory + bytes, memory, bytes, &event[1]));
    ok(wait_for(d, event[1], &start, &end));
    ok(ops->copy(d, PST_Q_SEND, back, memory + bytes, bytes, NULL));
    memset(pinned + 5, 9, 1000);
    assert_memory_equal(back, pinned, bytes);
    for (int i = 0; i < 2; i++) {
        ok(wait_for(d, event[i], &start, &end));
        printf("%s: %.1f GB/s\n", i ? "within the GPU" : "to the GPU",
               (double)bytes / (double)(end - start));
    }
    ops->close(d);
}

/* Long work, asked for in the end only: its time by the device is what the host has waited. */
static void tells_the_time(void **state) {
    (void)state;
    const uint64_t n = 64 * MIB;
    pst_device *d = open_one();
    uint64_t event[20], start, end, before = 0;
    float *memory;
    ok(ops->memory(d, 2 * n * sizeof *memory, (void **)&memory));
    ok(ops->fill(d, PST_Q_COMPUTE, memory, 0, 2 * n * sizeof *memory));
    const addition a = {memory, memory + n, n};
    ok(ops->launch(d, add, &a, 0, 0, &event[0])); /* loads the kernel */
    ok(wait_for(d, event[0], &start, &end));
    uint64_t began = pst_monotonic_ns(), first = 0;
    for (int i = 0; i < 20; i++) ok(ops->launch(d, add, &a, 0, 0, &event[i]));
    uint64_t queued = pst_monotonic_ns();
    for (int i = 0; i < 20; i++) {
        ok(wait_for(d, event[i], &start, &end));
        if (!i) first = start;
        assert_true(start <= end && start >= before);
        before = end;
    }
    uint64_t ended = pst_monotonic_ns();
    printf("20 sums of 256 MiB: %.3f ms, %.3f by the host; queued in %.3f; %.0f GB/s\n",
           (double)(end - first) / 1e6, (double)(ended - began) / 1e6,
           (double)(queued - began) / 1e6,
           20.0 * 3 * (double)n * sizeof *memory / (double)(end - first));
    assert_true(first >= began && end <= ended);
    assert_true((double)(end - first) > 0.7 * (double)(ended - began));
    ops->close(d);
}

static void costs(void **state) {
    (void)state;
    enum { N = 4000 };
    pst_device *d = open_one();
    uint64_t event, start, end;
    float *memory;
    ok(ops->memory(d, 8192, (void **)&memory));
    ok(ops->fill(d, PST_Q_COMPUTE, memory, 0, 8192));
    const addition a = {memory, memory + 1024, 1024};
    ok(ops->launch(d, add, &a, 0, 0, &event));
    ok(wait_for(d, event, &start, &end));
    for (int silent = 0; silent < 2; silent++) {
        uint64_t began = pst_monotonic_ns();
        for (int i = 0; i < N; i++)
            ok(ops->launch(d, add, &a, 0, 0, silent && i < N - 1 ? NULL : &event));
        uint64_t queued = pst_monotonic_ns();
        ok(wait_for(d, event, &start, &end));
        printf("small launches, %s: %.2f us each to queue, %.2f to the end\n",
               silent ? "one event for all" : "an event each", (double)(queued - began) / 1e3 / N,
               (double)(end - began) / 1e3 / N);
    }
    ops->close(d);
}

static void too_much_memory(void **state) {
    (void)state;
    pst_device *d = open_one();
    void *memory;
    assert_int_equal(ops->memory(d, 1ull << 44, &memory), PST_ENOMEM);
    printf("%s\n", pst_error());
    assert_non_null(strstr(pst_error(), "the run needs 16384.00 GiB"));
    ok(ops->memory(d, MIB, &memory));
    ops->close(d);
}

static void two_share_it(void **state) {
    (void)state;
    pst_device *d[2] = {open_one(), open_one()};
    float *memory[2], host[1024], back[1024];
    uint64_t event[2], start, end;
    for (int i = 0; i < 2; i++) {
        ok(ops->memory(d[i], 2 * sizeof host, (void **)&memory[i]));
        for (int k = 0; k < 1024; k++) host[k] = (float)(i + 1) * (float)k;
        ok(ops->copy(d[i], PST_Q_COMPUTE, memory[i], host, sizeof host, NULL));
        ok(ops->copy(d[i], PST_Q_COMPUTE, memory[i] + 1024, host, sizeof host, NULL));
    }
    for (int i = 0; i < 2; i++)
        ok(ops->launch(d[i], add, &(addition){memory[i], memory[i] + 1024, 1024}, 0, 0, &event[i]));
    for (int i = 0; i < 2; i++) {
        ok(wait_for(d[i], event[i], &start, &end));
        ok(ops->copy(d[i], PST_Q_COMPUTE, back, memory[i], sizeof back, NULL));
        for (int k = 0; k < 1024; k++) assert_true(back[k] == 2 * (float)(i + 1) * (float)k);
        ops->close(d[i]);
    }
}

/* --- a failure, in a process of its own: the context does not survive it ---------------------- */

static int find(void) {
    const pst_module *m = pst_module_get();
    const char *why = !m ? pst_module_why() : m->device->reject(&config);
    if (why) {
        printf("skipped: %s\n", why);
        return 0;
    }
    ops = m->device;
    arith = m->arith;
    return 1;
}

/* 0: as it should be; what was wrong is printed. */
static int fail_once(void) {
    pst_device *d;
    float *memory;
    uint64_t event[5], start, end;
    if (!find()) return SKIP;
    if (ops->open(&config, &d) != PST_OK || ops->memory(d, 8192, (void **)&memory) != PST_OK) {
        puts(pst_error());
        return 1;
    }
    const addition good = {memory, memory + 1024, 1024}, bad = {(float *)4096, memory + 1024, 1024};
    for (int i = 0; i < 5; i++)
        if (ops->launch(d, add, i == 3 ? &bad : &good, 0, 0, &event[i]) != PST_OK) {
            puts(pst_error());
            return 2;
        }
    for (int i = 0; i < 3; i++)
        if (wait_for(d, event[i], &start, &end) != PST_OK) {
            puts(pst_error());
            return 3;
        }
    if (wait_for(d, event[3], &start, &end) != PST_EINTERNAL) return 4;
    printf("blamed: %s\n", pst_error());
    int named = strstr(pst_error(), "sum of gradients failed") != NULL;
    ops->close(d);
    return named ? 0 : 5;
}

static int failure;

static void failure_is_named(void **state) {
    (void)state;
    assert_int_equal(failure, 0);
}

/* Three additions in a graph, which is launched four times, twice behind a plain one; what cannot
 * be captured leaves the device as it was. */
static void captures_run_again(void **state) {
    (void)state;
    enum { N = 4096, TIMES = 4 };
    pst_device *d = open_one();
    float host[2][N], *x, *y;
    uint64_t event, start, end;
    void *launches = NULL;
    for (int i = 0; i < N; i++) {
        host[0][i] = 0;
        host[1][i] = (float)i;
    }
    ok(ops->memory(d, sizeof host, (void **)&y));
    x = y + N;
    ok(ops->copy(d, PST_Q_COMPUTE, y, host, sizeof host, NULL));
    const addition a = {y, x, N};
    ok(ops->launch(d, add, &a, 0, 0, NULL));
    ok(ops->capture_begin(d));
    for (int i = 0; i < 3; i++) ok(ops->launch(d, add, &a, 0, 0, NULL));
    ok(ops->capture_end(d, &launches));
    ok(ops->capture_begin(d));
    ok(ops->capture_end(d, NULL));
    for (int i = 0; i < TIMES; i++) {
        const pst_captured again = {launches, 0};
        if (i % 2) ok(ops->launch(d, add, &a, 0, 0, NULL));
        ok(ops->launch(d, ops->replay, &again, 0, 0, &event));
    }
    ok(wait_for(d, event, &start, &end));
    ok(ops->copy(d, PST_Q_COMPUTE, host, y, sizeof host, NULL));
    for (int i = 0; i < N; i++)
        assert_true(host[0][i] == (float)(1 + 3 * TIMES + TIMES / 2) * (float)i);
    ops->close(d);
}

/* The plans that a run would make, their workspace beside what layouts count (it is logged), and
 * that the library has them for this GPU. */
static void attention_has_plans(void **state) {
    (void)state;
    static const kernel_case of[] = {
        {.op = "attention", .b = 16, .t = 1024, .c = 768, .heads = 12, .dtype = PST_BF16},
        {.op = "attention", .b = 8, .t = 1024, .c = 1600, .heads = 25, .dtype = PST_BF16}};
    const pst_module *m = pst_module_get();
    pst_device *d = open_one();
    pst_log_set_level(PST_LOG_DEBUG);
    for (uint32_t i = 0; i < 2 * m->n_kernel; i++) {
        const pst_kernel_row *row = m->kernel + i / 2;
        pst_graph *g;
        if (strcmp(row->name, "cuda/cudnn/attention")) continue;
        ok(case_graph(&of[i % 2], &g));
        printf("%s\n", case_text(&of[i % 2]));
        fflush(stdout);
        ok(row->prepare(d, g, g->node + g->n_node - 1));
        pst_graph_close(g);
    }
    pst_log_set_level(PST_LOG_INFO);
    ops->close(d);
    const char *line;
    int fused = 0;
    for (uint32_t i = 0; (line = m->about(i)); i++) {
        puts(line);
        fused |= strstr(line, "fused kernels with") != NULL;
    }
    assert_true(fused);
}

int main(void) {
    int status;
    pid_t child = fork(); /* before this process has touched the driver */
    if (!child) {
        status = fail_once();
        fflush(stdout);
        _exit(status);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0) return 1;
    failure = WIFEXITED(status) ? WEXITSTATUS(status) : 100 + status;
    if (failure == SKIP) return SKIP;
    if (!find()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captures_run_again), cmocka_unit_test(moves_bytes),
        cmocka_unit_test(tells_the_time),     cmocka_unit_test(costs),
        cmocka_unit_test(too_much_memory),    cmocka_unit_test(two_share_it),
        cmocka_unit_test(failure_is_named),   cmocka_unit_test(attention_has_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

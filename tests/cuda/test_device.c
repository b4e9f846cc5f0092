/* test: wrap=pst_monotonic_ns
 * The CUDA device on a machine that is made up (fake.h): order and times of what is queued, a
 * failure blamed on the launch that caused it, memory that is short, and why a GPU cannot be
 * used. */
#include "cuda/fake.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/own.h"
#include "penstock/status.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const pst_device_ops *ops = &pst_device_cuda;

typedef struct {
    uint64_t ns;
    const char *name;
    cudaError_t error;
} kernel;

static pst_status run(pst_device *device, const void *call) {
    const kernel *k = call;
    fake_kernel(pst_cuda_stream(device), k->ns, k->error);
    return pst_cuda_launched(k->name);
}

static pst_device *open_one(void) {
    pst_device *d;
    fake_reset();
    assert_int_equal(ops->open(&(pst_device_config){.threads = 1}, &d), PST_OK);
    return d;
}

static void close_one(pst_device *d) {
    ops->close(d);
    assert_int_equal(fake.live, 0);
}

static uint64_t launch(pst_device *d, const kernel *k) {
    uint64_t event;
    assert_int_equal(ops->launch(d, run, k, 0, 0, &event), PST_OK);
    return event;
}

static void assert_near(uint64_t a, uint64_t b, uint64_t ns) {
    if ((a > b ? a - b : b - a) > ns)
        fail_msg("%" PRIu64 " and %" PRIu64 " are further apart than %" PRIu64, a, b, ns);
}

static void runs_ahead_in_order(void **state) {
    (void)state;
    pst_device *d = open_one();
    const kernel k = {.ns = 1000000, .name = "k"};
    uint64_t began = fake.now, event[3], copied, start, end, last;
    void *memory, *pinned;
    assert_int_equal(ops->memory(d, 5000, &memory), PST_OK);
    assert_int_equal((uintptr_t)memory % 4096, 0);
    assert_int_equal(ops->staging(d, 1000, &pinned), PST_OK);
    for (int i = 0; i < 3; i++) event[i] = launch(d, &k);
    assert_true(fake.now < began + 100000); /* nobody waited */
    assert_int_equal(ops->copy(d, PST_Q_SEND, pinned, memory, 1000, &copied), PST_OK);
    assert_int_equal(ops->test(d, event[0], &start, &end), PST_BUSY);
    fake.now = began + 1500000;
    assert_int_equal(ops->test(d, event[0], &start, &last), PST_OK);
    assert_near(start, began, 20000);
    assert_near(last, began + 1000000, 20000);
    assert_int_equal(ops->test(d, event[1], &start, &end), PST_BUSY);
    assert_int_equal(ops->test(d, copied, &start, &end), PST_OK);
    assert_near(start, began, 20000); /* another queue waits for nobody */
    assert_near(end, start + 1000, 1000);
    fake.now = began + 4000000;
    assert_int_equal(ops->test(d, event[2], &start, &end), PST_OK); /* asked out of order: starts
                                                                       where the other ended */
    assert_near(start, began + 2000000, 20000);
    assert_int_equal(ops->test(d, event[1], &start, &last), PST_OK);
    assert_near(start, began + 1000000, 20000);
    close_one(d);
}

/* What is launched beside the passes waits for nothing that was launched before; a failure names
 * its kernel. */
static void runs_beside(void **state) {
    (void)state;
    pst_device *d = open_one();
    const kernel pass = {.ns = 3000000, .name = "pass"}, add = {.ns = 200000, .name = "addition"};
    const kernel bad = {.ns = 1000, .name = "bad", .error = cudaErrorIllegalAddress};
    const uint64_t began = fake.now;
    uint64_t queued = launch(d, &pass), event, start, end;
    assert_int_equal(ops->launch_beside(d, run, &add, &event), PST_OK);
    const uint64_t next = launch(d, &pass); /* behind the first pass, not behind the addition */
    assert_int_equal(ops->test(d, event, &start, &end), PST_BUSY);
    fake.now = began + 300000;
    assert_int_equal(ops->test(d, event, &start, &end), PST_OK);
    assert_near(start, began, 30000);
    assert_near(end, began + 200000, 30000);
    assert_int_equal(ops->test(d, queued, &start, &end), PST_BUSY);
    fake.now = began + 7000000;
    assert_int_equal(ops->test(d, next, &start, &end), PST_OK);
    assert_near(start, began + 3000000, 30000);
    assert_int_equal(ops->launch_beside(d, run, &bad, &event), PST_OK);
    fake.now += 1000000;
    assert_int_equal(ops->test(d, event, &start, &end), PST_EINTERNAL);
    assert_non_null(strstr(pst_error(), "bad failed"));
    close_one(d);
}

/* What another call has left behind is no failure of a launch: the answer that an event has not
 * happened yet, least of all. */
static void launches_answer_for_themselves(void **state) {
    (void)state;
    pst_device *d = open_one();
    const kernel k = {.ns = 1000000, .name = "k"};
    uint64_t event = launch(d, &k), start, end, second;
    assert_int_equal(ops->test(d, event, &start, &end), PST_BUSY);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaStreamQuery(pst_cuda_stream(d)), cudaErrorNotReady);
    assert_int_equal(pst_cuda_launched("a kernel"), PST_OK); /* nobody has taken it away */
    assert_int_equal(cudaSetDevice(7), cudaErrorInvalidDevice);
    event = launch(d, &k);
    fake.unfit = cudaErrorInvalidConfiguration;
    assert_int_equal(ops->launch(d, run, &k, 0, 0, &second), PST_EINTERNAL);
    assert_string_equal(pst_error(), "CUDA: k: some error");
    second = launch(d, &k);
    fake.now += 10000000;
    assert_int_equal(ops->test(d, second, &start, &end), PST_OK);
    assert_int_equal(ops->test(d, event, &start, &end), PST_OK);
    close_one(d);
}

/* The last launch of an instruction stands for all of it. */
static void only_the_last_is_asked_for(void **state) {
    (void)state;
    pst_device *d = open_one();
    const kernel good = {.ns = 1000000, .name = "good"};
    const kernel bad = {.ns = 1000000, .name = "bad", .error = cudaErrorIllegalAddress};
    uint64_t began = fake.now, event[2], start, end;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 4; k++)
            assert_int_equal(ops->launch(d, run, &good, 0, 0, NULL), PST_OK);
        event[i] = launch(d, &good);
    }
    fake.now = began + 10100000;
    assert_int_equal(ops->test(d, event[1], &start, &end), PST_OK);
    assert_near(start, began + 5000000, 30000);
    assert_near(end, began + 10000000, 30000);
    assert_int_equal(ops->test(d, event[0], &start, &end), PST_OK);
    assert_near(start, began, 30000);
    for (int k = 0; k < 4; k++)
        assert_int_equal(ops->launch(d, run, k == 1 ? &bad : &good, 0, 0, NULL), PST_OK);
    event[0] = launch(d, &good);
    fake.now += 10000000;
    assert_int_equal(ops->test(d, event[0], &start, &end), PST_EINTERNAL);
    assert_string_equal(pst_error(), "CUDA: one of 5 operators, from good to good, failed: an "
                                     "illegal memory access was encountered");
    close_one(d);
}

/* The device writes a number behind each event, and behind every eighth launch without. */
static void numbers_are_few(void **state) {
    (void)state;
    pst_device *d = open_one();
    const kernel k = {.ns = 1000, .name = "k"},
                 bad = {.ns = 1000, .name = "bad", .error = cudaErrorIllegalAddress};
    uint32_t before = fake.writes;
    uint64_t event, start, end;
    launch(d, &k);
    assert_int_equal(fake.writes, before + 1);
    for (int i = 0; i < 80; i++) assert_int_equal(ops->launch(d, run, &k, 0, 0, NULL), PST_OK);
    assert_int_equal(fake.writes, before + 11);
    for (int i = 0; i < 6; i++)
        assert_int_equal(ops->launch(d, run, i == 1 ? &bad : &k, 0, 0, NULL), PST_OK);
    for (int i = 0; i < 9; i++) assert_int_equal(ops->launch(d, run, &k, 0, 0, NULL), PST_OK);
    event = launch(d, &k);
    fake.now += 1000000;
    assert_int_equal(ops->test(d, event, &start, &end), PST_EINTERNAL);
    assert_non_null(strstr(pst_error(), "CUDA: one of 8 operators, from k to k, failed: "));
    close_one(d);
}

/* Where streams cannot write values, events alone tell what has ended. */
static void without_numbers(void **state) {
    (void)state;
    const kernel good = {.ns = 1000, .name = "good"};
    const kernel bad = {.ns = 1000, .name = "bad", .error = cudaErrorIllegalAddress};
    uint64_t event, start, end;
    pst_device *d;
    fake_reset();
    fake.no_writes = 1;
    assert_int_equal(ops->open(&(pst_device_config){.threads = 1}, &d), PST_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(ops->launch(d, run, &good, 0, 0, NULL), PST_OK);
    event = launch(d, &good);
    fake.now += 1000000;
    assert_int_equal(ops->test(d, event, &start, &end), PST_OK);
    event = launch(d, &bad);
    fake.now += 1000000;
    assert_int_equal(ops->test(d, event, &start, &end), PST_EINTERNAL);
    assert_string_equal(pst_error(), "CUDA: bad failed: an illegal memory access was encountered");
    assert_int_equal(fake.writes, 0);
    close_one(d);
}

/* A kernel that has met a wrong index by the time that an earlier launch is asked for: that one is
 * fine. */
static pst_status complain(pst_device *device, const void *call) {
    pst_cuda_fault *fault = pst_cuda_fault_of(device);
    *fault = (pst_cuda_fault){.state = PST_CUDA_FAULT_SAID,
                              .index = 9,
                              .position = 3,
                              .limit = 8,
                              .launch = pst_cuda_launch_of(device),
                              .node = "embed"};
    return run(device, call);
}

static void indices_are_of_their_launch(void **state) {
    (void)state;
    pst_device *d = open_one();
    const kernel k = {.ns = 1000, .name = "k"};
    uint64_t before = launch(d, &k), event, start, end;
    assert_int_equal(ops->launch(d, complain, &k, 0, 0, &event), PST_OK);
    fake.now += 1000000;
    assert_int_equal(ops->test(d, before, &start, &end), PST_OK);
    assert_int_equal(ops->test(d, event, &start, &end), PST_EINPUT);
    assert_string_equal(pst_error(), "embed: index 9 at position 3 is outside of [0, 8)");
    assert_int_equal(ops->test(d, event, &start, &end), PST_OK); /* said once */
    close_one(d);
}

static void copies_and_fills(void **state) {
    (void)state;
    pst_device *d = open_one();
    uint8_t from[64], to[64] = {0};
    void *memory;
    uint64_t event, start, end;
    for (int i = 0; i < 64; i++) from[i] = (uint8_t)i;
    assert_int_equal(ops->memory(d, 64, &memory), PST_OK);
    assert_int_equal(ops->copy(d, PST_Q_COMPUTE, memory, from, 64, NULL), PST_OK);
    assert_int_equal(ops->fill(d, PST_Q_COMPUTE, memory, 7, 8), PST_OK);
    assert_int_equal(ops->copy(d, PST_Q_COMPUTE, to, memory, 64, NULL), PST_OK);
    for (int i = 0; i < 64; i++) assert_int_equal(to[i], i < 8 ? 7 : i);
    assert_int_equal(ops->copy(d, PST_Q_RECV, memory, from, 64, &event), PST_OK);
    while (ops->test(d, event, &start, &end) == PST_BUSY) {}
    assert_memory_equal(memory, from, 64);
    close_one(d);
}

/* Two clocks that go apart by 50 ppm, over a minute: 3 ms, where each launch is timed to less than
 * 60 us. */
static void clocks_drift(void **state) {
    (void)state;
    pst_device *d = open_one();
    const kernel k = {.ns = 10000000, .name = "k"};
    fake.drift = 50e-6;
    for (int i = 0; i < 120; i++) {
        uint64_t began = fake.now, start, end, event = launch(d, &k);
        fake.now += 500000000;
        assert_int_equal(ops->test(d, event, &start, &end), PST_OK);
        assert_near(end, began + k.ns, 60000);
        assert_near(end - start, k.ns, 60000);
    }
    close_one(d);
}

/* More launches than events: the device is waited for, what is long past is not known, nothing is
 * wrong. */
static void many_launches(void **state) {
    (void)state;
    pst_device *d = open_one();
    const kernel k = {.ns = 1000, .name = "k"};
    uint64_t first = launch(d, &k), last = 0, start, end;
    for (int i = 0; i < 10000; i++) last = launch(d, &k);
    assert_int_equal(ops->test(d, first, &start, &end), PST_EINTERNAL);
    fake.now += 100000000;
    assert_int_equal(ops->test(d, last, &start, &end), PST_OK);
    assert_true(end - start <= 1000 + 500);
    close_one(d);
}

/* Seven launches are queued before the third fails. The two before it are as they were; it is
 * named, by all. */
static void failures_are_blamed(void **state) {
    (void)state;
    pst_device *d = open_one();
    const kernel good = {.ns = 1000000, .name = "cuda/layer_norm F"};
    const kernel bad = {
        .ns = 1000000, .name = "cuda/attention F", .error = cudaErrorIllegalAddress};
    static const char said[] =
        "CUDA: cuda/attention F failed: an illegal memory access was encountered";
    uint64_t event[7], start, end, began = fake.now, more;
    for (int i = 0; i < 7; i++) event[i] = launch(d, i == 2 ? &bad : &good);
    fake.now = began + 1500000;
    assert_int_equal(ops->test(d, event[0], &start, &end), PST_OK);
    fake.now = began + 8000000;
    assert_int_equal(ops->test(d, event[1], &start, &end), PST_OK); /* not looked at before it was
                                                                       too late */
    assert_true(start <= end);
    for (int i = 2; i < 7; i++) {
        assert_int_equal(ops->test(d, event[i], &start, &end), PST_EINTERNAL);
        assert_string_equal(pst_error(), said);
    }
    assert_int_equal(ops->launch(d, run, &good, 0, 0, &more), PST_EINTERNAL);
    assert_string_equal(pst_error(), said);
    assert_int_equal(ops->copy(d, PST_Q_COMPUTE, &more, &end, 8, NULL), PST_EINTERNAL);
    assert_string_equal(pst_error(), said);
    assert_int_equal(ops->test(d, event[0], &start, &end), PST_OK);
    close_one(d);
}

/* It is a later launch, or a copy that waits, that sees the failure first. */
static void failures_met_by_others(void **state) {
    (void)state;
    const kernel good = {.ns = 1000, .name = "good"};
    const kernel bad = {.ns = 1000, .name = "bad", .error = cudaErrorIllegalAddress};
    for (int by_copy = 0; by_copy < 2; by_copy++) {
        pst_device *d = open_one();
        uint64_t event, mine = 0, back = 0;
        launch(d, &good);
        launch(d, &bad);
        if (!by_copy) fake.now += 1000000;
        pst_status status = by_copy ? ops->copy(d, PST_Q_COMPUTE, &back, &mine, 8, NULL)
                                    : ops->launch(d, run, &good, 0, 0, &event);
        assert_int_equal(status, PST_EINTERNAL);
        assert_string_equal(pst_error(),
                            "CUDA: bad failed: an illegal memory access was encountered");
        close_one(d);
    }
}

static void memory_is_short(void **state) {
    (void)state;
    pst_device *d = open_one();
    void *memory;
    fake.free_bytes = 3ull << 30;
    fake.total_bytes = 4ull << 30;
    assert_int_equal(ops->memory(d, 5ull << 30, &memory), PST_ENOMEM);
    assert_string_equal(pst_error(), "GPU 0 has 3.00 GiB of 4.00 GiB of memory free; the run needs "
                                     "5.00 GiB, and 1.00 GiB are reserved for CUDA libraries");
    /* there, but for the libraries */
    assert_int_equal(ops->memory(d, (2ull << 30) + (1 << 20), &memory), PST_ENOMEM);
    close_one(d);
    fake_reset();
    for (int i = 1; i < 20000; i++) { /* each thing that opening makes, and none left when one
                                         cannot be made */
        fake.fail_at = i;
        pst_status status = ops->open(&(pst_device_config){.threads = 1}, &d);
        if (status == PST_OK) {
            assert_true(i > 4096);
            ops->close(d);
            break;
        }
        assert_int_equal(status, PST_ENOMEM);
        assert_int_equal(fake.live, 0);
        if (i == 20) i = 4090;
    }
    assert_int_equal(fake.live, 0);
}

/* What a rank is told that it can have it gets, and no more than an alignment beyond. */
static void what_is_told_is_there(void **state) {
    (void)state;
    const pst_device_config config = {.threads = 1};
    pst_device *d = open_one();
    void *memory;
    fake.free_bytes = 3ull << 30;
    fake.total_bytes = 4ull << 30;
    uint64_t told = ops->available(&config, 1);
    assert_int_equal(told, fake.free_bytes - pst_cuda_reserve);
    assert_int_equal(ops->memory(d, told, &memory), PST_ENOMEM); /* blocks are aligned */
    assert_int_equal(ops->memory(d, told - 4096, &memory), PST_OK);
    close_one(d);
}

/* What is free, shared out among the ranks of a GPU, each with its libraries'; 0: not known. */
static void room_is_shared(void **state) {
    (void)state;
    const pst_device_config config = {.threads = 1};
    const uint64_t gib = UINT64_C(1) << 30;
    fake_reset();
    fake.free_bytes = 12 * gib;
    assert_int_equal(ops->available(&config, 1), 11 * gib);
    assert_int_equal(ops->available(&config, 3), 3 * gib);
    fake.count = 2;
    assert_int_equal(ops->available(&config, 2), 11 * gib);
    assert_int_equal(ops->available(&(pst_device_config){.threads = 1, .local = 2}, 3), 5 * gib);
    fake.free_bytes = gib / 2; /* nothing is left, which is known */
    assert_int_equal(ops->available(&config, 2), 1);
    fake.none = cudaErrorNoDevice;
    assert_int_equal(ops->available(&config, 2), 0);
    assert_int_equal(fake.live, 0);
}

static void ranks_take_turns(void **state) {
    (void)state;
    fake_reset();
    fake.count = 2;
    for (uint32_t local = 0; local < 4; local++) {
        pst_device *d;
        assert_int_equal(ops->open(&(pst_device_config){.threads = 1, .local = local}, &d), PST_OK);
        assert_int_equal(((pst_cuda_device *)d)->ordinal, (int)(local % 2));
        assert_int_equal(d->isa, PST_ISA_CUDA);
        close_one(d);
    }
}

static void says_why_not(void **state) {
    (void)state;
    const pst_device_config config = {.threads = 1};
    pst_device *d;
    fake_reset();
    assert_null(ops->reject(&config));
    fake.none = cudaErrorInsufficientDriver;
    fake.driver = 0;
    assert_string_equal(
        ops->reject(&config),
        "no NVIDIA driver is installed; the module uses CUDA 13, which needs driver 580 or later");
    fake.driver = 12040;
    assert_string_equal(ops->reject(&config), "the NVIDIA driver supports CUDA 12.4; the module "
                                              "uses CUDA 13, which needs driver 580 or later");
    fake.none = cudaErrorNoDevice;
    fake.driver = 13000;
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    assert_string_equal(ops->reject(&config), "no GPU is visible: CUDA_VISIBLE_DEVICES is '7'");
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_string_equal(ops->reject(&config), "the NVIDIA driver finds no GPU");
    fake.none = cudaSuccess;
    fake.capability = 75;
    assert_string_equal(ops->reject(&config),
                        "GPU 0 (Fake, sm_75) is too old: it must be sm_80 or later");
    assert_int_equal(ops->open(&config, &d), PST_EINPUT);
    assert_string_equal(pst_error(),
                        "device cuda: GPU 0 (Fake, sm_75) is too old: it must be sm_80 or later");
    fake.capability = 90;
    fake.free_bytes = 3ull << 30;
    fake.total_bytes = 4ull << 30;
    assert_null(pst_cuda_mismatch());
    fake.lt = 130002;
    fake.dnn = 91001;
    fake.dnn_cuda = 12090;
    static const char libraries[] =
        "driver for CUDA 13.0, runtime 13.0, cuBLASLt 13.0.2, cuDNN 9.10.1, NCCL ";
    assert_non_null(strstr(pst_cuda_about(0),
                           ": cuDNN was built for CUDA 12, but the module for CUDA 13; "
                           "cuDNN 9.10.1 is older than "));
    assert_non_null(strstr(pst_cuda_about(0), "; cuBLASLt 13.0.2 is older than "));
    assert_memory_equal(pst_cuda_about(0), libraries, sizeof libraries - 1);
    assert_string_equal(pst_cuda_about(1),
                        "GPU 0: Fake, sm_90, 132 multiprocessors, 3.0 of 4.0 GiB free");
    static const char attention[] =
        "attention of GPT-2 on GPU 0 (bf16, 8 x 1024 positions, 12 heads of 64): ";
    assert_memory_equal(pst_cuda_about(2), attention, sizeof attention - 1);
    assert_string_equal(pst_cuda_about(2) + sizeof attention - 1,
                        "fused kernels with 256 (F) and 256 (B) bytes of workspace; the memory map "
                        "reserves 256 and 201326848 bytes");
    fake_dnn.refuses = 1;
    assert_string_equal(
        pst_cuda_about(2) + sizeof attention - 1,
        "no fused kernels: cuDNN: creating the graph of operations: some status: more "
        "words");
    assert_null(pst_cuda_about(3));
    assert_int_equal(fake.live, 0);
    fake.count = 0;
    assert_null(pst_cuda_about(1));
}

/* --- captures --------------------------------------------------------------------------------- */

static void *captured(pst_device *d, const kernel *const *list, int n) {
    void *launches = NULL;
    assert_int_equal(ops->capture_begin(d), PST_OK);
    for (int i = 0; i < n; i++) assert_int_equal(ops->launch(d, run, list[i], 0, 0, NULL), PST_OK);
    assert_int_equal(ops->capture_end(d, &launches), PST_OK);
    return launches;
}

static uint64_t replay(pst_device *d, void *launches, uint64_t sample) {
    const pst_captured again = {launches, sample};
    uint64_t event;
    assert_int_equal(ops->launch(d, ops->replay, &again, 0, 0, &event), PST_OK);
    return event;
}

/* Nothing runs while it is captured; then all of it does, as one launch whose end has one event. */
static void captures_run_again(void **state) {
    (void)state;
    pst_device *d = open_one();
    const kernel one = {.ns = 1000000, .name = "one"}, two = {.ns = 2000000, .name = "two"};
    const kernel *const list[] = {&one, &two, &one};
    uint64_t first = launch(d, &one), event[2], start, end, began;
    fake.now += 2000000;
    assert_int_equal(ops->test(d, first, &start, &end), PST_OK);
    uint32_t writes = fake.writes;
    began = fake.now;
    void *launches = captured(d, list, 3);
    assert_non_null(launches);
    assert_int_equal(fake.writes, writes); /* numbers stand outside */
    for (int i = 0; i < 2; i++) event[i] = replay(d, launches, 0);
    assert_int_equal(fake.graphs, 2);
    assert_int_equal(fake.writes, writes + 2);
    fake.now = began + 3900000;
    assert_int_equal(ops->test(d, event[0], &start, &end), PST_BUSY);
    fake.now = began + 9000000;
    assert_int_equal(ops->test(d, event[0], &start, &end), PST_OK);
    assert_near(end, began + 4000000, 30000);
    assert_int_equal(ops->test(d, event[1], &start, &end), PST_OK);
    assert_near(start, began + 4000000, 30000);
    assert_near(end, began + 8000000, 30000);
    close_one(d);
}

static const uint64_t *told; /* where the kernel below was told that its sample's number is */

static pst_status ask_sample(pst_device *device, const void *call) {
    told = pst_cuda_sample_of(device);
    return run(device, call);
}

static void count_up(const void *arguments) { ++**(uint64_t *const *)arguments; }

static pst_status count_one(pst_device *device, const void *call) {
    fake_launch(pst_cuda_stream(device), 1000, count_up, call, sizeof(uint64_t *));
    return pst_cuda_launched("counting");
}

/* A graph does its work again at the addresses that it was captured with; where that memory has
 * been given back, the device fails and the operator is named. */
static void stale_addresses_are_found(void **state) {
    (void)state;
    pst_device *d = open_one();
    void *launches = NULL, *mem;
    uint64_t start, end, event;
    assert_int_equal(cudaMalloc(&mem, sizeof(uint64_t)), cudaSuccess);
    uint64_t *number = mem;
    assert_int_equal(ops->launch(d, count_one, &number, 0, 0, NULL), PST_OK);
    assert_int_equal(ops->capture_begin(d), PST_OK);
    assert_int_equal(ops->launch(d, count_one, &number, 0, 0, NULL), PST_OK);
    assert_int_equal(ops->capture_end(d, &launches), PST_OK);
    assert_int_equal(*number, 1); /* a capture runs nothing */
    number = NULL;                /* the parameters are the graph's own */
    for (int i = 0; i < 3; i++) event = replay(d, launches, 0);
    fake.now += 1000000;
    assert_int_equal(ops->test(d, event, &start, &end), PST_OK);
    assert_int_equal(*(uint64_t *)mem, 4);
    cudaFree(mem);
    event = replay(d, launches, 0);
    fake.now += 1000000;
    assert_int_equal(ops->test(d, event, &start, &end), PST_EINTERNAL);
    assert_string_equal(pst_error(),
                        "CUDA: counting failed: an illegal memory access was encountered");
    close_one(d);
}

/* The sample's number is set in front of what looks at it, and of nothing else. */
static void samples_are_told(void **state) {
    (void)state;
    pst_device *d = open_one();
    const kernel k = {.ns = 1000, .name = "k"};
    const kernel *const list[] = {&k, &k};
    void *asks = NULL, *plain = captured(d, list, 2);
    uint64_t event;
    assert_int_equal(ops->capture_begin(d), PST_OK);
    assert_int_equal(ops->launch(d, ask_sample, &k, 0, 0, NULL), PST_OK);
    assert_int_equal(ops->capture_end(d, &asks), PST_OK);
    assert_non_null(told);
    const uint64_t *sample = told;
    replay(d, asks, 7);
    assert_int_equal(*sample, 7);
    replay(d, plain, 8);
    assert_int_equal(*sample, 7);
    replay(d, asks, 9);
    assert_int_equal(*sample, 9);
    assert_int_equal(ops->launch(d, ask_sample, &k, 0, 0, &event), PST_OK);
    assert_null(told); /* a plain launch has it in its arguments */
    close_one(d);
}

static void failures_in_captures(void **state) {
    (void)state;
    pst_device *d = open_one();
    const kernel good = {.ns = 1000, .name = "good"};
    const kernel bad = {.ns = 1000, .name = "bad", .error = cudaErrorIllegalAddress};
    const kernel *const list[] = {&good, &bad, &good};
    void *fine = captured(d, list, 1), *fails = captured(d, list, 3);
    uint64_t before = replay(d, fine, 0), event = replay(d, fails, 0), start, end;
    fake.now += 1000000;
    assert_int_equal(ops->test(d, before, &start, &end), PST_OK);
    assert_int_equal(ops->test(d, event, &start, &end), PST_EINTERNAL);
    assert_string_equal(
        pst_error(),
        "CUDA: one of 3 captured operators, from good to good, failed: an illegal memory "
        "access was encountered");
    close_one(d);
}

static pst_status wait_there(pst_device *device, const void *call) {
    (void)call;
    return pst_cuda_status(cudaStreamQuery(pst_cuda_stream(device)), "waiting");
}

/* Whatever goes wrong with a capture, launches go on without. */
static void captures_that_fail(void **state) {
    (void)state;
    const kernel k = {.ns = 1000, .name = "k"};
    uint64_t event, start, end;
    void *launches = NULL;
    for (int how = 0; how < 5; how++) {
        pst_device *d = open_one();
        launch(d, &k);
        fake.no_captures = how == 0;
        if (how == 1) fake.fail_at = 1; /* room for the sample's number */
        pst_status status = ops->capture_begin(d);
        assert_true(how < 2 ? status != PST_OK : status == PST_OK);
        if (how == 2) { /* dropped by who asked for it */
            assert_int_equal(ops->launch(d, wait_there, NULL, 0, 0, NULL), PST_EINTERNAL);
            assert_int_equal(ops->capture_end(d, NULL), PST_OK);
        } else if (how == 3) { /* or not noticed */
            ops->launch(d, wait_there, NULL, 0, 0, NULL);
            assert_int_equal(ops->capture_end(d, &launches), PST_EINTERNAL);
        } else if (how == 4) { /* no memory for the graph */
            assert_int_equal(ops->launch(d, run, &k, 0, 0, NULL), PST_OK);
            assert_int_equal(ops->launch(d, run, &k, 0, 0, &event), PST_EINTERNAL);
            fake.fail_at = 1;
            assert_int_equal(ops->capture_end(d, &launches), PST_ENOMEM);
        }
        assert_null(launches);
        event = launch(d, &k);
        fake.now += 100000;
        assert_int_equal(ops->test(d, event, &start, &end), PST_OK);
        close_one(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_ahead_in_order),
        cmocka_unit_test(runs_beside),
        cmocka_unit_test(launches_answer_for_themselves),
        cmocka_unit_test(only_the_last_is_asked_for),
        cmocka_unit_test(copies_and_fills),
        cmocka_unit_test(clocks_drift),
        cmocka_unit_test(many_launches),
        cmocka_unit_test(failures_are_blamed),
        cmocka_unit_test(failures_met_by_others),
        cmocka_unit_test(memory_is_short),
        cmocka_unit_test(ranks_take_turns),
        cmocka_unit_test(says_why_not),
        cmocka_unit_test(indices_are_of_their_launch),
        cmocka_unit_test(numbers_are_few),
        cmocka_unit_test(without_numbers),
        cmocka_unit_test(what_is_told_is_there),
        cmocka_unit_test(room_is_shared),
        cmocka_unit_test(captures_run_again),
        cmocka_unit_test(stale_addresses_are_found),
        cmocka_unit_test(samples_are_told),
        cmocka_unit_test(failures_in_captures),
        cmocka_unit_test(captures_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test: label=quick timeout=60
 * The key-value store: calls and what they refuse in one process; then several processes of a job:
 * sums in a fixed order with any number of servers, optimizers, pushes in any order, rows,
 * ps-lite's roles; contradictions, numbers that are not finite, and processes that die. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/port.h"
#include "penstock/kv.h"
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum { ROWS = 700, COLUMNS = 301, N = ROWS * COLUMNS, SEED = 20261127 };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, pst_error());      \
            _exit(99);                                                                             \
        }                                                                                          \
    } while (0)
#define CHECK_FAILS(call, words)                                                                   \
    do {                                                                                           \
        CHECK((call) == PST_EINPUT);                                                               \
        if (!strstr(pst_error(), words)) {                                                         \
            fprintf(stderr, "%s:%d: '%s' is not in: %s\n", __FILE__, __LINE__, words,              \
                    pst_error());                                                                  \
            _exit(98);                                                                             \
        }                                                                                          \
    } while (0)

/* --- one process ------------------------------------------------------------------------------ */

static float number(uint32_t worker, uint32_t step, uint32_t i) {
    uint32_t h = (worker * 7919u + step * 104729u + i + SEED) * 2654435761u;
    return (float)((int32_t)(h ^ h >> 15)) * 0x1p-31f;
}

static void fill(float *x, uint32_t worker, uint32_t step) {
    for (uint32_t i = 0; i < N; i++) x[i] = number(worker, step, i);
}

static pst_kv *open_store(const char *type, int64_t servers) {
    const pst_kv_options options = {.size = sizeof options, .servers = servers, .wait_s = 30};
    pst_kv *kv;
    CHECK(pst_kv_open(type, &options, &kv) == PST_OK);
    return kv;
}

static void test_calls(void **state) {
    (void)state;
    pst_kv *kv, *none;
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {0}, w[6];
    const uint64_t rows[] = {0, 2}, wrong[] = {2, 0}, far[] = {3};
    const char *long_name =
        "0123456789012345678901234567890123456789012345678901234567890123456789";
    CHECK_FAILS(pst_kv_open("dist_p3", NULL, &none), "dist_async");
    assert_null(none);
    CHECK_FAILS(pst_kv_open(NULL, NULL, &none), "NULL");
    CHECK_FAILS(pst_kv_open("local",
                            &(pst_kv_options){.size = sizeof(pst_kv_options), .wait_s = -1}, &none),
                "-1 s");
    assert_int_equal(pst_kv_open("local", NULL, &kv), PST_OK);
    assert_int_equal(pst_kv_rank(kv), 0);
    assert_int_equal(pst_kv_workers(kv), 1);
    assert_int_equal(pst_kv_servers(kv), 0);
    CHECK_FAILS(pst_kv_push(kv, "w", x, 0), "pst_kv_init first");
    CHECK_FAILS(pst_kv_init(kv, "w", NULL, 3, 2), "NULL");
    CHECK_FAILS(pst_kv_init(kv, "w", x, 0, 2), "0 rows");
    CHECK_FAILS(pst_kv_init(kv, "", x, 3, 2), "0 characters");
    CHECK_FAILS(pst_kv_init(kv, long_name, x, 3, 2), "70 characters");
    assert_int_equal(pst_kv_broadcast(kv, "w", x, 3, 2, w), PST_OK);
    CHECK_FAILS(pst_kv_init(kv, "w", x, 3, 2), "already defined");
    assert_int_equal(pst_kv_wait(kv, "w"), PST_OK);
    assert_int_equal(pst_kv_push(kv, "w", x, 0), PST_OK);
    assert_int_equal(pst_kv_wait(kv, "w"), PST_OK);
    CHECK_FAILS(pst_kv_push(kv, "w", x, 0), "pushed twice");
    CHECK_FAILS(pst_kv_row_sparse_pull(kv, "w", wrong, 2, y, 0), "increasing");
    CHECK_FAILS(pst_kv_row_sparse_pull(kv, "w", far, 1, y, 0), "3 rows");
    assert_int_equal(pst_kv_row_sparse_pull(kv, "w", rows, 2, y, 0), PST_OK);
    assert_int_equal(pst_kv_wait(kv, "w"), PST_OK);
    assert_memory_equal(w, x, sizeof x);
    assert_memory_equal(y, ((float[]){1, 2, 5, 6}), 4 * sizeof *y);
    CHECK_FAILS(pst_kv_wait(kv, "v"), "not defined");
    assert_int_equal(pst_kv_barrier(kv), PST_OK);
    assert_int_equal(pst_kv_close(kv), PST_OK);
    assert_int_equal(pst_kv_close(NULL), PST_OK);
}

/* SGD with momentum by hand; the numbers may change between steps, the name may not. */
static void test_optimizer(void **state) {
    (void)state;
    pst_kv *kv;
    pst_kv_optimizer o;
    float w[] = {1, -2}, g[] = {0.5f, 0.25f}, expected[] = {1, -2}, momentum[] = {0, 0};
    assert_int_equal(pst_kv_open("device", NULL, &kv), PST_OK);
    pst_kv_optimizer_init(&o, "lamb");
    CHECK_FAILS(pst_kv_set_optimizer(kv, &o), "lamb");
    pst_kv_optimizer_init(&o, "sgd");
    assert_true(o.lr == 0.01 && o.weight_decay == 0 && o.rescale == 1);
    o.momentum = 1;
    CHECK_FAILS(pst_kv_set_optimizer(kv, &o), "momentum 1");
    o.momentum = 0.5;
    o.lr = NAN;
    CHECK_FAILS(pst_kv_set_optimizer(kv, &o), "finite");
    o.lr = 1e300; /* beyond fp32 */
    CHECK_FAILS(pst_kv_set_optimizer(kv, &o), "inf in fp32");
    o.lr = 0.1;
    o.beta1 = 1 - 1e-12;
    CHECK_FAILS(pst_kv_set_optimizer(kv, &o), "beta1 1");
    o.beta1 = 0.9;
    assert_int_equal(pst_kv_init(kv, "w", w, 2, 1), PST_OK);
    for (int step = 1; step <= 3; step++) {
        o.lr = 0.25 * step;
        assert_int_equal(pst_kv_set_optimizer(kv, &o), PST_OK);
        assert_int_equal(pst_kv_pushpull(kv, "w", g, w, 0), PST_OK);
        assert_int_equal(pst_kv_wait(kv, NULL), PST_OK);
        for (int i = 0; i < 2; i++) {
            momentum[i] = step == 1 ? g[i] : 0.5f * momentum[i] + g[i];
            expected[i] -= 0.25f * (float)step * momentum[i];
        }
        assert_memory_equal(w, expected, sizeof w);
    }
    pst_kv_optimizer_init(&o, "adam");
    CHECK_FAILS(pst_kv_set_optimizer(kv, &o), "cannot change");
    assert_int_equal(pst_kv_close(kv), PST_OK);
}

/* --- several processes ------------------------------------------------------------------------ */

typedef struct {
    const char *type;
    int64_t servers;
    uint32_t workers;
} job;
typedef void (*scenario)(pst_kv *kv, const job *j);

/* A process of the job; ends with the exit status of the store. */
static pid_t start(const job *j, uint32_t rank, const char *port, scenario run) {
    char text[16];
    fflush(NULL);
    pid_t pid = fork();
    if (pid) return pid;
    snprintf(text, sizeof text, "%u", rank);
    setenv("RANK", text, 1);
    snprintf(text, sizeof text, "%u", j->workers + (uint32_t)j->servers);
    setenv("WORLD_SIZE", text, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port, 1);
    setenv("PENSTOCK_SECRET", "sesame-0123456789", 1);
    alarm(50);
    const pst_kv_options options = {.size = sizeof options, .servers = j->servers, .wait_s = 30};
    pst_kv *kv;
    pst_status status = pst_kv_open(j->type, &options, &kv);
    if (kv) run(kv, j);
    if (kv) status = pst_kv_close(kv);
    if (status != PST_OK) fprintf(stderr, "rank %u: %s\n", rank, pst_error());
    _exit(pst_status_exit(status));
}

static int end_of(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void run_job(const job *j, scenario run) {
    enum { MOST = 8 };
    char port[8];
    pid_t pid[MOST];
    uint32_t n = j->workers + (uint32_t)j->servers;
    port_choose(port);
    for (uint32_t r = 0; r < n; r++) pid[r] = start(j, r, port, run);
    for (uint32_t r = 0; r < n; r++) assert_int_equal(end_of(pid[r]), 0);
}

static void pause_a_while(uint32_t seed) {
    nanosleep(&(struct timespec){.tv_nsec = (long)(seed * 2654435761u >> 20) * 500}, NULL);
}

/* The tree over workers: for 3, (0 + 1) + 2. */
static float expected_sum(uint32_t workers, uint32_t step, uint32_t i) {
    float sum = number(0, step, i);
    if (workers > 1) sum += number(1, step, i);
    if (workers == 3) sum += number(2, step, i);
    if (workers == 4) sum += number(2, step, i) + number(3, step, i);
    return sum;
}

static void run_sums(pst_kv *kv, const job *j) {
    static float x[N], y[N], small[8];
    const uint64_t rows[] = {0, 1, 54, 55, 300, ROWS - 1};
    static float some[6 * COLUMNS];
    uint32_t me = pst_kv_rank(kv);
    CHECK(pst_kv_init(kv, "w", y, ROWS, COLUMNS) == PST_OK);
    CHECK(pst_kv_init(kv, "small", small, 1, 8) == PST_OK);
    for (uint32_t step = 0; step < 4; step++) {
        fill(x, me, step);
        pause_a_while(me * 31 + step);
        CHECK(pst_kv_push(kv, "w", x, (int)step) == PST_OK);
        CHECK(pst_kv_pushpull(kv, "small", x, small, 5) == PST_OK);
        CHECK(pst_kv_pull(kv, "w", y, 7) == PST_OK);
        CHECK(pst_kv_row_sparse_pull(kv, "w", rows, 6, some, 0) == PST_OK);
        CHECK(pst_kv_wait(kv, "w") == PST_OK);
        for (uint32_t i = 0; i < N; i++) CHECK(y[i] == expected_sum(j->workers, step, i));
        for (uint32_t r = 0; r < 6; r++)
            CHECK(!memcmp(some + r * COLUMNS, y + rows[r] * COLUMNS, COLUMNS * sizeof *y));
        if (step == 2) CHECK(pst_kv_barrier(kv) == PST_OK);
        CHECK(pst_kv_wait(kv, NULL) == PST_OK);
        for (uint32_t i = 0; i < 8; i++) CHECK(small[i] == expected_sum(j->workers, step, i));
    }
}

/* A worker that pulls one row is ahead of others in the slices that it does not pull. */
static void run_rows(pst_kv *kv, const job *j) {
    enum { STEPS = 8 };
    static float x[N], y[N];
    const uint64_t row = 54;
    CHECK(pst_kv_init(kv, "w", y, ROWS, COLUMNS) == PST_OK);
    for (uint32_t step = 0; step < STEPS; step++) {
        fill(x, pst_kv_rank(kv), step);
        pause_a_while(pst_kv_rank(kv) * 131 + step);
        CHECK(pst_kv_push(kv, "w", x, 0) == PST_OK);
        CHECK_FAILS(pst_kv_push(kv, "w", x, 0), "pst_kv_wait before");
        CHECK(pst_kv_row_sparse_pull(kv, "w", &row, 1, y, 0) == PST_OK);
        CHECK(pst_kv_wait(kv, "w") == PST_OK);
        for (uint32_t i = 0; i < COLUMNS; i++)
            CHECK(y[i] == expected_sum(j->workers, step, (uint32_t)row * COLUMNS + i));
    }
    CHECK(pst_kv_row_sparse_pull(kv, "w", NULL, 0, NULL, 0) == PST_OK);
    CHECK(pst_kv_pull(kv, "w", y, 0) == PST_OK && pst_kv_wait(kv, "w") == PST_OK);
    for (uint32_t i = 0; i < N; i++) CHECK(y[i] == expected_sum(j->workers, STEPS - 1, i));
}

static void test_sums(void **state) {
    (void)state;
    printf("seed %d\n", SEED);
    run_job(&(job){.type = "dist_sync", .workers = 3}, run_sums);
    run_job(&(job){.type = "dist_sync", .workers = 3, .servers = 2}, run_sums);
    run_job(&(job){.type = "dist_device_sync", .workers = 4, .servers = 1}, run_sums);
    run_job(&(job){.type = "dist_sync", .workers = 3}, run_rows);
    run_job(&(job){.type = "dist_sync", .workers = 2, .servers = 1}, run_rows);
}

/* The owners' steps are those of a store that gets the sum from one worker. */
static void run_adamw(pst_kv *kv, const job *j) {
    static float x[N], y[N], sum[N], alone[N];
    pst_kv *one = open_store("local", 0);
    pst_kv_optimizer o;
    pst_kv_optimizer_init(&o, "adamw");
    o.rescale = 0.5;
    CHECK(pst_kv_set_optimizer(kv, &o) == PST_OK);
    CHECK(pst_kv_set_optimizer(one, &o) == PST_OK);
    fill(y, 99, 99);
    CHECK(pst_kv_init(kv, "w", y, ROWS, COLUMNS) == PST_OK);
    CHECK(pst_kv_init(one, "w", y, ROWS, COLUMNS) == PST_OK);
    CHECK(pst_kv_wait(kv, NULL) == PST_OK && pst_kv_wait(one, NULL) == PST_OK); /* y is read */
    for (uint32_t step = 0; step < 3; step++) {
        fill(x, pst_kv_rank(kv), step);
        for (uint32_t i = 0; i < N; i++) sum[i] = expected_sum(j->workers, step, i);
        CHECK(pst_kv_pushpull(kv, "w", x, y, 0) == PST_OK);
        CHECK(pst_kv_pushpull(one, "w", sum, alone, 0) == PST_OK);
        CHECK(pst_kv_wait(kv, NULL) == PST_OK && pst_kv_wait(one, NULL) == PST_OK);
        CHECK(!memcmp(y, alone, sizeof y));
    }
    CHECK(pst_kv_close(one) == PST_OK);
}

static void test_adamw(void **state) {
    (void)state;
    run_job(&(job){.type = "dist_sync", .workers = 2}, run_adamw);
    run_job(&(job){.type = "dist_sync_device", .workers = 2, .servers = 1}, run_adamw);
}

/* --- packed pushes ---------------------------------------------------------------------------- */

static void set_compression(pst_kv *kv, const char *codec) {
    pst_kv_compression c;
    pst_kv_compression_init(&c, codec);
    CHECK(pst_kv_set_compression(kv, &c) == PST_OK);
}

/* MXNet's rule; error: what earlier pushes have left out. */
static float two_bits(float x, float *error) {
    const float threshold = 0.5f, v = x + *error;
    float sent = 0;
    if (fabsf(v) >= threshold) sent = copysignf(threshold, v);
    *error = v - sent;
    return sent;
}

static void run_two_bits(pst_kv *kv, const job *j) {
    static float x[N], y[N], error[3][N];
    CHECK(j->workers == 3);
    set_compression(kv, "2bit");
    CHECK(pst_kv_init(kv, "w", y, ROWS, COLUMNS) == PST_OK);
    set_compression(kv, "none");
    CHECK(pst_kv_init(kv, "plain", y, ROWS, COLUMNS) == PST_OK);
    for (uint32_t step = 0; step < 3; step++) {
        fill(x, pst_kv_rank(kv), step);
        CHECK(pst_kv_pushpull(kv, "w", x, y, 0) == PST_OK && pst_kv_wait(kv, "w") == PST_OK);
        for (uint32_t i = 0; i < N; i++) {
            float sent[3];
            for (uint32_t k = 0; k < 3; k++) sent[k] = two_bits(number(k, step, i), &error[k][i]);
            CHECK(y[i] == sent[0] + sent[1] + sent[2]);
        }
        CHECK(pst_kv_pushpull(kv, "plain", x, y, 0) == PST_OK && pst_kv_wait(kv, NULL) == PST_OK);
        for (uint32_t i = 0; i < N; i++) CHECK(y[i] == expected_sum(3, step, i));
    }
}

/* What was pulled so far misses what was pushed by what the last push has left out. */
static void run_codec(pst_kv *kv, const char *codec, double tolerance) {
    enum { STEPS = 5 };
    static float x[N], y[N];
    static double missing[N];
    set_compression(kv, codec);
    CHECK(pst_kv_init(kv, codec, y, ROWS, COLUMNS) == PST_OK);
    memset(missing, 0, sizeof missing);
    for (uint32_t step = 0; step < STEPS; step++) {
        fill(x, pst_kv_rank(kv), step);
        CHECK(pst_kv_pushpull(kv, codec, x, y, 0) == PST_OK && pst_kv_wait(kv, codec) == PST_OK);
        uint32_t differs = 0;
        for (uint32_t i = 0; i < N; i++) {
            missing[i] += (double)expected_sum(3, step, i) - (double)y[i];
            differs += y[i] != expected_sum(3, step, i);
            CHECK(fabs(missing[i]) <= tolerance);
        }
        CHECK(differs > N / 2);
    }
}

static void run_codecs(pst_kv *kv, const job *j) {
    (void)j;
    run_codec(kv, "int8", 3 * 0.5 / 127 * 1.01);
    run_codec(kv, "int4", 3 * 0.5 / 7 * 1.08);
    run_codec(kv, "bf16", 3 * 1.0 / 256);
    run_codec(kv, "topk", 3 * 5.0);
}

static void test_compression(void **state) {
    (void)state;
    pst_kv *kv;
    pst_kv_compression c;
    assert_int_equal(pst_kv_open("local", NULL, &kv), PST_OK);
    pst_kv_compression_init(&c, "3bit");
    CHECK_FAILS(pst_kv_set_compression(kv, &c), "3bit");
    pst_kv_compression_init(&c, "2bit");
    c.threshold = -1;
    CHECK_FAILS(pst_kv_set_compression(kv, &c), "threshold -1");
    pst_kv_compression_init(&c, "topk");
    c.rate = 0.6;
    CHECK_FAILS(pst_kv_set_compression(kv, &c), "rate 0.6");
    pst_kv_compression_init(&c, "int8");
    c.block = 48;
    CHECK_FAILS(pst_kv_set_compression(kv, &c), "48 elements");
    CHECK_FAILS(pst_kv_set_compression(kv, NULL), "NULL");
    assert_int_equal(pst_kv_close(kv), PST_OK);
    run_job(&(job){.type = "dist_sync", .workers = 3}, run_two_bits);
    run_job(&(job){.type = "dist_sync", .workers = 3, .servers = 2}, run_two_bits);
    run_job(&(job){.type = "dist_sync", .workers = 3, .servers = 1}, run_codecs);
}

/* Each push is applied once, whatever the order: the numbers are exact in fp32. */
static void run_async(pst_kv *kv, const job *j) {
    enum { PUSHES = 20 };
    static float x[N], y[N];
    pst_kv_optimizer o;
    pst_kv_optimizer_init(&o, "sgd");
    o.lr = 1;
    CHECK(pst_kv_set_optimizer(kv, &o) == PST_OK);
    CHECK(pst_kv_init(kv, "w", y, ROWS, COLUMNS) == PST_OK);
    for (uint32_t i = 0; i < N; i++) x[i] = -(float)(i % 1000);
    for (uint32_t p = 0; p < PUSHES; p++) {
        CHECK(pst_kv_push(kv, "w", x, 0) == PST_OK && pst_kv_wait(kv, "w") == PST_OK);
        pause_a_while(pst_kv_rank(kv) * 77 + p);
        if (p % 5) continue;
        CHECK(pst_kv_pull(kv, "w", y, 0) == PST_OK && pst_kv_wait(kv, "w") == PST_OK);
        for (uint32_t i = 1; i < N; i++) /* at least one's own pushes */
            CHECK(y[i] >= (float)(i % 1000) * (float)(p + 1));
    }
    CHECK(pst_kv_barrier(kv) == PST_OK);
    CHECK(pst_kv_pull(kv, "w", y, 0) == PST_OK && pst_kv_wait(kv, "w") == PST_OK);
    for (uint32_t i = 0; i < N; i++) CHECK(y[i] == (float)(i % 1000) * PUSHES * (float)j->workers);
}

static void test_async(void **state) {
    (void)state;
    run_job(&(job){.type = "dist_async", .workers = 3}, run_async);
    run_job(&(job){.type = "dist_async", .workers = 3, .servers = 1}, run_async);
}

/* --- contradictions and faults ---------------------------------------------------------------- */

/* All workers get the message of the server that found it, from then on and from every call. */
static void expect_failure(pst_kv *kv, const char *words) {
    static float y[N];
    for (int i = 0; i < 2000 && pst_kv_pull(kv, "w", y, 0) == PST_OK; i++) {
        if (pst_kv_wait(kv, NULL) != PST_OK) break;
        usleep(5000);
    }
    CHECK_FAILS(pst_kv_wait(kv, NULL), words);
    CHECK_FAILS(pst_kv_barrier(kv), words);
    CHECK_FAILS(pst_kv_close(kv), words);
    _exit(0);
}

static void run_nan(pst_kv *kv, const job *j) {
    static float x[N];
    (void)j;
    CHECK(pst_kv_init(kv, "w", x, ROWS, COLUMNS) == PST_OK);
    if (pst_kv_rank(kv) == 1) x[3 * COLUMNS + 5] = NAN;
    CHECK(pst_kv_push(kv, "w", x, 0) == PST_OK);
    expect_failure(kv, "worker 1 pushed nan for key 'w' (row 3, column 5)");
}

static void run_shapes(pst_kv *kv, const job *j) {
    static float x[N];
    (void)j;
    (void)pst_kv_init(kv, "w", x, ROWS - pst_kv_rank(kv), COLUMNS);
    expect_failure(kv, "699");
}

static void run_rules(pst_kv *kv, const job *j) {
    static float x[N];
    (void)j;
    pst_kv_optimizer o;
    pst_kv_optimizer_init(&o, "sgd");
    o.lr = 1 + pst_kv_rank(kv);
    CHECK(pst_kv_set_optimizer(kv, &o) == PST_OK);
    CHECK(pst_kv_init(kv, "w", x, ROWS, COLUMNS) == PST_OK);
    CHECK(pst_kv_push(kv, "w", x, 0) == PST_OK);
    expect_failure(kv, "another optimizer");
}

static void run_compressions(pst_kv *kv, const job *j) {
    static float x[N];
    (void)j;
    set_compression(kv, pst_kv_rank(kv) == 1 ? "int8" : "int4");
    CHECK(pst_kv_init(kv, "w", x, ROWS, COLUMNS) == PST_OK);
    CHECK(pst_kv_push(kv, "w", x, 0) == PST_OK);
    expect_failure(kv, "another compression");
}

static void run_death(pst_kv *kv, const job *j) {
    static float x[N], y[N];
    (void)j;
    CHECK(pst_kv_init(kv, "w", x, ROWS, COLUMNS) == PST_OK);
    for (int i = 0; i < 100000; i++)
        if (pst_kv_pushpull(kv, "w", x, y, 0) != PST_OK || pst_kv_wait(kv, "w") != PST_OK) break;
}

/* Worker 1 closes its store after one step fewer. */
static void run_uneven(pst_kv *kv, const job *j) {
    static float x[N], y[N];
    pst_kv *second;
    CHECK_FAILS(pst_kv_open("dist_sync", NULL, &second), "open already");
    CHECK(pst_kv_init(kv, "w", x, ROWS, COLUMNS) == PST_OK);
    for (uint32_t step = 0; step + pst_kv_rank(kv) < j->workers; step++) {
        if (pst_kv_pushpull(kv, "w", x, y, 0) != PST_OK) break;
        if (pst_kv_wait(kv, NULL) != PST_OK) break;
    }
    const char *words = "worker 1 has closed its store, but key 'w' waits for its push";
    if (pst_kv_rank(kv) == 0) CHECK_FAILS(pst_kv_close(kv), words);
    else (void)pst_kv_close(kv); /* may end before the store fails, if it serves nobody */
    _exit(0);
}

/* It closes its store while the other waits for it in a barrier. */
static void run_no_barrier(pst_kv *kv, const job *j) {
    (void)j;
    if (pst_kv_rank(kv) == 0) CHECK_FAILS(pst_kv_barrier(kv), "others wait in a barrier");
    CHECK_FAILS(pst_kv_close(kv), "others wait in a barrier");
    _exit(0);
}

static void fail_job(const job *j, scenario run) {
    enum { MOST = 8 };
    char port[8];
    pid_t pid[MOST];
    uint32_t n = j->workers + (uint32_t)j->servers;
    port_choose(port);
    for (uint32_t r = 0; r < n; r++) pid[r] = start(j, r, port, run);
    for (uint32_t r = 0; r < n; r++) assert_int_equal(end_of(pid[r]), r < j->workers ? 0 : 2);
}

static void test_contradictions(void **state) {
    (void)state;
    const job both = {.type = "dist_sync", .workers = 2},
              apart = {.type = "dist_sync", .workers = 2, .servers = 1};
    fail_job(&both, run_nan);
    fail_job(&apart, run_nan);
    fail_job(&apart, run_shapes);
    fail_job(&apart, run_rules);
    fail_job(&apart, run_compressions);
    fail_job(&both, run_uneven);
    fail_job(&apart, run_uneven);
    fail_job(&both, run_no_barrier);
}

/* Processes that open different stores of one job. */
static void test_kinds(void **state) {
    (void)state;
    const job sync = {.type = "dist_sync", .workers = 2},
              async = {.type = "dist_async", .workers = 2};
    const job apart = {.type = "dist_sync", .workers = 1, .servers = 1};
    char port[8];
    for (int i = 0; i < 2; i++) {
        port_choose(port);
        pid_t first = start(&sync, 0, port, run_death);
        pid_t second = start(i ? &apart : &async, 1, port, run_death);
        assert_int_equal(end_of(first), 3);
        assert_int_equal(end_of(second), 2);
    }
    pst_kv *none;
    setenv("DMLC_ROLE", "master", 1);
    CHECK_FAILS(pst_kv_open("dist_sync", NULL, &none), "'master'");
    unsetenv("DMLC_ROLE");
}

/* A rank is killed in the middle: all others end with status 3. */
static void kill_one(int64_t servers, uint32_t victim) {
    const job j = {.type = "dist_sync", .workers = 2, .servers = servers};
    char port[8];
    pid_t pid[4];
    port_choose(port);
    for (uint32_t r = 0; r < 2 + servers; r++) pid[r] = start(&j, r, port, run_death);
    usleep(1500000);
    kill(pid[victim], SIGKILL);
    for (uint32_t r = 0; r < 2 + servers; r++)
        assert_int_equal(end_of(pid[r]), r == victim ? 128 + SIGKILL : 3);
}

static void test_deaths(void **state) {
    (void)state;
    kill_one(1, 2);
    kill_one(1, 1);
    kill_one(0, 0);
}

/* --- ps-lite's variables ---------------------------------------------------------------------- */

static pid_t start_role(const char *role, const char *port) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid) return pid;
    setenv("DMLC_ROLE", role, 1);
    setenv("DMLC_NUM_WORKER", "2", 1);
    setenv("DMLC_NUM_SERVER", "2", 1);
    setenv("DMLC_PS_ROOT_URI", "127.0.0.1", 1);
    setenv("DMLC_PS_ROOT_PORT", port, 1);
    setenv("PENSTOCK_SECRET", "sesame-0123456789", 1);
    alarm(50);
    pst_kv *kv = open_store("dist_sync", 0);
    int works = !strcmp(role, "worker");
    CHECK(works == (kv != NULL));
    if (kv) {
        CHECK(pst_kv_workers(kv) == 2 && pst_kv_servers(kv) == 2);
        run_sums(kv, &(job){.type = "dist_sync", .workers = 2, .servers = 2});
    }
    _exit(pst_status_exit(pst_kv_close(kv)));
}

static void test_roles(void **state) {
    (void)state;
    const char *const role[] = {"scheduler", "server", "worker", "server", "worker"};
    pid_t pid[5];
    char port[8];
    port_choose(port);
    for (int i = 0; i < 5; i++) pid[i] = start_role(role[i], port);
    for (int i = 0; i < 5; i++) assert_int_equal(end_of(pid[i]), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls), cmocka_unit_test(test_optimizer),
        cmocka_unit_test(test_sums),  cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_async), cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_kinds), cmocka_unit_test(test_deaths),
        cmocka_unit_test(test_roles), cmocka_unit_test(test_compression),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

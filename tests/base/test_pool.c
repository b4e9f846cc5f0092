/* test: label=quick */
/* The thread pool: every tile once, polling between tiles, thousands of small runs, signals left to
 * the caller. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/pool.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1000 };
typedef struct {
    uint32_t threads;
    uint32_t ran[MOST]; /* plain: a tile belongs to one thread, and the thread sanitizer watches */
    uint64_t sum[8];    /* by thread */
    _Atomic int bad_thread;
} job;

static void add_tile(void *arg, uint64_t tile, uint32_t thread) {
    job *j = arg;
    if (thread >= j->threads) atomic_store(&j->bad_thread, 1);
    j->ran[tile]++;
    j->sum[thread % 8] += tile;
}

static void every_tile_runs_once(void **state) {
    (void)state;
    static const uint64_t sizes[] = {0, 1, 2, 3, 7, 64, MOST};
    for (uint32_t threads = 1; threads <= 4; threads++) {
        pst_pool *pool;
        assert_int_equal(pst_pool_open(threads, NULL, NULL, &pool), PST_OK);
        assert_int_equal(pst_pool_threads(pool), threads);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            job j = {.threads = threads};
            uint64_t n = sizes[s], sum = 0;
            pst_pool_run(pool, add_tile, &j, n);
            for (uint64_t i = 0; i < MOST; i++) assert_int_equal(j.ran[i], i < n);
            for (int i = 0; i < 8; i++) sum += j.sum[i];
            assert_int_equal(sum, n ? n * (n - 1) / 2 : 0);
            assert_false(j.bad_thread);
        }
        pst_pool_close(pool);
    }
}

static void many_small_runs(void **state) {
    (void)state;
    for (uint32_t threads = 2; threads <= 4; threads++) {
        pst_pool *pool;
        assert_int_equal(pst_pool_open(threads, NULL, NULL, &pool), PST_OK);
        job j = {.threads = threads};
        for (int run = 0; run < 4000; run++) {
            pst_pool_run(pool, add_tile, &j, 1 + (uint64_t)run % 5);
            if (run % 500 == 0) usleep(100); /* lets the workers fall asleep now and then */
        }
        uint32_t total = 0;
        for (int i = 0; i < 5; i++) total += j.ran[i];
        assert_int_equal(total, 4000 * 3);
        pst_pool_close(pool);
    }
}

static void slow_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)arg;
    (void)tile;
    (void)thread;
    uint64_t until = pst_monotonic_ns() + 200000;
    while (pst_monotonic_ns() < until) {}
}

typedef struct {
    pthread_t caller;
    int calls, foreign;
} polled;

static void count_poll(void *arg) {
    polled *p = arg;
    p->calls++;
    p->foreign += !pthread_equal(p->caller, pthread_self());
}

static void poll_runs_between_tiles(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        pst_pool *pool;
        polled p = {.caller = pthread_self()};
        assert_int_equal(pst_pool_open(threads, NULL, NULL, &pool), PST_OK);
        pst_pool_set_poll(pool, count_poll, &p, 100000);
        for (int run = 0; run < 4; run++) pst_pool_run(pool, slow_tile, NULL, 8);
        if (threads == 1) assert_int_equal(p.calls, 32);
        assert_true(p.calls >= 1); /* a busy machine may leave few tiles to the caller */
        assert_int_equal(p.foreign, 0);
        pst_pool_set_poll(pool, count_poll, &p, UINT64_MAX);
        p.calls = 0;
        pst_pool_run(pool, slow_tile, NULL, 4);
        assert_int_equal(p.calls, 0); /* never due */
        pst_pool_close(pool);
    }
}

/* Five pieces of work; the pool is asked after each. */
static void long_tile(void *pool, uint64_t tile, uint32_t thread) {
    for (int piece = 0; piece < 5; piece++) {
        slow_tile(NULL, tile, thread);
        pst_pool_poll(pool, thread);
    }
}

static void poll_runs_inside_long_tiles(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= 3; threads++) {
        pst_pool *pool;
        polled p = {.caller = pthread_self()};
        assert_int_equal(pst_pool_open(threads, NULL, NULL, &pool), PST_OK);
        pst_pool_set_poll(pool, count_poll, &p, 100000);
        pst_pool_run(pool, long_tile, pool, 8);
        if (threads == 1) assert_true(p.calls >= 40);
        assert_int_equal(p.foreign, 0);
        pst_pool_close(pool);
    }
}

static void uneven_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)arg;
    (void)thread;
    if (tile == 1) usleep(3000);
}

/* While a worker holds the last tile, the caller keeps polling instead of blocking. */
static void caller_polls_while_it_waits(void **state) {
    (void)state;
    pst_pool *pool;
    polled p = {.caller = pthread_self()};
    assert_int_equal(pst_pool_open(2, NULL, NULL, &pool), PST_OK);
    pst_pool_set_poll(pool, count_poll, &p, 50000);
    for (int run = 0; run < 20; run++) pst_pool_run(pool, uneven_tile, NULL, 2);
    assert_true(p.calls >= 5);
    pst_pool_close(pool);
}

static void count_start(void *arg) {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    _Atomic int *starts = arg;
    atomic_fetch_add(&starts[0], 1);
    atomic_fetch_add(&starts[1], sigismember(&blocked, SIGTERM) == 1);
}

static void start_runs_on_every_thread(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= 4; threads++) {
        _Atomic int starts[2] = {0, 0};
        pst_pool *pool;
        assert_int_equal(pst_pool_open(threads, count_start, (void *)starts, &pool), PST_OK);
        assert_int_equal(starts[0], threads); /* all have run before open returns */
        assert_int_equal(starts[1], threads - 1);
        pst_pool_close(pool);
    }
}

static void wrong_thread_counts(void **state) {
    (void)state;
    pst_pool *pool = NULL;
    assert_int_equal(pst_pool_open(0, NULL, NULL, &pool), PST_EINPUT);
    assert_null(pool);
    pst_pool_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_runs_once),
        cmocka_unit_test(many_small_runs),
        cmocka_unit_test(poll_runs_between_tiles),
        cmocka_unit_test(caller_polls_while_it_waits),
        cmocka_unit_test(poll_runs_inside_long_tiles),
        cmocka_unit_test(start_runs_on_every_thread),
        cmocka_unit_test(wrong_thread_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The thread pool. A run is open or closed: while it is open, workers may enter it and claim tiles
 * from one counter. The caller claims tiles too, closes the run when no tile is left, and waits
 * only for the workers that are still inside. So a worker that wakes late delays nobody, and each
 * tile is run by exactly one thread. Threads synchronize through `state` (enter: acquire, leave:
 * release) and the futex words only. */
#include "base/pool.h"
#include "base/clock.h"
#include "base/limit.h"
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Ranks often outnumber cores: a longer spin would use up the time slice of another rank. */
enum { SPIN_NS = 20000 };

/* `state`: number of workers inside, and two flags. */
static const uint32_t CLOSED = 1u << 31, WAITING = 1u << 30, INSIDE = (1u << 30) - 1;

typedef struct {
    pst_pool *pool;
    uint32_t thread;
} worker;

struct pst_pool {
    uint32_t threads;
    /* The run: written by the caller while it is closed and empty, read by the threads inside. */
    pst_tile_fn fn;
    void *arg;
    uint64_t n;
    /* Used by the caller only. */
    void (*poll)(void *);
    void *poll_arg;
    uint64_t every_ns, polled_ns;
    void (*on_start)(void *);
    void *start_arg;
    worker *workers; /* threads - 1 */
    pthread_t *handles;
    /* Shared; on its own cache line, so that claiming tiles does not disturb threads that watch the
     * generation. */
    _Alignas(64) _Atomic uint64_t next;
    _Alignas(64) _Atomic uint32_t state;
    _Alignas(64) _Atomic uint32_t generation; /* incremented when a run opens or the pool ends */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t ending;
};

static void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* timeout_ns 0: no timeout. Returns at once when *word != seen; both callers allow spurious
 * returns. */
static void futex_sleep(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns) {
    struct timespec limit = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, timeout_ns ? &limit : NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, uint32_t count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, (int)count, NULL, NULL, 0);
}

static void leave(pst_pool *pool) {
    uint32_t left = atomic_fetch_sub_explicit(&pool->state, 1, memory_order_acq_rel) - 1;
    if (left == (CLOSED | WAITING)) futex_wake(&pool->state, 1);
}

static int enter(pst_pool *pool) {
    uint32_t state = atomic_load_explicit(&pool->state, memory_order_relaxed);
    while (!(state & CLOSED))
        if (atomic_compare_exchange_weak_explicit(&pool->state, &state, state + 1,
                                                  memory_order_acquire, memory_order_relaxed))
            return 1;
    return 0;
}

/* Waits until the generation differs from `seen`. */
static void await_run(pst_pool *pool, uint32_t seen) {
    uint64_t until = 0;
    for (unsigned turn = 1; atomic_load_explicit(&pool->generation, memory_order_acquire) == seen;
         turn++) {
        cpu_relax();
        if (turn % 16) continue;
        uint64_t now = pst_monotonic_ns();
        if (!until) until = now + SPIN_NS;
        if (now < until) continue;
        /* Sequentially consistent on both sides: either the caller sees a sleeper or the kernel
         * sees a new generation. */
        atomic_fetch_add(&pool->sleepers, 1);
        futex_sleep(&pool->generation, seen, 0);
        atomic_fetch_sub(&pool->sleepers, 1);
    }
}

static void *work(void *arg) {
    worker *self = arg;
    pst_pool *pool = self->pool;
    uint32_t seen = 0;
    if (pool->on_start) pool->on_start(pool->start_arg);
    /* counted as inside since it was created, so that pst_pool_open can wait for on_start */
    leave(pool);
    while (await_run(pool, seen), !atomic_load_explicit(&pool->ending, memory_order_acquire)) {
        seen = atomic_load_explicit(&pool->generation, memory_order_acquire);
        if (!enter(pool)) continue;
        uint64_t tile;
        while ((tile = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < pool->n)
            pool->fn(pool->arg, tile, self->thread);
        leave(pool);
    }
    return NULL;
}

static void poll_if_due(pst_pool *pool) {
    if (!pool->poll) return;
    uint64_t now = pst_monotonic_ns();
    if (now - pool->polled_ns < pool->every_ns) return;
    pool->poll(pool->poll_arg);
    pool->polled_ns = pst_monotonic_ns();
}

void pst_pool_poll(pst_pool *pool, uint32_t thread) {
    if (thread == 0) poll_if_due(pool);
}

/* Closes the run and waits for the workers inside, with polling. */
static void close_run(pst_pool *pool) {
    uint32_t state = atomic_fetch_or_explicit(&pool->state, CLOSED, memory_order_acq_rel) | CLOSED;
    uint64_t until = 0;
    for (unsigned turn = 1; state & INSIDE; turn++) {
        cpu_relax();
        if (turn % 16 == 0) {
            uint64_t now = pst_monotonic_ns();
            if (!until) until = now + SPIN_NS;
            poll_if_due(pool);
            if (now >= until) {
                state =
                    atomic_fetch_or_explicit(&pool->state, WAITING, memory_order_acq_rel) | WAITING;
                if (state & INSIDE)
                    futex_sleep(&pool->state, state, pool->poll ? pool->every_ns + 1 : 0);
            }
        }
        state = atomic_load_explicit(&pool->state, memory_order_acquire);
    }
}

static void wake_workers(pst_pool *pool, uint32_t count) {
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->sleepers)) futex_wake(&pool->generation, count);
}

void pst_pool_run(pst_pool *pool, pst_tile_fn fn, void *arg, uint64_t n) {
    int shared = pool->threads > 1 && n > 1;
    if (!shared) {
        for (uint64_t tile = 0; tile < n; tile++) {
            fn(arg, tile, 0);
            poll_if_due(pool);
        }
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    pool->n = n;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->state, 0, memory_order_release);
    wake_workers(pool, n - 1 < pool->threads - 1 ? (uint32_t)(n - 1) : pool->threads - 1);
    uint64_t tile;
    while ((tile = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < n) {
        fn(arg, tile, 0);
        poll_if_due(pool);
    }
    close_run(pool);
}

/* Starts the workers with all signals blocked: the main thread handles signals. */
static pst_status start_workers(pst_pool *pool, uint32_t *started) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    for (*started = 0; *started + 1 < pool->threads; ++*started) {
        worker *w = &pool->workers[*started];
        *w = (worker){.pool = pool, .thread = *started + 1};
        atomic_fetch_add_explicit(&pool->state, 1, memory_order_relaxed);
        error = pthread_create(&pool->handles[*started], NULL, work, w);
        if (error) break;
        char name[16];
        snprintf(name, sizeof name, "pst-%u", w->thread);
        pthread_setname_np(pool->handles[*started], name);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) return PST_OK;
    atomic_fetch_sub_explicit(&pool->state, 1, memory_order_relaxed); /* the worker that could not
                                                                         be started */
    char limits[PST_LIMIT_TEXT];
    return pst_fail(PST_ENOMEM, "cannot start thread %u of %u: %s%s", *started + 2, pool->threads,
                    strerror(error), pst_limit_of_threads(limits));
}

static void end_workers(pst_pool *pool, uint32_t started) {
    atomic_store_explicit(&pool->ending, 1, memory_order_release);
    wake_workers(pool, pool->threads);
    for (uint32_t i = 0; i < started; i++) pthread_join(pool->handles[i], NULL);
    free(pool->workers);
    free(pool->handles);
    free(pool);
}

pst_status pst_pool_open(uint32_t threads, void (*on_start)(void *), void *start_arg,
                         pst_pool **pool) {
    if (threads < 1 || threads > 65536)
        return pst_fail(PST_EINPUT, "the number of threads is %u; expected 1 to 65536", threads);
    pst_pool *p = aligned_alloc(64, sizeof *p);
    if (!p) return pst_fail(PST_ENOMEM, "no memory for a pool of %u threads", threads);
    memset(p, 0, sizeof *p);
    p->threads = threads;
    p->on_start = on_start;
    p->start_arg = start_arg;
    p->workers = calloc(threads, sizeof *p->workers);
    p->handles = calloc(threads, sizeof *p->handles);
    atomic_init(&p->state, CLOSED);
    uint32_t started = 0;
    pst_status status = p->workers && p->handles
                            ? start_workers(p, &started)
                            : pst_fail(PST_ENOMEM, "no memory for a pool of %u threads", threads);
    if (status != PST_OK) {
        end_workers(p, started);
        return status;
    }
    if (on_start) on_start(start_arg);
    close_run(p);
    *pool = p;
    return PST_OK;
}

void pst_pool_close(pst_pool *pool) {
    if (pool) end_workers(pool, pool->threads - 1);
}

uint32_t pst_pool_threads(const pst_pool *pool) { return pool->threads; }

void pst_pool_set_poll(pst_pool *pool, void (*poll)(void *), void *arg, uint64_t every_ns) {
    pool->poll = poll;
    pool->poll_arg = arg;
    pool->every_ns = every_ns;
    pool->polled_ns = pst_monotonic_ns();
}

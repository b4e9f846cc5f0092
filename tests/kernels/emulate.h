/* Just enough of CUDA to run the kernels of kernels/cuda on a processor: the threads of a block are
 * contexts that take turns, in either order, at barriers and shuffles. A barrier that a thread
 * never reaches while others wait ends the test. tests.cmake includes this in front of each *.cu;
 * one thread at a time uses it. */
#ifndef PST_TESTS_KERNELS_EMULATE_H
#define PST_TESTS_KERNELS_EMULATE_H
#undef _FORTIFY_SOURCE /* it takes a jump to another stack for a mistake */
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <setjmp.h>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(8) float2 {
    float x, y;
};
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
template <typename T, typename F> static inline T bits_of(F from) {
    T to;
    static_assert(sizeof to == sizeof from, "");
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline float __uint_as_float(unsigned x) { return bits_of<float>(x); }
static inline unsigned __float_as_uint(float x) { return bits_of<unsigned>(x); }

/* Products and sums are rounded one by one here anyway (-ffp-contract=off). */
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline int __float2int_rn(float x) { return (int)rintf(x); }
#define __expf expf
static inline unsigned atomicCAS(unsigned *at, unsigned old, unsigned now) {
    unsigned was = *at;
    if (was == old) *at = now;
    return was;
}
static inline unsigned atomicMax(unsigned *at, unsigned x) {
    unsigned was = *at;
    if (x > was) *at = x;
    return was;
}
static inline void __threadfence_system() {}

/* --- threads ---------------------------------------------------------------------------------- */
struct emulated_barrier { /* of a block, or of a warp */
    unsigned members, waiting, round;
};
struct emulated_warp {
    emulated_barrier barrier;
    uint64_t slot[2][32]; /* of even and odd rounds */
};
/* Runs one thread after the other, until one has to wait: then others go on with those that are
 * left. */
struct emulated_fiber {
    jmp_buf at;
    dim3 index;
    unsigned linear;
    bool made, busy;
    std::vector<char> stack;
};

static jmp_buf emulated_main;
static std::vector<emulated_fiber> emulated_fibers(1024); /* they never move */
static emulated_fiber *emulated_now;
static emulated_barrier emulated_block;
static std::vector<emulated_warp> emulated_warps;
static std::function<void()> emulated_kernel;
static unsigned emulated_threads, emulated_begun;
static unsigned long emulated_moves; /* barriers passed and threads ended: what a turn of all fibers
                                        must add to */
extern "C" int emulate_backwards;    /* threads begin from the last to the first: the test says */
static dim3 blockIdx, blockDim, gridDim;
#define threadIdx (emulated_now->index)

static inline void emulated_yield() {
    if (!_setjmp(emulated_now->at)) _longjmp(emulated_main, 1);
}

static inline void emulated_wait(emulated_barrier &b) {
    unsigned round = b.round;
    if (++b.waiting == b.members) {
        b.waiting = 0;
        b.round++;
        emulated_moves++;
    } else
        while (b.round == round) emulated_yield();
}
static inline void __syncthreads() { emulated_wait(emulated_block); }

/* A warp's barrier at each exchange; a thread cannot be two rounds ahead of its warp, so two slots
 * are enough. */
template <typename T> static inline T emulated_exchange(T x, unsigned from) {
    emulated_warp &warp = emulated_warps[emulated_now->linear / 32];
    unsigned which = warp.barrier.round % 2;
    static_assert(sizeof x <= 8, "");
    memcpy(&warp.slot[which][emulated_now->linear % 32], &x, sizeof x);
    emulated_wait(warp.barrier);
    memcpy(&x, &warp.slot[which][from], sizeof x);
    return x;
}
template <typename T> static inline T __shfl_xor_sync(unsigned, T x, int lane) {
    return emulated_exchange(x, (emulated_now->linear % 32) ^ (unsigned)lane);
}
template <typename T> static inline T __shfl_sync(unsigned, T x, int lane) {
    return emulated_exchange(x, (unsigned)lane % 32);
}

/* A thread that has ended is waited for no more, as on a GPU. */
static inline void emulated_leave(emulated_barrier &b) {
    if (--b.members && b.waiting == b.members) {
        b.waiting = 0;
        b.round++;
    }
}

static void emulated_loop() {
    for (;; emulated_yield())
        while (emulated_begun < emulated_threads) {
            emulated_fiber &f = *emulated_now;
            unsigned i = emulated_begun++;
            f.linear = i = emulate_backwards ? emulated_threads - 1 - i : i;
            f.index =
                dim3(i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y);
            f.busy = true;
            emulated_kernel();
            f.busy = false;
            emulated_moves++;
            emulated_leave(emulated_block);
            emulated_leave(emulated_warps[f.linear / 32].barrier);
        }
}

__attribute__((noinline)) static void emulated_resume(emulated_fiber &f) {
    emulated_now = &f;
    if (_setjmp(emulated_main)) return;
    if (f.made) _longjmp(f.at, 1);
    static ucontext_t context;
    f.made = true;
    f.stack.resize(64 * 1024);
    getcontext(&context);
    context.uc_stack.ss_sp = f.stack.data();
    context.uc_stack.ss_size = f.stack.size();
    makecontext(&context, emulated_loop, 0);
    setcontext(&context);
}

/* 32 fibers, which are a warp where threads wait for each other. Backwards, as far as they can go
 * without the others, so that one warp is ahead of the next by as much as barriers allow. */
static bool emulated_run_warp(size_t from) {
    unsigned long moves;
    bool left;
    do {
        moves = emulated_moves;
        left = false;
        for (size_t i = from; i < from + 32; i++) {
            emulated_fiber &f = emulated_fibers[i];
            if (!f.busy && emulated_begun == emulated_threads) continue;
            emulated_resume(f);
            left = left || f.busy;
        }
    } while (emulate_backwards && left && moves != emulated_moves);
    return left;
}

static void emulated_run_block() {
    emulated_begun = 0;
    emulated_block = {emulated_threads, 0, 0};
    emulated_warps.assign(emulated_threads / 32, emulated_warp{{32, 0, 0}, {}});
    for (bool left = true; left;) {
        unsigned long moves = emulated_moves;
        left = false;
        for (size_t warp = 0; warp < emulated_fibers.size(); warp += 32)
            left = emulated_run_warp(warp) || left;
        if (!left || moves != emulated_moves) continue;
        unsigned others = emulated_block.members - emulated_block.waiting;
        fprintf(stderr, "a barrier that %u of %u threads do not reach\n", others, emulated_threads);
        abort();
    }
}

struct CUstream_st;
template <typename... P, typename... A>
static inline void launch(CUstream_st *, void (*kernel)(P...), dim3 grid, dim3 block, A... args) {
    emulated_kernel = [=] { kernel(args...); };
    emulated_threads = block.x * block.y * block.z;
    if (emulated_threads % 32 || emulated_threads > 1024 || !grid.x || !grid.y || grid.y > 65535) {
        fprintf(stderr, "a launch of %u x %u blocks with %u threads\n", grid.x, grid.y,
                emulated_threads);
        abort();
    }
    gridDim = grid;
    blockDim = block;
    for (unsigned y = 0; y < grid.y; y++)
        for (unsigned x = 0; x < grid.x; x++) {
            blockIdx = dim3(x, y);
            emulated_run_block();
        }
}
static inline void zero(CUstream_st *, void *to, uint64_t bytes) { memset(to, 0, bytes); }
#endif

/* Kernels of the flush over many arrays at once: optimizers, which also round the new weights, and
 * sums of squares. Same bits as kernels/ref/flat.c. */
#include "kernels/cuda/formula.cuh"

enum { THREADS = 256, LANES = 16 /* running sums of a block of squares */, BLOCK = 4096 };
/* same values as in optim.h; arith.c asserts that */
enum { RULE_ADAMW, RULE_SGD, RULE_ADAM, RULE_LAMB };

static_assert(sizeof(pst_cuda_update_list) <= 32764,
              "the parameters of a kernel must not exceed 32764 bytes");
static_assert(sizeof(pst_cuda_square_list) <= 32764,
              "the parameters of a kernel must not exceed 32764 bytes");

/* The last entry whose first tile (or block) is at or before `tile`. */
template <typename E, typename F>
__device__ inline uint32_t find_entry(const E *entry, uint32_t n, F begins, uint32_t at) {
    uint32_t low = 0;
    while (n > 1) {
        uint32_t half = n / 2;
        if (begins(entry[low + half]) <= at) {
            low += half;
            n -= half;
        } else n = half;
    }
    return low;
}

struct four {
    float w[4], g[4], m[4], v[4];
};

/* S: type of the states, float or bf16. */
template <typename S> __device__ inline void load_state(const S *from, float (&x)[4]) {
    widen_pack<S>(*reinterpret_cast<const typename raw_bytes<4 * sizeof(S)>::type *>(from), x);
}

template <int KIND, typename S>
__device__ inline void load_four(const pst_cuda_update_entry &e, uint64_t i, four &x) {
    widen_pack<float>(load_pack(e.weight + i), x.w), widen_pack<float>(load_pack(e.grad + i), x.g);
    load_state((const S *)e.state[0] + i, x.m);
    if (KIND != RULE_SGD) load_state((const S *)e.state[1] + i, x.v);
}

/* decay: the array's weight decay; for AdamW the factor on a weight. rate: of LAMB. S = bf16:
 * afterwards the states are bf16 numbers. */
struct factors {
    float decay, rate;
};
template <int KIND, typename S>
__device__ inline void update_one(const pst_cuda_rule &h, factors f, float g, float &w, float &m,
                                  float &v) {
    uint32_t random = sizeof(S) == 2 ? element_noise(h.noise, w, g) : 0;
    if (KIND == RULE_ADAMW) adamw(h, f.decay, g, w, m, v);
    else if (KIND == RULE_ADAM) adam(h, f.decay, g, w, m, v);
    else if (KIND == RULE_LAMB) w = plus(w, -times(f.rate, lamb(h, f.decay, g, w, m, v)));
    else sgd(h, f.decay, g, w, m);
    if (sizeof(S) == 4) return;
    m = rounded(m, random);
    v = rounded(v, random >> 16);
}

template <int KIND, typename T, typename S>
__device__ inline void store_four(const pst_cuda_update_entry &e, uint64_t i, const four &x) {
    store_pack(e.weight + i, x.w);
    store_pack((S *)e.state[0] + i, x.m);
    if (KIND != RULE_SGD) store_pack((S *)e.state[1] + i, x.v);
    if (e.narrow)
        *reinterpret_cast<uint2 *>(e.narrow + i) =
            make_uint2(join(T(), x.w[0], x.w[1]), join(T(), x.w[2], x.w[3]));
}

/* Whether four elements can be loaded and stored at once. */
template <typename S> __device__ inline bool is_aligned(const pst_cuda_update_entry &e) {
    uintptr_t states = (uintptr_t)e.state[0] | (uintptr_t)e.state[1];
    return ((uintptr_t)e.weight | (uintptr_t)e.grad) % 16 == 0 && states % (4 * sizeof(S)) == 0 &&
           (uintptr_t)e.narrow % 8 == 0;
}

/* Block: a tile of one array. T: type of the rounded weights. */
template <int KIND, typename T, typename S>
__global__ void __launch_bounds__(THREADS)
    update(const __grid_constant__ pst_cuda_update_list list) {
    enum { DEEP = 2 };
    const pst_cuda_update_entry &e = list.entry[find_entry(
        list.entry, list.n, [](const pst_cuda_update_entry &x) { return x.tile; }, blockIdx.x)];
    const pst_cuda_rule &h = list.rule;
    factors f = {KIND == RULE_ADAMW ? plus(1.0f, -times(h.lr, e.decay)) : e.decay, e.lr};
    uint64_t from = (uint64_t)(blockIdx.x - e.tile) * PST_CUDA_TILE;
    uint32_t n = (uint32_t)least(e.n - from, PST_CUDA_TILE);
    uint32_t packed = is_aligned<S>(e) ? n / 4 * 4 : 0;
    for (uint32_t i = threadIdx.x * 4; i < packed; i += THREADS * 4 * DEEP) {
        four x[DEEP];
#pragma unroll
        for (uint32_t k = 0; k < DEEP; k++)
            if (i + k * THREADS * 4 < packed)
                load_four<KIND, S>(e, from + i + k * THREADS * 4, x[k]);
#pragma unroll
        for (uint32_t k = 0; k < DEEP; k++) {
            if (i + k * THREADS * 4 >= packed) continue;
#pragma unroll
            for (uint32_t c = 0; c < 4; c++)
                update_one<KIND, S>(h, f, x[k].g[c], x[k].w[c], x[k].m[c], x[k].v[c]);
            store_four<KIND, T, S>(e, from + i + k * THREADS * 4, x[k]);
        }
    }
    S *first = (S *)e.state[0], *second = (S *)e.state[1];
    for (uint64_t i = from + packed + threadIdx.x; i < from + n; i += THREADS) {
        float w = e.weight[i], m = widen(first[i]), v = KIND != RULE_SGD ? widen(second[i]) : 0;
        update_one<KIND, S>(h, f, e.grad[i], w, m, v);
        e.weight[i] = w;
        first[i] = narrowed<S>(m);
        if (KIND != RULE_SGD) second[i] = narrowed<S>(v);
        if (e.narrow) reinterpret_cast<T *>(e.narrow)[i] = narrowed<T>(w);
    }
}

template <typename T, typename S>
static void run_update(pst_cuda_queue q, const pst_cuda_update_list *list) {
    dim3 grid(list->tiles), block(THREADS);
    if (list->rule.kind == RULE_ADAMW) launch(q, update<RULE_ADAMW, T, S>, grid, block, *list);
    else if (list->rule.kind == RULE_ADAM) launch(q, update<RULE_ADAM, T, S>, grid, block, *list);
    else if (list->rule.kind == RULE_LAMB) launch(q, update<RULE_LAMB, T, S>, grid, block, *list);
    else launch(q, update<RULE_SGD, T, S>, grid, block, *list);
}

template <typename T>
static void run_update_of(pst_cuda_queue q, const pst_cuda_update_list *list) {
    if (list->rule.narrow_state) run_update<T, bf16>(q, list);
    else run_update<T, float>(q, list);
}

void pst_cuda_update(pst_cuda_queue q, pst_dtype narrow, const pst_cuda_update_list *list) {
    if (narrow == PST_F16) run_update_of<f16>(q, list);
    else run_update_of<bf16>(q, list);
}

/* 16 threads sum a block of 4096 elements: element i in thread i % 16, then pairwise. The square of
 * a float is exact in fp64, so that a fused multiply-add rounds like a product and a sum. */
__global__ void __launch_bounds__(THREADS)
    block_squares(const __grid_constant__ pst_cuda_square_list list) {
    enum { DEEP = 16 };
    uint32_t block = blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES,
             lane = threadIdx.x % LANES;
    uint32_t last = block < list.blocks ? block : list.blocks - 1;
    const pst_cuda_square_entry &e = list.entry[find_entry(
        list.entry, list.n, [](const pst_cuda_square_entry &x) { return x.block; }, last)];
    uint64_t from = (uint64_t)(last - e.block) * BLOCK;
    uint32_t n = (uint32_t)least(e.n - from, BLOCK);
    const float *x = e.x + from;
    double sum = 0;
    for (uint32_t i = lane; i < n; i += LANES * DEEP) {
        float v[DEEP];
#pragma unroll
        for (uint32_t k = 0; k < DEEP; k++) v[k] = i + k * LANES < n ? x[i + k * LANES] : 0.0f;
#pragma unroll
        for (uint32_t k = 0; k < DEEP; k++) sum = fma((double)v[k], (double)v[k], sum);
    }
#pragma unroll
    for (int half = LANES / 2; half; half /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, half);
    if (lane == 0 && block < list.blocks) list.sums[block] = sum;
}

/* Warp: an array's blocks in order. */
__global__ void __launch_bounds__(WARP)
    total_squares(const __grid_constant__ pst_cuda_square_list list) {
    const pst_cuda_square_entry &e = list.entry[blockIdx.x];
    uint32_t blocks = (uint32_t)div_up(e.n, BLOCK);
    double total = e.begun ? *e.out : 0;
    for (uint32_t b = 0; b < blocks; b += WARP) {
        double own = b + threadIdx.x < blocks ? list.sums[e.block + b + threadIdx.x] : 0;
        for (uint32_t k = 0; k < WARP; k++) total += __shfl_sync(0xffffffffu, own, k);
    }
    if (threadIdx.x == 0) *e.out = total;
}

void pst_cuda_sum_squares(pst_cuda_queue q, const pst_cuda_square_list *list) {
    if (list->blocks)
        launch(q, block_squares, dim3(grid_of(list->blocks, THREADS / LANES)), dim3(THREADS),
               *list);
    if (list->n) launch(q, total_squares, dim3(list->n), dim3(WARP), *list);
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    average(float rate, float scale, float *weight, const float *grad, T *narrow, uint64_t n) {
    uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    float w = plus(weight[i], times(rate, plus(times(scale, grad[i]), -weight[i])));
    weight[i] = w;
    if (narrow) narrow[i] = narrowed<T>(w);
}

void pst_cuda_average(pst_cuda_queue q, pst_dtype dtype, float rate, float scale, float *weight,
                      const float *grad, uint16_t *narrow, uint64_t n) {
    dim3 grid(grid_of(n, THREADS)), block(THREADS);
    if (dtype == PST_F16)
        launch(q, average<f16>, grid, block, rate, scale, weight, grad, (f16 *)narrow, n);
    else launch(q, average<bf16>, grid, block, rate, scale, weight, grad, (bf16 *)narrow, n);
}

/* 16 bytes per thread, if all arrays are aligned to that. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    combine(const __grid_constant__ pst_cuda_addends list, T *out, uint64_t n, bool packed) {
    enum { WIDE = 16 / sizeof(T) };
    uint64_t at = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * WIDE;
    if (packed && at + WIDE <= n) {
        float sum[WIDE], x[WIDE];
        widen_pack<T>(load_pack((const T *)list.x[0] + at), sum);
        for (uint32_t k = 1; k < list.n; k++) {
            widen_pack<T>(load_pack((const T *)list.x[k] + at), x);
#pragma unroll
            for (uint32_t i = 0; i < WIDE; i++) sum[i] = plus(sum[i], x[i]);
        }
        store_pack(out + at, sum);
        return;
    }
    for (uint64_t i = at; i < at + WIDE && i < n; i++) {
        float sum = widen(((const T *)list.x[0])[i]);
        for (uint32_t k = 1; k < list.n; k++) sum = plus(sum, widen(((const T *)list.x[k])[i]));
        out[i] = narrowed<T>(sum);
    }
}

template <typename T>
static void run_combine(pst_cuda_queue q, const pst_cuda_addends *list, T *out, uint64_t n) {
    uintptr_t together = (uintptr_t)out;
    for (uint32_t k = 0; k < list->n; k++) together |= (uintptr_t)list->x[k];
    launch(q, combine<T>, dim3(grid_of(n, THREADS * 16 / sizeof(T))), dim3(THREADS), *list, out, n,
           together % 16 == 0);
}

void pst_cuda_combine(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_addends *list, void *out,
                      uint64_t n) {
    if (dtype == PST_F32) run_combine(q, list, (float *)out, n);
    else if (dtype == PST_F16) run_combine(q, list, (f16 *)out, n);
    else run_combine(q, list, (bf16 *)out, n);
}

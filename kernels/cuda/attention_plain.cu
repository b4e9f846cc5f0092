/* Attention without the library: tiles of 32 queries and 32 keys in fp32, without storing the score
 * matrix. A block computes 32 output channels of its rows and recomputes the scores from all
 * channels of a head, so any head size works with the same shared memory. Correct rather than fast.
 * Every sum has a fixed order, without atomics: the same bits each time.
 *
 * A block is 8 warps; thread x of warp y has column x of rows y, y + 8, y + 16 and y + 24 of a
 * tile. */
#include "kernels/cuda/attention_plain.h"
#include "kernels/cuda/formula.cuh"

namespace {

enum { TILE = 32, LINES = 8, EACH = TILE / LINES, PACK = 8 /* elements of 16 bits in 16 bytes */ };

/* What a thread of the three kernels works on. */
struct place {
    uint64_t t, c, d; /* positions, channels of all heads and of one */
    uint64_t length;  /* positions before the padding */
    uint64_t window;
    bool bidirectional;
    uint64_t q, kv, out;  /* where the head begins in queries, in keys and values, and in out */
    uint64_t q_ld, kv_ld; /* elements from a position to the next */
    uint64_t row;         /* where it begins in lse */
    uint64_t first;       /* row of the block's tile */
    uint64_t channel;     /* first of the block's channels of the head */
    uint64_t stream_hi;   /* where the head begins in the random stream */
    uint64_t stream_lo;
};

__device__ inline uint64_t length_of(const pst_cuda_attention &a, uint64_t sample) {
    if (!a.lengths) return a.t;
    int32_t n = a.lengths[sample];
    if (n < 0) return 0;
    return (uint64_t)n < a.t ? (uint64_t)n : a.t;
}

/* Queries, keys and values are blocks of one operand, or operands of their own. */
template <typename T> struct operands {
    const T *q, *k, *v;
    T *dq, *dk, *dv;
};
template <typename T> __device__ inline operands<T> operands_of(const pst_cuda_attention &a) {
    if (!a.qkv)
        return {(const T *)a.q, (const T *)a.k, (const T *)a.v, (T *)a.dq, (T *)a.dk, (T *)a.dv};
    const T *q = (const T *)a.qkv;
    T *dq = (T *)a.dqkv;
    return {q, q + a.c, q + 2 * a.c, dq, dq + a.c, dq + 2 * a.c};
}

/* The place of a head of a sample; the tile is the block's. */
__device__ inline place place_of(const pst_cuda_attention &a, uint64_t sample, uint64_t head) {
    place p;
    p.t = a.t;
    p.c = a.c;
    p.d = a.c / a.heads;
    p.q_ld = a.qkv ? 3 * a.c : a.c;
    p.kv_ld = a.qkv ? 3 * a.c : p.d * a.kv_heads;
    p.q = sample * a.t * p.q_ld + head * p.d;
    p.kv = sample * a.t * p.kv_ld + (a.qkv ? head : (a.first + head) / a.group) * p.d;
    p.out = sample * a.t * a.c + head * p.d;
    p.row = (sample * a.heads + head) * a.t;
    p.length = length_of(a, sample);
    p.window = a.window;
    p.bidirectional = a.bidirectional;
    p.first = blockIdx.x % div_up(a.t, TILE) * TILE;
    p.channel = (uint64_t)blockIdx.y * TILE;
    p.stream_hi = (a.sample_at ? *a.sample_at : a.sample) + sample;
    p.stream_lo = (a.first + head) << 32;
    return p;
}

__device__ inline place find(const pst_cuda_attention &a) {
    uint64_t head = blockIdx.x / div_up(a.t, TILE);
    return place_of(a, head / a.heads, head % a.heads);
}

/* Whether the position `query` sees `key`. */
__device__ inline bool sees(const place &p, uint64_t query, uint64_t key) {
    if (p.window && key + p.window <= query) return false;
    return query < p.length && key < p.length && (p.bidirectional || key <= query);
}

/* The factor that dropout gives to the probability of `key` for `query` (kernels/attention.h). */
__device__ inline float kept(const pst_cuda_attention &a, const place &p, uint64_t query,
                             uint64_t key) {
    if (!(a.rate > 0)) return 1.0f;
    uint4 word = philox(a.key, p.stream_hi, p.stream_lo + query * div_up(p.t, 4) + key / 4);
    float uniform = (float)(word_of(word, key) >> 8) * 0x1p-24f;
    return uniform >= a.rate ? 1.0f / (1.0f - a.rate) : 0.0f;
}

/* The end of the keys that the block's queries see; the first query that sees the block's keys. */
__device__ inline uint64_t keys_end(const place &p) {
    uint64_t seen = p.bidirectional || p.length < p.first + TILE ? p.length : p.first + TILE;
    return p.first < p.length ? seen : 0;
}
/* The first tile of keys that they see. */
__device__ inline uint64_t keys_begin(const place &p) {
    return p.window && p.first + 1 > p.window ? (p.first + 1 - p.window) / TILE * TILE : 0;
}
__device__ inline uint64_t queries_begin(const place &p) {
    if (p.first >= p.length) return p.length;
    return p.bidirectional ? 0 : p.first;
}

/* Loads 32 rows from `first` on and 32 channels from `channel` on, of a head whose rows are
 * `stride` apart; 0 outside and in padding. */
template <typename T>
__device__ inline void load_tile(float (&to)[TILE][TILE + 1], const T *head, uint64_t stride,
                                 uint64_t first, uint64_t channel, const place &p) {
    for (int i = 0; i < EACH; i++) {
        uint64_t r = threadIdx.y + (uint64_t)i * LINES, row = first + r, at = channel + threadIdx.x;
        to[r][threadIdx.x] = row < p.length && at < p.d ? widen(head[row * stride + at]) : 0.0f;
    }
}

/* sum[i] = dot of row (first_x + y + 8 i) of x and row (first_y + x) of y, over all channels of the
 * head. */
template <typename T>
__device__ inline void dot_tile(float (&sum)[EACH], const T *x, uint64_t stride_x, uint64_t first_x,
                                const T *y, uint64_t stride_y, uint64_t first_y, const place &p,
                                float (&left)[TILE][TILE + 1], float (&right)[TILE][TILE + 1]) {
    for (int i = 0; i < EACH; i++) sum[i] = 0;
    for (uint64_t channel = 0; channel < p.d; channel += TILE) {
        __syncthreads();
        load_tile(left, x, stride_x, first_x, channel, p);
        load_tile(right, y, stride_y, first_y, channel, p);
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            for (int i = 0; i < EACH; i++)
                sum[i] = fmaf(left[threadIdx.y + i * LINES][k], right[threadIdx.x][k], sum[i]);
    }
}

__device__ inline float warp_max(float x) {
    for (int lane = WARP / 2; lane; lane /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
    return x;
}

/* Scores of a row come tile by tile: sums so far are rescaled when a larger score appears (Milakov
 * & Gimelshein 2018). In the first tile every row before the padding has at least one score. */
template <typename T>
__global__ void __launch_bounds__(TILE *LINES, 2) forward(const pst_cuda_attention a) {
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1], weight[TILE][TILE + 1];
    const place p = find(a);
    const operands<T> o = operands_of<T>(a);
    const T *q = o.q + p.q, *k = o.k + p.kv, *v = o.v + p.kv;
    float max[EACH], sum[EACH], out[EACH], score[EACH];
    for (int i = 0; i < EACH; i++) {
        max[i] = p.window ? -3.4e38f : -INFINITY; /* a row may see nothing of its first tile */
        sum[i] = 0;
        out[i] = 0;
    }
    for (uint64_t keys = keys_begin(p), end = keys_end(p); keys < end; keys += TILE) {
        dot_tile(score, q, p.q_ld, p.first, k, p.kv_ld, keys, p, left, right);
        for (int i = 0; i < EACH; i++) {
            uint64_t r = threadIdx.y + (uint64_t)i * LINES;
            float s = sees(p, p.first + r, keys + threadIdx.x) ? score[i] * a.scale : -INFINITY;
            float larger = fmaxf(max[i], warp_max(s)), shrink = expf(max[i] - larger),
                  w = expf(s - larger);
            max[i] = larger;
            sum[i] = sum[i] * shrink + warp_sum(w);
            out[i] *= shrink;
            weight[r][threadIdx.x] = w * kept(a, p, p.first + r, keys + threadIdx.x);
        }
        __syncthreads();
        load_tile(right, v, p.kv_ld, keys, p.channel, p);
        __syncthreads();
        for (int n = 0; n < TILE; n++)
            for (int i = 0; i < EACH; i++)
                out[i] = fmaf(weight[threadIdx.y + i * LINES][n], right[n][threadIdx.x], out[i]);
    }
    for (int i = 0; i < EACH; i++) {
        uint64_t row = p.first + threadIdx.y + (uint64_t)i * LINES, at = p.channel + threadIdx.x;
        bool valid = row < p.length;
        if (row < p.t && at < p.d)
            ((T *)a.out)[p.out + row * p.c + at] = narrowed<T>(valid ? out[i] / sum[i] : 0.0f);
        if (row < p.t && at == 0) a.lse[p.row + row] = valid ? max[i] + logf(sum[i]) : 0.0f;
    }
}

/* delta[i] = dot of dout and out in row (first + y + 8 i); the warp's lanes share the channels. */
template <typename T>
__device__ inline void delta_of(float (&delta)[EACH], const pst_cuda_attention &a, uint64_t first,
                                const place &p) {
    const T *out = (const T *)a.out + p.out, *dout = (const T *)a.dout + p.out;
    for (int i = 0; i < EACH; i++) {
        uint64_t row = first + threadIdx.y + (uint64_t)i * LINES;
        float sum = 0;
        if (row < p.length)
            for (uint64_t at = threadIdx.x; at < p.d; at += WARP)
                sum = fmaf(widen(dout[row * p.c + at]), widen(out[row * p.c + at]), sum);
        delta[i] = warp_sum(sum);
    }
}

/* For a tile of queries and keys: the probabilities, times the factor of dropout, and the gradient
 * of the scaled scores; 0 where masked. */
template <typename T>
__device__ inline void
gradient_tile(float (&weight)[EACH], float (&ds)[EACH], const float (&delta)[EACH],
              const pst_cuda_attention &a, uint64_t queries, uint64_t keys, const place &p,
              float (&left)[TILE][TILE + 1], float (&right)[TILE][TILE + 1]) {
    const operands<T> o = operands_of<T>(a);
    const T *q = o.q + p.q, *k = o.k + p.kv, *v = o.v + p.kv, *dout = (const T *)a.dout + p.out;
    float score[EACH], dp[EACH];
    dot_tile(score, q, p.q_ld, queries, k, p.kv_ld, keys, p, left, right);
    dot_tile(dp, dout, p.c, queries, v, p.kv_ld, keys, p, left, right);
    for (int i = 0; i < EACH; i++) {
        uint64_t row = queries + threadIdx.y + (uint64_t)i * LINES;
        weight[i] =
            sees(p, row, keys + threadIdx.x) ? expf(score[i] * a.scale - a.lse[p.row + row]) : 0.0f;
        float factor = kept(a, p, row, keys + threadIdx.x);
        ds[i] = weight[i] * (factor * dp[i] - delta[i]) * a.scale;
        weight[i] *= factor;
    }
}

/* Rows are queries. */
template <typename T>
__global__ void __launch_bounds__(TILE *LINES, 2) backward_q(const pst_cuda_attention a) {
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1], grad[TILE][TILE + 1];
    const place p = find(a);
    const operands<T> o = operands_of<T>(a);
    const T *k = o.k + p.kv;
    float delta[EACH], weight[EACH], ds[EACH], dq[EACH] = {0};
    delta_of<T>(delta, a, p.first, p);
    for (uint64_t keys = keys_begin(p), end = keys_end(p); keys < end; keys += TILE) {
        gradient_tile<T>(weight, ds, delta, a, p.first, keys, p, left, right);
        for (int i = 0; i < EACH; i++) grad[threadIdx.y + i * LINES][threadIdx.x] = ds[i];
        __syncthreads();
        load_tile(right, k, p.kv_ld, keys, p.channel, p);
        __syncthreads();
        for (int n = 0; n < TILE; n++)
            for (int i = 0; i < EACH; i++)
                dq[i] = fmaf(grad[threadIdx.y + i * LINES][n], right[n][threadIdx.x], dq[i]);
    }
    for (int i = 0; i < EACH; i++) {
        uint64_t row = p.first + threadIdx.y + (uint64_t)i * LINES, at = p.channel + threadIdx.x;
        if (row < p.t && at < p.d) o.dq[p.q + row * p.q_ld + at] = narrowed<T>(dq[i]);
    }
}

/* The queries whose tiles see the block's keys end here. */
__device__ inline uint64_t queries_end(const place &p) {
    return p.window && p.first + TILE + p.window < p.length ? p.first + TILE + p.window : p.length;
}

/* Adds what one head of queries contributes to dk and dv; rows are keys. */
template <typename T>
__device__ inline void add_head(float (&dk)[EACH], float (&dv)[EACH], const pst_cuda_attention &a,
                                const place &p, float (&left)[TILE][TILE + 1],
                                float (&right)[TILE][TILE + 1], float (&share)[TILE][TILE + 1],
                                float (&grad)[TILE][TILE + 1]) {
    const T *q = operands_of<T>(a).q + p.q, *dout = (const T *)a.dout + p.out;
    float delta[EACH], weight[EACH], ds[EACH];
    for (uint64_t queries = queries_begin(p), end = queries_end(p); queries < end;
         queries += TILE) {
        delta_of<T>(delta, a, queries, p);
        gradient_tile<T>(weight, ds, delta, a, queries, p.first, p, left, right);
        for (int i = 0; i < EACH; i++) {
            share[threadIdx.y + i * LINES][threadIdx.x] = weight[i];
            grad[threadIdx.y + i * LINES][threadIdx.x] = ds[i];
        }
        __syncthreads();
        load_tile(left, q, p.q_ld, queries, p.channel, p);
        load_tile(right, dout, p.c, queries, p.channel, p);
        __syncthreads();
        for (int n = 0; n < TILE; n++)
            for (int i = 0; i < EACH; i++) {
                dk[i] = fmaf(grad[n][threadIdx.y + i * LINES], left[n][threadIdx.x], dk[i]);
                dv[i] = fmaf(share[n][threadIdx.y + i * LINES], right[n][threadIdx.x], dv[i]);
            }
    }
}

/* Rows are keys; the heads that share them are added in order. */
template <typename T>
__global__ void __launch_bounds__(TILE *LINES) backward_kv(const pst_cuda_attention a) {
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1], share[TILE][TILE + 1],
        grad[TILE][TILE + 1];
    const uint64_t heads = a.qkv ? a.heads : a.kv_heads, block = blockIdx.x / div_up(a.t, TILE),
                   sample = block / heads, kv = block % heads;
    float dk[EACH] = {0}, dv[EACH] = {0};
    for (uint64_t h = 0; h < a.heads; h++)
        if ((a.qkv ? h : (a.first + h) / a.group) == kv)
            add_head<T>(dk, dv, a, place_of(a, sample, h), left, right, share, grad);
    place p = place_of(a, sample, 0);
    const operands<T> o = operands_of<T>(a);
    p.kv = sample * a.t * p.kv_ld + kv * p.d;
    for (int i = 0; i < EACH; i++) {
        uint64_t row = p.first + threadIdx.y + (uint64_t)i * LINES, at = p.channel + threadIdx.x;
        if (row >= p.t || at >= p.d) continue;
        o.dk[p.kv + row * p.kv_ld + at] = narrowed<T>(dk[i]);
        o.dv[p.kv + row * p.kv_ld + at] = narrowed<T>(dv[i]);
    }
}

/* Clears rows of padding, all channels; in the backward pass those of q, k and v. */
template <typename T, bool BACKWARD>
__global__ void __launch_bounds__(TILE *LINES) clear(const pst_cuda_attention a) {
    const place p = find(a);
    const operands<T> o = operands_of<T>(a);
    uint64_t at = p.channel + threadIdx.x;
    for (int i = 0; i < EACH; i++) {
        uint64_t row = p.first + threadIdx.y + (uint64_t)i * LINES;
        if (row < p.length || row >= p.t || at >= p.d) continue;
        if (BACKWARD) {
            o.dq[p.q + row * p.q_ld + at] = narrowed<T>(0.0f);
            o.dk[p.kv + row * p.kv_ld + at] = narrowed<T>(0.0f);
            o.dv[p.kv + row * p.kv_ld + at] = narrowed<T>(0.0f);
        } else {
            ((T *)a.out)[p.out + row * p.c + at] = narrowed<T>(0.0f);
            if (at == 0) a.lse[p.row + row] = 0.0f;
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(TILE *LINES)
    sum_members(const T *part, uint64_t n, uint64_t group, T *to) {
    const uint64_t i = ((uint64_t)blockIdx.x * (TILE * LINES) + threadIdx.x) * PACK;
    float sum[PACK], next[PACK];
    if (i >= n) return;
    widen_pack<T>(load_pack(part + i), sum);
    for (uint64_t member = 1; member < group; member++) {
        widen_pack<T>(load_pack(part + member * n + i), next);
        for (uint32_t k = 0; k < PACK; k++) sum[k] += next[k];
    }
    store_pack(to + i, sum);
}

__global__ void __launch_bounds__(TILE *LINES) clamp(const pst_cuda_attention a, int32_t *to) {
    uint64_t sample = (uint64_t)blockIdx.x * (TILE * LINES) + threadIdx.x;
    if (sample >= a.b) return;
    uint64_t length = length_of(a, sample);
    to[sample] = (int32_t)(length ? length : 1);
}

/* One block per tile of rows, head, and 32 channels of the head. */
dim3 grid_over(const pst_cuda_attention *a, uint64_t heads) {
    return dim3((unsigned)(div_up(a->t, TILE) * a->b * heads),
                (unsigned)div_up(a->c / a->heads, TILE));
}

dim3 grid(const pst_cuda_attention *a) { return grid_over(a, a->heads); }

} // namespace

extern "C" void pst_cuda_attention_f(pst_cuda_queue q, pst_dtype dtype,
                                     const pst_cuda_attention *a) {
    by_type(dtype,
            [&](auto type) { launch(q, forward<decltype(type)>, grid(a), dim3(TILE, LINES), *a); });
}

extern "C" void pst_cuda_attention_b(pst_cuda_queue q, pst_dtype dtype,
                                     const pst_cuda_attention *a) {
    by_type(dtype, [&](auto type) {
        launch(q, backward_q<decltype(type)>, grid(a), dim3(TILE, LINES), *a);
        launch(q, backward_kv<decltype(type)>, grid_over(a, a->qkv ? a->heads : a->kv_heads),
               dim3(TILE, LINES), *a);
    });
}

extern "C" void pst_cuda_attention_clear_f(pst_cuda_queue q, pst_dtype dtype,
                                           const pst_cuda_attention *a) {
    by_type(dtype, [&](auto type) {
        launch(q, clear<decltype(type), false>, grid(a), dim3(TILE, LINES), *a);
    });
}

extern "C" void pst_cuda_attention_clear_b(pst_cuda_queue q, pst_dtype dtype,
                                           const pst_cuda_attention *a) {
    by_type(dtype, [&](auto type) {
        launch(q, clear<decltype(type), true>, grid(a), dim3(TILE, LINES), *a);
    });
}

extern "C" void pst_cuda_attention_sum(pst_cuda_queue q, pst_dtype dtype, const void *part,
                                       uint64_t n, uint64_t group, void *to) {
    const dim3 grid(grid_of(n, TILE * LINES * PACK)), block(TILE * LINES);
    if (dtype == PST_BF16)
        launch(q, sum_members<bf16>, grid, block, (const bf16 *)part, n, group, (bf16 *)to);
    else launch(q, sum_members<f16>, grid, block, (const f16 *)part, n, group, (f16 *)to);
}

extern "C" void pst_cuda_attention_clamp(pst_cuda_queue q, const pst_cuda_attention *a,
                                         int32_t *to) {
    launch(q, clamp, dim3(grid_of(a->b, TILE * LINES)), dim3(TILE * LINES), *a, to);
}

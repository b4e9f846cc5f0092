/* Attention without the library: tiles of 64 queries and 64 keys in fp32, without storing the score
 * matrix (as in FlashAttention 2, Dao 2023). A block computes 64 output channels of its rows and
 * recomputes the scores from all channels of a head, so any head size works with the same shared
 * memory. Every sum has a fixed order, without atomics: the same bits each time.
 *
 * A block has 16 x 16 threads; each has 4 rows and 4 columns of a tile. */
#include "kernels/cuda/attention_plain.h"
#include "kernels/cuda/formula.cuh"

namespace {

enum { TILE = 64, EACH = 4, SIDE = TILE / EACH, THREADS = SIDE * SIDE };
enum { PACK = 8 /* elements of 16 bits in 16 bytes */ };
static const float LOWEST = -3.4e38f; /* its differences are finite */

/* What a thread of the three kernels works on; other sizes are read from the arguments. */
struct place {
    uint32_t sample, head, kv; /* head of queries; of keys and values */
    uint32_t d;                /* channels of a head */
    uint32_t length;           /* positions before the padding */
    uint32_t first;            /* row of the block's tile */
    uint32_t channel;          /* first of the block's channels of the head */
};

__device__ inline uint32_t length_of(const pst_cuda_attention &a, uint64_t sample) {
    if (!a.lengths) return (uint32_t)a.t;
    int32_t n = a.lengths[sample];
    if (n < 0) return 0;
    return (uint64_t)n < a.t ? (uint32_t)n : (uint32_t)a.t;
}

/* The place of a head of a sample; the tile is the block's. */
__device__ inline place place_of(const pst_cuda_attention &a, uint64_t sample, uint64_t head) {
    place p;
    p.sample = (uint32_t)sample;
    p.head = (uint32_t)head;
    p.kv = (uint32_t)(a.qkv ? head : (a.first + head) / a.group);
    p.d = (uint32_t)(a.c / a.heads);
    p.length = length_of(a, sample);
    p.first = blockIdx.x % (uint32_t)div_up(a.t, TILE) * TILE;
    p.channel = blockIdx.y * TILE;
    return p;
}

__device__ inline place find(const pst_cuda_attention &a) {
    uint64_t head = blockIdx.x / div_up(a.t, TILE);
    return place_of(a, head / a.heads, head % a.heads);
}

/* Rows of a head, `stride` elements apart; of all positions. */
template <typename T> struct rows {
    T *at;
    uint32_t stride;
};

/* The rows of a head that begins `from` elements behind its sample's first. */
template <typename T>
__device__ inline rows<T> rows_of(const void *of, const pst_cuda_attention &a, const place &p,
                                  uint64_t stride, uint64_t from) {
    return {(T *)of + p.sample * a.t * stride + from, (uint32_t)stride};
}

/* Queries, keys and values, or their gradients: blocks of one operand, or operands of their own. */
template <typename T>
__device__ inline rows<T> queries_of(const void *qkv, const void *q, const pst_cuda_attention &a,
                                     const place &p) {
    const uint64_t head = (uint64_t)p.head * p.d;
    return a.qkv ? rows_of<T>(qkv, a, p, 3 * a.c, head) : rows_of<T>(q, a, p, a.c, head);
}
/* block: 1, keys; 2, values */
template <typename T>
__device__ inline rows<T> keys_of(const void *qkv, const void *kv, uint64_t block,
                                  const pst_cuda_attention &a, const place &p) {
    const uint64_t head = (uint64_t)p.kv * p.d;
    if (a.qkv) return rows_of<T>(qkv, a, p, 3 * a.c, block * a.c + head);
    return rows_of<T>(kv, a, p, p.d * a.kv_heads, head);
}

template <typename T>
__device__ inline rows<const T> q_of(const pst_cuda_attention &a, const place &p) {
    return queries_of<const T>(a.qkv, a.q, a, p);
}
template <typename T>
__device__ inline rows<const T> k_of(const pst_cuda_attention &a, const place &p) {
    return keys_of<const T>(a.qkv, a.k, 1, a, p);
}
template <typename T>
__device__ inline rows<const T> v_of(const pst_cuda_attention &a, const place &p) {
    return keys_of<const T>(a.qkv, a.v, 2, a, p);
}
template <typename T> __device__ inline rows<T> dq_of(const pst_cuda_attention &a, const place &p) {
    return queries_of<T>(a.dqkv, a.dq, a, p);
}
template <typename T> __device__ inline rows<T> dk_of(const pst_cuda_attention &a, const place &p) {
    return keys_of<T>(a.dqkv, a.dk, 1, a, p);
}
template <typename T> __device__ inline rows<T> dv_of(const pst_cuda_attention &a, const place &p) {
    return keys_of<T>(a.dqkv, a.dv, 2, a, p);
}
/* Rows of the result, or of its gradient. */
template <typename T>
__device__ inline rows<T> out_of(const void *out, const pst_cuda_attention &a, const place &p) {
    return rows_of<T>(out, a, p, a.c, (uint64_t)p.head * p.d);
}
__device__ inline float *lse_of(const pst_cuda_attention &a, const place &p) {
    return a.lse + (p.sample * a.heads + p.head) * a.t;
}

/* Whether the position `query` sees `key`. */
__device__ inline bool sees(const pst_cuda_attention &a, const place &p, uint32_t query,
                            uint32_t key) {
    if (a.window && key + a.window <= query) return false;
    return query < p.length && key < p.length && (a.bidirectional || key <= query);
}

/* The factors that dropout gives to the probabilities of the keys 4 * `four` to 4 * `four` + 3 for
 * `query` (kernels/attention.h). */
template <bool DROPS>
__device__ inline void kept(float (&factor)[EACH], const pst_cuda_attention &a, const place &p,
                            uint32_t query, uint32_t four) {
    for (int i = 0; i < EACH; i++) factor[i] = 1.0f;
    if (!DROPS) return;
    const uint64_t sample = (a.sample_at ? *a.sample_at : a.sample) + p.sample,
                   at = ((a.first + p.head) << 32) + query * div_up(a.t, 4) + four;
    uint4 word = philox(a.key, sample, at);
    for (uint32_t i = 0; i < EACH; i++) {
        float uniform = (float)(word_of(word, i) >> 8) * 0x1p-24f;
        factor[i] = uniform >= a.rate ? 1.0f / (1.0f - a.rate) : 0.0f;
    }
}

/* The end of the keys that the block's queries see; the first tile of keys that they see. */
__device__ inline uint32_t keys_end(const pst_cuda_attention &a, const place &p) {
    uint32_t seen = a.bidirectional || p.length < p.first + TILE ? p.length : p.first + TILE;
    return p.first < p.length ? seen : 0;
}
__device__ inline uint32_t keys_begin(const pst_cuda_attention &a, const place &p) {
    const uint32_t window = (uint32_t)a.window;
    return window && p.first + 1 > window ? (p.first + 1 - window) / TILE * TILE : 0;
}

/* The queries whose tiles see the block's keys. */
__device__ inline uint32_t queries_begin(const pst_cuda_attention &a, const place &p) {
    if (p.first >= p.length) return p.length;
    return a.bidirectional ? 0 : p.first;
}
__device__ inline uint32_t queries_end(const pst_cuda_attention &a, const place &p) {
    const uint64_t end = p.first + TILE + a.window;
    return a.window && end < p.length ? (uint32_t)end : p.length;
}

/* --- tiles ------------------------------------------------------------------------------------ */

/* A tile in shared memory: by rows, or turned, with element (row r, column n) at turned(n, r). */
struct alignas(16) tile {
    float at[TILE * TILE];
};

/* Four rows from a multiple of 4 on are adjacent. Without the exclusive or, the threads that store
 * columns of a tile would wait for one bank of the memory. */
__device__ inline uint32_t turned(uint32_t n, uint32_t r) {
    return n * TILE + (r ^ (n / EACH % SIDE * EACH));
}

/* The first of a thread's rows, and of its columns. */
__device__ inline uint32_t row_of_thread() { return threadIdx.x / SIDE * EACH; }
__device__ inline uint32_t column_of_thread() { return threadIdx.x % SIDE * EACH; }

/* Four channels from `channel` on of a row with d of them; 0 behind the last. */
template <typename T>
__device__ inline void load_four(const T *row, uint32_t channel, uint32_t d, float (&x)[EACH]) {
    chunk<T, EACH> four;
    if (channel + EACH <= d && (uintptr_t)(row + channel) % sizeof four.raw == 0) {
        four.load(row + channel);
        four.widened(x);
    } else {
        for (uint32_t i = 0; i < EACH; i++) x[i] = channel + i < d ? widen(row[channel + i]) : 0.0f;
    }
}

/* Loads 64 rows from `first` on and 64 channels from `channel` on; 0 outside and in padding. */
template <bool TURNED, typename T>
__device__ inline void load_tile(tile &to, rows<const T> from, uint32_t first, uint32_t channel,
                                 const place &p) {
#pragma unroll 2
    for (uint32_t i = 0; i < EACH; i++) {
        uint32_t r = threadIdx.x / SIDE + i * SIDE, n = column_of_thread();
        float x[EACH] = {0, 0, 0, 0};
        if (first + r < p.length)
            load_four(from.at + (uint64_t)(first + r) * from.stride, channel + n, p.d, x);
        if (!TURNED) store_pack(to.at + r * TILE + n, x);
        for (uint32_t k = 0; TURNED && k < EACH; k++) to.at[turned(n + k, r)] = x[k];
    }
}

/* A tile of which each thread has its rows and columns, turned. */
__device__ inline void store_turned(tile &to, const float (&x)[EACH][EACH]) {
    for (uint32_t n = 0; n < EACH; n++) {
        const float column[EACH] = {x[0][n], x[1][n], x[2][n], x[3][n]};
        store_pack(to.at + turned(column_of_thread() + n, row_of_thread()), column);
    }
}

/* sum += left^T right over `depth` columns of the tiles; left is turned. */
template <bool TURNED>
__device__ inline void multiply(float (&sum)[EACH][EACH], const tile &left, const tile &right,
                                uint32_t depth) {
    const uint32_t row = row_of_thread(), column = column_of_thread();
#pragma unroll 2
    for (uint32_t n = 0; n < depth; n++) {
        float a[EACH], b[EACH];
        widen_pack<float>(load_pack(left.at + turned(n, row)), a);
        widen_pack<float>(load_pack(right.at + (TURNED ? turned(n, column) : n * TILE + column)),
                          b);
        for (int i = 0; i < EACH; i++)
            for (int j = 0; j < EACH; j++) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
    }
}

__device__ inline uint32_t depth_of(const place &p, uint32_t channel) {
    return p.d - channel < TILE ? p.d - channel : (uint32_t)TILE;
}

/* sum[i][j] = dot of the thread's row i of x and row j of y, over all channels of the head. */
template <typename T>
__device__ inline void dot_tile(float (&sum)[EACH][EACH], rows<const T> x, uint32_t first_x,
                                rows<const T> y, uint32_t first_y, const place &p, tile &left,
                                tile &right) {
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) sum[i][j] = 0;
    for (uint32_t channel = 0; channel < p.d; channel += TILE) {
        __syncthreads();
        load_tile<true>(left, x, first_x, channel, p);
        load_tile<true>(right, y, first_y, channel, p);
        __syncthreads();
        multiply<true>(sum, left, right, depth_of(p, channel));
    }
}

/* Over the threads that share rows. */
__device__ inline float row_max(float x) {
    for (int lane = SIDE / 2; lane; lane /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
    return x;
}
__device__ inline float row_sum(float x) {
    for (int lane = SIDE / 2; lane; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
    return x;
}

/* Stores the thread's part of a tile of results. */
template <typename T>
__device__ inline void store_tile(rows<T> to, const float (&x)[EACH][EACH],
                                  const pst_cuda_attention &a, const place &p) {
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            uint32_t row = p.first + row_of_thread() + i, at = p.channel + column_of_thread() + j;
            if (row < a.t && at < p.d) to.at[(uint64_t)row * to.stride + at] = narrowed<T>(x[i][j]);
        }
}

/* --- forward ---------------------------------------------------------------------------------- */

/* A row's scores so far: their maximum, the sum of their exponentials, and that of values. */
struct online {
    float max[EACH], sum[EACH], out[EACH][EACH];
};

/* Turns a tile of scores into weights; sums so far are rescaled if a larger score appears (Milakov
 * & Gimelshein 2018). */
template <bool DROPS>
__device__ inline void weigh(online &o, float (&score)[EACH][EACH], const pst_cuda_attention &a,
                             const place &p, uint32_t keys) {
    const uint32_t key = keys + column_of_thread();
    for (int i = 0; i < EACH; i++) {
        const uint32_t query = p.first + row_of_thread() + i;
        float most = LOWEST, sum = 0, factor[EACH];
        kept<DROPS>(factor, a, p, query, key / EACH);
        for (int j = 0; j < EACH; j++) {
            score[i][j] = sees(a, p, query, key + j) ? score[i][j] * a.scale : -INFINITY;
            most = fmaxf(most, score[i][j]);
        }
        const float larger = fmaxf(o.max[i], row_max(most)), shrink = expf(o.max[i] - larger);
        for (int j = 0; j < EACH; j++) {
            const float weight = expf(score[i][j] - larger);
            sum += weight;
            score[i][j] = weight * factor[j];
            o.out[i][j] *= shrink;
        }
        o.max[i] = larger;
        o.sum[i] = o.sum[i] * shrink + row_sum(sum);
    }
}

template <typename T, bool DROPS>
__global__ void __launch_bounds__(THREADS, 2) forward(const pst_cuda_attention a) {
    __shared__ tile left, right, value;
    const place p = find(a);
    float score[EACH][EACH];
    online sums = {};
    for (int i = 0; i < EACH; i++) sums.max[i] = LOWEST;
    for (uint32_t keys = keys_begin(a, p), end = keys_end(a, p); keys < end; keys += TILE) {
        dot_tile<T>(score, q_of<T>(a, p), p.first, k_of<T>(a, p), keys, p, left, right);
        load_tile<false, T>(value, v_of<T>(a, p), keys, p.channel, p);
        weigh<DROPS>(sums, score, a, p, keys);
        __syncthreads();
        store_turned(right, score);
        __syncthreads();
        multiply<false>(sums.out, right, value, TILE);
    }
    for (int i = 0; i < EACH; i++) {
        uint32_t row = p.first + row_of_thread() + i;
        bool valid = row < p.length;
        for (int j = 0; j < EACH; j++) sums.out[i][j] = valid ? sums.out[i][j] / sums.sum[i] : 0.0f;
        if (row < a.t && p.channel + column_of_thread() == 0)
            lse_of(a, p)[row] = valid ? sums.max[i] + logf(sums.sum[i]) : 0.0f;
    }
    store_tile(out_of<T>(a.out, a, p), sums.out, a, p);
}

/* --- backward --------------------------------------------------------------------------------- */

/* Of 64 queries: the dot of dout and out, and the log-sum-exp. */
struct of_queries {
    float delta[TILE], lse[TILE];
};

/* Four threads for each query. */
template <typename T>
__device__ inline void load_queries(of_queries &to, const pst_cuda_attention &a, uint32_t first,
                                    const place &p) {
    const rows<const T> out = out_of<const T>(a.out, a, p), dout = out_of<const T>(a.dout, a, p);
    const uint32_t r = threadIdx.x / 4, part = threadIdx.x % 4;
    const uint32_t row = first + r;
    float sum = 0;
    for (uint32_t at = part * EACH; row < p.length && at < p.d; at += 4 * EACH) {
        float x[EACH], y[EACH];
        load_four(out.at + (uint64_t)row * out.stride, at, p.d, x);
        load_four(dout.at + (uint64_t)row * dout.stride, at, p.d, y);
        for (int i = 0; i < EACH; i++) sum = fmaf(x[i], y[i], sum);
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (part == 0) {
        to.delta[r] = sum;
        to.lse[r] = row < p.length ? lse_of(a, p)[row] : 0.0f;
    }
}

/* For a tile of queries and keys: the probabilities, times the factor of dropout, and the gradient
 * of the scaled scores; 0 where masked. Its rows are queries, or keys. */
template <typename T, bool KEYS, bool DROPS>
__device__ inline void gradient_tile(float (&weight)[EACH][EACH], float (&ds)[EACH][EACH],
                                     const of_queries &of, const pst_cuda_attention &a,
                                     uint32_t queries, uint32_t keys, const place &p, tile &left,
                                     tile &right) {
    if (KEYS) {
        dot_tile<T>(weight, k_of<T>(a, p), keys, q_of<T>(a, p), queries, p, left, right);
        dot_tile<T>(ds, v_of<T>(a, p), keys, out_of<const T>(a.dout, a, p), queries, p, left,
                    right);
    } else {
        dot_tile<T>(weight, q_of<T>(a, p), queries, k_of<T>(a, p), keys, p, left, right);
        dot_tile<T>(ds, out_of<const T>(a.dout, a, p), queries, v_of<T>(a, p), keys, p, left,
                    right);
    }
    const uint32_t query = KEYS ? column_of_thread() : row_of_thread(),
                   key = KEYS ? row_of_thread() : column_of_thread();
    for (uint32_t m = 0; m < EACH; m++) {
        float factor[EACH];
        kept<DROPS>(factor, a, p, queries + query + m, (keys + key) / EACH);
        for (uint32_t n = 0; n < EACH; n++) {
            float &w = KEYS ? weight[n][m] : weight[m][n];
            float &d = KEYS ? ds[n][m] : ds[m][n];
            const bool seen = sees(a, p, queries + query + m, keys + key + n);
            w = seen ? expf(w * a.scale - of.lse[query + m]) : 0.0f;
            d = w * (factor[n] * d - of.delta[query + m]) * a.scale;
            w *= factor[n];
        }
    }
}

/* Rows are queries. */
template <typename T, bool DROPS>
__global__ void __launch_bounds__(THREADS, 2) backward_q(const pst_cuda_attention a) {
    __shared__ tile left, right;
    __shared__ of_queries of;
    const place p = find(a);
    float weight[EACH][EACH], ds[EACH][EACH], dq[EACH][EACH] = {};
    load_queries<T>(of, a, p.first, p);
    for (uint32_t keys = keys_begin(a, p), end = keys_end(a, p); keys < end; keys += TILE) {
        gradient_tile<T, false, DROPS>(weight, ds, of, a, p.first, keys, p, left, right);
        __syncthreads();
        store_turned(left, ds);
        load_tile<false, T>(right, k_of<T>(a, p), keys, p.channel, p);
        __syncthreads();
        multiply<false>(dq, left, right, TILE);
    }
    store_tile(dq_of<T>(a, p), dq, a, p);
}

/* Adds what one head of queries contributes to dk and dv; rows are keys. */
template <typename T, bool DROPS>
__device__ inline void add_head(float (&dk)[EACH][EACH], float (&dv)[EACH][EACH],
                                const pst_cuda_attention &a, const place &p, of_queries &of,
                                tile &left, tile &right) {
    float weight[EACH][EACH], ds[EACH][EACH];
    for (uint32_t queries = queries_begin(a, p), end = queries_end(a, p); queries < end;
         queries += TILE) {
        load_queries<T>(of, a, queries, p);
        gradient_tile<T, true, DROPS>(weight, ds, of, a, queries, p.first, p, left, right);
        __syncthreads();
        store_turned(left, weight);
        load_tile<false, T>(right, out_of<const T>(a.dout, a, p), queries, p.channel, p);
        __syncthreads();
        multiply<false>(dv, left, right, TILE);
        __syncthreads();
        store_turned(left, ds);
        load_tile<false, T>(right, q_of<T>(a, p), queries, p.channel, p);
        __syncthreads();
        multiply<false>(dk, left, right, TILE);
    }
}

/* Rows are keys; the heads that share them are added in order. With dropout two blocks would not
 * have enough registers. */
template <typename T, bool DROPS>
__global__ void __launch_bounds__(THREADS, DROPS ? 1 : 2) backward_kv(const pst_cuda_attention a) {
    __shared__ tile left, right;
    __shared__ of_queries of;
    const uint64_t heads = a.qkv ? a.heads : a.kv_heads, block = blockIdx.x / div_up(a.t, TILE),
                   sample = block / heads, kv = block % heads;
    float dk[EACH][EACH] = {}, dv[EACH][EACH] = {};
    for (uint64_t h = 0; h < a.heads; h++)
        if ((a.qkv ? h : (a.first + h) / a.group) == kv)
            add_head<T, DROPS>(dk, dv, a, place_of(a, sample, h), of, left, right);
    place p = place_of(a, sample, 0);
    p.kv = (uint32_t)kv;
    store_tile(dk_of<T>(a, p), dk, a, p);
    store_tile(dv_of<T>(a, p), dv, a, p);
}

/* --- beside cuDNN's kernels ------------------------------------------------------------------- */

/* Clears rows of padding, all channels; in the backward pass those of q, k and v. */
template <typename T, bool BACKWARD>
__global__ void __launch_bounds__(THREADS) clear(const pst_cuda_attention a) {
    const place p = find(a);
    for (uint32_t i = threadIdx.x; i < TILE * TILE; i += THREADS) {
        uint32_t row = p.first + i / TILE, at = p.channel + i % TILE;
        if (row < p.length || row >= a.t || at >= p.d) continue;
        const rows<T> of[] = {BACKWARD ? dq_of<T>(a, p) : out_of<T>(a.out, a, p), dk_of<T>(a, p),
                              dv_of<T>(a, p)};
        for (int k = 0; k < (BACKWARD ? 3 : 1); k++)
            of[k].at[(uint64_t)row * of[k].stride + at] = narrowed<T>(0.0f);
        if (!BACKWARD && at == 0) lse_of(a, p)[row] = 0.0f;
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS) sum_members(const pst_cuda_attention_shared s) {
    const uint64_t i = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * PACK;
    float sum[PACK], next[PACK];
    if (i >= s.n) return;
    const T *part = (const T *)s.part + i / s.run * s.between + i % s.run;
    widen_pack<T>(load_pack(part), sum);
    for (uint64_t member = 1; member < s.group; member++) {
        widen_pack<T>(load_pack(part + member * s.apart), next);
        for (uint32_t k = 0; k < PACK; k++) sum[k] += next[k];
    }
    store_pack((T *)s.to + i, sum);
}

__global__ void __launch_bounds__(THREADS) clamp(const pst_cuda_attention a, int32_t *to) {
    uint64_t sample = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (sample >= a.b) return;
    uint64_t length = length_of(a, sample);
    to[sample] = (int32_t)(length ? length : 1);
}

/* One block per tile of rows, head, and 64 channels of the head. */
dim3 grid_over(const pst_cuda_attention *a, uint64_t heads) {
    return dim3((unsigned)(div_up(a->t, TILE) * a->b * heads),
                (unsigned)div_up(a->c / a->heads, TILE));
}

dim3 grid(const pst_cuda_attention *a) { return grid_over(a, a->heads); }

template <typename T, bool DROPS> void launch_b(pst_cuda_queue q, const pst_cuda_attention *a) {
    launch(q, backward_q<T, DROPS>, grid(a), dim3(THREADS), *a);
    launch(q, backward_kv<T, DROPS>, grid_over(a, a->qkv ? a->heads : a->kv_heads), dim3(THREADS),
           *a);
}

} // namespace

extern "C" void pst_cuda_attention_f(pst_cuda_queue q, pst_dtype dtype,
                                     const pst_cuda_attention *a) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        if (a->rate > 0) launch(q, forward<T, true>, grid(a), dim3(THREADS), *a);
        else launch(q, forward<T, false>, grid(a), dim3(THREADS), *a);
    });
}

extern "C" void pst_cuda_attention_b(pst_cuda_queue q, pst_dtype dtype,
                                     const pst_cuda_attention *a) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        if (a->rate > 0) launch_b<T, true>(q, a);
        else launch_b<T, false>(q, a);
    });
}

extern "C" void pst_cuda_attention_clear_f(pst_cuda_queue q, pst_dtype dtype,
                                           const pst_cuda_attention *a) {
    by_type(dtype, [&](auto type) {
        launch(q, clear<decltype(type), false>, grid(a), dim3(THREADS), *a);
    });
}

extern "C" void pst_cuda_attention_clear_b(pst_cuda_queue q, pst_dtype dtype,
                                           const pst_cuda_attention *a) {
    by_type(dtype,
            [&](auto type) { launch(q, clear<decltype(type), true>, grid(a), dim3(THREADS), *a); });
}

extern "C" void pst_cuda_attention_sum(pst_cuda_queue q, pst_dtype dtype,
                                       const pst_cuda_attention_shared *s) {
    const dim3 grid(grid_of(s->n, THREADS * PACK)), block(THREADS);
    if (dtype == PST_BF16) launch(q, sum_members<bf16>, grid, block, *s);
    else launch(q, sum_members<f16>, grid, block, *s);
}

extern "C" void pst_cuda_attention_clamp(pst_cuda_queue q, const pst_cuda_attention *a,
                                         int32_t *to) {
    launch(q, clamp, dim3(grid_of(a->b, THREADS)), dim3(THREADS), *a, to);
}

/* Softmax cross-entropy over rows of logits that are read once in F (largest logit and sum
 * together) and once in B. One block per row. Rows may be unaligned: elements outside aligned packs
 * of 16 bytes are read one by one. There may be gaps between rows. */
#include "kernels/cuda/formula.cuh"

enum { THREADS = 512, DEEP = 4 };

struct softmax_job {
    pst_cuda_index target;
    uint64_t rows, v, pitch, parts;
    float *loss, *lse, *part, *hits;
    float scale;
    float part_of_target, each, z; /* pst_loss_terms of kernels/loss.h */
};

/* Row elements [0, head) and [tail, v) lie outside whole packs. */
struct row_split {
    uint64_t head, packs, tail;
};
template <typename T> __device__ inline row_split split_row(const T *row, uint64_t v) {
    uint64_t head = (16 - (uintptr_t)row % 16) % 16 / sizeof(T);
    head = head < v ? head : v;
    uint64_t packs = (v - head) / pack<T>::N;
    return {head, packs, head + packs * pack<T>::N};
}

/* Combined over the block, in a fixed order; the same in all threads. */
__device__ inline softmax block_join(softmax s) {
    __shared__ softmax part[THREADS / WARP];
#pragma unroll
    for (int lane = WARP / 2; lane; lane /= 2)
        s = softmax_join(s, {__shfl_xor_sync(0xffffffffu, s.max, lane),
                             __shfl_xor_sync(0xffffffffu, s.sum, lane)});
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = s;
    __syncthreads();
    s = part[0];
    for (uint32_t w = 1; w < THREADS / WARP; w++) s = softmax_join(s, part[w]);
    return s;
}

/* Calls take(at, x) for each of this thread's packs of the row: index of its first element, and its
 * elements. Several packs are loaded before the first call. */
template <typename T, typename F>
__device__ inline void each_pack(const T *row, const row_split &split, F take) {
    constexpr uint32_t N = pack<T>::N;
    for (uint64_t p = threadIdx.x; p < split.packs; p += THREADS * DEEP) {
        uint4 raw[DEEP];
#pragma unroll
        for (uint32_t k = 0; k < DEEP; k++)
            if (p + k * THREADS < split.packs)
                raw[k] = load_pack(row + split.head + (p + k * THREADS) * N);
#pragma unroll
        for (uint32_t k = 0; k < DEEP; k++) {
            float x[N];
            if (p + k * THREADS >= split.packs) continue;
            widen_pack<T>(raw[k], x);
            take(split.head + (p + k * THREADS) * N, x);
        }
    }
}

template <typename T> __device__ inline softmax row_softmax(const T *row, uint64_t v) {
    row_split split = split_row(row, v);
    softmax s = softmax_none();
    each_pack(row, split, [&](uint64_t, float(&x)[pack<T>::N]) { softmax_take(s, x); });
    for (uint64_t i = threadIdx.x; i < split.head + v - split.tail; i += THREADS) {
        float x[1] = {widen(row[i < split.head ? i : split.tail + (i - split.head)])};
        softmax_take(s, x);
    }
    return block_join(s);
}

/* The sum of a row, in a fixed order; the same in all threads. */
template <typename T> __device__ inline float row_sum(const T *row, uint64_t v) {
    __shared__ float part[THREADS / WARP];
    row_split split = split_row(row, v);
    float sum = 0;
    each_pack(row, split, [&](uint64_t, float(&x)[pack<T>::N]) {
#pragma unroll
        for (uint32_t i = 0; i < pack<T>::N; i++) sum += x[i];
    });
    for (uint64_t i = threadIdx.x; i < split.head + v - split.tail; i += THREADS)
        sum += widen(row[i < split.head ? i : split.tail + (i - split.head)]);
#pragma unroll
    for (int lane = WARP / 2; lane; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = sum;
    __syncthreads();
    sum = part[0];
    for (uint32_t w = 1; w < THREADS / WARP; w++) sum += part[w];
    return sum;
}

/* What is subtracted from the logarithm of the sum for these columns. */
template <typename T>
__device__ inline float row_hit(const softmax_job &j, const T *x, uint64_t hit) {
    float at = hit < j.v ? j.part_of_target * widen(x[hit]) : 0.0f;
    return j.each > 0 ? at + j.each * row_sum(x, j.v) : at;
}

template <typename T>
__global__ void __launch_bounds__(THREADS) cross_entropy_f(softmax_job j, const T *logits) {
    uint64_t row = blockIdx.x;
    const T *x = logits + row * j.pitch;
    softmax s = row_softmax(x, j.v);
    uint64_t hit = index_row(j.target, j.target.index[row]);
    float subtract = row_hit(j, x, hit);
    if (threadIdx.x) return;
    float lse = s.max + logf(s.sum);
    check_index(j.target, j.target.index[row], row);
    j.lse[row] = lse;
    if (j.hits) j.hits[row] = hit < j.v && widen(x[hit]) >= s.max ? 1.0f : 0.0f;
    j.loss[row] = hit < j.v ? lse - subtract + j.z * lse * lse : 0.0f;
}

/* OUT: [rows,3] */
template <typename T>
__global__ void __launch_bounds__(THREADS) vocabulary_part(softmax_job j, const T *logits) {
    uint64_t row = blockIdx.x;
    const T *x = logits + row * j.pitch;
    softmax s = row_softmax(x, j.v);
    uint64_t hit = index_row(j.target, j.target.index[row]);
    float subtract = row_hit(j, x, hit);
    if (threadIdx.x) return;
    check_index(j.target, j.target.index[row], row);
    j.part[row * 3] = s.max;
    j.part[row * 3 + 1] = s.sum;
    j.part[row * 3 + 2] = subtract;
}

/* The parts of all ranks, in rank order. */
__global__ void vocabulary_loss(softmax_job j) {
    uint64_t row = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= j.rows) return;
    float max = j.part[row * 3], sum = 0, hit = 0;
    for (uint64_t p = 1; p < j.parts; p++) max = fmaxf(max, j.part[(p * j.rows + row) * 3]);
    for (uint64_t p = 0; p < j.parts; p++) {
        const float *x = j.part + (p * j.rows + row) * 3;
        sum += x[1] * expf(x[0] - max);
        hit += x[2];
    }
    float lse = max + logf(sum);
    j.lse[row] = lse;
    j.loss[row] = j.target.index[row] < 0 ? 0.0f : lse - hit + j.z * lse * lse;
}

/* In place: (softmax - onehot) * scale with the terms of kernels/loss.h; 0 if the target is
 * ignored, and in the gap after the row, which the products behind it read. */
template <typename T>
__global__ void __launch_bounds__(THREADS) cross_entropy_b(softmax_job j, T *logits) {
    constexpr uint32_t N = pack<T>::N;
    uint64_t row = blockIdx.x, hit = index_row(j.target, j.target.index[row]);
    T *x = logits + row * j.pitch;
    float lse = j.lse[row], scale = j.target.index[row] < 0 ? 0.0f : j.scale;
    const float softmax = 1.0f + 2.0f * j.z * lse;
    row_split split = split_row(x, j.v);
    if (threadIdx.x == 0) check_index(j.target, j.target.index[row], row);
    each_pack<T>(x, split, [&](uint64_t at, float(&v)[N]) {
#pragma unroll
        for (uint32_t i = 0; i < N; i++) {
            const float one = (at + i == hit ? j.part_of_target : 0.0f) + j.each;
            v[i] = scale == 0.0f ? 0.0f : (__expf(v[i] - lse) * softmax - one) * scale;
        }
        store_pack(x + at, v);
    });
    for (uint64_t k = threadIdx.x; k < split.head + j.v - split.tail; k += THREADS) {
        uint64_t i = k < split.head ? k : split.tail + (k - split.head);
        float p =
            __expf(widen(x[i]) - lse) * softmax - ((i == hit ? j.part_of_target : 0.0f) + j.each);
        x[i] = narrowed<T>(scale == 0.0f ? 0.0f : p * scale);
    }
    for (uint64_t i = j.v + threadIdx.x; i < j.pitch; i += THREADS) x[i] = narrowed<T>(0.0f);
}

static softmax_job job_of(const pst_cuda_softmax *s) {
    return {s->target, s->rows, s->v,     s->pitch,          s->parts, s->loss, s->lse,
            s->part,   s->hits, s->scale, s->part_of_target, s->each,  s->z};
}

void pst_cuda_cross_entropy_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_softmax *s) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        launch(q, cross_entropy_f<T>, dim3((uint32_t)s->rows), dim3(THREADS), job_of(s),
               (const T *)s->logits);
    });
}

void pst_cuda_cross_entropy_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_softmax *s) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        launch(q, cross_entropy_b<T>, dim3((uint32_t)s->rows), dim3(THREADS), job_of(s),
               (T *)s->logits);
    });
}

void pst_cuda_vocabulary_part(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_softmax *s) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        launch(q, vocabulary_part<T>, dim3((uint32_t)s->rows), dim3(THREADS), job_of(s),
               (const T *)s->logits);
    });
}

void pst_cuda_vocabulary_loss(pst_cuda_queue q, const pst_cuda_softmax *s) {
    launch(q, vocabulary_loss, dim3(grid_of(s->rows, 256)), dim3(256), job_of(s));
}

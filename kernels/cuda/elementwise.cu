/* Element-wise kernels: addition, activations and their derivatives, dropout, rounding of weights.
 * A thread takes 4 packs of each operand and loads all before it stores the first, so that enough
 * loads are in flight. */
#include "kernels/cuda/convolution_plain.h"
#include "kernels/cuda/formula.cuh"

enum { THREADS = 256, DEEP = 4 };

/* Op::load reads the pack at element i into an Op::in, Op::finish computes and stores it, Op::one
 * computes a single element. Remaining elements, or all if not `packed`, are computed by
 * Op::one. */
template <typename Op>
__global__ void __launch_bounds__(THREADS) each(Op op, uint64_t n, bool packed) {
    uint64_t tile = (uint64_t)blockIdx.x * (THREADS * DEEP * Op::N),
             end = tile + THREADS * DEEP * Op::N;
    uint64_t packs_end = packed ? n / Op::N * Op::N : 0;
    typename Op::in in[DEEP];
#pragma unroll
    for (uint32_t k = 0; k < DEEP; k++) {
        uint64_t i = tile + (k * THREADS + threadIdx.x) * Op::N;
        if (i < packs_end) op.load(i, in[k]);
    }
#pragma unroll
    for (uint32_t k = 0; k < DEEP; k++) {
        uint64_t i = tile + (k * THREADS + threadIdx.x) * Op::N;
        if (i < packs_end) op.finish(i, in[k]);
    }
    uint64_t from = (tile > packs_end ? tile : packs_end) + threadIdx.x;
    for (uint64_t i = from; i < end && i < n; i += THREADS) op.one(i);
}

template <typename Op> static void run(pst_cuda_queue q, const Op &op, uint64_t n, bool packed) {
    if (n)
        launch(q, each<Op>, dim3(grid_of(n, THREADS * DEEP * Op::N)), dim3(THREADS), op, n, packed);
}

/* y = f(a) or f(a, b) */
template <typename T, typename F> struct unary {
    static constexpr uint32_t N = pack<T>::N;
    struct in {
        uint4 a;
    };
    const T *a;
    T *y;
    __device__ void load(uint64_t i, in &v) const { v.a = load_pack(a + i); }
    __device__ void finish(uint64_t i, const in &v) const {
        float x[N];
        widen_pack<T>(v.a, x);
#pragma unroll
        for (uint32_t k = 0; k < N; k++) x[k] = F::of(x[k]);
        store_pack(y + i, x);
    }
    __device__ void one(uint64_t i) const { y[i] = narrowed<T>(F::of(widen(a[i]))); }
};

template <typename T, typename F> struct binary {
    static constexpr uint32_t N = pack<T>::N;
    struct in {
        uint4 a, b;
    };
    const T *a, *b;
    T *y;
    __device__ void load(uint64_t i, in &v) const {
        v.a = load_pack(a + i);
        v.b = load_pack(b + i);
    }
    __device__ void finish(uint64_t i, const in &v) const {
        float x[N], z[N];
        widen_pack<T>(v.a, x), widen_pack<T>(v.b, z);
#pragma unroll
        for (uint32_t k = 0; k < N; k++) x[k] = F::of(x[k], z[k]);
        store_pack(y + i, x);
    }
    __device__ void one(uint64_t i) const { y[i] = narrowed<T>(F::of(widen(a[i]), widen(b[i]))); }
};

struct same {
    __device__ static float of(float a) { return a; }
};
struct sum {
    __device__ static float of(float a, float b) { return a + b; }
};
template <int ACT> struct act {
    __device__ static float of(float z) { return act_of<ACT>(z); }
};
template <int ACT> struct slope {
    __device__ static float of(float z, float dy) { return dy * slope_of<ACT>(z); }
};

template <typename F, typename T>
static void map(pst_cuda_queue q, const void *a, void *y, uint64_t n, T) {
    run(q, unary<T, F>{(const T *)a, (T *)y}, n, aligned(a) && aligned(y));
}
template <typename F, typename T>
static void map(pst_cuda_queue q, const void *a, const void *b, void *y, uint64_t n, T) {
    run(q, binary<T, F>{(const T *)a, (const T *)b, (T *)y}, n,
        aligned(a) && aligned(b) && aligned(y));
}

void pst_cuda_add(pst_cuda_queue q, pst_dtype dtype, const void *a, const void *b, void *out,
                  uint64_t n) {
    by_type(dtype, [&](auto type) { map<sum>(q, a, b, out, n, type); });
}

void pst_cuda_copy(pst_cuda_queue q, pst_dtype dtype, const void *x, void *y, uint64_t n) {
    by_type(dtype, [&](auto type) { map<same>(q, x, y, n, type); });
}

void pst_cuda_activation(pst_cuda_queue q, pst_dtype dtype, int kind, const void *z, void *y,
                         uint64_t n) {
    by_type(dtype, [&](auto type) {
        if (kind == ACT_GELU_TANH) map<act<ACT_GELU_TANH>>(q, z, y, n, type);
        else if (kind == ACT_GELU_ERF) map<act<ACT_GELU_ERF>>(q, z, y, n, type);
        else if (kind == ACT_TANH) map<act<ACT_TANH>>(q, z, y, n, type);
        else map<act<ACT_RELU>>(q, z, y, n, type);
    });
}

void pst_cuda_slope(pst_cuda_queue q, pst_dtype dtype, int kind, const void *z, const void *dy,
                    void *dz, uint64_t n) {
    by_type(dtype, [&](auto type) {
        if (kind == ACT_GELU_TANH) map<slope<ACT_GELU_TANH>>(q, z, dy, dz, n, type);
        else if (kind == ACT_GELU_ERF) map<slope<ACT_GELU_ERF>>(q, z, dy, dz, n, type);
        else if (kind == ACT_TANH) map<slope<ACT_TANH>>(q, z, dy, dz, n, type);
        else map<slope<ACT_RELU>>(q, z, dy, dz, n, type);
    });
}

template <typename T> struct scaling {
    static constexpr uint32_t N = pack<T>::N;
    struct in {
        uint4 a;
    };
    const T *a;
    T *y;
    float factor;
    __device__ void load(uint64_t i, in &v) const { v.a = load_pack(a + i); }
    __device__ void finish(uint64_t i, const in &v) const {
        float x[N];
        widen_pack<T>(v.a, x);
#pragma unroll
        for (uint32_t k = 0; k < N; k++) x[k] *= factor;
        store_pack(y + i, x);
    }
    __device__ void one(uint64_t i) const { y[i] = narrowed<T>(widen(a[i]) * factor); }
};

void pst_cuda_scale(pst_cuda_queue q, pst_dtype dtype, float factor, const void *x, void *y,
                    uint64_t n) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        run(q, scaling<T>{(const T *)x, (T *)y, factor}, n, aligned(x) && aligned(y));
    });
}

/* Between fp32 and 16 bits: out = x + y, or x if not ADDS. */
template <typename X, typename Y, typename OUT, bool ADDS> struct addition {
    static constexpr uint32_t N = pack<float>::N;
    struct in {
        chunk<X, N> x;
        chunk<Y, N> y;
    };
    const X *x;
    const Y *y;
    OUT *out;
    __device__ void load(uint64_t i, in &v) const {
        v.x.load(x + i);
        if constexpr (ADDS) v.y.load(y + i);
    }
    __device__ void finish(uint64_t i, const in &v) const {
        float sum[N];
        v.x.widened(sum);
        if constexpr (ADDS) {
            float z[N];
            v.y.widened(z);
#pragma unroll
            for (uint32_t k = 0; k < N; k++) sum[k] += z[k];
        }
        store_pack(out + i, sum);
    }
    __device__ void one(uint64_t i) const {
        if constexpr (ADDS) out[i] = narrowed<OUT>(widen(x[i]) + widen(y[i]));
        else out[i] = narrowed<OUT>(widen(x[i]));
    }
};

template <typename X, typename Y, typename OUT>
static void add_mixed(pst_cuda_queue q, const X *x, const Y *y, OUT *out, uint64_t n) {
    bool packed = aligned(x) && aligned(y) && aligned(out);
    if (y) run(q, addition<X, Y, OUT, true>{x, y, out}, n, packed);
    else run(q, addition<X, Y, OUT, false>{x, y, out}, n, packed);
}

void pst_cuda_add_wide(pst_cuda_queue q, pst_dtype dtype, const void *x, const float *y, float *out,
                       uint64_t n) {
    by_type(dtype, [&](auto type) { add_mixed(q, (const decltype(type) *)x, y, out, n); });
}

void pst_cuda_add_narrow(pst_cuda_queue q, pst_dtype dtype, const float *x, const void *y,
                         void *out, uint64_t n) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        add_mixed(q, x, (const T *)y, (T *)out, n);
    });
}

/* Four elements share one position of the random stream. Packs have whole positions if a sample's
 * elements here begin at a multiple of four and are a multiple of a pack. */
template <typename T> struct dropout {
    static constexpr uint32_t N = pack<T>::N;
    struct in {
        uint4 a;
    };
    const T *a;
    T *y;
    uint64_t per_sample, first, key, sample;
    const uint64_t *sample_at;
    uint32_t keep;
    float scale;
    __device__ uint64_t sample_of(uint64_t s) const {
        return (sample_at ? *sample_at : sample) + s;
    }
    __device__ void load(uint64_t i, in &v) const { v.a = load_pack(a + i); }
    __device__ float kept(float x, uint32_t word) const {
        return word >> 8 >= keep ? x * scale : 0.0f;
    }
    __device__ void finish(uint64_t i, const in &v) const {
        uint64_t s = i / per_sample, position = (first + (i - s * per_sample)) / 4,
                 whole = sample_of(s);
        float x[N];
        widen_pack<T>(v.a, x);
#pragma unroll
        for (uint32_t k = 0; k < N; k += 4) {
            uint4 word = philox(key, whole, position + k / 4);
            x[k] = kept(x[k], word.x);
            x[k + 1] = kept(x[k + 1], word.y);
            x[k + 2] = kept(x[k + 2], word.z);
            x[k + 3] = kept(x[k + 3], word.w);
        }
        store_pack(y + i, x);
    }
    __device__ void one(uint64_t i) const {
        uint64_t s = i / per_sample, e = first + (i - s * per_sample);
        uint4 word = philox(key, sample_of(s), e / 4);
        y[i] = narrowed<T>(kept(widen(a[i]), word_of(word, e)));
    }
};

void pst_cuda_dropout(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_mask *m) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        dropout<T> op = {(const T *)m->x,
                         (T *)m->y,
                         m->per_sample,
                         m->first,
                         m->key,
                         m->sample,
                         m->sample_at,
                         keep_from(m->rate),
                         1.0f / (1.0f - m->rate)};
        bool packed =
            aligned(m->x) && aligned(m->y) && m->per_sample % pack<T>::N == 0 && m->first % 4 == 0;
        run(q, op, m->samples * m->per_sample, packed);
    });
}

/* One number per column of a matrix whose rows are whole packs. */
template <typename T> struct add_columns {
    static constexpr uint32_t N = pack<T>::N;
    struct in {
        uint4 y, bias;
    };
    T *y;
    const T *bias;
    uint64_t columns;
    __device__ void load(uint64_t i, in &v) const {
        v.y = load_pack(y + i);
        v.bias = load_pack(bias + i % columns);
    }
    __device__ void finish(uint64_t i, const in &v) const {
        float x[N], b[N];
        widen_pack<T>(v.y, x), widen_pack<T>(v.bias, b);
#pragma unroll
        for (uint32_t k = 0; k < N; k++) x[k] += b[k];
        store_pack(y + i, x);
    }
    __device__ void one(uint64_t i) const {
        y[i] = narrowed<T>(widen(y[i]) + widen(bias[i % columns]));
    }
};

void pst_cuda_add_columns(pst_cuda_queue q, pst_dtype dtype, void *y, const void *bias,
                          uint64_t rows, uint64_t columns) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        bool packed = aligned(y) && aligned(bias) && columns % pack<T>::N == 0;
        run(q, add_columns<T>{(T *)y, (const T *)bias, columns}, rows * columns, packed);
    });
}

/* Sums over micro-batches are fp32. */
template <typename T> struct accumulation {
    static constexpr uint32_t N = pack<T>::N;
    struct in {
        uint4 x;
        float y[N];
    };
    const T *x;
    float *y;
    int first;
    __device__ void load(uint64_t i, in &v) const {
        v.x = load_pack(x + i);
#pragma unroll
        for (uint32_t k = 0; k < N; k++) v.y[k] = 0; /* set on every path: stays in registers */
        if (!first) load_floats<N>(y + i, v.y);
    }
    __device__ void finish(uint64_t i, const in &v) const {
        float sum[N];
        widen_pack<T>(v.x, sum);
#pragma unroll
        for (uint32_t k = 0; k < N; k++) sum[k] = first ? sum[k] : v.y[k] + sum[k];
        store_floats<N>(y + i, sum);
    }
    __device__ void one(uint64_t i) const { y[i] = first ? widen(x[i]) : y[i] + widen(x[i]); }
};

void pst_cuda_accumulate(pst_cuda_queue q, pst_dtype dtype, const void *x, float *y, uint64_t n,
                         int first) {
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        run(q, accumulation<T>{(const T *)x, y, first}, n, aligned(x) && aligned(y));
    });
}

/* Four fp32 weights (16 bytes) become four of 16 bits (8 bytes). */
template <typename T> struct rounding {
    static constexpr uint32_t N = 4;
    struct in {
        uint4 a;
    };
    const float *a;
    T *y;
    __device__ void load(uint64_t i, in &v) const { v.a = load_pack(a + i); }
    __device__ void finish(uint64_t i, const in &v) const {
        float x[N];
        widen_pack<float>(v.a, x);
        *reinterpret_cast<uint2 *>(y + i) =
            make_uint2(join(T(), x[0], x[1]), join(T(), x[2], x[3]));
    }
    __device__ void one(uint64_t i) const { y[i] = narrowed<T>(a[i]); }
};

void pst_cuda_narrow(pst_cuda_queue q, pst_dtype dtype, const float *x, uint16_t *y, uint64_t n) {
    bool packed = aligned(x) && (uintptr_t)y % 8 == 0;
    if (dtype == PST_BF16) run(q, rounding<bf16>{x, (bf16 *)y}, n, packed);
    else run(q, rounding<f16>{x, (f16 *)y}, n, packed);
}

__global__ void __launch_bounds__(WARP) set(uint64_t *to, uint64_t value) {
    if (!threadIdx.x) *to = value;
}

void pst_cuda_set(pst_cuda_queue q, uint64_t *to, uint64_t value) {
    launch(q, set, dim3(1), dim3(WARP), to, value);
}

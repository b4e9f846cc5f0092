/* Embedding. W adds the gradients of a token's positions in ascending order, without atomics:
 * positions are sorted by token, each warp adds a segment of the sorted list, and sums of a token
 * that spans segments are joined at the end. The order depends on the tokens alone; the CPU's order
 * differs (it has no segments). */
#include "kernels/cuda/vector.cuh"

enum {
    WARPS = 4,
    STRETCH = 32 /* sorted positions per warp: a segment */,
    PLACES = 64 /* positions sorted by a block */,
    SORTERS = 16
};

struct embed_job {
    pst_cuda_index token, type;
    uint64_t tokens, t, t_max;
    uint32_t c;
    float *dwte, *dwpe;
    int first;
    float *part; /* [segments][2][c]: sums of the token that began in an earlier segment; of the one
                    that continues in the next */
    int32_t *order; /* [tokens]: positions by token */
};

/* --- F: a warp for each position -------------------------------------------------------------- */
template <typename T, typename OUT, bool PACKED>
__global__ void __launch_bounds__(WARP *WARPS)
    embedding_f(embed_job j, const T *wte, const T *wpe, const T *wtt, OUT *out) {
    typedef lane<T, PACKED, pack<OUT>::N> numbers;
    constexpr uint32_t N = numbers::N;
    uint64_t i = (uint64_t)blockIdx.x * WARPS + threadIdx.y;
    if (i >= j.tokens) return;
    int32_t token = j.token.index[i];
    uint64_t row = index_row(j.token, token);
    bool here = row < j.token.rows;
    if (threadIdx.x == 0) check_index(j.token, token, i);
    uint64_t type = wtt ? index_row(j.type, j.type.index[i]) : 0;
    bool typed = wtt && type < j.type.rows;
    if (wtt && threadIdx.x == 0) check_index(j.type, j.type.index[i], i);
#pragma unroll 4
    for (uint32_t c = threadIdx.x * N; c < j.c; c += WARP * N) {
        numbers a, b, d;
        float x[N] = {}, p[N] = {}, y[N] = {};
        if (here) {
            a.load(wte + row * j.c + c);
            a.widened(x);
        }
        if (wpe) {
            b.load(wpe + i % j.t * j.c + c);
            b.widened(p);
        }
        if (typed) {
            d.load(wtt + type * j.c + c);
            d.widened(y);
        }
#pragma unroll
        for (uint32_t k = 0; k < N; k++) x[k] += p[k] + y[k];
        store_lane(out + i * j.c + c, x);
    }
}

/* --- W ---------------------------------------------------------------------------------------- */
/* How many of positions [from, to) come before one with `token`. */
__device__ inline uint32_t count_less(const int32_t *index, uint64_t from, uint64_t to,
                                      int32_t token, bool equal) {
    uint32_t count = 0;
#pragma unroll 8
    for (uint64_t k = from; k < to; k++) count += index[k] < token || (equal && index[k] == token);
    return count;
}

/* A position's rank in the order is the number of positions before it by (token, position). All
 * pairs are compared: a few microseconds up to 10,000 positions, a third of a millisecond at
 * 65,536, where a step takes 100. Warp s compares with the s-th part of the positions; each lane
 * sorts two positions. */
__global__ void __launch_bounds__(WARP *SORTERS) embedding_sort(embed_job j) {
    __shared__ uint32_t place[SORTERS][PLACES];
    uint64_t block = (uint64_t)blockIdx.x * PLACES, slice = div_up(j.tokens, SORTERS);
    uint64_t from = threadIdx.y * slice, to = from + slice < j.tokens ? from + slice : j.tokens;
    from = from < to ? from : to;
    /* Positions below `before` precede those of this block. */
    uint64_t before = block < from ? from : block;
    before = before < to ? before : to;
    for (uint32_t k = 0; k < PLACES; k += WARP) {
        uint64_t i = block + k + threadIdx.x;
        int32_t token = j.token.index[i < j.tokens ? i : 0];
        uint64_t own = i < to ? i : to;
        own = own < before ? before : own;
        place[threadIdx.y][k + threadIdx.x] = count_less(j.token.index, from, before, token, true) +
                                              count_less(j.token.index, before, own, token, true) +
                                              count_less(j.token.index, own, to, token, false);
    }
    __syncthreads();
    for (uint32_t k = threadIdx.y * WARP + threadIdx.x; k < PLACES && block + k < j.tokens;
         k += WARP * SORTERS) {
        uint32_t sum = 0;
        for (uint32_t s = 0; s < SORTERS; s++) sum += place[s][k];
        j.order[sum] = (int32_t)(block + k);
    }
}

__device__ inline int32_t sorted_token(const embed_job &j, uint64_t k) {
    return j.token.index[j.order[k]];
}

template <uint32_t N> __device__ inline void add_floats(float *to, const float (&x)[N]) {
    float sum[N];
    load_floats(to, sum);
#pragma unroll
    for (uint32_t i = 0; i < N; i++) sum[i] += x[i];
    store_floats(to, sum);
}

/* Stores the sum of a token's run in a segment: in the table (part NULL) if the run is complete,
 * else in `part`. */
template <uint32_t N>
__device__ inline void end_run(const embed_job &j, int32_t token, float *part, uint32_t c,
                               float (&sum)[N]) {
    uint64_t row = index_row(j.token, token);
    bool here = row < j.token.rows;
    if (part) store_floats(part, sum);
    else if (here) add_floats(j.dwte + row * j.c + c, sum);
#pragma unroll
    for (uint32_t i = 0; i < N; i++) sum[i] = 0;
}

/* Warp: one segment, and a warp's width of columns. */
template <typename T, bool PACKED>
__global__ void __launch_bounds__(WARP *WARPS, 2) embedding_runs(embed_job j, const T *dy) {
    constexpr uint32_t N = lane<T, PACKED>::N, DEEP = 8;
    uint64_t stretch = (uint64_t)blockIdx.x * WARPS + threadIdx.y, from = stretch * STRETCH;
    if (from >= j.tokens) return;
    uint32_t n = (uint32_t)least(j.tokens - from, STRETCH);
    uint32_t c = (blockIdx.y * WARP + threadIdx.x) * N;
    int32_t position = threadIdx.x < n ? j.order[from + threadIdx.x] : 0,
            token = j.token.index[position];
    int32_t before = from ? sorted_token(j, from - 1) : 0,
            after = from + n < j.tokens ? sorted_token(j, from + n) : 0;
    int32_t run = __shfl_sync(0xffffffffu, token, 0);
    bool began = from && before == run, on = c < j.c;
    float *part = j.part + stretch * 2 * j.c + c, sum[N] = {}, none[N] = {};
    if (on) {
        store_floats(part, none);
        store_floats(part + j.c, none);
    }
    for (uint32_t k = 0; k < n; k += DEEP) {
        lane<T, PACKED> in[DEEP];
#pragma unroll
        for (uint32_t d = 0; d < DEEP; d++) {
            uint64_t at = (uint64_t)__shfl_sync(0xffffffffu, position, (k + d) % WARP);
            if (on && k + d < n) in[d].load(dy + at * j.c + c);
        }
#pragma unroll
        for (uint32_t d = 0; d < DEEP; d++) {
            int32_t next = __shfl_sync(0xffffffffu, token, (k + d) % WARP);
            if (!on || k + d >= n) continue;
            if (next != run) {
                end_run(j, run, began ? part : nullptr, c, sum);
                run = next;
                began = false;
            }
            float x[N];
            in[d].widened(x);
#pragma unroll
            for (uint32_t i = 0; i < N; i++) sum[i] += x[i];
        }
    }
    bool goes_on = from + n < j.tokens && after == run;
    float *behind = goes_on ? part + j.c : nullptr;
    if (on) end_run(j, run, began ? part : behind, c, sum);
}

/* Warp: joins the run that begins in a segment and continues in the next, if there is one. */
template <uint32_t N> __global__ void __launch_bounds__(WARP *WARPS) embedding_join(embed_job j) {
    uint64_t stretch = (uint64_t)blockIdx.x * WARPS + threadIdx.y, next = (stretch + 1) * STRETCH;
    uint32_t c = (blockIdx.y * WARP + threadIdx.x) * N;
    if (next >= j.tokens || c >= j.c) return;
    int32_t run = sorted_token(j, next - 1);
    uint64_t from = stretch * STRETCH, row = index_row(j.token, run);
    if (sorted_token(j, next) != run ||
        (from && sorted_token(j, from) == run && sorted_token(j, from - 1) == run))
        return;
    if (row >= j.token.rows) return;
    float sum[N], x[N];
    load_floats(j.part + stretch * 2 * j.c + j.c + c, sum);
    for (; next < j.tokens && sorted_token(j, next) == run; next += STRETCH) {
        load_floats(j.part + next / STRETCH * 2 * j.c + c, x);
#pragma unroll
        for (uint32_t i = 0; i < N; i++) sum[i] += x[i];
    }
    add_floats(j.dwte + row * j.c + c, sum);
}

/* One position of all samples: samples are added in the same order as on the CPU. */
template <typename T, bool PACKED>
__global__ void __launch_bounds__(WARP *WARPS) embedding_positions(embed_job j, const T *dy) {
    constexpr uint32_t N = lane<T, PACKED>::N;
    uint64_t t = (uint64_t)blockIdx.x * WARPS + threadIdx.y;
    uint32_t c = (blockIdx.y * WARP + threadIdx.x) * N;
    if (t >= j.t_max || c >= j.c || (t >= j.t && !j.first)) return;
    float *to = j.dwpe + t * j.c + c, sum[N] = {}, x[N];
    if (!j.first) load_floats(to, sum);
#pragma unroll 4
    for (uint64_t r = t; t < j.t && r < j.tokens; r += j.t) {
        lane<T, PACKED> in;
        in.load(dy + r * j.c + c);
        in.widened(x);
#pragma unroll
        for (uint32_t i = 0; i < N; i++) sum[i] += x[i];
    }
    store_floats(to, sum);
}

__global__ void embedding_check(pst_cuda_index at, uint64_t n) {
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) check_index(at, at.index[i], i);
}

/* --- launchers -------------------------------------------------------------------------------- */
static embed_job job_of(const pst_cuda_embed *e) {
    uint64_t tokens = e->b * e->t, parts = div_up(tokens, STRETCH) * 2 * e->c;
    return {e->token,
            e->type,
            tokens,
            e->t,
            e->t_max,
            (uint32_t)e->c,
            e->dwte,
            e->dwpe,
            e->first,
            (float *)e->scratch,
            (int32_t *)e->scratch + parts};
}

void pst_cuda_embedding_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_embed *e) {
    embed_job j = job_of(e);
    by_types(dtype, e->wide, e->wide, [&](auto type, auto wide, auto) {
        typedef decltype(type) T;
        typedef decltype(wide) OUT;
        bool packed = aligned(e->wte) && aligned(e->wpe) && aligned(e->wtt) && aligned(e->out) &&
                      e->c % pack<T>::N == 0;
        dim3 grid(grid_of(j.tokens, WARPS)), block(WARP, WARPS);
        const T *wte = (const T *)e->wte, *wpe = (const T *)e->wpe, *wtt = (const T *)e->wtt;
        OUT *out = (OUT *)e->out;
        if (packed) launch(q, embedding_f<T, OUT, true>, grid, block, j, wte, wpe, wtt, out);
        else launch(q, embedding_f<T, OUT, false>, grid, block, j, wte, wpe, wtt, out);
    });
}

uint64_t pst_cuda_embedding_w_scratch(uint64_t tokens, uint64_t c) {
    return (div_up(tokens, STRETCH) * 2 * c + tokens) * sizeof(float);
}

template <typename T, bool PACKED>
static void add_up(pst_cuda_queue q, const embed_job &j, const T *dy) {
    constexpr uint32_t N = lane<T, PACKED>::N;
    uint32_t columns = grid_of(j.c, WARP * N), stretches = grid_of(j.tokens, STRETCH * WARPS);
    launch(q, embedding_runs<T, PACKED>, dim3(stretches, columns), dim3(WARP, WARPS), j, dy);
    launch(q, embedding_join<N>, dim3(stretches, columns), dim3(WARP, WARPS), j);
    if (j.dwpe)
        launch(q, embedding_positions<T, PACKED>, dim3(grid_of(j.t_max, WARPS), columns),
               dim3(WARP, WARPS), j, dy);
}

/* The gradients of the rows of j.token: of the tokens, or of their types. */
static void add_rows(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_embed *e,
                     const embed_job &j) {
    if (e->first) zero(q, j.dwte, j.token.rows * e->c * sizeof(float));
    launch(q, embedding_check, dim3(grid_of(j.tokens, 256)), dim3(256), j.token, j.tokens);
    launch(q, embedding_sort, dim3(grid_of(j.tokens, PLACES)), dim3(WARP, SORTERS), j);
    by_type(e->wide ? PST_F32 : dtype, [&](auto type) {
        typedef decltype(type) T;
        bool packed = aligned(e->dy) && aligned(j.dwte) && aligned(j.dwpe) && aligned(e->scratch) &&
                      e->c % pack<T>::N == 0;
        if (packed) add_up<T, true>(q, j, (const T *)e->dy);
        else add_up<T, false>(q, j, (const T *)e->dy);
    });
}

void pst_cuda_embedding_w(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_embed *e) {
    embed_job j = job_of(e);
    add_rows(q, dtype, e, j);
    if (!e->dwtt) return;
    j.token = e->type;
    j.dwte = e->dwtt;
    j.dwpe = nullptr;
    add_rows(q, dtype, e, j);
}

/* --- gather_rows ------------------------------------------------------------------------------ */
struct gather_job {
    pst_cuda_index position; /* index NULL: the first row of each sample */
    uint64_t b, t, p;
    uint32_t c;
};

/* The row of x for row i of the output; b*t: none on this rank. */
__device__ inline uint64_t gathered_row(const gather_job &j, uint64_t i) {
    uint64_t row = index_row(j.position, j.position.index ? j.position.index[i] : 0);
    return row < j.t ? i / j.p * j.t + row : j.b * j.t;
}

/* A warp for each row of the output. */
template <typename T, bool PACKED>
__global__ void __launch_bounds__(WARP *WARPS) gather_rows_f(gather_job j, const T *x, T *out) {
    constexpr uint32_t N = lane<T, PACKED>::N;
    uint64_t i = (uint64_t)blockIdx.x * WARPS + threadIdx.y;
    if (i >= j.b * j.p) return;
    uint64_t row = gathered_row(j, i);
    if (threadIdx.x == 0 && j.position.index) check_index(j.position, j.position.index[i], i);
    for (uint32_t c = threadIdx.x * N; c < j.c; c += WARP * N) {
        lane<T, PACKED> in;
        float y[N] = {};
        if (row < j.b * j.t) {
            in.load(x + row * j.c + c);
            in.widened(y);
        }
        store_lane(out + i * j.c + c, y);
    }
}

/* A warp for each row of x, which adds the rows of dy that were gathered from it, in their order;
 * sum: NULL, or what is in the gradient already. */
template <typename T, bool PACKED>
__global__ void __launch_bounds__(WARP *WARPS, 2)
    gather_rows_b(gather_job j, const T *dy, const T *sum, T *dx) {
    constexpr uint32_t N = lane<T, PACKED>::N;
    uint64_t row = (uint64_t)blockIdx.x * WARPS + threadIdx.y;
    if (row >= j.b * j.t) return;
    uint64_t from = row / j.t * j.p;
    for (uint32_t c = threadIdx.x * N; c < j.c; c += WARP * N) {
        lane<T, PACKED> in;
        float total[N] = {}, y[N];
        if (sum) {
            in.load(sum + row * j.c + c);
            in.widened(total);
        }
        for (uint64_t i = from; i < from + j.p; i++) {
            if (gathered_row(j, i) != row) continue;
            in.load(dy + i * j.c + c);
            in.widened(y);
#pragma unroll
            for (uint32_t k = 0; k < N; k++) total[k] += y[k];
        }
        store_lane(dx + row * j.c + c, total);
    }
}

void pst_cuda_gather_rows_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_gather *g) {
    gather_job j = {g->position, g->b, g->t, g->p, (uint32_t)g->c};
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        bool packed = aligned(g->x) && aligned(g->y) && g->c % pack<T>::N == 0;
        dim3 grid(grid_of(g->b * g->p, WARPS)), block(WARP, WARPS);
        const T *x = (const T *)g->x;
        T *y = (T *)g->y;
        if (packed) launch(q, gather_rows_f<T, true>, grid, block, j, x, y);
        else launch(q, gather_rows_f<T, false>, grid, block, j, x, y);
    });
}

void pst_cuda_gather_rows_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_gather *g) {
    gather_job j = {g->position, g->b, g->t, g->p, (uint32_t)g->c};
    by_type(dtype, [&](auto type) {
        typedef decltype(type) T;
        bool packed = aligned(g->dy) && aligned(g->sum) && aligned(g->dx) && g->c % pack<T>::N == 0;
        dim3 grid(grid_of(g->b * g->t, WARPS)), block(WARP, WARPS);
        const T *dy = (const T *)g->dy, *sum = (const T *)g->sum;
        T *dx = (T *)g->dx;
        if (packed) launch(q, gather_rows_b<T, true>, grid, block, j, dy, sum, dx);
        else launch(q, gather_rows_b<T, false>, grid, block, j, dy, sum, dx);
    });
}

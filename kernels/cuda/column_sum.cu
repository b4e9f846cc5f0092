/* Sums over the rows of a matrix, for the gradients of biases and of layer norms, without atomics:
 * blocks sum their part of the rows into scratch, then the parts are added. The parts depend on the
 * shape alone. */
#include "kernels/cuda/vector.cuh"

enum {
    LINES = 8 /* warps per block, one row each at a time */,
    SLICES = 16,
    MANY = 1024 /* blocks */,
    LEAST = 64
};

/* Rows of a part: enough parts to keep a GPU busy, but not so many that adding them takes long. */
static uint64_t part_rows(uint64_t rows, uint64_t columns) {
    uint64_t rows_each = div_up(rows * div_up(columns, 256), MANY);
    return div_up(rows_each > LEAST ? rows_each : (uint64_t)LEAST, LINES) * LINES;
}

uint64_t pst_cuda_column_sum_scratch(uint64_t rows, uint64_t columns, int arrays) {
    return div_up(rows, part_rows(rows, columns)) * (uint64_t)arrays * columns * sizeof(float);
}

/* A thread's sums for its columns: dy, and with NORM dy * (x - mean) * rstd. */
template <typename X, typename Y, bool PACKED, bool NORM> struct column_lane {
    static constexpr uint32_t PACK = pack_of_both<X, Y>::N;
    typedef lane<X, PACKED, PACK> lane_x;
    typedef lane<Y, PACKED, PACK> lane_dy;
    static constexpr uint32_t N = lane_x::N;
    float plain[N], scaled[N];
    __device__ void take(const lane_dy &dy, const lane_x &x, float mean, float rstd) {
        float g[N], v[N];
        dy.widened(g);
        if constexpr (NORM) x.widened(v);
#pragma unroll
        for (uint32_t i = 0; i < N; i++) {
            plain[i] += g[i];
            if constexpr (NORM) scaled[i] = fmaf(g[i], (v[i] - mean) * rstd, scaled[i]);
        }
    }
};

struct column_job {
    uint64_t rows, columns, pitch, part_rows;
    const float *saved;
    float *part; /* [parts][arrays][columns], the plain sums first */
};

/* Block: a warp's width of columns, one part of the rows. */
template <typename X, typename Y, bool PACKED, bool NORM>
__global__ void __launch_bounds__(WARP *LINES) column_parts(column_job j, const X *x, const Y *dy) {
    typedef column_lane<X, Y, PACKED, NORM> sums;
    constexpr uint32_t N = sums::N, ARRAYS = NORM ? 2 : 1, DEEP = 4;
    __shared__ float line[ARRAYS][LINES][WARP * N];
    uint64_t column = ((uint64_t)blockIdx.x * WARP + threadIdx.x) * N,
             row = blockIdx.y * j.part_rows + threadIdx.y;
    uint64_t end =
        (blockIdx.y + 1) * j.part_rows < j.rows ? (blockIdx.y + 1) * j.part_rows : j.rows;
    sums sum = {};
    for (; column < j.columns && row < end; row += LINES * DEEP) {
        typename sums::lane_dy g[DEEP];
        typename sums::lane_x v[DEEP];
        float2 saved[DEEP];
#pragma unroll
        for (uint32_t k = 0; k < DEEP; k++) {
            uint64_t r = row + k * LINES;
            if (r >= end) continue;
            g[k].load(dy + r * j.pitch + column);
            if (NORM) v[k].load(x + r * j.pitch + column);
            if (NORM) saved[k] = make_float2(j.saved[2 * r], j.saved[2 * r + 1]);
        }
#pragma unroll
        for (uint32_t k = 0; k < DEEP; k++)
            if (row + k * LINES < end) sum.take(g[k], v[k], saved[k].x, saved[k].y);
    }
#pragma unroll
    for (uint32_t i = 0; i < N; i++) {
        line[0][threadIdx.y][i * WARP + threadIdx.x] = sum.plain[i];
        if (NORM) line[ARRAYS - 1][threadIdx.y][i * WARP + threadIdx.x] = sum.scaled[i];
    }
    __syncthreads();
    for (uint32_t c = threadIdx.y * WARP + threadIdx.x; c < ARRAYS * WARP * N; c += WARP * LINES) {
        uint32_t a = c / (WARP * N), i = c % (WARP * N) / WARP, at = c % (WARP * N);
        uint64_t to = ((uint64_t)blockIdx.x * WARP + at % WARP) * N + i;
        float total = 0;
        for (uint32_t l = 0; l < LINES; l++) total += line[a][l][at];
        if (to < j.columns) j.part[((uint64_t)blockIdx.y * ARRAYS + a) * j.columns + to] = total;
    }
}

struct column_end {
    uint64_t columns, parts;
    uint32_t arrays;
    int first;
    const float *part;
    float *sum[2];
};

/* Block: 32 columns of one array; line s takes every 16th part. */
__global__ void __launch_bounds__(WARP *SLICES) column_total(column_end j) {
    __shared__ float slice[SLICES][WARP];
    uint64_t column = (uint64_t)blockIdx.x * WARP + threadIdx.x;
    float total = 0;
    if (column < j.columns)
        for (uint64_t p = threadIdx.y; p < j.parts; p += SLICES)
            total += j.part[(p * j.arrays + blockIdx.y) * j.columns + column];
    slice[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y || column >= j.columns) return;
    for (uint32_t s = 1; s < SLICES; s++) total += slice[s][threadIdx.x];
    float *sum = blockIdx.y ? j.sum[1] : j.sum[0];
    sum[column] = j.first ? total : sum[column] + total;
}

template <typename X, typename Y, bool PACKED>
static void parts_of(pst_cuda_queue q, const pst_cuda_columns *c, column_job j) {
    constexpr uint32_t N = column_lane<X, Y, PACKED, true>::N;
    dim3 grid(grid_of(c->columns, WARP * N), grid_of(c->rows, j.part_rows)), block(WARP, LINES);
    const X *x = (const X *)c->x;
    const Y *dy = (const Y *)c->dy;
    if (c->saved) launch(q, column_parts<X, Y, PACKED, true>, grid, block, j, x, dy);
    else if constexpr (sizeof(X) == sizeof(Y))
        launch(q, column_parts<X, Y, PACKED, false>, grid, block, j, x, dy);
}

static uint64_t rows_each(const pst_cuda_columns *c) {
    return c->parts ? div_up(c->rows, c->parts) : part_rows(c->rows, c->columns);
}

void pst_cuda_column_parts(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_columns *c) {
    column_job j = {c->rows,      c->columns, c->pitch ? c->pitch : c->columns,
                    rows_each(c), c->saved,   c->scratch};
    by_types(dtype, c->wide_x, c->wide_dy, [&](auto, auto type_x, auto type_dy) {
        typedef decltype(type_x) X;
        typedef decltype(type_dy) Y;
        constexpr uint32_t N = pack_of_both<X, Y>::N;
        bool packed = aligned(c->x) && aligned(c->dy) && (c->columns | j.pitch) % N == 0;
        if (packed) parts_of<X, Y, true>(q, c, j);
        else parts_of<X, Y, false>(q, c, j);
    });
}

void pst_cuda_column_total(pst_cuda_queue q, const pst_cuda_columns *c) {
    uint32_t arrays = c->sum[1] ? 2 : 1;
    uint64_t parts = c->parts ? c->parts : div_up(c->rows, rows_each(c));
    column_end end = {c->columns, parts, arrays, c->first, c->scratch, {c->sum[0], c->sum[1]}};
    launch(q, column_total, dim3(grid_of(c->columns, WARP), arrays), dim3(WARP, SLICES), end);
}

void pst_cuda_column_sum(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_columns *c) {
    pst_cuda_column_parts(q, dtype, c);
    pst_cuda_column_total(q, c);
}

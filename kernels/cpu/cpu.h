/* What the files of the CPU backend share. Vector code is written once, in the *_vec.h files, and
 * compiled once per instruction set by avx2.c and avx512.c, for bf16 storage by avx512_bf16.c and
 * for fp16 storage by *_fp16.c, whatever machine the build runs on. */
#ifndef PST_KERNELS_CPU_H
#define PST_KERNELS_CPU_H
#include "kernels/kernel.h"

/* What one instruction set offers. */
typedef struct {
    uint32_t isa;
    const pst_kernel_row *rows;
    uint32_t n_rows;
    const pst_flat *flat;
    /* `turns` rounds of independent fused multiply-adds; returns FLOPs done. The sum goes to
     * *sink. */
    double (*fma_loop)(uint64_t turns, float *sink);
} pst_cpu_table;
const pst_cpu_table *pst_cpu_avx512_bf16(void); /* the rows of bf16 graphs */
const pst_cpu_table *pst_cpu_avx512_fp16(void); /* and of fp16 graphs */
const pst_cpu_table *pst_cpu_avx2_fp16(void);
const pst_cpu_table *pst_cpu_avx512(void);
const pst_cpu_table *pst_cpu_avx2(void);
const pst_cpu_table *pst_cpu_generic(void);

/* A tile of C: sum[r * ld + c] is its element r, c. */
typedef struct {
    float *sum;
    uint64_t ld, row, rows, col, cols;
} pst_gemm_tile;

/* C[m,n] (+)= op(A) op(B), row-major, computed on fixed tiles of C, summed in fp32. */
typedef struct {
    pst_dtype dtype; /* of A and B: F32, F16, or BF16 where the machine has AVX512-BF16 */
    int trans_a, trans_b;
    uint64_t m, n, k;
    const void *a, *b;
    uint64_t lda, ldb;
    /* NULL: a band of tiles at a time is summed in `band`, pst_gemm_band_bytes() of it, and handed
     * to finish. */
    float *c, *band;
    uint64_t ldc;
    /* F16: pieces of A and B are widened in `wide`, pst_gemm_wide_bytes() of it, right before they
     * are multiplied. */
    void (*widen)(const void *from, float *to, uint64_t n);
    float *wide;
    int add; /* 0: C is overwritten */
    /* Called by the thread that has just finished a tile, while it is in cache. NULL: there is
     * nothing to be done. */
    void (*finish)(void *arg, const pst_gemm_tile *tile);
    void *finish_arg;
} pst_gemm;
/* Of bf16 and fp16; of fp16. Every byte of it is written. threads: of the device. */
uint64_t pst_gemm_band_bytes(uint64_t m, uint64_t n, uint32_t threads);
uint64_t pst_gemm_wide_bytes(uint64_t m, uint64_t n, uint64_t k, uint32_t threads);
pst_status pst_gemm_run(pst_device *device, const pst_gemm *gemm);
/* Once per thread that computes: the library must not start threads of its own. */
void pst_gemm_start_thread(void *unused);
/* Before the first product of the process: the instruction sets that the library may use. */
void pst_gemm_set_isa(uint32_t isa);

/* A tile of a product on its way into y (and z). Matrices are row-major with ld elements between
 * rows. */
typedef struct {
    const float *sum; /* may be the same memory as z or y */
    uint64_t sum_ld;
    void *z, *y;      /* z may be NULL */
    const void *bias; /* NULL: none */
    uint64_t rows, cols, ld;
} pst_linear_tile;

/* The element-wise half of `linear`, per instruction set and element type. */
typedef struct {
    pst_dtype dtype; /* of every void * here */
    /* z = sum + bias, y = act(sum + bias). */
    void (*finish)(pst_activation act, const pst_linear_tile *tile);
    /* y = act(z): the bits that finish gave. */
    void (*apply)(pst_activation act, const void *z, void *y, uint64_t n);
    /* dz = dy * act'(z); dz may be dy. */
    void (*slope)(pst_activation act, const void *z, const void *dy, void *dz, uint64_t n);
    /* out[c] (+)= sum over rows of x[r,c], in blocks of PST_SUM_ROWS rows. */
    void (*column_sum)(const void *x, uint64_t rows, uint64_t cols, uint64_t ld, float *out,
                       int first);
    void (*widen)(const void *from, float *to, uint64_t n); /* of fp16; else NULL */
    void (*accumulate)(pst_pool *pool, float *y, const float *x, uint64_t n); /* y += x */
} pst_linear_ops;
/* Scratch of bf16: a band of sums; of fp16 also pieces of operands, in fp32. fp32 needs none. */
uint64_t pst_linear_forward_scratch(const pst_graph *g, const pst_node *node, uint32_t threads);
uint64_t pst_linear_backward_scratch(const pst_graph *g, const pst_node *node, uint32_t threads);
uint64_t pst_linear_weight_scratch(const pst_graph *g, const pst_node *node,
                                   uint32_t threads); /* fp16 only */
pst_status pst_linear_activation(pst_device *device, const pst_call *call,
                                 const pst_linear_ops *ops);
pst_status pst_linear_forward(pst_device *device, const pst_call *call, const pst_linear_ops *ops);
pst_status pst_linear_backward(pst_device *device, const pst_call *call, const pst_linear_ops *ops);
pst_status pst_linear_weight(pst_device *device, const pst_call *call, const pst_linear_ops *ops);

/* convolution.c, with linear's element-wise half. */
uint64_t pst_convolution_forward_scratch(const pst_graph *g, const pst_node *node,
                                         uint32_t threads);
uint64_t pst_convolution_backward_scratch(const pst_graph *g, const pst_node *node,
                                          uint32_t threads);
uint64_t pst_convolution_weight_scratch(const pst_graph *g, const pst_node *node, uint32_t threads);
pst_status pst_convolution_forward(pst_device *device, const pst_call *call,
                                   const pst_linear_ops *ops);
pst_status pst_convolution_backward(pst_device *device, const pst_call *call,
                                    const pst_linear_ops *ops);
pst_status pst_convolution_weight(pst_device *device, const pst_call *call,
                                  const pst_linear_ops *ops);

/* Sums over rows (weight gradients of biases and layer norms) add the rows of a block in order,
 * then the blocks in order, so that long sums stay accurate. Columns are spread over tiles. */
enum { PST_SUM_ROWS = 64, PST_SUM_COLS = 64, PST_FLAT_TILE = 16384 };
#endif
